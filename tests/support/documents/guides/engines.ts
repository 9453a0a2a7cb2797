/** The engines that pages name by the URL of a server on the reader's machine: a walk starts one, and uses its URL instead. */
import { missingConsul, startConsul } from "../../engines/consul-engine.js";
import { missingEtcd, startEtcd } from "../../engines/etcd-engine.js";
import { startKubernetes } from "../../engines/kubernetes-engine.js";
import { freshDatabase, missingPostgres } from "../../engines/postgres.js";
import { missingRedis, startRedis } from "../../engines/redis-engine.js";
import { missingZooKeeper, startZooKeeper } from "../../engines/zookeeper-engine.js";

export interface Started {
  readonly url: string;
  remove(): Promise<void>;
}

export interface Engine {
  /** As pages write it. */
  readonly url: string;
  /** Packages without which no client opens it. */
  readonly driver: readonly string[];
  /** Why it is not here, or null. */
  missing(): string | null;
  start(): Promise<Started>;
}

export const ENGINES: readonly Engine[] = [
  {
    url: "postgres://localhost/app",
    driver: ["pg"],
    missing: () => {
      const missing = missingPostgres();
      return missing && `no PostgreSQL server: ${missing}`;
    },
    async start() {
      const { url, drop } = await freshDatabase();
      return { url, remove: drop };
    },
  },
  {
    url: "redis://localhost",
    driver: ["ioredis"],
    missing: missingRedis,
    start: () => startRedis(),
  },
  { url: "etcd://localhost:2379", driver: [], missing: missingEtcd, start: () => startEtcd() },
  {
    url: "zookeeper://localhost:2181",
    driver: ["node-zookeeper-client"],
    missing: missingZooKeeper,
    start: () => startZooKeeper(),
  },
  {
    url: "consul://localhost:8500",
    driver: [],
    missing: missingConsul,
    start: () => startConsul(),
  },
  {
    url: "kubernetes:default",
    driver: ["yaml"],
    missing: () => null,
    async start() {
      const { url, close } = await startKubernetes();
      return { url, remove: close };
    },
  },
];
