/**
 * Surroundings for the code in README.md: `node readme.js MODULE NAME URL` imports the module where
 * the names that it takes for granted exist.
 */
import { connect } from "leasehold";
import pg from "pg";

const [module = "", name = "", url = ""] = process.argv.slice(2);

const surroundings = {
  async lease() {
    globalThis.db = await connected();
    await import(module).finally(() => globalThis.db.end());
  },

  /** A holder's work in a transaction of its own. */
  async fence() {
    const leases = await connect(url);
    globalThis.tx = await connected();
    const work = leases.run("billing:2026-11", async (lease) => {
      globalThis.lease = lease;
      await globalThis.tx.query("BEGIN");
      await import(module);
      await globalThis.tx.query("COMMIT");
    });
    await work.finally(() => Promise.all([leases.close(), globalThis.tx.end()]));
  },

  /** Works until it is killed. */
  async task() {
    globalThis.resizeFile = async (file, width, { signal, token }) => {
      return { file, width, stopped: signal.aborted, token };
    };
    await import(module);
  },
};

async function connected() {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

await surroundings[name]();
