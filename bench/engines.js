// Starts real servers on loopback when a question first needs them.
// The code that starts them is that of the tests, in TypeScript, which Vite compiles on the way.
import { fileURLToPath } from "node:url";
import { createServer } from "vite";
import { ownCpuUs, treeCpuUs } from "./cpu.js";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Durable: fsync and synchronous_commit have PostgreSQL's defaults. */
const POSTGRES_SETTINGS = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  max_connections: 300,
  shared_buffers: "256MB",
  max_wal_size: "4GB",
};

/** A million leases with their history take more than etcd's default of 2 GB. */
const ETCD_SETTINGS = ["--quota-backend-bytes=8589934592"];

export class Engines {
  #vite;
  /** @type {Map<string, Promise<{ url: string, pid?: number, process?: { pid: number }, remove(): Promise<void> }>>} */
  #started = new Map();

  /** A superuser's URL. The databases of contenders are beside it: see freshDatabase(). */
  postgres() {
    return this.#url("postgres", async (load) => {
      const { startPostgres } = await load("/tests/support/engines/postgres-engine.ts");
      return startPostgres({ settings: POSTGRES_SETTINGS });
    });
  }

  redis() {
    return this.#url("redis", async (load) => {
      const { startRedis } = await load("/tests/support/engines/redis-engine.ts");
      return startRedis();
    });
  }

  etcd() {
    return this.#url("etcd", async (load) => {
      const { startEtcd } = await load("/tests/support/engines/etcd-engine.ts");
      return startEtcd({ settings: ETCD_SETTINGS });
    });
  }

  /** Creates an empty database for one contender on the question's server. */
  async freshDatabase() {
    const { default: pg } = await import("pg");
    const admin = new pg.Client({ connectionString: await this.postgres() });
    await admin.connect();
    const name = `bench_${Math.random().toString(36).slice(2)}`;
    await admin.query(`CREATE DATABASE ${name}`);
    await admin.end();
    const url = new URL(await this.postgres());
    url.pathname = `/${name}`;
    return url.href;
  }

  /**
   * Clocks of this process, which runs the clients, and of an engine's processes.
   * @param {"postgres" | "redis" | "etcd"} name
   * @returns {Promise<import("./cpu.js").Clocks>}
   */
  async cpu(name) {
    await this[name]();
    const started = await this.#started.get(name);
    const pid = started?.process?.pid ?? started?.pid ?? 0;
    return { client: ownCpuUs, server: () => treeCpuUs(pid) };
  }

  async close() {
    for (const started of this.#started.values()) await (await started).remove();
    if (this.#vite) await (await this.#vite).close();
  }

  async #url(name, start) {
    let started = this.#started.get(name);
    if (!started) {
      started = start((path) => this.#load(path));
      this.#started.set(name, started);
    }
    return (await started).url;
  }

  async #load(path) {
    this.#vite ??= createServer({
      root,
      configFile: false,
      appType: "custom",
      logLevel: "error",
      server: { middlewareMode: true, watch: null, ws: false },
      optimizeDeps: { noDiscovery: true },
    });
    return (await this.#vite).ssrLoadModule(path);
  }
}
