/** Engines that keep leases, as histories are made on them: each starts a server and ends it again. */

import type { LeaseStores } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { consul } from "leasehold/stores/consul";
import { etcd } from "leasehold/stores/etcd";
import { kubernetes } from "leasehold/stores/kubernetes";
import { redis } from "leasehold/stores/redis";
import { zookeeper } from "leasehold/stores/zookeeper";
import { startConsul } from "../../tests/support/engines/consul-engine.js";
import { startEtcd } from "../../tests/support/engines/etcd-engine.js";
import { startKubernetes } from "../../tests/support/engines/kubernetes-engine.js";
import { startRedis } from "../../tests/support/engines/redis-engine.js";
import { startZooKeeper } from "../../tests/support/engines/zookeeper-engine.js";
import { type HistoryTarget, proxiedTarget, SHORT, type TargetTraits } from "./targets.js";

interface RunningEngine {
  readonly port: number;
  /** @param port the engine's own, or that of a proxy before it */
  open(port: number): Promise<LeaseStores>;
  remove(): Promise<void>;
}

interface HistoryEngine extends TargetTraits {
  start(): Promise<RunningEngine>;
}

const OPEN_WITHIN_MS = 30_000;
const ZOOKEEPER_SESSION_MS = 4_000;
const CONSUL_SESSION_MS = 10_000;

const ENGINES = {
  redis: {
    async start() {
      const { port, remove } = await startRedis();
      const open = (at: number) =>
        redis({ url: `redis://127.0.0.1:${at}` }).open(systemEnv, OPEN_WITHIN_MS);
      return { port, open, remove };
    },
  },
  etcd: {
    // The client repeats renewals and releases.
    repeats: true,
    // An engine lease lasts up to a second longer than promised, and etcd checks for expiries twice a second.
    lateMs: 2_500,
    size: SHORT,
    ttl: { minMs: 1_000, stepMs: 1_000 },
    shortestTtlMs: 1_000,
    async start() {
      const { port, remove } = await startEtcd();
      const open = (at: number) =>
        etcd({ url: `etcd://127.0.0.1:${at}` }).open(systemEnv, OPEN_WITHIN_MS);
      return { port, open, remove };
    },
  },
  zookeeper: {
    // The client repeats a request until it knows whether the first one took effect.
    repeats: true,
    // A client deletes its expired grants itself; if it is cut off, the end of its session does, 2 s later at most.
    lateMs: ZOOKEEPER_SESSION_MS + 2_000,
    size: SHORT,
    async start() {
      const { port, remove } = await startZooKeeper();
      const settings = { chroot: "/histories", sessionTimeoutMs: ZOOKEEPER_SESSION_MS };
      const open = (at: number) =>
        zookeeper({ servers: [`127.0.0.1:${at}`], ...settings }).open(systemEnv, OPEN_WITHIN_MS);
      return { port, open, remove };
    },
  },
  consul: {
    repeats: true,
    // A client ends its expired grants itself, and it alone knows when: an operator who revokes can only estimate.
    lateMs: Number.POSITIVE_INFINITY,
    size: SHORT,
    async start() {
      const { port, remove } = await startConsul();
      const url = (at: number) =>
        `consul://127.0.0.1:${at}/histories?sessionTtlMs=${CONSUL_SESSION_MS}`;
      const open = (at: number) => consul({ url: url(at) }).open(systemEnv, OPEN_WITHIN_MS);
      return { port, open, remove };
    },
  },
  kubernetes: {
    ttl: { minMs: 2_000, stepMs: 1_000 },
    // Each contender counts from when it first saw the record, so there is no latest time of expiry.
    lateMs: Number.POSITIVE_INFINITY,
    shortestTtlMs: 2_000,
    async start() {
      const { port, through, close } = await startKubernetes();
      const open = async (at: number) =>
        kubernetes({ url: await through(at) }).open(systemEnv, OPEN_WITHIN_MS);
      return { port, open, remove: close };
    },
  },
} satisfies Readonly<Record<string, HistoryEngine>>;

export type HistoryEngineName = keyof typeof ENGINES;
export const HISTORY_ENGINES = Object.keys(ENGINES) as HistoryEngineName[];

/** Makes histories on a server that is started for them. */
export async function onEngine<T>(
  name: HistoryEngineName,
  use: (target: HistoryTarget) => Promise<T>,
): Promise<T> {
  const { start, ...traits }: HistoryEngine = ENGINES[name];
  const { port, open, remove } = await start();
  try {
    return await use(proxiedTarget({ name, port, open, ...traits }));
  } finally {
    await remove();
  }
}
