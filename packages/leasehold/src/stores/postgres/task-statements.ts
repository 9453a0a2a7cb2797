/**
 * The statements of the task store, by the rules in tasks/rules.ts. Each decides a batch of requests
 * about different tasks in one statement that commits by itself:
 *
 *   input ─ held ───────── rows in the state that the request requires, locked in key order
 *             └─ changed ── decided on the locked row version
 *                  ├─ kept ── ended attempts go into the history
 *                  └─ notified ─ one notification per queue with newly claimable tasks
 *
 * - No statement waits for a row lock: SKIP LOCKED. A statement returns only the rows it changed; for
 *   the others a plain read (TASK_STATE) finds the reason: refused, or locked.
 * - Time is clock_timestamp(), read once per statement. Not now(), which is when the transaction began.
 *   A lock is granted at once or not at all, so the time is fresh when it is used.
 * - Tokens are computed from the locked row: larger than the last one, and at least the clock in
 *   microseconds, so they keep growing after a backup is restored.
 * - Only statements that insert an id or a dedupeKey may wait, for another transaction that inserts the
 *   same: ENQUEUE, in key order so that concurrent batches cannot deadlock, and RETRY.
 *
 * Names: c the clock, i the input, t the task, h as held, x as changed. Times go out in microseconds.
 */
import { REPEATED_BYTES } from "../../tasks/payloads.js";
import { SOON_MS, type TaskState } from "../../tasks/port.js";
import { CHANNEL } from "./connection.js";
import { afterMs, type Columns, grantId, unnested } from "./sql-parts.js";

export const CLOCK = "clock AS MATERIALIZED (SELECT clock_timestamp() AS now)";
/** The time of the statement, where a join with the clock would cost the order of an index. */
export const CLOCK_NOW = "(SELECT now FROM clock)";
export const SAME_TASK = (a: string, b: string) =>
  `${a}.namespace = ${b}.namespace AND ${a}.id = ${b}.id`;
export const micros = (time: string) => `(extract(epoch FROM ${time}) * 1000000)::bigint`;

export const KEY: Columns = [
  ["namespace", "text"],
  ["id", "text"],
];
const GRANT: Columns = [...KEY, ["lease_id", "text"], ["token", "bigint"]];

const input = (columns: Columns) => `input AS MATERIALIZED (SELECT * FROM ${unnested(columns)})`;

/**
 * Locks the tasks that match `condition`, also in the version that is then locked; returns their
 * physical positions and `columns`. LATERAL, so that each is looked up by its own key.
 */
const heldWhere = (condition: string, columns = "") => `held AS MATERIALIZED (
    SELECT i.*, t.* FROM (SELECT * FROM input ORDER BY namespace COLLATE "C", id COLLATE "C") i
      CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT t.ctid AS at${columns} FROM leasehold.task t
        WHERE ${SAME_TASK("t", "i")} AND (${condition})
        FOR NO KEY UPDATE OF t SKIP LOCKED
      ) t
  )`;
/**
 * Locked rows are addressed by their physical position (ctid). A row version newer than the statement's
 * snapshot is not found there; like a locked row, it is skipped and retried.
 */
const SAME_PLACE = "t.ctid = h.at";
/** The task has begun, or need not have begun yet. */
export const IN_TIME = (row: string) =>
  `(${row}.start_by IS NULL OR ${row}.start_by > ${CLOCK_NOW} OR ${row}.attempt > 0)`;
/** The grant is live and belongs to the request. */
export const LIVE_GRANT =
  "t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at";

/** Until when an ended task is kept; null: for ever. */
export const KEPT_DONE = afterMs("t.keep_done_ms");
const KEPT_DEAD = afterMs("t.keep_dead_ms");

/** Records the ended grants of `from` as attempts. */
export const keptOf = (from: string, result: string, error = "NULL") => `kept AS (
    INSERT INTO leasehold.attempt
      (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms, started_at,
       heartbeat_at, ended_at, result, error, progress)
    SELECT x.namespace, x.id, x.seq, x.attempt, x.holder, ${grantId("x")}, x.token, x.ttl_ms,
      x.started_at, x.heartbeat_at, c.now, '${result}', ${error}, x.progress
    FROM ${from} CROSS JOIN clock c
  )`;
