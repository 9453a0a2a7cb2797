/**
 * The statements of schedules. A tick reads the rows that are due (DUE), and FIRE enqueues their tasks:
 *
 *   held ────── the row, locked if it has the revision that was read, and is not paused
 *     └─ moved ── lastFireAt and a new revision
 *          └─ added ── the tasks, with what the row says of them
 *
 * No statement but DECLARE, which may insert, waits for a row lock: what another statement holds is skipped. Names: c the
 * clock, s the schedule, i the input, t the task.
 */

import { LISTED_BYTES, PREVIEW_LENGTH } from "../../tasks/payloads.js";
import type { TaskState } from "../../tasks/port.js";
import { type ConcurrencyRow, concurrencyColumns } from "./concurrency.js";
import { epochMs } from "./lease-rows.js";
import { unnested } from "./sql-parts.js";
import { SCHEDULED_AT } from "./task-enqueue.js";
import { announced, BACKOFF_OF_NULL, CLOCK, NOTIFIED, notifiedOf } from "./task-statements.js";

const TIMING = ["cron", "time_zone", "every_ms"] as const;
const DECLARED = [
  ...TIMING,
  "catch_up",
  "overlap",
  "jitter_ms",
  "kind",
  "queue",
  "priority",
  "data",
  "max_attempts",
  "crash_limit",
  "backoff_ms",
  "max_backoff_ms",
  "keep_done_ms",
  "keep_dead_ms",
  "concurrency_key",
  "concurrency_limit",
  "concurrency_any",
  "version",
  "concurrency_rate",
  "concurrency_rate_ms",
  "max_run_ms",
  "start_by_ms",
  "backoff_factor",
  "backoff_jitter",
] as const;
const TYPES: Readonly<Record<(typeof DECLARED)[number], string>> = {
  cron: "text",
  time_zone: "text",
  every_ms: "bigint",
  catch_up: "int",
  overlap: "text",
  jitter_ms: "bigint",
  kind: "text",
  queue: "text",
  priority: "smallint",
  data: "text",
  max_attempts: "int",
  crash_limit: "int",
  backoff_ms: "bigint",
  max_backoff_ms: "bigint",
  keep_done_ms: "bigint",
  keep_dead_ms: "bigint",
  concurrency_key: "text",
  concurrency_limit: "int",
  concurrency_any: "bool",
  version: "smallint",
  concurrency_rate: "int",
  concurrency_rate_ms: "bigint",
  max_run_ms: "bigint",
  start_by_ms: "bigint",
  backoff_factor: "float8",
  backoff_jitter: "float8",
};
const list = (columns: readonly string[], row?: string) =>
  columns.map((column) => (row ? `${row}.${column}` : column)).join(", ");
const differs = (columns: readonly string[]) =>
  `(${list(columns, "s")}) IS DISTINCT FROM (${list(columns, "excluded")})`;
const NOW_MS = "date_trunc('milliseconds', c.now)";
const NEW_REVISION = "nextval('leasehold.task_seq')";

export interface DeclaredRow {
  readonly revision: number;
  /** Null: the schedule is new. */
  readonly before: number | null;
}
/** Values: namespace, name, the most schedules, then the declaration in the order of its columns. */
export const DECLARE = `
WITH ${CLOCK},
  before AS MATERIALIZED (
    SELECT s.revision FROM leasehold.schedule s WHERE s.namespace = $1 AND s.name = $2
  )
INSERT INTO leasehold.schedule AS s (namespace, name, ${list(DECLARED)}, declared_at, revision, last_fire_at, due_at)
SELECT $1, $2, ${DECLARED.map((column, at) => `$${at + 4}::${TYPES[column]}`).join(", ")},
  c.now, ${NEW_REVISION}, ${NOW_MS}, ${NOW_MS}
FROM clock c
WHERE EXISTS (SELECT FROM before)
  OR (SELECT count(*) FROM leasehold.schedule s WHERE s.namespace = $1) < $3::int
ON CONFLICT (namespace, name) DO UPDATE SET
  ${DECLARED.map((column) => `${column} = excluded.${column}`).join(", ")},
  declared_at = excluded.declared_at,
  revision = CASE WHEN ${differs(DECLARED)} THEN excluded.revision ELSE s.revision END,
  last_fire_at = CASE WHEN ${differs(TIMING)} THEN greatest(s.last_fire_at, excluded.last_fire_at) ELSE s.last_fire_at END,
  due_at = CASE WHEN ${differs(TIMING)} THEN excluded.due_at ELSE s.due_at END
RETURNING s.revision, (SELECT b.revision FROM before b) AS before`;

