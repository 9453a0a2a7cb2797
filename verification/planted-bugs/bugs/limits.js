/** Limits of kinds and queues, and rates: the rules, their index in memory, and the SQL of claims. */
import { simulated, tested } from "../checks.js";

const RULES = "packages/leasehold/src/tasks/limits.ts";
const MEMORY = "packages/leasehold/src/stores/memory/task-limits.ts";
const SQL = "packages/leasehold/src/stores/postgres/task-limited-claim.ts";
const KEYS = "packages/leasehold/src/stores/postgres/task-key-statements.ts";
const STEP = "packages/leasehold/src/stores/postgres/baseline-task-limits.ts";
const suite = (store, name) =>
  tested("tests/conformance/tasks-conformance.test.ts", `${store}: task store ... ${name}`);

export const LIMIT_BUGS = [
  {
    name: "limit-ends-with-the-claim",
    what: "A claim does not count the tasks that it starts itself against a limit.",
    file: MEMORY,
    find: "this.#places.set(kept, (this.#places.get(kept) ?? 0) - 1);",
    by: "this.#places.set(kept, this.#places.get(kept) ?? 0);",
    check: simulated("limits"),
  },
  {
    name: "rate-adds-up",
    what: "Unused starts of a window of a rate can be used in the next window.",
    file: RULES,
    find: "?? { startMs: nowMs, used: 0 };",
    by: "?? { startMs: nowMs, used: Math.min(0, (last?.used ?? rate.limit) - rate.limit) };",
    check: simulated("limits"),
  },
  {
    name: "rate-window-slides",
    what: "Each start of a task begins a new window of its rate.",
    file: RULES,
    find: "return { startMs, used: used + 1 };",
    by: "return { startMs: nowMs, used: nowMs > startMs ? 1 : used + 1 };",
    check: simulated("limits"),
  },
  {
    name: "limit-claims-by-an-old-snapshot",
    what: "A claim that had to wait for another one counts the running tasks of a limit as they were before it.",
    file: SQL,
    find: "FROM open o WHERE o.at = o.locked",
    by: "FROM open o WHERE o.at IS NOT NULL",
    check: tested("tests/engines/limits-postgres.test.ts", "do not count leases by a snapshot"),
  },
  {
    name: "limit-row-unchanged",
    what: "A claim under a limit does not change its row, so that later claims do not notice it.",
    file: SQL,
    find: "WHERE o.ctid = s.at AND s.started > 0",
    by: "WHERE o.ctid = s.at AND s.started > 0 AND s.permits IS NOT NULL",
    check: tested("tests/engines/limits-postgres.test.ts", "do not count leases by a snapshot"),
  },
  {
    name: "limit-of-the-queue-forgotten",
    what: "A claim applies only the limits of kinds to its tasks.",
    file: SQL,
    find: "WHERE p.free IS NULL OR x.of_queue <= p.free",
    by: "WHERE p.free IS NULL OR x.of_queue <= 100",
    check: suite("PostgreSQL", "runs at most so many tasks of a queue at once"),
  },
  {
    name: "limit-wakes-its-own-queue-alone",
    what: "The end of a task of a limited kind wakes only workers of its own queue.",
    file: STEP,
    find: ") THEN '' ELSE OLD.queue END)::text);",
    by: ") THEN OLD.queue ELSE OLD.queue END)::text);",
    check: suite("PostgreSQL", "notifies those who wait in any queue"),
  },
  {
    name: "key-rate-not-counted",
    what: "Starts of tasks of a concurrency key count for its rate only if no window has begun.",
    file: KEYS,
    find: "CASE WHEN k.current THEN k.window_used ELSE 0 END AS used",
    by: "0 AS used",
    check: suite("PostgreSQL", "starts at most so many tasks of a concurrency key"),
  },
  {
    name: "limit-running-before-uncounted",
    what: "Tasks that started before their limit was declared do not count against it.",
    file: "packages/leasehold/src/stores/postgres/task-limits.ts",
    find: "UPDATE leasehold.task t SET limited = true",
    by: "UPDATE leasehold.task t SET limited = t.limited",
    check: suite("PostgreSQL", "counts tasks that run since before"),
  },
  {
    name: "limit-declared-after-the-first-claim",
    what: "A worker claims before it has declared its limits.",
    file: "packages/leasehold/src/tasks/worker.ts",
    find: "if (this.#limits) await declareAll",
    by: "if (this.#limits) void declareAll",
    check: tested(
      "packages/leasehold/src/tasks/limit-client.test.ts",
      "declares its limits before",
    ),
  },
  {
    name: "limit-oldest-declaration-counts",
    what: "A new declaration of a limit changes nothing.",
    file: MEMORY,
    find: "if (before && sameLimit(before.limit, limit)) return",
    by: "if (before) return",
    check: suite("memory", "keeps the newest limit"),
  },
];