export const KEPT_COLUMNS = `t.namespace, t.id, t.seq, t.attempt, t.holder, t.lease_id, t.token, t.ttl_ms,
      t.started_at, t.heartbeat_at, t.progress, t.queue, t.state`;

/** Times this close to each other, in milliseconds, share a notification. */
const TOGETHER_MS = 20;
/** One statement announces no more times than this: the first ones. */
const MOST_ANNOUNCED = 100;
/** Announces tasks of `from`, which have the columns of a task, that become due soon. As many rows as notifications. */
export const announced = (from: string) => `
    SELECT pg_notify('${CHANNEL}', json_build_array('task', q.namespace, q.queue, q.in_ms::text)::text)
    FROM (
      SELECT DISTINCT x.namespace, x.queue, i.in_ms FROM ${from} x CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT (ceil(extract(epoch FROM x.scheduled_at - c.now) * 1000 / ${TOGETHER_MS}) * ${TOGETHER_MS})::bigint AS in_ms
      ) i
      WHERE x.scheduled_at > c.now AND i.in_ms <= ${SOON_MS}
      ORDER BY 3 LIMIT ${MOST_ANNOUNCED}
    ) q`;
/**
 * Sends one notification per queue with newly claimable tasks, once per statement.
 * @param also other notifications
 */
export const notifiedOf = (from: string, also?: string) => `notified AS MATERIALIZED (
    SELECT pg_notify('${CHANNEL}', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM ${from}) q${also ? `\n    UNION ALL${also}` : ""}
  )`;
/**
 * Sends one notification per ended task whose result a caller waits for. Where no caller does, it costs a look at an empty
 * table. A subquery, because a join of a batch with the table may read all of it.
 */
export const endedOf = (from = "changed", condition = "true") => `(
    SELECT count(pg_notify('${CHANNEL}', json_build_array('ended', e.namespace, e.id)::text)::text)
    FROM ${from} e WHERE (SELECT EXISTS (SELECT FROM leasehold.result_wait)) AND ${condition} AND (
      SELECT true FROM leasehold.result_wait w WHERE w.namespace = e.namespace AND w.task_id = e.id
    )
  )::int AS ended`;
export const NOTIFIED = `(SELECT count(*) FROM notified)::int AS notified`;

export interface RenewedRow {
  readonly n: number;
  readonly expiresAt: number;
  readonly now: number;
}
/** Values: namespaces, ids, leaseIds, tokens, ttlMs, progress and checkpoint (null: unchanged). */
export const HEARTBEAT = `
WITH ${CLOCK},
  ${input([...GRANT, ["ttl_ms", "int"], ["progress", "text"], ["checkpoint", "text"]])},
  ${heldWhere(LIVE_GRANT)}
UPDATE leasehold.task t SET ttl_ms = h.ttl_ms, heartbeat_at = c.now,
  -- Never shortens a grant: its holder may already trust an older response.
  expires_at = least(t.run_until, greatest(t.expires_at, ${afterMs("h.ttl_ms")})),
  progress = coalesce(h.progress, t.progress), checkpoint = coalesce(h.checkpoint, t.checkpoint)
FROM held h CROSS JOIN clock c
WHERE ${SAME_PLACE}
RETURNING h.n::int AS n, ${micros("t.expires_at")} AS "expiresAt", ${micros("c.now")} AS now`;

export interface ChangedRow {
  readonly n: number;
}
/** Values: namespaces, ids, leaseIds, tokens, outputs. */
export const COMPLETE = `
WITH ${CLOCK},
  ${input([...GRANT, ["output", "text"]])},
  ${heldWhere(LIVE_GRANT)},
  changed AS (
    UPDATE leasehold.task t SET state = 'done', result = 'done', output = h.output,
      finished_at = c.now, delete_at = ${KEPT_DONE}
    FROM held h CROSS JOIN clock c
    WHERE ${SAME_PLACE}
    RETURNING h.n, ${KEPT_COLUMNS}
  ),
  ${keptOf("changed x", "done")}
SELECT x.n::int AS n, ${endedOf()} FROM changed x`;

