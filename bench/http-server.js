// A server for the HTTP question, in its own process. It prints its port, and ends when its input closes.
//   node http-server.js ours|nothing|naive POSTGRES_URL
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { openStores } from "leasehold";
import { createApp } from "leasehold-server";
import pg from "pg";

const [kind = "", url = ""] = process.argv.slice(2);
const app = kind === "ours" ? await ours() : kind === "naive" ? await naive() : nothing();
const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => {
  console.log(port);
});
process.stdin.resume().once("end", () => {
  server.close();
  process.exit(0);
});

async function ours() {
  return createApp({ ...(await openStores(url)), auth: "none", version: "0.0.0" });
}

/** Reads the request, as every server must, and sends a fixed response. */
function nothing() {
  const app = new Hono();
  app.post("/v1/leases/acquire", async (c) => {
    await c.req.json();
    return c.json([{ status: "acquired", token: 1, ttlMs: 60_000, remainingMs: 60_000 }]);
  });
  return app;
}

/** The simplest lock service: one route and one statement per request. */
async function naive() {
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  await pool.query(`CREATE TABLE lock (resource text PRIMARY KEY, lease_id text NOT NULL,
    holder text NOT NULL, token bigint NOT NULL, expires_at timestamptz NOT NULL)`);
  const app = new Hono();
  app.post("/v1/leases/acquire", async (c) => {
    const [{ leaseId, holder, ttlMs }] = await c.req.json();
    const { rows } = await pool.query(
      `INSERT INTO lock AS l (resource, lease_id, holder, token, expires_at)
       VALUES ($1, $2, $3, 1, now() + $4 * interval '1 millisecond')
       ON CONFLICT (resource) DO UPDATE SET lease_id = excluded.lease_id, holder = excluded.holder,
         token = l.token + 1, expires_at = excluded.expires_at
       WHERE l.expires_at <= now() RETURNING token, expires_at`,
      [leaseId.split(".")[0], leaseId, holder, ttlMs],
    );
    return c.json(rows.map((row) => ({ status: "acquired", ...row })));
  });
  return app;
}
