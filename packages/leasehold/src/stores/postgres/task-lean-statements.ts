/**
 * The statements for the common case: a first claim from one queue, and completions of different tasks of one
 * namespace. What they leave undecided, the general statements decide (task-claim-statements.ts, task-statements.ts):
 *
 *   claim ─▶ lean statement ─▶ tasks, or none is due
 *              └─ repeated, too much data, keys are due, or a limit ─▶ general statement
 *   completes ─▶ lean statement ─▶ the numbers of those that it completed
 *                  └─ the rest ─▶ general statement ─▶ refused, repeated, locked, ...
 *
 * They follow the rules of the general statements: no wait for a row lock, locks in the order of the keys or of the
 * queue, one time for the whole statement, tokens from the locked row, every ended grant in the history. What they
 * leave out, and why that is safe:
 *
 * - The claim adds up the data instead of measuring task by task. If it is more than a claim may return, or if the
 *   claim is recorded already, it takes nothing. Nor does it if tasks with a concurrency key are due, or if a limit
 *   concerns it.
 * - The claim returns no value that its request has, and null for what most tasks have.
 * - A completion names its namespace once, and returns one row.
 */
import { CLAIMED_BYTES } from "../../tasks/payloads.js";
import {
  CLAIM_DIGEST,
  claimedLeaseId,
  claimedUntil,
  IN_ORDER,
  LEAN_PICK,
} from "./task-claim-statements.js";
import {
  CLOCK,
  endedOf,
  KEPT_COLUMNS,
  KEPT_DONE,
  keptOf,
  LIVE_GRANT,
  micros,
} from "./task-statements.js";

export interface LeanClaimedRow {
  /** Null in the only row of a claim that took nothing. */
  readonly id: string | null;
  /** Of a claim that took nothing: whether it is left to the general statement. */
  readonly undecided: boolean | null;
  /** Of a claim that took nothing: whether a limit concerns it. */
  readonly limited: boolean | null;
  /** Null if it is the token, as for most tasks. */
  readonly now: number | null;
  readonly kind: string;
  readonly priority: number | null;
  readonly data: string;
  readonly leaseId: string;
  readonly token: number;
  readonly attempt: number | null;
  readonly failures: number | null;
  readonly crashes: number | null;
  readonly maxAttempts: number;
  readonly dedupeKey: string | null;
  readonly scheduledAt: number;
  readonly version: number | null;
  readonly previousHolder: string | null;
  readonly checkpoint: string | null;
  readonly maxRunMs: number | null;
  readonly postponed: number | null;
}

/**
 * Values: namespace, claimId, holder, ttlMs, limit, kinds, graceMs, queue. Floating point has the microseconds of every due task,
 * and costs a fraction of an exact `extract`.
 */
export const CLAIM_FIRST = `
WITH clock AS MATERIALIZED (
    SELECT n.now, ${micros("n.now")} AS micros FROM (SELECT clock_timestamp() AS now) n
  ),
  ${CLAIM_DIGEST},
  earlier AS MATERIALIZED (
    SELECT FROM leasehold.claim n WHERE n.namespace = $1 AND n.claim_id = $2
  ),
  ${LEAN_PICK("t.seq")},
  claimed AS (
    UPDATE leasehold.task t SET state = 'running', attempt = t.attempt + 1,
      previous_holder = t.holder, holder = $3, lease_id = ${claimedLeaseId("t.seq")},
      token = greatest(t.token + 1, c.micros), ttl_ms = $4::int, started_at = c.now,
      heartbeat_at = NULL, ${claimedUntil("$4::int")}, result = NULL, progress = NULL
    FROM clock c
    WHERE t.namespace = $1 AND t.seq = ANY (ARRAY(
      SELECT p.seq FROM picked p WHERE (SELECT sum(b.bytes) FROM picked b) <= ${CLAIMED_BYTES}
    ))
    RETURNING t.id, t.seq, t.kind, t.priority, t.data, t.lease_id, t.token, t.attempt, t.failures,
      t.crashes, t.max_attempts, t.dedupe_key, t.scheduled_at, t.version, t.previous_holder, t.checkpoint,
      t.max_run_ms, t.postponed
  ),
  noted AS (
    INSERT INTO leasehold.claim (namespace, claim_id, task_seqs, claimed_at)
    SELECT $1, $2, array_agg(x.seq), c.now FROM claimed x CROSS JOIN clock c GROUP BY c.now
  )
SELECT x.id, x.kind, nullif(x.priority, 0) AS priority, x.data, x.lease_id AS "leaseId",
  x.token, nullif(x.attempt, 1) AS attempt, nullif(x.failures, 0) AS failures, nullif(x.crashes, 0) AS crashes,
  x.max_attempts AS "maxAttempts", x.dedupe_key AS "dedupeKey",
  (date_part('epoch', x.scheduled_at) * 1000000)::bigint AS "scheduledAt",
  nullif(x.version, 1) AS version, x.previous_holder AS "previousHolder", x.checkpoint, x.max_run_ms AS "maxRunMs",
  nullif(x.postponed, 0) AS postponed, nullif(c.micros, x.token) AS now,
  CASE WHEN x.id IS NULL THEN EXISTS (SELECT FROM earlier) OR EXISTS (SELECT FROM picked)
    OR EXISTS (SELECT FROM keyed) OR EXISTS (SELECT FROM limited) END AS undecided,
  CASE WHEN x.id IS NULL THEN EXISTS (SELECT FROM limited) END AS limited
FROM clock c LEFT JOIN claimed x ON true
ORDER BY ${IN_ORDER("x")}`;

export interface CompletedRow {
  /** The numbers of the completed requests. */
  readonly completed: string | null;
}

/** Values: namespace, ids, leaseIds, tokens, outputs. */
export const COMPLETE_LIVE = `
WITH ${CLOCK},
  held AS MATERIALIZED (
    SELECT i.n, i.output, t.at
    FROM (
      SELECT * FROM unnest((SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[]), (SELECT $5::text[]))
        WITH ORDINALITY AS i (id, lease_id, token, output, n)
      ORDER BY i.id COLLATE "C"
    ) i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT t.ctid AS at FROM leasehold.task t
      WHERE t.namespace = $1 AND t.id = i.id AND ${LIVE_GRANT}
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
  ),
  changed AS (
    UPDATE leasehold.task t SET state = 'done', result = 'done', output = h.output,
      finished_at = c.now, delete_at = ${KEPT_DONE}
    FROM held h CROSS JOIN clock c
    WHERE t.ctid = h.at
    RETURNING h.n, ${KEPT_COLUMNS}
  ),
  ${keptOf("changed x", "done")}
SELECT string_agg(x.n::text, ',') AS completed, ${endedOf()} FROM changed x`;
