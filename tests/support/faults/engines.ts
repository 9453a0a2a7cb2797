/** Engines as the tests of faults see them: how to start, reach and end a server, and what a store on it knows. */
import { join } from "node:path";
import { describe } from "vitest";
import { describeConsul, startConsul } from "../engines/consul-engine.js";
import { describeEtcd, startEtcd } from "../engines/etcd-engine.js";
import { freePort } from "../engines/free-port.js";
import {
  ownKubeconfig,
  REAL_CLUSTER,
  startKubernetes,
  writeKubeconfig,
} from "../engines/kubernetes-engine.js";
import { describePostgres, startPostgres } from "../engines/postgres.js";
import {
  describeRedis,
  describeValkey,
  startRedis,
  VALKEY as VALKEY_SERVER,
} from "../engines/redis-engine.js";
import { describeZooKeeper, startZooKeeper } from "../engines/zookeeper-engine.js";
import { compile } from "../processes/compile.js";
import { Child, temporaryFolder } from "../processes/processes.js";
import { LONG_MS, TTL_MS } from "./fault-site.js";

export interface FaultyServer {
  readonly port: number;
  /**
   * Of a store.
   * @param port the server's own, or that of a proxy before it
   * @param ttlMs of the leases that are acquired there
   */
  url(port: number, ttlMs: number): string | Promise<string>;
  /** False after kill9(). */
  readonly isRunning: boolean;
  /** To be stopped and continued. Undefined while it does not run, and where tests may not. */
  readonly process: Pick<Child, "stop" | "cont"> | undefined;
  kill9(): Promise<void>;
  /** After kill9(): the same data on the same port. */
  start(): Promise<void>;
  remove(): Promise<void>;
}

export interface LeaseEngine {
  readonly name: string;
  describe(name: string, tests: () => void): void;
  /** Why tests may not stop and kill its server, or null. */
  readonly untouchable: string | null;
  start(): Promise<FaultyServer>;
  /** Whether a grant ends at the time that its view shows, as the server reckons it. */
  readonly exactExpiry: boolean;
  /** Whether an acquire is one request with one answer. */
  readonly acquiresAtOnce: boolean;
  /** How long after the ttl another client may take over from a dead one. Default: as long as a slow machine takes. */
  readonly takeoverMs?: number;
}

export type Call = "acquire" | "renew" | "release";

export interface StoreEngine extends LeaseEngine {
  /** What is known of a call that a stopped server did not answer. */
  readonly unanswered: Readonly<Record<Call, object>>;
  /** The calls that the client itself repeats, within their time, when an answer is lost. */
  readonly repeats: readonly Call[];
  /** How many answers each call waits for. */
  readonly answers: number;
  /** A TTL at which a client soon leaves a connection that has fallen silent. */
  readonly silentTtlMs: number;
  /**
   * A TTL at which each acquire soon needs another answer of the server first. Without that answer the client knows that
   * nothing has been done. Default: such a TTL is not needed.
   */
  readonly askingTtlMs?: number;
  /** Whether an acquire is known not to have been applied as soon as the server is dead. */
  readonly knowsDeadAtOnce: boolean;
}

const FAILED = { status: "failed", retryable: true };
export const NOT_APPLIED = { ...FAILED, applied: "no" };
export const MAYBE_APPLIED = { ...FAILED, applied: "maybe" };

const ALL_MAYBE = { acquire: MAYBE_APPLIED, renew: MAYBE_APPLIED, release: MAYBE_APPLIED };

/** The server syncs each write to disk before it answers, so a killed server loses none. */
async function startDurably(program?: string): Promise<FaultyServer> {
  const settings = { appendonly: "yes", appendfsync: "always" };
  const server = await startRedis(settings, { ...(program && { program }) });
  return withUrl(server, (port) => `redis://127.0.0.1:${port}`);
}

export const REDIS: StoreEngine = {
  name: "Redis",
  describe: describeRedis,
  untouchable: null,
  start: () => startDurably(),
  unanswered: ALL_MAYBE,
  repeats: [],
  answers: 1,
  silentTtlMs: LONG_MS,
  knowsDeadAtOnce: false,
  exactExpiry: true,
  acquiresAtOnce: true,
};

export const VALKEY: StoreEngine = {
  ...REDIS,
  name: "Valkey",
  describe: describeValkey,
  start: () => startDurably(VALKEY_SERVER),
};

export const ETCD: StoreEngine = {
  name: "etcd",
  describe: describeEtcd,
  untouchable: null,
  async start() {
    return withUrl(await startEtcd(), (port) => `etcd://127.0.0.1:${port}`);
  },
  unanswered: { ...ALL_MAYBE, release: FAILED },
  // Twice is the same as once.
  repeats: ["renew", "release"],
  answers: 1,
  silentTtlMs: LONG_MS,
  knowsDeadAtOnce: true,
  exactExpiry: false,
  acquiresAtOnce: false,
};

/** Consul's shortest session, and one that must not end while the machine is slow. */
const [SHORT_CONSUL_MS, LONG_CONSUL_MS] = [10_000, 90_000];

