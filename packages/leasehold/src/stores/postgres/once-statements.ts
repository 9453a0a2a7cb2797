/**
 * The statements of `once`. A success is a row that nothing changes; failures are rows of a table of their own, so that
 * the primary key of the first table alone decides who has succeeded.
 *
 *   SUCCEED      locks the row of the lease, records, and RELEASE follows in the same transaction
 *   SUCCEED_IN   in the transaction of the caller: reads the row of the lease and locks nothing, since renewals skip rows
 *                that are locked, and the transaction may be long. If the lease has expired meanwhile and the next holder
 *                records too, one of them waits for the other's key, and finds a row there
 */
import { CLOCK, epochMs, isLive } from "./lease-rows.js";
import { afterMs } from "./sql-parts.js";

/** Of a record that has not ended. */
const IS_KEPT = (row: string) => `(${row}.keep_until IS NULL OR ${row}.keep_until > c.now)`;

export interface RecordRow {
  readonly key: string;
  readonly state: "done" | "failing" | "failed";
  readonly value: string | null;
  readonly by: string;
  readonly at: number;
  readonly token: number;
  readonly failures: number;
  readonly error: string | null;
  readonly nextInMs: number;
  readonly keepUntil: number | null;
}

const recordsWhere = (done: string, failing: string) => `
SELECT o.key, 'done' AS state, o.value, o.holder AS by, ${epochMs("o.done_at")} AS at, o.token, 0 AS failures,
  NULL AS error, 0::float8 AS "nextInMs", ${epochMs("o.keep_until")} AS "keepUntil"
FROM leasehold.once o CROSS JOIN clock c WHERE ${done} AND ${IS_KEPT("o")}
UNION ALL
SELECT f.key, CASE WHEN f.is_last THEN 'failed' ELSE 'failing' END, NULL, f.holder, ${epochMs("f.failed_at")},
  f.token, f.failures, f.error,
  CASE WHEN f.is_last THEN 0 ELSE greatest(0, date_part('epoch', f.next_at - c.now) * 1000) END, NULL
FROM leasehold.once_failure f CROSS JOIN clock c WHERE ${failing}
  AND NOT EXISTS (
    SELECT FROM leasehold.once o WHERE o.namespace = f.namespace AND o.key = f.key AND ${IS_KEPT("o")}
  )`;

/** Values: namespace, key. */
export const GET_ONCE = `WITH ${CLOCK}${recordsWhere("o.namespace = $1 AND o.key = $2", "f.namespace = $1 AND f.key = $2")}`;

const RANGE = (row: string) => `${row}.namespace = $1 AND ${row}.key >= $2
  AND ($3::text IS NULL OR ${row}.key < $3) AND ${row}.key > $4`;
/** Values: namespace, first key, end of the range (null: none), key to begin after, states (null: any), limit. */
export const LIST_ONCE = `WITH ${CLOCK}
SELECT r.* FROM (${recordsWhere(RANGE("o"), RANGE("f"))}
) r WHERE $5::text[] IS NULL OR r.state = ANY ($5) ORDER BY r.key LIMIT $6::int`;

/** In the transaction of a caller, whose driver may read other types in its own way: text and int. */
export interface SucceededRow {
  /** 1: the lease is held under this lease id and token. */
  readonly held: number;
  /** 1: this call has recorded the success. */
  readonly recorded: number;
}
export interface DoneRow {
  readonly token: string;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: string;
}
/** Values: namespace, key. */
export const DONE_BY = `WITH ${CLOCK}
SELECT o.token::text AS token, o.holder AS by, (${epochMs("o.done_at")})::text AS at
FROM leasehold.once o CROSS JOIN clock c WHERE o.namespace = $1 AND o.key = $2 AND ${IS_KEPT("o")}`;

