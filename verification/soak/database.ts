/** The database of a soak, seen past the proxy: what it keeps for the processes that are watched. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { startPostgres } from "../../tests/support/engines/postgres-engine.js";

/** One of our tables. */
export interface TableState {
  readonly live: number;
  readonly dead: number;
  /** Its indexes included. */
  readonly bytes: number;
}

export interface DatabaseState {
  /** Of our application name. */
  readonly connections: number;
  readonly tables: Readonly<Record<string, TableState>>;
}

/** What became of a task, by the clock of the database. */
export interface TaskEnd {
  readonly state: string;
  /** Attempts that completed it. */
  readonly completions: number;
  readonly endedMs: number;
}

const OURS = "datname = current_database() AND application_name = 'leasehold'";
const AT_ONCE = 5_000;

export class SoakDatabase {
  readonly #client: pg.Client;
  readonly #remove: () => Promise<void>;

  private constructor(
    readonly url: string,
    client: pg.Client,
    remove: () => Promise<void>,
  ) {
    this.#client = client;
    this.#remove = remove;
  }

  /**
   * A new database.
   * @param store of a server; default: one that is started for it
   * @param naptimeMs how often autovacuum of such a server looks
   */
  static async open(store: string | undefined, naptimeMs: number): Promise<SoakDatabase> {
    const naptime = `${Math.max(1, Math.round(naptimeMs / 1_000))}s`;
    const server =
      store === undefined
        ? await startPostgres({ settings: { autovacuum_naptime: naptime } })
        : undefined;
    const admin = new pg.Client({ connectionString: store ?? server?.url });
    admin.on("error", () => {});
    const close = async () => {
      await admin.end();
      await server?.remove();
    };
    try {
      await admin.connect();
      const name = `leasehold_soak_${randomBytes(4).toString("hex")}`;
      await admin.query(`CREATE DATABASE ${name}`);
      const url = new URL(store ?? server!.url);
      url.pathname = `/${name}`;
      const client = new pg.Client({
        connectionString: url.href,
        application_name: "soak",
      });
      client.on("error", () => {});
      await client.connect();
      return new SoakDatabase(url.href, client, async () => {
        try {
          await client.end();
          await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
        } finally {
          await close();
        }
      });
    } catch (error) {
      await close();
      throw error;
    }
  }

  async version(): Promise<string> {
    const { rows } = await this.#client.query("SHOW server_version");
    return `PostgreSQL ${rows[0].server_version}`;
  }

  async state(): Promise<DatabaseState> {
    const { rows } = await this.#client.query(
      `SELECT relname AS name, n_live_tup::int AS live, n_dead_tup::int AS dead,
         pg_total_relation_size(relid)::float8 AS bytes
       FROM pg_stat_user_tables WHERE schemaname = 'leasehold' ORDER BY relname`,
    );
    const connections = await this.#client.query(
      `SELECT count(*)::int AS count FROM pg_stat_activity WHERE ${OURS}`,
    );
    return {
      connections: connections.rows[0].count,
      tables: Object.fromEntries(rows.map(({ name, ...state }) => [name, state])),
    };
  }

  /** Ends up to so many sessions of ours; how many. */
  async terminate(most: number): Promise<number> {
    const { rowCount } = await this.#client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${OURS}
       ORDER BY random() LIMIT $1`,
      [most],
    );
    return rowCount ?? 0;
  }

  /** By how much its clock is ahead of ours. */
  async aheadMs(): Promise<number> {
    const beforeMs = Date.now();
    const { rows } = await this.#client.query(
      "SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now",
    );
    return rows[0].now - (beforeMs + Date.now()) / 2;
  }

  async unfinishedTasks(): Promise<number> {
    const { rows } = await this.#client.query(
      "SELECT count(*)::int AS count FROM leasehold.task WHERE state IN ('pending', 'running')",
    );
    return rows[0].count;
  }

  /** Of those that exist. */
  async tasks(ids: readonly string[]): Promise<Map<string, TaskEnd>> {
    const found = new Map<string, TaskEnd>();
    for (let from = 0; from < ids.length; from += AT_ONCE) {
      const { rows } = await this.#client.query(
        `SELECT t.id, t.state, (count(a.*) FILTER (WHERE a.result = 'done'))::int AS completions,
           coalesce(extract(epoch FROM max(a.ended_at))::float8 * 1000, 0) AS ended
         FROM leasehold.task t
         LEFT JOIN leasehold.attempt a ON a.namespace = t.namespace AND a.task_seq = t.seq
         WHERE t.id = ANY($1::text[]) GROUP BY t.namespace, t.id`,
        [ids.slice(from, from + AT_ONCE)],
      );
      for (const { id, state, completions, ended } of rows) {
        found.set(id, { state, completions, endedMs: ended });
      }
    }
    return found;
  }

  close(): Promise<void> {
    return this.#remove();
  }
}
