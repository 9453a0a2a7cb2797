import { PGlite } from "@electric-sql/pglite";

/**
 * @typedef {object} Client
 * @property {(text: string, values?: unknown[]) => Promise<{ rows: any[] }>} query
 */

/**
 * A database for an example's own tables: on the server of a postgres:// URL, else a PGlite of this
 * process. The tables belong into the schema `example_<pid>`, which is dropped when it closes.
 * @param {string} [url]
 */
export async function openDatabase(url) {
  const database = /^postgres(ql)?:/.test(url ?? "") ? await openServer(url) : await openPGlite();
  const schema = `example_${process.pid}`;
  await database.query(`CREATE SCHEMA ${schema}`);
  return {
    ...database,
    schema,
    async close() {
      await database.query(`DROP SCHEMA ${schema} CASCADE`);
      await database.close();
    },
  };
}

async function openPGlite() {
  const db = await PGlite.create();
  return {
    db,
    query: /** @type {Client["query"]} */ (db.query.bind(db)),
    exec: db.exec.bind(db),
    /**
     * @template T
     * @param {(client: Client) => Promise<T>} work
     */
    transaction: (work) => db.transaction(work),
    close: () => db.close(),
  };
}

/** @param {string} [url] */
async function openServer(url) {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ connectionString: url });
  // A connection that breaks while it is idle: the next query takes another one.
  pool.on("error", () => {});
  return {
    db: null,
    exec: (/** @type {string} */ text) => pool.query(text),
    query: /** @type {Client["query"]} */ (pool.query.bind(pool)),
    /**
     * @template T
     * @param {(client: Client) => Promise<T>} work
     * @returns {Promise<T>}
     */
    async transaction(work) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const value = await work(client);
        await client.query("COMMIT");
        return value;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    close: () => pool.end(),
  };
}
