/**
 * What the code of pages takes for granted: the reader's own database and functions, and names of the block before. As text,
 * because these names exist in the pages alone.
 */
export const GRANTED = `
import type { Lease, Leasehold, SqlTransaction, TaskDefinition, Tasks } from "leasehold";

declare global {
  var db: { transaction<T>(work: (tx: SqlTransaction) => Promise<T>): Promise<T> };
  var lease: Lease;
  var leasehold: Leasehold;
  var tasks: Tasks;
  var pay: TaskDefinition<{ account: string; number: number }>;
  var charge: TaskDefinition<{ invoice: string; cents: number }>;
  var sendInvoice: TaskDefinition<{ order: number }>;
  function customers(): Promise<readonly string[]>;
  function bill(tx: SqlTransaction, customer: string): Promise<void>;
  function bankIsOpen(): boolean;
  function deliver(id: string, how: { signal: AbortSignal }): Promise<void>;
  function send(to: string): Promise<void>;
  function insertOrder(tx: SqlTransaction): Promise<{ id: number }>;
}
`;

/** The same for the pages that no walk follows, and for the READMEs of the stores. */
export const GRANTED_TO_PAGES = `
import type { PGlite } from "@electric-sql/pglite";
import type { Redis } from "ioredis";
import type { connect as Connect, Leasehold, LeaseGroup } from "leasehold";
import type { consul as Consul } from "leasehold/stores/consul";
import type { etcd as Etcd } from "leasehold/stores/etcd";
import type { http as Http } from "leasehold/stores/http";
import type { kubernetes as Kubernetes } from "leasehold/stores/kubernetes";
import type { pglite as Pglite, postgres as Postgres } from "leasehold/stores/postgres";
import type { redis as RedisStore } from "leasehold/stores/redis";
import type { sqlite as Sqlite } from "leasehold/stores/sqlite";
import type { zookeeper as ZooKeeper } from "leasehold/stores/zookeeper";
import type { openStores } from "leasehold";
import type { Pool } from "pg";

declare global {
  var connect: typeof Connect;
  var leasehold: Leasehold;
  var stores: Awaited<ReturnType<typeof openStores>>;
  var consul: typeof Consul;
  var etcd: typeof Etcd;
  var http: typeof Http;
  var kubernetes: typeof Kubernetes;
  var pglite: typeof Pglite;
  var postgres: typeof Postgres;
  var redis: typeof RedisStore;
  var sqlite: typeof Sqlite;
  var zookeeper: typeof ZooKeeper;
  var client: Redis;
  var db: PGlite;
  var pool: Pool;
  var url: string;
  var apiKey: string;
  var token: string;
  var ca: string;
  var cert: string;
  var key: string;
  function computeForAMinute(): Promise<void>;
  function edit(how: { until: AbortSignal }): Promise<void>;
  function publishNext(token: number): Promise<void>;
  function render(how: { publish: boolean }): Promise<void>;
  function transfer(leases: LeaseGroup): Promise<void>;
}
`;

/** The store of the reader that writes one. */
export const MY_STORE = `
import type { LeaseStore } from "leasehold/port";
export function openMyStore(url: string, env?: ReturnType<typeof import("leasehold/testing").manualEnv>): Promise<LeaseStore>;
`;
