/** The rules of tasks, workers, and claims that wait. */
import { simulated, tested } from "../checks.js";

const RULES = "packages/leasehold/src/tasks/rules.ts";
const WORKER = "packages/leasehold/src/tasks/worker.ts";
const RUNNING = "packages/leasehold/src/tasks/running-task.ts";
const READY = "packages/leasehold/src/tasks/ready.ts";
const suite = (name) =>
  tested("tests/conformance/tasks-conformance.test.ts", `memory: task store ... ${name}`);

export const TASKS = [
  {
    name: "completion-without-token",
    what: "Any report of a completed task is accepted, even from a worker that lost the task long ago.",
    file: RULES,
    find: '  const grant = liveGrant(record, request, nowMs);\n  if ("reason" in grant) return { record, outcome: grant };\n  const output',
    by: "  const grant = record as never as Parameters<typeof ended>[0];\n  const output",
    check: simulated("tasks"),
  },
  {
    name: "heartbeat-without-token",
    what: "A worker that lost its task extends the lease of the next worker, and takes it for its own.",
    file: RULES,
    find: "request: HeartbeatRequest,\n  nowMs: number,\n): Decision<HeartbeatOutcome> {\n  const grant = liveGrant(record, request, nowMs);",
    by: "request: HeartbeatRequest,\n  nowMs: number,\n): Decision<HeartbeatOutcome> {\n  const own = { ...request, leaseId: record?.last?.leaseId ?? '', token: record?.last?.token ?? 0 };\n  const grant = liveGrant(record, own, nowMs);",
    check: suite("hands an expired task over, and refuses its former holder for ever"),
  },
  {
    name: "grant-by-lease-id-or-token",
    what: "One of the two parts of a grant is enough to report on its task.",
    file: RULES,
    find: "return last?.leaseId === leaseId && last.token === token;",
    by: "return last?.leaseId === leaseId || last?.token === token;",
    check: suite("refuses a right lease id with a wrong token"),
  },
  {
    name: "repeated-completion-is-refused",
    what: "A completion that is repeated because its answer was lost is refused as late.",
    file: RULES,
    find: 'if (record?.state === "done" && isOwn(record, request)) {',
    by: 'if (record?.state === "done" && !isOwn(record, request)) {',
    check: suite("answers the stored output when it is repeated"),
  },
  {
    name: "claim-repeated-as-a-new-one",
    what: "A repeated claim whose answer was lost takes other tasks, and the first ones idle until their leases expire.",
    file: RULES,
    find: "return nowMs < last.expiresAtMs ? claimedTask(record, last, nowMs) : null;",
    by: "return nowMs < last.startedAtMs ? claimedTask(record, last, nowMs) : null;",
    check: suite("answers the same tasks when it is repeated"),
  },
  {
    name: "worker-claims-under-a-fresh-id",
    what: "After an unknown outcome, the worker uses a new claim id, and so leaves tasks without a worker.",
    file: WORKER,
    find: '"could not claim tasks");\n',
    by: '"could not claim tasks");\n      claimId = newLeaseId(env.random);\n',
    check: tested(
      "packages/leasehold/src/tasks/worker.test.ts",
      "repeats a claim whose answer was lost",
    ),
  },
  {
    name: "dedupe-by-name-only",
    what: "A task counts as a duplicate of a task of another kind with the same key.",
    file: "packages/leasehold/src/stores/memory/task-index.ts",
    find: "return dedupeKey === null ? null : JSON.stringify([kind, dedupeKey]);",
    by: "return dedupeKey === null ? null : JSON.stringify([kind && dedupeKey]);",
    check: suite("keeps at most one unfinished task per kind and dedupeKey"),
  },
  {
    name: "enqueue-adds-a-finished-id-again",
    what: "A retried enqueue adds the task again if it is done by then.",
    file: RULES,
    find: "if (record) {\n    // Whatever has become",
    by: 'if (record && record.state !== "done") {\n    // Whatever has become',
    check: suite("adds nothing when an id comes again, whatever has become of the task"),
  },
  {
    name: "requeue-counts-as-failed",
    what: "A worker that closes uses up an attempt of each task that it requeues.",
    file: RULES,
    find: 'record: { ...ended(grant, "returned", nowMs), state: "pending" },',
    by: 'record: { ...ended(grant, "returned", nowMs), state: "pending", failures: grant.record.failures + 1 },',
    check: suite("requeues at once, counts nothing"),
  },
  {
    name: "poison-task-for-ever",
    what: "A task that kills its workers is claimed again without end.",
    file: RULES,
    find: "if (crashes >= record.crashLimit) {",
    by: "if (crashes > record.crashLimit + crashes) {",
    check: suite("is dead at the crash that reaches crashLimit"),
  },
  {
    name: "reaped-before-its-time",
    what: "A task is taken from its worker when a heartbeat is due, not when its lease has expired.",
    file: RULES,
    find: "if (nowMs < grant.last.expiresAtMs) return null;",
    by: "if (nowMs < grant.last.expiresAtMs - grant.last.ttlMs / 2) return null;",
    check: suite("keeps a task alive as long as heartbeats come in time"),
  },
  {
    name: "worker-begins-what-it-has-lost",
    what: "A worker starts a task although its lease had expired when the claim was answered.",
    file: RUNNING,
    find: "if (handler && this.#checkAlive() && !work.stopping.aborted) {",
    by: "if (handler && !work.stopping.aborted) {",
    check: tested("packages/leasehold/src/tasks/worker.test.ts"),
  },
  {
    name: "report-given-up-at-its-first-failure",
    what: "A worker gives up a report at the first failure, and its task runs twice.",
    file: "packages/leasehold/src/tasks/completer.ts",
    find: "if (!outcome.retryable) return onFault(outcome);",
    by: "return onFault(outcome);",
    check: tested(
      "packages/leasehold/src/tasks/worker.test.ts",
      "repeats a completion that has not arrived",
    ),
  },
  {
    name: "more-handlers-than-slots",
    what: "A worker claims as many tasks as it has slots, even if the slots are in use.",
    file: WORKER,
    find: "this.#concurrency - this.#work.handling,",
    by: "this.#concurrency,",
    check: tested(
      "packages/leasehold/src/tasks/worker.test.ts",
      "runs no more than `concurrency` at once",
    ),
  },
  {
    name: "cancelled-handler-has-failed",
    what: "A handler that stopped on request is reported as failed.",
    file: RUNNING,
    find: "if (!this.#checkAlive() || this.#lease?.signal.aborted) {",
    by: "if (!id) {",
    check: tested("packages/leasehold/src/tasks/worker-close.test.ts"),
  },
  {
    name: "notification-lost-before-the-wait",
    what: "A task that arrives while all workers claim does not wake the next worker that waits.",
    file: READY,
    find: "if (!end) group.notified = true;",
    by: "if (!end) continue;",
    check: tested("packages/leasehold/src/tasks/ready.test.ts"),
  },
];
