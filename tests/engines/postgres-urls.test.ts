/** URLs of PostgreSQL on a real server: its socket, a limit of connections, and what is wrong for good. */
import { chmod, chown, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import { query } from "../support/engines/postgres-copies.js";
import { findEngine } from "../support/engines/postgres-engine.js";

describePostgres("a PostgreSQL server", () => {
  let folder: string;
  let server: PostgresServer;
  let login: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "leasehold-pgurl-"));
    await chmod(folder, 0o755);
    const own = await stat(folder);
    const { uid = own.uid, gid = own.gid } = (await findEngine()).user;
    await chown(folder, uid, gid);
    server = await startPostgres({ settings: { unix_socket_directories: folder } });
    const { username, password } = new URL(server.url);
    login = `${username}:${password}`;
    await query(server, "CREATE ROLE limited LOGIN PASSWORD 'limited' CONNECTION LIMIT 3");
    await query(server, "GRANT CREATE ON DATABASE postgres TO limited");
  }, 120_000);
  afterAll(async () => {
    await server?.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it.each([
    "/postgres?host=FOLDER&port=PORT",
    "/postgres?port=PORT&host=ENCODED",
    "ENCODED:PORT/postgres",
  ])("is reached by its socket: %s", async (place) => {
    const written = place
      .replace("FOLDER", folder)
      .replace("ENCODED", encodeURIComponent(folder))
      .replace("PORT", `${server.port}`);
    const leasehold = await connect(`postgresql://${login}@${written}`);
    const sessions = await query<{ address: string | null }>(
      server,
      "SELECT DISTINCT client_addr::text AS address FROM pg_stat_activity WHERE application_name = 'leasehold'",
    );
    expect(sessions).toEqual([{ address: null }]);
    const lease = await leasehold.acquire("by-socket");
    await lease.release();
    await leasehold.close();
  });

  it("needs three connections, and works with no more", async () => {
    const limited = `postgres://limited:limited@127.0.0.1:${server.port}/postgres?schema=limited`;
    const leasehold = await connect(limited, { connectTimeoutMs: 60_000 });
    const names = Array.from({ length: 30 }, (_, at) => `r${at}`);
    const leases = await Promise.all(names.map((name) => leasehold.acquire(name)));
    await Promise.all([
      ...leases.map((lease) => lease.renew()),
      ...names.map((name) => leasehold.get(name)),
      leasehold.list(),
    ]);
    await Promise.all(leases.map((lease) => lease.release()));
    const [{ count } = { count: 0 }] = await query<{ count: number }>(
      server,
      "SELECT count(*)::int AS count FROM pg_stat_activity WHERE usename = 'limited'",
    );
    expect(count).toBe(3);
    const refused = await connect(limited).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(
        /too many connections for role "limited"; each client needs 3 connections/,
      ) as string,
    });
    await leasehold.close();
  });

  it.each([
    ["?options=-c%20nonsense%3D1", /unrecognized configuration parameter.*; correct \?options=/],
    ["?options=-c%20work_mem%3Dlots", /invalid value for parameter.*; correct \?options=/],
    ["?options=nonsense", /invalid command-line argument.*; correct \?options=/],
    ["?sslmode=require", /does not support SSL connections; remove sslmode/],
    [
      "?sslmode=verify-full&sslrootcert=/none/such",
      /the file \/none\/such for TLS to PostgreSQL: ENOENT/,
    ],
    [
      "?sslcert=/none/such&sslkey=/none/such",
      /the file \/none\/such for TLS to PostgreSQL: ENOENT/,
    ],
    [
      "?sslrootcert=FOLDER/text",
      /the certificates for PostgreSQL cannot be used: the authority must have a certificate in PEM/,
    ],
    ["?sslcert=FOLDER/text&sslkey=FOLDER/text", /the certificates for PostgreSQL cannot be used/],
  ])("refuses %s for good", async (parameters, message) => {
    await writeFile(join(folder, "text"), "no certificate\n");
    const written = parameters.replaceAll("FOLDER", folder);
    const url = `postgres://${login}@127.0.0.1:${server.port}/postgres${written}`;
    const error = await connect(url).catch((reason: unknown) => reason as Error);
    expect(error).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(message) as string,
    });
    expect((error as Error).message).not.toMatch(/try again/);
  });

  it("asks for the password where there is none", async () => {
    await expect(connect(`postgres://few@127.0.0.1:${server.port}/postgres`)).rejects.toMatchObject(
      {
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(/put the password into the URL/) as string,
      },
    );
  });
});
