/** The engines of the suites: how to open each of them, what tests may do to it, and the harness of each suite on it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock, systemEnv } from "../../../packages/leasehold/src/env/index.js";
import type { Key } from "../../../packages/leasehold/src/lease/index.js";
import { consul } from "../../../packages/leasehold/src/stores/consul/index.js";
import { etcd } from "../../../packages/leasehold/src/stores/etcd/index.js";
import { kubernetes } from "../../../packages/leasehold/src/stores/kubernetes/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../../packages/leasehold/src/stores/postgres/index.js";
import { redis } from "../../../packages/leasehold/src/stores/redis/index.js";
import type { LeaseStores, Stores } from "../../../packages/leasehold/src/stores/source.js";
import { zookeeper } from "../../../packages/leasehold/src/stores/zookeeper/index.js";
import type { TaskKey } from "../../../packages/leasehold/src/tasks/port.js";
import {
  type LeaseHarness,
  manualEnv,
  type OnceHarness,
  type ScheduleHarness,
  type TaskHarness,
  type TestFramework,
} from "../../../packages/leasehold/src/testing/index.js";
import { describeConsul, startConsul } from "../engines/consul-engine.js";
import { describeEtcd, startEtcd } from "../engines/etcd-engine.js";
import { REAL_CLUSTER, startKubernetes } from "../engines/kubernetes-engine.js";
import { lockLease, lockTask } from "../engines/locks.js";
import { freshPglite } from "../engines/pglite.js";
import { describePostgres, freshDatabase, startPostgres } from "../engines/postgres.js";
import {
  describeRedis,
  describeValkey,
  startRedis,
  VALKEY as VALKEY_SERVER,
} from "../engines/redis-engine.js";
import { describeZooKeeper, startZooKeeper } from "../engines/zookeeper-engine.js";
import { openHttpHarness } from "../server/http-harness.js";
import { instead } from "../worlds/instead.js";
import { type Chosen, onlyTests } from "./chosen-tests.js";
import { runsIn } from "./suite-tier.js";
import { waitingTogether } from "./waiting-together.js";
import * as wire from "./wire-tests.js";

type Part = "leases" | "tasks" | "once" | "schedules";

export interface SuiteEngine {
  /** The prefix of the test names. */
  readonly name: string;
  readonly describe: TestFramework["describe"];
  /** Whether its suites run in the tier `contract`. Default: in `engines`. */
  readonly contract?: boolean;
  /** The tests of a suite that say something of this engine, where others prove the rest. Default: all. */
  readonly chosen?: Partial<Readonly<Record<Part, Chosen>>>;
  /** Whether its tests of leases wait at the same time: grants last for seconds at least, and do not share a session. */
  readonly waits?: boolean;
  open(): Promise<OpenedEngine>;
}