const LOCKED = "FOR NO KEY UPDATE OF l";
/** The live lease. Values: namespace, resource, lease id, token. */
const held = (lock: string) => `held AS MATERIALIZED (
    SELECT l.holder, l.token FROM leasehold.lease l CROSS JOIN clock c
    WHERE l.namespace = $1 AND l.resource = $2 AND l.lease_id = $3 AND l.token = $4::bigint AND ${isLive("l")}
    ${lock}
  )`;

/** Values: namespace, resource, lease id, token, key, value, keepMs. */
const succeed = (lock: string) => `
WITH ${CLOCK},
  ${held(lock)},
  recorded AS (
    INSERT INTO leasehold.once AS o (namespace, key, value, token, holder, done_at, keep_until)
    SELECT $1, $5, $6, h.token, h.holder, c.now, ${afterMs("$7::float8")} FROM held h CROSS JOIN clock c
    ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, token = excluded.token,
      holder = excluded.holder, done_at = excluded.done_at, keep_until = excluded.keep_until
    WHERE o.keep_until <= excluded.done_at
    RETURNING 1
  ),
  forgotten AS (
    DELETE FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $5 AND EXISTS (SELECT FROM recorded)
  )
SELECT (SELECT count(*) FROM held)::int AS held, (SELECT count(*) FROM recorded)::int AS recorded`;

export const SUCCEED = succeed(LOCKED);
export const SUCCEED_IN = succeed("");

export interface FailedOnceRow {
  readonly failures: number;
  readonly state: "failing" | "failed";
}

/** Values: namespace, resource, lease id, token, key, error, maxAttempts (null: any number), retryDelayMs. */
export const FAIL_ONCE = `
WITH ${CLOCK},
  ${held(LOCKED)}
INSERT INTO leasehold.once_failure AS f
  (namespace, key, failures, is_last, error, token, holder, failed_at, next_at)
SELECT $1, $5, 1, coalesce(1 >= $7::int, false), $6, h.token, h.holder, c.now, ${afterMs("$8::float8")}
FROM held h CROSS JOIN clock c
WHERE NOT EXISTS (SELECT FROM leasehold.once o WHERE o.namespace = $1 AND o.key = $5 AND ${IS_KEPT("o")})
ON CONFLICT (namespace, key) DO UPDATE SET failures = f.failures + 1, is_last = coalesce(f.failures + 1 >= $7::int, false),
  error = excluded.error, token = excluded.token, holder = excluded.holder, failed_at = excluded.failed_at,
  next_at = excluded.next_at
RETURNING f.failures, CASE WHEN f.is_last THEN 'failed' ELSE 'failing' END AS state`;

/** The failure that an earlier call of the same grant has recorded. Values: namespace, key, token. */
export const FAILED_BY = `
SELECT f.failures, CASE WHEN f.is_last THEN 'failed' ELSE 'failing' END AS state
FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $2 AND f.token = $3::bigint`;

/** Values: namespace, key. */
export const RETRY_ONCE = `
DELETE FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $2 RETURNING 1 AS deleted`;
/** Values: namespace, key. */
export const DELETE_ONCE = `
WITH failures AS (
    DELETE FROM leasehold.once_failure f WHERE f.namespace = $1 AND f.key = $2 RETURNING 1
  ),
  done AS (
    DELETE FROM leasehold.once o WHERE o.namespace = $1 AND o.key = $2 RETURNING 1
  )
SELECT 1 AS deleted FROM failures UNION ALL SELECT 1 FROM done`;

/** Records whose time is over. Value: limit. */
export const COLLECT_ONCE = `
WITH ${CLOCK},
  old AS MATERIALIZED (
    SELECT o.namespace, o.key FROM leasehold.once o CROSS JOIN clock c
    WHERE o.keep_until <= c.now ORDER BY o.keep_until LIMIT $1::int FOR UPDATE OF o SKIP LOCKED
  )
DELETE FROM leasehold.once o USING old x WHERE o.namespace = x.namespace AND o.key = x.key RETURNING 1 AS deleted`;
