/** Tasks with a concurrency key: the rules, their index in memory, and the SQL of claims. */
import { simulated, tested } from "../checks.js";

const RULES = "packages/leasehold/src/tasks/keys.ts";
const SQL = "packages/leasehold/src/stores/postgres/task-key-statements.ts";
const STEP = "packages/leasehold/src/stores/postgres/baseline-task-limits.ts";
const suite = (store, name) =>
  tested("tests/conformance/tasks-conformance.test.ts", `${store}: task store ... ${name}`);

export const KEYS = [
  {
    name: "key-limit-plus-one",
    what: "One more task of a key runs than its limit allows.",
    file: RULES,
    find: "return live < declared.perKey;",
    by: "return live <= declared.perKey;",
    check: simulated("keys"),
  },
  {
    name: "key-expired-head-overtaken",
    what: "While the task of a dead worker waits for the reaper, later tasks of its key overtake it.",
    file: RULES,
    find: "if (record.seq > stuck) return null;",
    by: "if (record.seq > stuck && nowMs < 0) return null;",
    check: simulated("keys"),
  },
  {
    name: "key-retrying-head-overtaken",
    what: "A task that waits for its retry does not hold back the tasks behind it in its key.",
    file: RULES,
    find: "if (record.last) return null;",
    by: "if (record.last) continue;",
    check: suite("memory", "keeps back the others while the head waits"),
  },
  {
    name: "key-claims-by-an-old-snapshot",
    what: "A claim that had to wait for another one counts the running tasks of a key as they were before it.",
    file: SQL,
    find: "    UPDATE leasehold.task_key o SET claimed_at = c.now FROM found f CROSS JOIN clock c\n    WHERE o.ctid = f.at\n    RETURNING o.namespace, o.queue, o.kind, o.key\n",
    by: "    SELECT f.namespace, f.queue, f.kind, f.key FROM found f\n",
    check: tested("tests/engines/keys-postgres.test.ts", "do not count leases by a snapshot"),
  },
  {
    name: "key-left-over-forgotten",
    what: "A claim deletes the due rows of a key although it did not take the head in the end.",
    file: SQL,
    find: "WHERE NOT EXISTS (SELECT FROM measured m WHERE m.fits AND m.seq = h.seq)",
    by: "WHERE EXISTS (SELECT FROM measured m WHERE m.fits AND m.seq = h.seq) AND h.seq < 0",
    check: suite("PostgreSQL", "stays due while others come before the head"),
  },
  {
    name: "key-cancelled-head-blocks",
    what: "A cancelled task holds back the tasks behind it in its key.",
    file: STEP,
    find: "IS NOT NULL AND NEW.state <> 'running')",
    by: "IS NOT NULL AND NEW.state <> 'running' AND OLD.state = 'running')",
    check: suite("PostgreSQL", "keeps back the others while the head waits"),
  },
];
