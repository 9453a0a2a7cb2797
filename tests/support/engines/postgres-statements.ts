/**
 * The statements of the PostgreSQL stores: the call that sends each, the name of its file, what it
 * decides and what its parameters mean. Where a text depends on the call, each typical one has a file.
 */
import type { PostgresDatabase } from "../../../packages/leasehold/src/stores/postgres/index.js";
import { MIGRATIONS } from "../../../packages/leasehold/src/stores/postgres/migrations.js";

export interface Statement {
  readonly name: string;
  readonly decides: string;
  readonly parameters: readonly string[];
  readonly rows: readonly object[];
  /** The statement of which this one is a variant: its file names the lines that are the same. */
  readonly base?: string;
}

function variantOf(base: string, statement: Statement): Statement {
  return { ...statement, base };
}

/** @param rows what the database is to answer, where the caller stops at none */
export function sql(
  name: string,
  decides: string,
  parameters = "",
  rows: readonly object[] = [],
): Statement {
  return { name, decides, parameters: parameters.split(/ +/).filter(Boolean), rows };
}

/** A call of a store, and the statements that it is the first to send, in their order. */
export type Call = readonly [
  send: (database: PostgresDatabase, skip: (ms: number) => void) => Promise<unknown>,
  ...Statement[],
];

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

/** Sent by CONFIRM over a prepared session, then by opening. */
export const OPENING: readonly Statement[] = [
  sql(
    "connection-settings",
    "Sets the planner's options for a session with prepared statements. Sent once a session.",
  ),
  sql(
    "connection-abandoned",
    "Ends statements whose connection is gone, where the server can. Sent once a session.",
  ),
  sql(
    "connection-confirm",
    "Commits an empty message, which waits until synchronous standbys have all earlier commits.",
  ),
  sql(
    "connection-checked",
    "Reads whether the session may write, and its isolation level: opening is refused unless it is read committed.",
    "",
    [{ isReplica: false, readOnly: "off", isolation: "read committed", encoding: "UTF8" }],
  ),
  sql("migrate-table", "Reads whether the schema has been created.", "schema", [{ there: true }]),
  sql("migrate-version", "Reads how many migrations have been applied.", "", [
    { version: MIGRATIONS.at(-1)?.version ?? 0 },
  ]),
];