const LAST_TASK = `LEFT JOIN leasehold.task t ON t.namespace = s.namespace AND t.id = s.last_task_id`;

export interface DueRow {
  readonly now: number;
  /** Null: none is. */
  readonly nextAt: number | null;
  /** Null, as the rest: none is due. */
  readonly namespace: string | null;
  readonly name: string;
  readonly revision: number;
  readonly cron: string | null;
  readonly timeZone: string;
  readonly everyMs: number | null;
  readonly catchUp: number;
  readonly overlap: "allow" | "skip" | "queue";
  readonly jitterMs: number;
  readonly lastFireAt: number;
  readonly waiting: string;
  readonly isRunning: boolean;
}
/** Values: limit, revisions to leave out. Returns one row if none is due. */
export const DUE = `
WITH ${CLOCK}
SELECT ${epochMs("c.now")} AS now, (
    SELECT ${epochMs("min(s.due_at)")} FROM leasehold.schedule s WHERE s.paused_at IS NULL AND s.due_at > c.now
  ) AS "nextAt", d.*
FROM clock c LEFT JOIN LATERAL (
  SELECT s.namespace, s.name, s.revision, s.cron, s.time_zone AS "timeZone", s.every_ms AS "everyMs",
    s.catch_up AS "catchUp", s.overlap, s.jitter_ms AS "jitterMs", ${epochMs("s.last_fire_at")} AS "lastFireAt",
    s.waiting, coalesce(t.state IN ('pending', 'running'), false) AS "isRunning"
  FROM leasehold.schedule s ${LAST_TASK}
  WHERE s.paused_at IS NULL AND s.due_at <= c.now AND s.revision <> ALL ($2::bigint[])
  ORDER BY s.due_at LIMIT $1::int
) d ON true`;

/** Of the tasks. */
export interface FiredRow {
  readonly kind: string;
  readonly queue: string;
  /** Those that were made. */
  readonly taskIds: readonly string[];
}
/**
 * Values: ids and due times of the tasks, namespace, name, revision, lastFireAt, waiting, dueAt, skipped. Returns a row if it
 * has moved the schedule on. Null for revision, lastFireAt, waiting and dueAt leaves them as they are, and the pause too:
 * a task is made beside the fire times.
 */
export const FIRE = `
WITH ${CLOCK},
  held AS MATERIALIZED (
    SELECT s.ctid AS at FROM leasehold.schedule s
    WHERE s.namespace = $3 AND s.name = $4
      AND ($5::bigint IS NULL OR (s.revision = $5 AND s.paused_at IS NULL))
    FOR NO KEY UPDATE OF s SKIP LOCKED
  ),
  fires AS MATERIALIZED (
    SELECT i.*, ${NEW_REVISION} AS seq FROM ${unnested([
      ["id", "text"],
      ["scheduled_ms", "float8"],
    ])}
  ),
  moved AS (
    UPDATE leasehold.schedule s SET revision = ${NEW_REVISION},
      last_fire_at = coalesce(to_timestamp($6::float8 / 1000), s.last_fire_at), waiting = coalesce($7, s.waiting),
      due_at = coalesce(to_timestamp($8::float8 / 1000), s.due_at), skipped = s.skipped + $9::int,
      fired = s.fired + (
        SELECT count(*) FROM fires f
        WHERE NOT EXISTS (SELECT FROM leasehold.task t WHERE t.namespace = s.namespace AND t.id = f.id)
      ),
      last_task_id = coalesce((SELECT f.id FROM fires f ORDER BY f.n DESC LIMIT 1), s.last_task_id)
    FROM held h WHERE s.ctid = h.at
    RETURNING s.*
  ),
  added AS (
    INSERT INTO leasehold.task (namespace, id, seq, state, kind, queue, priority, data,
      max_attempts, crash_limit, backoff_ms, max_backoff_ms, keep_done_ms, keep_dead_ms,
      concurrency_key, concurrency_limit, concurrency_any, concurrency_rate, concurrency_rate_ms,
      version, max_run_ms, start_by, backoff_factor, backoff_jitter, created_at, scheduled_at)
    SELECT m.namespace, f.id, f.seq, 'pending', m.kind, m.queue, m.priority, m.data,
      m.max_attempts, m.crash_limit, m.backoff_ms, m.max_backoff_ms, m.keep_done_ms, m.keep_dead_ms,
      m.concurrency_key, m.concurrency_limit, m.concurrency_any, m.concurrency_rate, m.concurrency_rate_ms, m.version,
      m.max_run_ms, ${SCHEDULED_AT("f")} + m.start_by_ms * interval '1 millisecond',
      m.backoff_factor, m.backoff_jitter, c.now, ${SCHEDULED_AT("f")}
    FROM moved m CROSS JOIN fires f CROSS JOIN clock c ORDER BY f.n
    ON CONFLICT DO NOTHING
    RETURNING namespace, id, queue, created_at, scheduled_at
  ),
  ${notifiedOf("added x WHERE x.scheduled_at <= x.created_at", announced("added"))}
SELECT m.kind, m.queue, ${NOTIFIED},
  ARRAY(SELECT a.id FROM added a JOIN fires f USING (id) ORDER BY f.n) AS "taskIds" FROM moved m`;

