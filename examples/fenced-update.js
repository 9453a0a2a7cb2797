/**
 * A worker that was paused for longer than its lease comes back and writes. Nothing on its side can
 * prevent that; the database can: it refuses a token that is older than one it has seen.
 *
 *   node examples/fenced-update.js [URL]
 *
 * URL says where the leases are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...;
 * without one, PGlite in this process. The protected table is in a PGlite of this process always.
 *
 * You will see the same accident twice: without the fence the late write stands, and the period that
 * was closed is open again; with it the write is refused (STALE_TOKEN) and leaves no trace.
 */
import { PGlite } from "@electric-sql/pglite";
import { connect, StaleTokenError } from "leasehold";
import { FENCE_TABLE, fence } from "leasehold/fence";
import { pglite } from "leasehold/stores/postgres";

const db = await PGlite.create();
await db.exec(FENCE_TABLE);
await db.exec(`
  CREATE TABLE tenant_billing_close (
    tenant_id text PRIMARY KEY,
    period text NOT NULL,
    status text NOT NULL,
    written_by text
  );
  INSERT INTO tenant_billing_close
  VALUES ('tenant_456', '2026-04', 'OPEN'), ('tenant_789', '2026-04', 'OPEN');`);

const source = process.argv[2] ?? pglite({ db });
const [slow, quick] = await Promise.all([
  connect(source, { holder: "slow" }),
  connect(source, { holder: "quick" }),
]);
try {
  await accident("without the fence", "tenant_456", write);
  await accident("with the fence", "tenant_789", writeFenced);
} finally {
  await Promise.all([slow.close(), quick.close()]);
  await db.close();
}

/**
 * @typedef {import("leasehold").Lease} HeldLease
 *
 * @param {string} title
 * @param {string} tenant
 * @param {(tenant: string, status: string, lease: HeldLease) => Promise<void>} write
 */
async function accident(title, tenant, write) {
  console.log(`\n${title}`);
  const resource = `${tenant}:billing-close:2026-04`;
  // Without renewal, as in a paused process.
  const late = await slow.acquire(resource, { ttlMs: 1_000, autoRenew: false });
  console.log(`slow   has token ${late.token}, and is paused`);
  await quick.run(resource, async (lease) => {
    await write(tenant, "CLOSED", lease);
    console.log(`quick  has token ${lease.token}, and closes the period`);
  });
  // It does not check first. A check would not help: the process can be paused right after it.
  console.log(`slow   goes on where it was, though checkAlive() is ${late.checkAlive()}`);
  try {
    await write(tenant, "COLLECTING INVOICES", late);
    console.log("slow   has written");
  } catch (error) {
    if (!(error instanceof StaleTokenError)) throw error;
    console.log(`slow   is refused: ${error.code}, ${error.token} after ${error.lastToken}`);
  }
  const query = "SELECT status, written_by FROM tenant_billing_close WHERE tenant_id = $1";
  const [row] = (await db.query(query, [tenant])).rows;
  console.log(`table  ${JSON.stringify(row)}`);
}

/**
 * @param {string} tenant
 * @param {string} status
 * @param {HeldLease} lease
 * @param {Pick<PGlite, "query">} client
 */
async function write(tenant, status, lease, client = db) {
  const update =
    "UPDATE tenant_billing_close SET status = $1, written_by = $2 WHERE tenant_id = $3";
  await client.query(update, [status, lease.holder, tenant]);
}

/**
 * @param {string} tenant
 * @param {string} status
 * @param {HeldLease} lease
 */
function writeFenced(tenant, status, lease) {
  return db.transaction(async (tx) => {
    // Call fence() first. No other holder passes from here to the commit, and no smaller token ever does.
    await fence(tx, lease.resource, lease.token);
    await write(tenant, status, lease, tx);
  });
}
