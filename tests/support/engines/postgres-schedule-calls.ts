/** Calls that send every statement of schedules in PostgreSQL. */
import type { Call } from "./postgres-store-calls.js";

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

export const SCHEDULE_CALLS: readonly Call[] = [
  ({ schedules }) => schedules.declare({ ...key, declaration }),
  ({ schedules }) => schedules.get(key),
  ({ schedules }) => schedules.list({ namespace: "default" }),
  ({ schedules }) => schedules.ticking?.due(100, [7]) ?? Promise.resolve(),
  ({ schedules }) => schedules.ticking?.fire(fire) ?? Promise.resolve(),
  ({ schedules }) => schedules.pause({ ...key, by: "cli:ada", reason: null }),
  ({ schedules }) => schedules.resume(key),
  ({ schedules }) => schedules.remove(key),
];