export interface ScheduleRow
  extends Omit<DueRow, "now" | "nextAt" | "namespace" | "isRunning">,
    ConcurrencyRow {
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly data: string;
  readonly maxAttempts: number;
  readonly crashLimit: number;
  readonly firstMs: number;
  readonly longestMs: number;
  readonly factor: number;
  readonly jitter: number;
  readonly keepDoneMs: number | null;
  readonly keepDeadMs: number | null;
  readonly version: number;
  readonly maxRunMs: number | null;
  readonly startByMs: number | null;
  readonly declaredAt: number;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  readonly pauseReason: string | null;
  readonly fired: number;
  readonly skipped: number;
  readonly taskId: string | null;
  readonly taskState: TaskState | null;
  readonly taskFinishedAt: number | null;
  readonly taskError: string | null;
}
const VIEW = `SELECT s.name, s.revision, s.cron, s.time_zone AS "timeZone", s.every_ms AS "everyMs", s.catch_up AS "catchUp",
  s.overlap, s.jitter_ms AS "jitterMs", s.kind, s.queue, s.priority, s.data, s.max_attempts AS "maxAttempts",
  s.crash_limit AS "crashLimit", s.backoff_ms AS "firstMs", s.max_backoff_ms AS "longestMs",
  coalesce(s.backoff_factor, ${BACKOFF_OF_NULL.factor}) AS factor,
  coalesce(s.backoff_jitter, ${BACKOFF_OF_NULL.jitter}) AS jitter,
  s.keep_done_ms AS "keepDoneMs", s.keep_dead_ms AS "keepDeadMs", ${concurrencyColumns("s")}, s.version, s.max_run_ms AS "maxRunMs",
  s.start_by_ms AS "startByMs", ${epochMs("s.declared_at")} AS "declaredAt",
  ${epochMs("s.paused_at")} AS "pausedAt", s.paused_by AS "pausedBy", s.pause_reason AS "pauseReason",
  ${epochMs("s.last_fire_at")} AS "lastFireAt", s.waiting, s.fired, s.skipped, s.last_task_id AS "taskId",
  t.state AS "taskState", ${epochMs("t.finished_at")} AS "taskFinishedAt",
  CASE WHEN octet_length(t.error) > ${LISTED_BYTES} THEN left(t.error, ${PREVIEW_LENGTH}) || '…' ELSE t.error END AS "taskError"
FROM leasehold.schedule s ${LAST_TASK}`;
/** Values: namespace, name. */
export const GET_SCHEDULE = `
${VIEW} WHERE s.namespace = $1 AND s.name = $2`;
/** Values: namespace, name to begin after, limit. */
export const LIST_SCHEDULES = `
${VIEW} WHERE s.namespace = $1 AND s.name > $2 ORDER BY s.name LIMIT $3::int`;

/** Values: namespace, name, who pauses, why. Returns a row if it was not paused. */
export const PAUSE_SCHEDULE = `
WITH ${CLOCK}
UPDATE leasehold.schedule s SET paused_at = c.now, paused_by = $3, pause_reason = $4, revision = ${NEW_REVISION}
FROM clock c WHERE s.namespace = $1 AND s.name = $2 AND s.paused_at IS NULL
RETURNING 1 AS changed`;
/** Values: namespace, name. Returns a row if it was paused. */
export const RESUME_SCHEDULE = `
WITH ${CLOCK}
UPDATE leasehold.schedule s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, revision = ${NEW_REVISION},
  last_fire_at = greatest(s.last_fire_at, ${NOW_MS}), due_at = ${NOW_MS}
FROM clock c WHERE s.namespace = $1 AND s.name = $2 AND s.paused_at IS NOT NULL
RETURNING 1 AS changed`;
/** Values: namespace, name. */
export const REMOVE_SCHEDULE = `
DELETE FROM leasehold.schedule s WHERE s.namespace = $1 AND s.name = $2 RETURNING 1 AS changed`;