export const CONSUL: StoreEngine = {
  name: "Consul",
  describe: describeConsul,
  untouchable: null,
  async start() {
    return withUrl(await startConsul(), (port, ttlMs) => {
      const sessionMs = ttlMs > TTL_MS ? LONG_CONSUL_MS : SHORT_CONSUL_MS;
      return `consul://127.0.0.1:${port}/faults?sessionTtlMs=${sessionMs}`;
    });
  },
  // A renewal changes nothing.
  unanswered: { ...ALL_MAYBE, renew: NOT_APPLIED },
  repeats: ["acquire", "renew", "release"],
  answers: 1,
  silentTtlMs: LONG_MS,
  // The session is the shortest, so that its longest lease needs a renewal of it after a quarter of its time.
  askingTtlMs: TTL_MS,
  knowsDeadAtOnce: false,
  exactExpiry: false,
  acquiresAtOnce: false,
  // A session that is not renewed ends within two times its TTL.
  takeoverMs: 3 * SHORT_CONSUL_MS,
};

export const CHROOT = "/faults";
/** Of sessions that are to end soon, and of those that must not while the machine is slow. */
const [SHORT_SESSION_MS, LONG_SESSION_MS] = [2_700, 90_000];

export const ZOOKEEPER: StoreEngine = {
  name: "ZooKeeper",
  describe: describeZooKeeper,
  untouchable: null,
  async start() {
    return withUrl(await startZooKeeper(), (port, ttlMs) => {
      const sessionMs = ttlMs > TTL_MS ? LONG_SESSION_MS : SHORT_SESSION_MS;
      return `zookeeper://127.0.0.1:${port}${CHROOT}?sessionTimeoutMs=${sessionMs}`;
    });
  },
  // An acquire reads first: where that was not answered, nothing was changed.
  unanswered: { ...ALL_MAYBE, acquire: FAILED },
  repeats: ["acquire", "renew", "release"],
  answers: 2,
  // The client waits for a part of the session.
  silentTtlMs: TTL_MS,
  knowsDeadAtOnce: false,
  exactExpiry: false,
  acquiresAtOnce: false,
};

/** With KUBECONFIG set, on a real API server. */
export const KUBERNETES: StoreEngine = {
  name: "Kubernetes",
  describe: (name, tests) => describe(name, tests),
  untouchable: REAL_CLUSTER ? "a real cluster is not killed by tests" : null,
  start: REAL_CLUSTER ? realCluster : ownApiServer,
  unanswered: { ...ALL_MAYBE, acquire: NOT_APPLIED },
  // An acquire reads first, and reads are repeated.
  repeats: ["acquire"],
  answers: 1,
  silentTtlMs: LONG_MS,
  knowsDeadAtOnce: true,
  exactExpiry: false,
  acquiresAtOnce: false,
};

/** For the tests of its leases alone. */
export const POSTGRES: LeaseEngine = {
  name: "PostgreSQL",
  describe: describePostgres,
  untouchable: null,
  async start() {
    const server = await startPostgres();
    const url = (port: number) => {
      const at = new URL(server.url);
      at.port = `${port}`;
      return at.href;
    };
    return withUrl({ ...server, process: undefined }, url);
  },
  exactExpiry: true,
  acquiresAtOnce: true,
};

function withUrl(
  server: Omit<FaultyServer, "url" | "isRunning">,
  url: FaultyServer["url"],
): FaultyServer {
  let isRunning = true;
  return {
    url,
    port: server.port,
    remove: () => server.remove(),
    async kill9() {
      isRunning = false;
      await server.kill9();
    },
    async start() {
      await server.start();
      isRunning = true;
    },
    get isRunning() {
      return isRunning;
    },
    get process() {
      return server.process;
    },
  };
}

async function realCluster(): Promise<FaultyServer> {
  const { port, through, close } = await startKubernetes();
  const never = () => Promise.reject(new Error(KUBERNETES.untouchable ?? ""));
  return withUrl({ port, process: undefined, kill9: never, start: never, remove: close }, through);
}

/** As a process of its own, which keeps its objects in a file. */
async function ownApiServer(): Promise<FaultyServer> {
  const program = await compile(new URL("../engines/kube-api-process.ts", import.meta.url));
  const [port, folder] = [await freePort(), await temporaryFolder()];
  let process: Child | undefined;
  const server = {
    port,
    get process() {
      return process;
    },
    async start() {
      const journal = join(folder, "journal");
      const child = new Child(globalThis.process.execPath, [program.path, `${port}`, journal]);
      process = child;
      await child.until(({ out }) => out.includes("listening"));
    },
    async kill9() {
      await process?.end("SIGKILL");
      process = undefined;
    },
    async remove() {
      await server.kill9();
      await program.remove();
    },
  };
  await server.start();
  return withUrl(server, async (at) => {
    const kubeconfig = await writeKubeconfig(ownKubeconfig(at), folder);
    return `kubernetes:leases?${new URLSearchParams({ kubeconfig })}`;
  });
}
