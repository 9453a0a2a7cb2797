/** The statements of schedules in PostgreSQL. */
import { type Call, sql } from "./postgres-statements.js";

const key = { namespace: "default", name: "nightly" };
const task = {
  kind: "report",
  queue: "default",
  priority: 0,
  data: null,
  maxAttempts: 10,
  crashLimit: 10,
  backoff: { firstMs: 1_000, longestMs: 1_000, factor: 2, jitter: 0.5 },
  retain: { doneMs: null, deadMs: null },
  concurrency: null,
  version: 1,
  maxRunMs: null,
  startByMs: null,
};
const times = { cron: "0 2 * * *", timeZone: "UTC", everyMs: null, jitterMs: 0 };
const declaration = { ...times, catchUp: "last", overlap: "skip", task } as const;
const fire = {
  ...key,
  revision: 1,
  fires: [{ id: "nightly@1970-01-01T02:00:00.000Z", scheduledAtMs: 7_200_000 }],
  lastFireAtMs: 7_200_000,
  waiting: [],
  dueAtMs: 93_600_000,
  skipped: 0,
};
const CHANGED = [{ changed: 1 }];

export const SCHEDULE_CALLS: readonly Call[] = [
  [
    ({ schedules }) => schedules.declare({ ...key, declaration }),
    sql(
      "schedule-declare",
      "Adds a schedule, or changes what is declared of it. A pause stays.",
      "namespace name mostSchedules cron timeZone everyMs catchUp overlap jitterMs kind queue priority data maxAttempts crashLimit backoffMs maxBackoffMs keepDoneMs keepDeadMs concurrencyKey concurrencyLimit concurrencyAny version rateLimit ratePerMs maxRunMs startByMs backoffFactor backoffJitter",
    ),
  ],
  [
    ({ schedules }) => schedules.get(key),
    sql("schedule-get", "Reads a schedule, with its last task.", "namespace name"),
  ],
  [
    ({ schedules }) => schedules.list({ namespace: "default" }),
    sql("schedule-list", "Reads a page of schedules, by name.", "namespace afterName limit"),
  ],
  [
    ({ schedules }) => schedules.ticking?.due(100, [7]) ?? Promise.resolve(),
    sql("schedule-due", "Reads the schedules of all namespaces that are due.", "limit revisions"),
  ],
  [
    ({ schedules }) => schedules.ticking?.fire(fire) ?? Promise.resolve(),
    sql(
      "schedule-fire",
      "Enqueues tasks and moves their schedule on, unless it has changed since it was read.",
      "ids scheduledMs namespace name revision lastFireMs waiting dueMs skipped",
    ),
  ],
  [
    ({ schedules }) => schedules.pause({ ...key, by: "cli:ada", reason: null }),
    sql(
      "schedule-pause",
      "Pauses a schedule that is not paused.",
      "namespace name by reason",
      CHANGED,
    ),
  ],
  [
    ({ schedules }) => schedules.resume(key),
    sql("schedule-resume", "Resumes a paused schedule, from now on.", "namespace name", CHANGED),
  ],
  [
    ({ schedules }) => schedules.remove(key),
    sql("schedule-remove", "Deletes a schedule.", "namespace name", CHANGED),
  ],
];
