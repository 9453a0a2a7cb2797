/** Every engine as the matrix and the stories want it: started, restarted, and found by a URL. */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { openStores } from "leasehold";
import { missingConsul, startConsul } from "../../tests/support/engines/consul-engine.js";
import { missingEtcd, startEtcd } from "../../tests/support/engines/etcd-engine.js";
import { freePort } from "../../tests/support/engines/free-port.js";
import {
  ownKubeconfig,
  REAL_CLUSTER,
  startKubernetes,
  writeKubeconfig,
} from "../../tests/support/engines/kubernetes-engine.js";
import { findEngine, startPostgres } from "../../tests/support/engines/postgres-engine.js";
import { missingRedis, startRedis } from "../../tests/support/engines/redis-engine.js";
import { missingZooKeeper, startZooKeeper } from "../../tests/support/engines/zookeeper-engine.js";
import { Child, temporaryFolder } from "../../tests/support/processes/processes.js";
import type { Fault } from "./features.js";
import type { RegistersPlace } from "./registers.js";

export interface RunningEngine {
  /** Of the store, for a client in any process. */
  url(): Promise<string>;
  /** SIGKILL, and the same data on the same port. Resolves when it serves. */
  restart?(): Promise<void>;
  /** In the engine itself, where that keeps more than leases. */
  readonly guarded?: RegistersPlace;
  close(): Promise<void>;
}

export interface Engine {
  readonly name: string;
  /** Where a store is in the process of its clients: what of them can be apart. */
  readonly inProcess?: "all" | "after the end of the holder";
  /** The TTL of leases that must expire soon. */
  readonly ttlMs: number;
  /** Why these are not tried. */
  readonly reasons?: Partial<Record<Fault, string>>;
  /** What the reader of a ✓ should know. */
  readonly notes?: Partial<Record<Fault, string>>;
  /** Why it cannot run here, or null. */
  missing(): Promise<string | null>;
  /**
   * @param program of process.ts, compiled
   * @param postgres of a database that there is already; default: a server of its own
   */
  start(program: string, postgres?: string): Promise<RunningEngine>;
}

const missingPostgres = () =>
  findEngine().then(
    () => null,
    (error: Error) => `no PostgreSQL: ${error.message.split("\n", 1)[0]}`,
  );

async function openPostgres(given: string | undefined) {
  if (given !== undefined) return { url: given, close: async () => {} };
  const server = await startPostgres();
  const restart = async () => {
    await server.kill9();
    await server.start();
  };
  return { url: server.url, restart, close: () => server.remove() };
}

/** A program that says when it listens, killed and started again on its port. */
async function startProgram(args: readonly string[]) {
  const start = async () => {
    const child = new Child(process.execPath, [...args]);
    await child.until(({ out }) => out.includes("listening"));
    return child;
  };
  let child = await start();
  return {
    async restart() {
      await child.end("SIGKILL");
      child = await start();
    },
    close: () => child.end("SIGKILL").then(() => {}),
  };
}

const ONE_PROCESS =
  "in one process: holder, successor and store stop together, so the takeover follows when they go on";