export interface FailedRow extends ChangedRow {
  readonly state: "pending" | "dead";
  readonly retryInMs: number;
}
/** What a null in the columns `backoff_factor` and `backoff_jitter` says, also if the defaults of the options change. */
export const BACKOFF_OF_NULL = { factor: 2, jitter: 0.5 } as const;
const factor = `coalesce(h.backoff_factor, ${BACKOFF_OF_NULL.factor})`;
const jitter = `coalesce(h.backoff_jitter, ${BACKOFF_OF_NULL.jitter})`;
/** By the rule `backoffMs`. */
const BACKOFF_MS = `round(
    least(h.backoff_ms * power(${factor}, least(h.failures, 60)), h.max_backoff_ms)
    * (1 - ${jitter} * (1 - h.random)))`;
/** Values: namespaces, ids, leaseIds, tokens, errors, retryInMs, final, random. */
export const FAIL = `
WITH ${CLOCK},
  ${input([
    ...GRANT,
    ["error", "text"],
    ["retry_in_ms", "float8"],
    ["final", "bool"],
    ["random", "float8"],
  ])},
  ${heldWhere(
    LIVE_GRANT,
    `, t.failures, t.max_attempts, t.backoff_ms,
      t.max_backoff_ms, t.backoff_factor, t.backoff_jitter`,
  )},
  decided AS (
    SELECT h.*, h.final OR h.failures + 1 >= h.max_attempts AS dead,
      ${afterMs(`coalesce(h.retry_in_ms, ${BACKOFF_MS})`)} AS retry_at
    FROM held h CROSS JOIN clock c
  ),
  changed AS (
    UPDATE leasehold.task t SET result = 'failed', error = h.error, failures = t.failures + 1,
      state = CASE WHEN h.dead THEN 'dead' ELSE 'pending' END,
      finished_at = CASE WHEN h.dead THEN c.now END,
      delete_at = CASE WHEN h.dead THEN ${KEPT_DEAD} END,
      scheduled_at = CASE WHEN h.dead THEN t.scheduled_at ELSE h.retry_at END
    FROM decided h CROSS JOIN clock c
    WHERE ${SAME_PLACE}
    RETURNING h.n, ${KEPT_COLUMNS}, t.error, t.scheduled_at
  ),
  ${keptOf("changed x", "failed", "x.error")},
  ${notifiedOf("changed x CROSS JOIN clock c WHERE x.state = 'pending' AND x.scheduled_at <= c.now")}
SELECT x.n::int AS n, x.state,
  (extract(epoch FROM x.scheduled_at - c.now) * 1000)::float8 AS "retryInMs", ${NOTIFIED}, ${endedOf("changed", "e.state = 'dead'")}
FROM changed x CROSS JOIN clock c`;

/** Values: namespaces, ids, leaseIds, tokens, retryInMs, reasons. */
export const REQUEUE = `
WITH ${CLOCK},
  ${input([...GRANT, ["retry_in_ms", "float8"], ["reason", "text"]])},
  ${heldWhere(LIVE_GRANT)},
  changed AS (
    UPDATE leasehold.task t SET state = 'pending', result = 'returned',
      scheduled_at = coalesce(${afterMs("h.retry_in_ms")}, t.scheduled_at),
      postponed = t.postponed + CASE WHEN h.retry_in_ms IS NULL THEN 0 ELSE 1 END
    FROM held h CROSS JOIN clock c WHERE ${SAME_PLACE}
    RETURNING h.n, ${KEPT_COLUMNS}, h.reason, t.scheduled_at
  ),
  ${keptOf("changed x", "returned", "x.reason")},
  ${notifiedOf("changed x CROSS JOIN clock c WHERE x.scheduled_at <= c.now", announced("changed"))}
SELECT x.n::int AS n, ${NOTIFIED} FROM changed x`;

