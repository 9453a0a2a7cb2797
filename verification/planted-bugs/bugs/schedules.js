/** Schedules: when they fire, and that a fire time makes one task. */
import { simulated, tested } from "../checks.js";

const RULES = "packages/leasehold/src/tasks/schedules/rules.ts";
const TIMES = "packages/leasehold/src/tasks/schedules/times.ts";
const MEMORY = "packages/leasehold/src/stores/memory/schedules.ts";
const SQL = "packages/leasehold/src/stores/postgres/schedule-statements.ts";
const rules = (name) => tested("packages/leasehold/src/tasks/schedules/rules.test.ts", name);
const suite = (store, name) =>
  tested("tests/conformance/schedules-conformance.test.ts", `${store}: schedules ... ${name}`);

export const SCHEDULE_BUGS = [
  {
    name: "schedule-fired-twice",
    what: "A tick advances a schedule although another tick has changed it in between.",
    file: MEMORY,
    find: "if (schedule?.revision !== revision || schedule.paused)",
    by: "if (!schedule || schedule.paused)",
    check: simulated("schedules"),
  },
  {
    name: "schedule-fired-twice-in-sql",
    what: "The same in SQL: the statement that enqueues does not compare the revision.",
    file: SQL,
    find: "(s.revision = $5 AND s.paused_at IS NULL)",
    by: "(s.revision IS NOT NULL AND s.paused_at IS NULL)",
    check: suite("PGlite", "moves on once for all that read it"),
  },
  {
    name: "schedule-pause-undeclared",
    what: "A declaration ends the pause of an operator.",
    file: SQL,
    find: "declared_at = excluded.declared_at,\n  revision",
    by: "declared_at = excluded.declared_at, paused_at = NULL,\n  revision",
    check: suite("PGlite", "is not due while it is paused"),
  },
  {
    name: "schedule-begins-anew",
    what: "Each declaration starts the schedule over, so a deployment loses the fire times just before it.",
    file: SQL,
    find: "last_fire_at = CASE WHEN ${differs(TIMING)} THEN",
    by: "last_fire_at = CASE WHEN ${differs(DECLARED)} THEN",
    check: suite("PGlite", "begins anew where the fire times change"),
  },
  {
    name: "schedule-lost-fire-times",
    what: "A tick advances the schedule to its own time, and so skips fire times without enqueueing their tasks.",
    file: RULES,
    find: "lastFireAtMs: passed.at(-1) ?? due.lastFireAtMs,",
    by: "lastFireAtMs: nowMs,",
    check: rules("fires at a fire time"),
  },
  {
    name: "schedule-overlap",
    what: "A schedule that skips overlapping tasks enqueues one for each missed fire time, all at once.",
    file: RULES,
    find: "fireAtMs: isRunning ? [] : all.slice(-1)",
    by: "fireAtMs: isRunning ? [] : all",
    check: simulated("schedules"),
  },
  {
    name: "schedule-local-time",
    what: "Cron expressions are read in the time zone of the machine.",
    file: TIMES,
    find: "timezone: timeZone,",
    by: 'timezone: "UTC",',
    check: tested("packages/leasehold/src/tasks/schedules/times.test.ts", "New_York"),
  },
];