export interface OpenedEngine {
  readonly stores: LeaseStores;
  /** What is behind the server whose client the stores are. Default: the stores. */
  readonly behind?: Stores;
  /** The same data over connections of its own. Default: the same stores. */
  openOther?(): Promise<LeaseStores>;
  /** Moves the clock of the stores, where they have one. */
  advance?(ms: number): Promise<void>;
  /** Ends the engine as a crash would, where its data outlives that, and opens it again. */
  restart?(): Promise<LeaseStores>;
  lockLease?(key: Key): Promise<() => Promise<void>>;
  lockTask?(task: TaskKey): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

export const PGLITE: SuiteEngine = {
  name: "PGlite",
  describe,
  contract: true,
  async open() {
    const { directory, remove } = await freshPglite();
    const open = () => openPostgres({ directory }, systemEnv);
    let stores = await open();
    return {
      stores,
      async restart() {
        // Its directory serves one at a time.
        await stores.close();
        stores = await open();
        return stores;
      },
      async close() {
        await stores.close();
        await remove();
      },
    };
  },
};

/** A database of the run's server. */
export const POSTGRES: SuiteEngine = {
  name: "PostgreSQL",
  describe: describePostgres,
  async open() {
    const { url, drop } = await freshDatabase();
    const stores = await openPostgres({ url }, systemEnv);
    return {
      stores,
      openOther: () => openPostgres({ url }, systemEnv),
      lockTask: (task) => lockTask(url, task),
      async close() {
        await stores.close();
        await drop();
      },
    };
  },
};

/** A server of its own, for the suite that restarts it. */
export const POSTGRES_SERVER: SuiteEngine = {
  name: "PostgreSQL",
  describe: describePostgres,
  async open() {
    const server = await startPostgres();
    const opened = await openRestartable(server, () =>
      openPostgres({ url: server.url }, systemEnv),
    );
    return { ...opened, lockLease: (key) => lockLease(server.url, key) };
  },
};

export const HTTP_OVER_MEMORY: SuiteEngine = {
  name: "http over memory",
  describe,
  chosen: {
    leases: wire.LEASE_WIRE,
    tasks: wire.TASK_WIRE,
    once: wire.ONCE_WIRE,
    schedules: wire.SCHEDULE_WIRE,
  },
  async open() {
    const env = manualEnv({ seed: 12 });
    const behind = await memory().open(env);
    const stores = await openHttpHarness([withoutTicks(behind)]);
    const advance = (ms: number) => env.clock.advance(ms);
    return { stores, behind, advance, close: () => stores.close() };
  },
};

export const HTTP_OVER_POSTGRES: SuiteEngine = {
  name: "http over PostgreSQL",
  describe: describePostgres,
  chosen: {
    leases: wire.LEASES_OF_SEVERAL_SERVERS,
    tasks: wire.TASKS_OF_SEVERAL_SERVERS,
    once: wire.ONCE_OF_SEVERAL_SERVERS,
    schedules: wire.SCHEDULES_OF_SEVERAL_SERVERS,
  },
  async open() {
    const { url, drop } = await freshDatabase();
    // The first one makes the tables.
    const behind = await openPostgres({ url }, systemEnv);
    const other = await openPostgres({ url }, systemEnv);
    const stores = await openHttpHarness([behind, other].map(withoutTicks));
    return {
      stores,
      behind,
      lockLease: (key) => lockLease(url, key),
      lockTask: (task) => lockTask(url, task),
      async close() {
        await stores.close();
        await drop();
      },
    };
  },
};

/** Syncs each write to disk before it answers, so that a killed server loses none. */
const DURABLE = { appendonly: "yes", appendfsync: "always" };

export const REDIS: SuiteEngine = {
  name: "Redis",
  describe: describeRedis,
  async open() {
    const engine = await startRedis(DURABLE);
    return openRestartable(engine, () => redis({ url: engine.url }).open(systemEnv));
  },
};

export const VALKEY: SuiteEngine = {
  name: "Valkey",
  describe: describeValkey,
  async open() {
    const engine = await startRedis(DURABLE, { program: VALKEY_SERVER });
    return openRestartable(engine, () => redis({ url: engine.url }).open(systemEnv));
  },
};

export const ETCD: SuiteEngine = {
  name: "etcd",
  describe: describeEtcd,
  waits: true,
  async open() {
    const engine = await startEtcd();
    return openRestartable(engine, () => etcd({ url: engine.url }).open(systemEnv));
  },
};

/** Sessions of a minute, which do not end while a machine is slow. */
const [SESSION_MS, OPEN_WITHIN_MS] = [60_000, 30_000];

export const CONSUL: SuiteEngine = {
  name: "Consul",
  describe: describeConsul,
  async open() {
    const engine = await startConsul();
    const source = consul({ url: `${engine.url}/locks?sessionTtlMs=${SESSION_MS}` });
    return openRestartable(engine, () => source.open(systemEnv, OPEN_WITHIN_MS));
  },
};

export const ZOOKEEPER: SuiteEngine = {
  name: "ZooKeeper",
  describe: describeZooKeeper,
  async open() {
    const engine = await startZooKeeper();
    const source = zookeeper({ url: `${engine.url}/locks?sessionTimeoutMs=${SESSION_MS}` });
    return openRestartable(engine, () => source.open(systemEnv, OPEN_WITHIN_MS));
  },
};

export const KUBERNETES: SuiteEngine = {
  name: REAL_CLUSTER ? "Kubernetes" : "the tests' own API server",
  describe,
  async open() {
    const engine = await startKubernetes();
    // The store itself decides what has expired, so moving its clock is enough.
    const { clock, ...rest } = manualEnv({ seed: 11 });
    // Its waits between attempts pass by themselves.
    const env = { ...rest, clock: { ...clock, timer: systemClock.timer } };
    const stores = await kubernetes({ url: engine.url }).open(env);
    return {
      stores,
      advance: (ms) => clock.advance(ms),
      async close() {
        await stores.close();
        await engine.close();
      },
    };
  },
};

interface Server {
  kill9(): Promise<unknown>;
  start(): Promise<unknown>;
  remove(): Promise<unknown>;
}

/** The stores of a server that survives being killed; `open` is called again after each restart. */
async function openRestartable(
  server: Server,
  open: () => Promise<LeaseStores>,
): Promise<OpenedEngine> {
  let stores = await open();
  return {
    stores,
    async restart() {
      const before = stores;
      await server.kill9();
      await server.start();
      stores = await open();
      await before.close();
      return stores;
    },
    async close() {
      await stores.close();
      await server.remove();
    },
  };
}

/** For a server that does not tick, so that the suite of schedules alone does. */
function withoutTicks(stores: Stores): Stores {
  const { schedules } = stores;
  return schedules ? { ...stores, schedules: instead(schedules, { ticking: undefined }) } : stores;
}

function framed(engine: SuiteEngine, part: Part): { name: string; vitest: TestFramework } {
  const runs = runsIn(engine.contract ? "contract" : "engines");
  const vitest = {
    afterAll,
    beforeAll,
    describe: runs ? engine.describe : () => {},
    expect,
    it,
  };
  const framework = engine.waits ? waitingTogether(vitest) : vitest;
  const chosen = engine.chosen?.[part];
  return { name: engine.name, vitest: chosen ? onlyTests(framework, chosen) : framework };
}

function kept<Name extends keyof LeaseStores>(
  stores: LeaseStores,
  name: Name,
): NonNullable<LeaseStores[Name]> {
  const part = stores[name];
  if (!part) throw new Error(`it keeps no ${name}`);
  return part;
}

export function leasesOn(engine: SuiteEngine): LeaseHarness {
  return {
    ...framed(engine, "leases"),
    async open() {
      const { stores, restart, lockLease: lockRow, ...opened } = await engine.open();
      return {
        ...opened,
        store: stores.leases,
        ...(restart && { restart: async () => (await restart()).leases }),
        ...(lockRow && { lockRow }),
      };
    },
  };
}

export function tasksOn(engine: SuiteEngine): TaskHarness {
  return {
    ...framed(engine, "tasks"),
    async open() {
      const { stores, lockTask: lockRow, ...opened } = await engine.open();
      return { ...opened, store: kept(stores, "tasks"), ...(lockRow && { lockRow }) };
    },
  };
}

export function onceOn(engine: SuiteEngine): OnceHarness {
  return {
    ...framed(engine, "once"),
    async open() {
      const { stores, ...opened } = await engine.open();
      return { ...opened, store: kept(stores, "once") };
    },
  };
}

export function schedulesOn(engine: SuiteEngine): ScheduleHarness {
  return {
    ...framed(engine, "schedules"),
    async open() {
      const { stores, behind = stores, ...opened } = await engine.open();
      const { ticking } = kept(behind, "schedules");
      if (!ticking) throw new Error("it does not tick");
      return { ...opened, store: kept(stores, "schedules"), tasks: kept(stores, "tasks"), ticking };
    },
  };
}