export const ENGINES: readonly Engine[] = [
  {
    name: "memory",
    inProcess: "all",
    ttlMs: 1_000,
    missing: async () => null,
    reasons: {
      kill: "in one process: the store ends with the process of its holder, so that nothing is left to take over",
      restart:
        "in one process: the store has no end but that of the process, and keeps nothing beyond it",
    },
    notes: { stop: ONE_PROCESS },
    start: async () => ({ url: async () => "memory:matrix", close: async () => {} }),
  },
  {
    name: "pglite",
    inProcess: "after the end of the holder",
    // The database shares a thread with all of its clients.
    ttlMs: 3_000,
    missing: async () => null,
    reasons: {
      restart:
        "in one process: the store is in that of the holder, whose end and next start is the fault kill -9",
    },
    notes: {
      kill: "one process at a time: the next one opens the directory when the holder's has been killed",
      stop: ONE_PROCESS,
    },
    async start() {
      // Made once, for that takes longest.
      const made = await temporaryFolder();
      await (await openStores(`pglite:${made}`)).close();
      return {
        // A copy each time: a killed process leaves its directory locked until another one checks the lock.
        async url() {
          const folder = await temporaryFolder();
          await cp(made, folder, { recursive: true });
          return `pglite:${folder}`;
        },
        close: async () => {},
      };
    },
  },
  {
    name: "postgres",
    ttlMs: 1_000,
    missing: missingPostgres,
    async start(_, postgres) {
      const server = await openPostgres(postgres);
      const { url } = server;
      return { ...server, url: async () => url, guarded: { kind: "postgres", url } };
    },
  },
  {
    name: "redis",
    ttlMs: 1_000,
    missing: async () => missingRedis(),
    notes: { restart: "with appendonly yes and appendfsync always, so that it loses nothing" },
    async start() {
      const server = await startRedis({ appendonly: "yes", appendfsync: "always" });
      return {
        url: async () => server.url,
        async restart() {
          await server.kill9();
          await server.start();
        },
        guarded: { kind: "redis", url: server.url },
        close: () => server.remove(),
      };
    },
  },
  {
    name: "etcd",
    ttlMs: 1_000,
    missing: async () => missingEtcd(),
    notes: { restart: "of its only member" },
    async start() {
      const server = await startEtcd();
      return {
        url: async () => server.url,
        async restart() {
          await server.kill9();
          await server.start();
        },
        close: () => server.remove(),
      };
    },
  },
  {
    name: "kubernetes",
    // The shortest there is.
    ttlMs: 2_000,
    missing: async () => null,
    reasons: REAL_CLUSTER
      ? { restart: "the API server of a real cluster (KUBECONFIG) is not ours to kill" }
      : {},
    notes: REAL_CLUSTER
      ? {}
      : {
          kill: "the API server is the tests' own, which is not the real one; with KUBECONFIG set, the real one is used",
          restart: "of the tests' own API server, from the journal of its writes",
        },
    async start(program) {
      if (REAL_CLUSTER) {
        const engine = await startKubernetes();
        return { url: async () => engine.url, close: () => engine.close() };
      }
      const [port, folder] = [await freePort(), await temporaryFolder()];
      const journal = join(folder, "journal");
      const api = await startProgram([program, "kube-api", `${port}`, journal]);
      const kubeconfig = await writeKubeconfig(ownKubeconfig(port), folder);
      const url = `kubernetes:leases?${new URLSearchParams({ kubeconfig })}`;
      return { ...api, url: async () => url };
    },
  },
  {
    name: "zookeeper",
    ttlMs: 1_500,
    missing: async () => missingZooKeeper(),
    notes: { restart: "of its only server" },
    async start() {
      const server = await startZooKeeper();
      return {
        // Of sessions that allow the ttl, also a longer one at a second try.
        url: async () => `${server.url}/matrix?sessionTimeoutMs=2400`,
        async restart() {
          await server.kill9();
          await server.start();
        },
        close: () => server.remove(),
      };
    },
  },
  {
    name: "consul",
    ttlMs: 1_500,
    missing: async () => missingConsul(),
    notes: { restart: "of its only server" },
    async start() {
      const server = await startConsul();
      return {
        // The shortest session.
        url: async () => `${server.url}/matrix?sessionTtlMs=10000`,
        async restart() {
          await server.kill9();
          await server.start();
        },
        close: () => server.remove(),
      };
    },
  },
  {
    name: "http",
    ttlMs: 1_000,
    missing: missingPostgres,
    notes: { restart: "of the server of ours; PostgreSQL behind it runs on" },
    async start(program, postgres) {
      const database = await openPostgres(postgres);
      const port = await freePort();
      const server = await startProgram([program, "server", `${port}`, database.url]);
      return {
        url: async () => `http://127.0.0.1:${port}`,
        restart: server.restart,
        async close() {
          await server.close();
          await database.close();
        },
      };
    },
  },
];
