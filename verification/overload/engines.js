// The stores that the server of an overload runs on. Redis, etcd and another server keep its leases; its tasks and keys are
// in memory then.
import { startServer } from "./processes.js";

/** @typedef {{ store?: string, control?: string }} Places no store: a folder of PGlite for each server */

/** @type {Readonly<Record<string, (run: (places: Places) => Promise<void>) => Promise<void>>>} */
const RUNS = {
  pglite: (run) => run({}),
  memory: (run) => run({ store: "memory:" }),
  postgres: (run) => started("postgres", "startPostgres", (store) => run({ store })),
  redis: (run) => started("redis", "startRedis", (store) => run({ store, control: "memory:" })),
  etcd: (run) => started("etcd", "startEtcd", (store) => run({ store, control: "memory:" })),
  async http(run) {
    const { url, end } = await startServer({ store: "memory:" });
    try {
      await run({ store: url, control: "memory:" });
    } finally {
      await end();
    }
  },
};

/** All stores that `leasehold serve` accepts. */
export const ENGINES = Object.keys(RUNS);

/** Those on which a server has tenants. Behind another server it has one, and so no other tenant can attack. */
export const ATTACKED = ENGINES.filter((engine) => engine !== "http");

/**
 * Starts the engine, runs against it, and ends it.
 * @param {string} name
 * @param {(places: Places) => Promise<void>} run
 */
export async function onEngine(name, run) {
  await RUNS[name]?.(run);
}

/**
 * @param {string} engine
 * @param {string} start
 * @param {(url: string) => Promise<void>} run
 */
async function started(engine, start, run) {
  // Imported here, so that a list of the engines does not load a compiler.
  const { openSources } = await import("../../scripts/support/sources.js");
  const sources = await openSources();
  try {
    const module = await sources.load(`/tests/support/engines/${engine}-engine.ts`);
    const server = await module[start]();
    try {
      await run(server.url);
    } finally {
      await server.remove();
    }
  } finally {
    await sources.close();
  }
}