export const STORE_CALLS: readonly Call[] = [
  [({ diagnose }) => diagnose(), sql("diagnose", "Reads the settings that `doctor` judges.")],
  [
    ({ leases }) => leases.acquire([acquire]),
    sql(
      "lease-acquire-free",
      "Grants each lease of a batch that is free, not paused and without waiters. Its one row lists their numbers: lease-acquire decides the others.",
      "namespace holder ttlMs metadata resources leaseIds",
      [{ token: 1, now: 0, granted: null, created: null, names: null }],
    ),
    sql(
      "lease-acquire",
      "Grants each lease of a batch that is free. For the others it returns the holder, or the caller's own grant.",
      "namespaces resources leaseIds holders ttlMs queueMs metadata",
    ),
  ],
  [
    ({ leases }) => leases.acquire([acquire], { returnReplaced: true }),
    variantOf(
      "lease-acquire-free",
      sql(
        "lease-acquire-free-mixed",
        "Like lease-acquire-free, for requests of any holders, and for those of a server: it can also list the grants that were replaced.",
        "namespaces resources leaseIds holders ttlMs metadata returnReplaced",
        [{ token: 1, now: 0, granted: null, created: null, names: null, replaced: null }],
      ),
    ),
  ],
  [
    ({ leases }) => leases.acquire([{ ...acquire, queueMs: 10_000 }]),
    variantOf(
      "lease-acquire",
      sql(
        "lease-acquire-or-wait",
        "Like lease-acquire, for a batch in which a request waits: it also adds waiters to the wait queue, and removes those that it grants the lease.",
        "namespaces resources leaseIds holders ttlMs queueMs metadata",
      ),
    ),
  ],
  [
    ({ leases }) =>
      leases.acquire(
        [leaseId, otherId].map((leaseId) => ({ ...acquire, leaseId, queueMs: 10_000 })),
      ),
    variantOf(
      "lease-acquire",
      sql(
        "lease-acquire-contended",
        "Like lease-acquire-or-wait, for a batch in which several requests contend for a resource and some wait: it decides them in their order, up to the one that it grants the lease.",
        "namespaces resources leaseIds holders ttlMs queueMs metadata",
      ),
    ),
  ],
  [
    ({ leases }) => leases.renew([{ ...lease, ttlMs: 30_000 }]),
    sql(
      "lease-renew-live",
      "Renews each grant of a batch that is live. Its one row lists their numbers and tokens: lease-renew decides the others.",
      "namespace ttlMs resources leaseIds",
      [{ now: 0, renewed: null }],
    ),
    sql(
      "lease-renew",
      "Renews each grant that is live. For the others it returns why they are lost.",
      "namespaces resources leaseIds ttlMs",
    ),
  ],
  [
    ({ leases }) =>
      leases.renew([30_000, 60_000].map((ttlMs, at) => ({ ...lease, resource: `r${at}`, ttlMs }))),
    variantOf(
      "lease-renew-live",
      sql(
        "lease-renew-live-mixed",
        "Like lease-renew-live, for requests of several namespaces or TTLs.",
        "namespaces resources leaseIds ttlMs",
        [{ now: 0, renewed: null }],
      ),
    ),
  ],
  [
    ({ leases }) => leases.release([lease]),
    sql(
      "lease-release-held",
      "Ends each grant of a batch that no caller waits for. Its one row lists their numbers: lease-release decides the others.",
      "namespace resources leaseIds",
      [{ released: null }],
    ),
    variantOf(
      "lease-renew",
      sql(
        "lease-release",
        "Ends each grant, or removes the waiter of that lease id, and wakes the next waiter.",
        "namespaces resources leaseIds",
      ),
    ),
  ],
  [
    ({ leases }) => leases.release([lease, { ...lease, namespace: "other" }]),
    variantOf(
      "lease-release-held",
      sql(
        "lease-release-held-mixed",
        "Like lease-release-held, for requests of several namespaces.",
        "namespaces resources leaseIds",
        [{ released: null }],
      ),
    ),
  ],
  [
    ({ leases }) => leases.revoke([{ namespace, resource, free: "now" }]),
    variantOf(
      "lease-renew",
      sql(
        "lease-revoke",
        "Ends each grant for an operator, at once or at its expiry.",
        "namespaces resources expectedTokens freeNow",
      ),
    ),
  ],
  [
    ({ leases }) => leases.get([lease]),
    sql("lease-get", "Reads the leases of these resources.", "namespaces resources"),
  ],
  [
    ({ leases }) => leases.list({ namespace }),
    sql(
      "lease-list",
      "Reads a page of leases, in the order of their resources.",
      "namespace from to cursor states renewedOnly limit holder expiringWithinMs heldForMs",
    ),
  ],
  [
    ({ waiters }) => waiters({ namespace, resource }),
    sql(
      "lease-waiters",
      "Lists the waiters for a resource, the head of the queue first.",
      "namespace resource",
    ),
  ],
  [
    ({ leases }) => leases.collect(60_000),
    sql("lease-collect-waiters", "Deletes waiters that have expired."),
    sql(
      "lease-collect",
      "Deletes leases that ended long ago, and keeps their largest token as the namespace's floor.",
      "olderThanMs afterNamespace afterResource limit",
    ),
  ],
  [
    ({ tasks }) => tasks.enqueue([newTask]),
    sql(
      "task-enqueue-alike",
      "Like task-enqueue, for tasks that differ in their ids and data only. Returns how many it added, and which unless all.",
      "namespace ids kind queue priority data dedupeKey scheduledMs maxAttempts crashLimit backoffMs maxBackoffMs keepDoneMs keepDeadMs concurrencyKey concurrencyLimit concurrencyAny version rateLimit ratePerMs maxRunMs startByMs backoffFactor backoffJitter",
      [{ added: 1, ids: null, notified: 1 }],
    ),
  ],
  [
    ({ tasks }) => tasks.enqueue([newTask, { ...newTask, priority: 1 }]),
    sql(
      "task-enqueue",
      "Adds each task unless its id or its dedupeKey is taken. Returns those that it added.",
      "namespaces ids kinds queues priorities data dedupeKeys scheduledMs maxAttempts crashLimits backoffMs maxBackoffMs keepDoneMs keepDeadMs concurrencyKeys concurrencyLimits concurrencyAny versions rateLimits ratePerMs maxRunMs startByMs backoffFactor backoffJitter",
    ),
    sql(
      "task-enqueue-conflicts",
      "Reads why tasks were not added: the id exists, or another task has the dedupeKey.",
      "namespaces ids kinds dedupeKeys data",
    ),
  ],
  [
    ({ tasks }) => tasks.claim({ ...claim, queues: ["images"] }),
    sql(
      "task-claim-first",
      "Claims the first due tasks of one queue. Takes nothing if the claim is repeated, its data is too much, tasks with a concurrency key are due, or a limit concerns it: task-claim decides then.",
      "namespace claimId holder ttlMs limit kinds graceMs queue",
      [{ id: null, undecided: true }],
    ),
    sql(
      "task-claim",
      "Claims the first due tasks of one queue, with a concurrency key and without. A repeated claim returns those of its tasks that it still holds.",
      "namespace claimId holder ttlMs limit kinds graceMs queue",
    ),
  ],
  [
    ({ tasks }) => tasks.claim({ ...claim, queues: ["images", "mail"] }),
    variantOf(
      "task-claim",
      sql(
        "task-claim-queues",
        "Claims the first due tasks of several queues, here two, unless tasks with a concurrency key are due, or a limit concerns it.",
        "namespace claimId holder ttlMs limit kinds graceMs queue1 queue2",
        [{ id: null, undecided: true, limited: true }],
      ),
    ),
    variantOf(
      "task-claim",
      sql(
        "task-claim-queues-limited",
        "Like task-claim, for several queues, here two, and within the limits of kinds and queues.",
        "namespace claimId holder ttlMs limit kinds graceMs queue1 queue2",
        [
          {
            id,
            attempt: 200,
            data: "null",
            scheduledAt: 0,
            expiresAt: 0,
            now: 0,
            holder: "worker-1",
          },
        ],
      ),
    ),
    sql(
      "task-forget-attempts",
      "Deletes attempts of tasks that have had very many.",
      "namespaces ids attempts",
    ),
  ],
  [
    ({ tasks }) => tasks.heartbeat([{ ...grant, ttlMs: 30_000 }]),
    sql(
      "task-heartbeat",
      "Renews each grant on a task that is live, and keeps its progress.",
      "namespaces ids leaseIds tokens ttlMs progress checkpoints",
    ),
    sql(
      "task-state",
      "Reads the tasks that a statement did not change: refused, repeated, or only locked.",
      "namespaces ids leaseIds tokens",
    ),
  ],
  [
    ({ tasks }) => tasks.complete([{ ...grant, output: null }]),
    sql(
      "task-complete-live",
      "Completes each task of a batch whose grant is live. Its one row lists their numbers: task-complete decides the others.",
      "namespace ids leaseIds tokens outputs",
      [{ completed: null }],
    ),
    sql(
      "task-complete",
      "Completes each task whose grant is live.",
      "namespaces ids leaseIds tokens outputs",
    ),
    sql(
      "task-state-and-output",
      "Like task-state, with the outputs that the holders of the request have stored, up to 256 KiB of each namespace.",
      "namespaces ids leaseIds tokens",
    ),
  ],
  [
    ({ tasks }) => tasks.fail([{ ...grant, error: "no disk", retryInMs: null }]),
    sql(
      "task-fail",
      "Records the failure of each task whose grant is live: a retry after its backoff, or dead.",
      "namespaces ids leaseIds tokens errors retryInMs final random",
    ),
  ],
  [
    ({ tasks }) => tasks.requeue([grant]),
    variantOf(
      "task-complete",
      sql(
        "task-requeue",
        "Makes each task whose grant is live pending again, without a failure: at once, or later.",
        "namespaces ids leaseIds tokens retryInMs reasons",
      ),
    ),
  ],
  [
    ({ tasks }) => tasks.cancel([task]),
    sql("task-cancel", "Cancels each task that has not ended.", "namespaces ids"),
  ],
  [
    ({ tasks }) => tasks.retry([task]),
    sql(
      "task-retry",
      "Makes each dead or cancelled task pending again, and each pending one due at once.",
      "namespaces ids",
    ),
  ],
  [
    ({ control }) => control.actors.tasks.delete([task]),
    sql("task-delete", "Deletes each task that has ended, with its attempts.", "namespaces ids"),
  ],
  [
    ({ tasks }) => tasks.get(task),
    sql("task-get", "Reads a task with its attempts.", "namespace id"),
  ],
  [
    ({ tasks }) => tasks.list({ namespace }),
    sql("task-list", "Reads a page of tasks, the newest first.", "namespace limit"),
  ],
  [
    ({ tasks }) => tasks.list(filters),
    variantOf(
      "task-list",
      sql(
        "task-list-filtered",
        "Like task-list, with every filter: each adds its condition.",
        "namespace states queue kind cursor limit",
      ),
    ),
  ],
  [
    ({ tasks }) => tasks.leases({ namespace }),
    sql(
      "task-leases",
      "Reads a page of grants on tasks, live and ended, the newest first.",
      "namespace limit",
    ),
  ],
  [
    ({ tasks }) => tasks.leases({ namespace, states: ["live"] }),
    sql("task-leases-live", "Like task-leases, for live grants only.", "namespace limit"),
  ],
  [
    ({ tasks }) =>
      tasks.leases({
        namespace,
        states: ["expired", "revoked"],
        renewedOnly: true,
        cursor: "7.3",
      }),
    sql(
      "task-leases-filtered",
      "Like task-leases, for renewed grants in some states, after a cursor.",
      "namespace limit cursorSeq cursorAttempt",
    ),
  ],
  [
    ({ tasks }) => tasks.counts(namespace),
    sql("task-counts", "Counts the tasks of each state.", "namespace"),
  ],
  [
    async ({ tasks }) => tasks.dueKinds?.({ namespace, dueForMs: 10_000, limit: 1_000 }),
    sql(
      "task-due-kinds",
      "Counts due tasks by queue, kind and version, up to a limit.",
      "namespace dueForMs limit queues kinds",
    ),
  ],
  [
    ({ tasks }, skip) => {
      skip(3_600_000);
      return tasks.reap();
    },
    sql(
      "task-reap",
      "Ends grants on tasks that have expired: the task is pending again, or dead.",
      "limit",
    ),
    sql("task-forget-claims", "Deletes claims that are too old to be repeated.", "keptMs"),
    sql("task-forget-waits", "Deletes waits for results that have expired."),
    sql("task-forget-keys", "Deletes concurrency keys that nothing uses.", "keptMs"),
    sql("task-forget-rates", "Deletes windows of rates that have ended long ago.", "keptMs"),
  ],
  [
    async ({ tasks }) => tasks.blockedKeys?.({ namespace, limit: 100 }),
    sql(
      "task-blocked-keys",
      "Names the concurrency keys of which tasks wait for others, and those that they wait for.",
      "namespace limit",
    ),
  ],
  [
    async ({ tasks }) =>
      tasks.blockedKeys?.({
        namespace,
        only: { queue: "images", kind: "resize", key: "cat" },
        limit: 1,
      }),
    variantOf(
      "task-blocked-keys",
      sql(
        "task-blocked-key",
        "Like task-blocked-keys, of one key.",
        "namespace limit queue kind key",
      ),
    ),
  ],
  [
    async ({ tasks }) =>
      tasks.limits?.declare({ ...limitKey, limit: { running: 5, rate: null }, by: "a" }),
    sql(
      "task-limit-declare",
      "Declares the limit of a kind or a queue. If it is so already, it writes nothing.",
      "namespace scope name running rateLimit ratePerMs by mostLimits",
      [{ change: "added" }],
    ),
    sql(
      "task-limit-mark",
      "Marks the tasks of a limit that run since before it was declared, so that they count.",
      "namespace scope name",
    ),
  ],
  [
    async ({ tasks }) => tasks.limits?.list(namespace),
    sql("task-limit-list", "Lists the limits with what they keep back now.", "namespace"),
  ],
  [
    async ({ tasks }) => tasks.limits?.remove(limitKey),
    sql("task-limit-remove", "Removes a limit.", "namespace scope name"),
  ],
  [
    ({ tasks }) => tasks.results([task], { notifyMs: 60_000 }),
    sql(
      "task-await",
      "Records that the ends of tasks are awaited, so that they are notified.",
      "namespaces ids notifyMs",
    ),
    sql("task-results", "Reads how tasks have ended, up to 256 KiB of outputs.", "namespaces ids"),
  ],
  [
    ({ tasks }) => tasks.stats({ namespace, limit: 1_000 }),
    sql(
      "task-stats",
      "Counts tasks by queue and kind, up to a limit of each state.",
      "namespace queues kinds limit versions",
    ),
  ],
  [
    ({ tasks }) => tasks.stats({ namespace, limit: 1_000, unfinishedOnly: true }),
    sql(
      "task-stats-unfinished",
      "Like task-stats, of tasks that have not ended.",
      "namespace queues kinds limit versions",
    ),
  ],
];
