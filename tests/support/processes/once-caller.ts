/**
 * Calls `once` for every key as a process of its own, with callers that each take the keys in an order of their own. The
 * work writes a row in the transaction that records its success. Ends with 0 when all callers have an answer for all keys.
 */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { connect } from "../../../packages/leasehold/src/index.js";

export interface CallerSettings {
  /** Of this process: the holder of its leases, and the application of its connections. */
  readonly name: string;
  readonly url: string;
  readonly keys: number;
  readonly callers: number;
  readonly ttlMs: number;
  /** No work goes on while another session has this advisory lock. */
  readonly gate: number;
}

const { name, url, keys, callers, ttlMs, gate } = JSON.parse(
  process.argv[2] ?? "",
) as CallerSettings;
process.on("disconnect", () => process.exit());
const pool = new pg.Pool({ connectionString: url, application_name: name, max: 3 });
const leasehold = await connected();

/** Where hundreds of processes start at once, the database answers some of them late. */
async function connected() {
  for (;;) {
    try {
      return await connect(url, { connectTimeoutMs: 60_000, holder: name });
    } catch (error) {
      if ((error as { code?: string }).code !== "STORE_UNAVAILABLE") throw error;
    }
  }
}

async function work(key: string): Promise<void> {
  await leasehold.once(key, { ttlMs }, async (lease) => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      await client.query("INSERT INTO effect (key, by) VALUES ($1, $2)", [key, leasehold.holder]);
      // So that a process is often killed here, and stopped whenever the test has closed the gate.
      await delay(20);
      await client.query("SELECT pg_advisory_xact_lock_shared($1)", [gate]);
      await lease.succeed(leasehold.holder, { client });
      await client.query("COMMIT");
      return leasehold.holder;
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  });
}

/** Until the key is done: a lost lease is another attempt, as in a program. */
async function insist(key: string): Promise<void> {
  for (;;) {
    try {
      return await work(key);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "LEASE_LOST" && code !== "ONCE_DONE" && code !== "STORE_UNAVAILABLE")
        throw error;
    }
  }
}

await Promise.all(
  Array.from({ length: callers }, async (_, caller) => {
    for (let at = 0; at < keys; at += 1) await insist(`key-${(at * 7 + caller * 13) % keys}`);
  }),
);
await leasehold.close();
await pool.end();
process.disconnect();
