/** Calls that send every statement of the lease and task stores in PostgreSQL. */
import type { PostgresDatabase } from "../../../packages/leasehold/src/stores/postgres/index.js";

/** @param skip moves the clock by which the store decides whether it is time to clean up */
export type Call = (database: PostgresDatabase, skip: (ms: number) => void) => Promise<unknown>;

const namespace = "default";
const resource = "report";
const leaseId = "0123456789abcdef0123456789abcdef";
const otherId = "fedcba9876543210fedcba9876543210";
const id = "01890a5d-ac96-774b-bcce-b302099a8057";
const lease = { namespace, resource, leaseId };
const acquire = { ...lease, holder: "web-1", ttlMs: 30_000 };
const task = { namespace, id };
const grant = { ...task, leaseId, token: 1 };
const claim = {
  namespace,
  claimId: leaseId,
  holder: "worker-1",
  ttlMs: 30_000,
  limit: 10,
  kinds: null,
};
const newTask = {
  namespace,
  id,
  kind: "resize",
  queue: "images",
  priority: 0,
  data: { file: "cat.png" },
  scheduledAt: null,
  dedupeKey: "cat.png",
  maxAttempts: 5,
  crashLimit: 3,
  backoff: { firstMs: 1_000, longestMs: 60_000, factor: 2, jitter: 0.5 },
};
const limitKey = { namespace, scope: "kind", name: "resize" } as const;
const filters = {
  namespace,
  queue: "images",
  kind: "resize",
  states: ["dead"],
  cursor: "7",
} as const;

export const STORE_CALLS: readonly Call[] = [
  ({ diagnose }) => diagnose(),
  ({ leases }) => leases.acquire([acquire]),
  ({ leases }) => leases.acquire([acquire], { returnReplaced: true }),
  ({ leases }) => leases.acquire([{ ...acquire, queueMs: 10_000 }]),
  ({ leases }) =>
    leases.acquire([leaseId, otherId].map((leaseId) => ({ ...acquire, leaseId, queueMs: 10_000 }))),
  ({ leases }) => leases.renew([{ ...lease, ttlMs: 30_000 }]),
  ({ leases }) =>
    leases.renew([30_000, 60_000].map((ttlMs, at) => ({ ...lease, resource: `r${at}`, ttlMs }))),
  ({ leases }) => leases.release([lease]),
  ({ leases }) => leases.release([lease, { ...lease, namespace: "other" }]),
  ({ leases }) => leases.revoke([{ namespace, resource, free: "now" }]),
  ({ leases }) => leases.get([lease]),
  ({ leases }) => leases.list({ namespace }),
  ({ waiters }) => waiters({ namespace, resource }),
  ({ leases }) => leases.collect(60_000),
  ({ tasks }) => tasks.enqueue([newTask]),
  ({ tasks }) => tasks.enqueue([newTask, { ...newTask, priority: 1 }]),
  ({ tasks }) => tasks.claim({ ...claim, queues: ["images"] }),
  ({ tasks }) => tasks.claim({ ...claim, queues: ["images", "mail"] }),
  ({ tasks }) => tasks.heartbeat([{ ...grant, ttlMs: 30_000 }]),
  ({ tasks }) => tasks.complete([{ ...grant, output: null }]),
  ({ tasks }) => tasks.fail([{ ...grant, error: "no disk", retryInMs: null }]),
  ({ tasks }) => tasks.requeue([grant]),
  ({ tasks }) => tasks.cancel([task]),
  ({ tasks }) => tasks.retry([task]),
  ({ control }) => control.actors.tasks.delete([task]),
  ({ tasks }) => tasks.get(task),
  ({ tasks }) => tasks.list({ namespace }),
  ({ tasks }) => tasks.list(filters),
  ({ tasks }) => tasks.leases({ namespace }),
  ({ tasks }) => tasks.leases({ namespace, states: ["live"] }),
  ({ tasks }) =>
    tasks.leases({
      namespace,
      states: ["expired", "revoked"],
      renewedOnly: true,
      cursor: "7.3",
    }),
  ({ tasks }) => tasks.counts(namespace),
  async ({ tasks }) => tasks.dueKinds?.({ namespace, dueForMs: 10_000, limit: 1_000 }),
  ({ tasks }, skip) => {
    skip(3_600_000);
    return tasks.reap();
  },
  async ({ tasks }) => tasks.blockedKeys?.({ namespace, limit: 100 }),
  async ({ tasks }) =>
    tasks.blockedKeys?.({
      namespace,
      only: { queue: "images", kind: "resize", key: "cat" },
      limit: 1,
    }),
  async ({ tasks }) =>
    tasks.limits?.declare({ ...limitKey, limit: { running: 5, rate: null }, by: "a" }),
  async ({ tasks }) => tasks.limits?.list(namespace),
  async ({ tasks }) => tasks.limits?.remove(limitKey),
  ({ tasks }) => tasks.results([task], { notifyMs: 60_000 }),
  ({ tasks }) => tasks.stats({ namespace, limit: 1_000 }),
  ({ tasks }) => tasks.stats({ namespace, limit: 1_000, unfinishedOnly: true }),
];