/** Values: namespaces, ids. */
export const CANCEL = `
WITH ${CLOCK},
  ${input(KEY)},
  ${heldWhere("t.state IN ('pending', 'running')", ", t.state")},
  changed AS (
    UPDATE leasehold.task t SET state = 'cancelled', finished_at = c.now, delete_at = ${KEPT_DEAD},
      result = CASE WHEN h.state = 'running' THEN 'cancelled' ELSE t.result END
    FROM held h CROSS JOIN clock c WHERE ${SAME_PLACE}
    RETURNING h.n, h.state AS before, ${KEPT_COLUMNS}
  ),
  ${keptOf("(SELECT * FROM changed WHERE before = 'running') x", "cancelled")}
SELECT x.n::int AS n, ${endedOf()} FROM changed x`;

/** Another unfinished task with the dedupeKey. */
const RIVAL = (row: string) => `EXISTS (
      SELECT FROM leasehold.task rival WHERE rival.namespace = ${row}.namespace
        AND rival.kind = ${row}.kind AND rival.dedupe_key = ${row}.dedupe_key
        AND rival.state IN ('pending', 'running') AND rival.id <> ${row}.id
    )`;
/**
 * Values: namespaces, ids. Of several tasks with one dedupeKey the first is retried. If a concurrent
 * statement adds one, this statement fails (23505) and finds it on its retry.
 */
export const RETRY = `
WITH ${CLOCK},
  ${input(KEY)},
  ${heldWhere(
    `t.state = 'pending' OR (t.state IN ('dead', 'cancelled', 'expired') AND NOT ${RIVAL("t")})`,
    ", t.kind, t.dedupe_key, t.state",
  )},
  ranked AS (
    SELECT h.*, row_number() OVER (PARTITION BY h.namespace, h.kind, h.dedupe_key ORDER BY h.n) AS rank
    FROM held h
  ),
  changed AS (
    UPDATE leasehold.task t SET state = 'pending', failures = 0, crashes = 0, postponed = 0,
      finished_at = NULL, delete_at = NULL,
      start_by = CASE WHEN h.state = 'pending' THEN t.start_by END,
      scheduled_at = CASE WHEN h.state = 'pending' THEN least(t.scheduled_at, c.now) ELSE c.now END
    FROM ranked h CROSS JOIN clock c
    WHERE ${SAME_PLACE} AND (h.state = 'pending' OR h.dedupe_key IS NULL OR h.rank = 1)
    RETURNING h.n, t.namespace, t.queue
  ),
  ${notifiedOf("changed x")}
SELECT x.n::int AS n, ${NOTIFIED} FROM changed x`;

export interface DeletedRow extends ChangedRow {
  readonly state: Exclude<TaskState, "running">;
}
/** Values: namespaces, ids. */
export const DELETE = `
WITH ${CLOCK},
  ${input(KEY)},
  ${heldWhere("t.state <> 'running'")},
  changed AS (
    DELETE FROM leasehold.task t USING held h WHERE ${SAME_PLACE}
    RETURNING h.n, t.namespace, t.seq, t.state
  ),
  forgotten AS (
    DELETE FROM leasehold.attempt a USING changed x
    WHERE a.namespace = x.namespace AND a.task_seq = x.seq
  )
SELECT x.n::int AS n, x.state FROM changed x`;

export interface TaskStateRow {
  readonly n: number;
  readonly state: TaskState;
  readonly own: boolean;
  readonly live: boolean;
  /** How the last grant ended. */
  readonly result: string | null;
  /** Only from {@link TASK_STATE_AND_OUTPUT}. Null if it is too much together with those before it. */
  readonly output?: string | null;
  readonly retryInMs: number;
  readonly rival: boolean;
}
const taskState = (output: string) => `
WITH ${CLOCK}
SELECT i.n::int AS n, t.state, t.result, o.own, coalesce(c.now < t.expires_at, false) AS live,${output}
  (extract(epoch FROM t.scheduled_at - c.now) * 1000)::float8 AS "retryInMs",
  ${RIVAL("t")} AS rival
FROM ${unnested(GRANT)} JOIN leasehold.task t ON ${SAME_TASK("t", "i")} CROSS JOIN clock c
  CROSS JOIN LATERAL (
    SELECT coalesce(t.lease_id = i.lease_id AND t.token = i.token, false) AS own
  ) o`;
/** Finds why a statement skipped a task. Values: namespaces, ids, leaseIds, tokens. */
export const TASK_STATE = taskState("");
const OUTPUT_BYTES = "CASE WHEN o.own THEN octet_length(t.output) END";
const UP_TO_HERE = `sum(${OUTPUT_BYTES}) OVER (PARTITION BY i.namespace ORDER BY i.n ROWS UNBOUNDED PRECEDING)`;
/** Like {@link TASK_STATE}, with the outputs of the request's own tasks, up to a bound but at least one of each namespace. */
export const TASK_STATE_AND_OUTPUT = taskState(`
  CASE WHEN o.own AND (${UP_TO_HERE} <= ${REPEATED_BYTES} OR ${UP_TO_HERE} = octet_length(t.output))
    THEN t.output END AS output,`);

export interface ReapedRow {
  readonly namespace: string;
  readonly id: string;
  /** Null, like the token, of a task that has not begun in time. */
  readonly holder: string | null;
  readonly token: number | null;
  readonly state: "pending" | "dead" | "expired";
}
/** Ends expired leases, and tasks that have not begun in time. Values: the limit of each. */
export const REAP = `
WITH ${CLOCK},
  held AS MATERIALIZED (
    SELECT t.ctid AS at FROM leasehold.task t
    WHERE t.state = 'running' AND t.expires_at <= (SELECT now FROM clock)
    ORDER BY t.namespace, t.id LIMIT $1::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ),
  changed AS (
    UPDATE leasehold.task t SET result = 'expired', crashes = t.crashes + 1,
      state = CASE WHEN t.crashes + 1 >= t.crash_limit THEN 'dead' ELSE 'pending' END,
      finished_at = CASE WHEN t.crashes + 1 >= t.crash_limit THEN c.now END,
      delete_at = CASE WHEN t.crashes + 1 >= t.crash_limit THEN ${KEPT_DEAD} END
    FROM held h CROSS JOIN clock c WHERE ${SAME_PLACE}
    RETURNING ${KEPT_COLUMNS}
  ),
  ${keptOf("changed x", "expired")},
  ${notifiedOf("changed x WHERE x.state = 'pending'")},
  late AS MATERIALIZED (
    SELECT t.ctid AS at FROM leasehold.task t
    WHERE t.state = 'pending' AND t.start_by <= (SELECT now FROM clock) AND t.attempt = 0
    ORDER BY t.start_by LIMIT $1::int
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ),
  missed AS (
    UPDATE leasehold.task t SET state = 'expired', finished_at = c.now, delete_at = ${KEPT_DEAD}
    FROM late h CROSS JOIN clock c WHERE ${SAME_PLACE}
    RETURNING t.namespace, t.id
  )
SELECT x.namespace, x.id, x.holder, x.token, x.state, ${NOTIFIED}, ${endedOf("changed", "e.state = 'dead'")} FROM changed x
UNION ALL
SELECT x.namespace, x.id, NULL, NULL, 'expired', 0, ${endedOf("missed")} FROM missed x`;

/** Deletes tasks that are to be kept no longer, with their attempts. Values: limit. */
export const COLLECT = `
WITH ${CLOCK},
  held AS MATERIALIZED (
    SELECT t.ctid AS at FROM leasehold.task t
    WHERE t.delete_at <= (SELECT now FROM clock)
    ORDER BY t.delete_at LIMIT $1::int
    FOR UPDATE OF t SKIP LOCKED
  ),
  changed AS (
    DELETE FROM leasehold.task t USING held h WHERE ${SAME_PLACE} RETURNING t.namespace, t.seq
  ),
  forgotten AS (
    DELETE FROM leasehold.attempt a USING changed x
    WHERE a.namespace = x.namespace AND a.task_seq = x.seq
  )
SELECT count(*)::int AS deleted FROM changed`;
