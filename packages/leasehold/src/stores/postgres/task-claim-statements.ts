/**
 * The statement that claims tasks.
 *
 *   earlier ─ none ─▶ picked ─▶ measured ─▶ claimed ─▶ noted
 *      │                            └─ due tasks whose data is too much ─▶ notified
 *      └──── repeated claim ─▶ own
 */
import { CLAIMED_BYTES } from "../../tasks/payloads.js";
import type { Parameter } from "./connection.js";
import { afterMs, unnested } from "./sql-parts.js";
import type { Run } from "./task-calls.js";
import {
  KEYED_LEFT,
  KEYS_RESUME,
  keyedDue,
  keyedHeads,
  pickedOfBoth,
  VERSION_TAKEN,
} from "./task-key-statements.js";
import {
  CHARGED,
  IS_LIMITED,
  LIMITS_RESUME,
  limitedBy,
  limitedPlain,
  limitsSeen,
  OPEN_KEY,
  PASSED_OVER,
} from "./task-limited-claim.js";
import {
  CLOCK,
  CLOCK_NOW,
  IN_TIME,
  KEY,
  micros,
  NOTIFIED,
  notifiedOf,
  SAME_TASK,
} from "./task-statements.js";

/** `claimDigestOf` the value $2, in the parts that its lease ids have. */
export const CLAIM_DIGEST = `digest AS MATERIALIZED (
    SELECT left(d.hex, 8) AS public, substr(d.hex, 17, 32) AS secret
    FROM (SELECT encode(sha256(convert_to($2, 'UTF8')), 'hex') AS hex) d
  )`;
/** `taskLeaseId`. The subqueries run once a statement, not once a task. */
export const claimedLeaseId = (seq: string) =>
  `(SELECT d.public FROM digest d) || lpad(to_hex(${seq} & 4294967295), 8, '0')
        || (SELECT d.secret FROM digest d)`;

export interface ClaimedRow {
  /** Null in the only row of a claim that took nothing. */
  readonly id: string | null;
  /** Of a claim that took nothing: tasks with a key or a limit are due, and it was for those without, or could not take them yet. */
  readonly undecided: boolean;
  /** Whether a limit concerns the claim. */
  readonly limited: boolean;
  /** Of a claim that took nothing: when a rate lets tasks start again, in milliseconds; null: none keeps any back. */
  readonly retryInMs: number | null;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly data: string;
  readonly leaseId: string;
  readonly token: number;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly dedupeKey: string | null;
  readonly scheduledAt: number;
  readonly version: number;
  readonly previousHolder: string | null;
  readonly checkpoint: string | null;
  /** Another than that of the request if it repeats the claim of another holder. */
  readonly holder: string;
  readonly maxRunMs: number | null;
  readonly postponed: number;
  readonly ttlMs: number;
  readonly expiresAt: number;
  readonly now: number;
  readonly notified: number;
}

/** The value of a claim that has its first queue. */
const FIRST_QUEUE = 8;

/** What a claim sets of a task. Its lease ends with the time that the task may run, and the grace $7. */
const UNTIL = afterMs("(t.max_run_ms + $7::bigint)");
export const claimedUntil = (ttlMs: string) =>
  `expires_at = least(${afterMs(ttlMs)}, ${UNTIL}), run_until = ${UNTIL}`;

const DUE = `t.namespace = $1 AND t.state = 'pending' AND t.concurrency_key IS NULL
        AND t.scheduled_at <= ${CLOCK_NOW} AND ${IN_TIME("t")}
        AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[])) AND ${VERSION_TAKEN("t")}
        AND NOT EXISTS (SELECT FROM earlier)`;
/** For statements that take no task with a key or a limit. */
const UNKEYED_DUE = `${DUE} AND NOT EXISTS (SELECT FROM keyed) AND NOT EXISTS (SELECT FROM limited)`;
const BYTES = "octet_length(t.data) + coalesce(octet_length(t.checkpoint), 0)";
export const IN_ORDER = (row: string) => `${row}.priority, ${row}.scheduled_at, ${row}.seq`;
const PICKED = (row: string) => `${row}.namespace, ${row}.queue, ${IN_ORDER(row)}`;

/**
 * Pending tasks of one queue come out of the index in claim order, so a claim reads only as many as
 * its limit.
 */
const pickedOfOne = (columns: string, due: string) => `
    SELECT ${columns}, ${BYTES} AS bytes FROM leasehold.task t
    WHERE t.queue = $${FIRST_QUEUE} AND ${due}
    ORDER BY ${IN_ORDER("t")} LIMIT $5::int
    FOR NO KEY UPDATE OF t SKIP LOCKED`;

/**
 * Merges the ordered tasks of several queues, reading only as far as the claim needs. LATERAL ensures
 * that: rows are looked up and locked one by one until there are enough. The limit per queue exceeds
 * the number of rows that concurrent claims may have locked; without a limit the planner would sort the
 * backlog.
 */
const pickedOfMany = (queues: number, due: string) => `
    SELECT ${PICKED("q")}, t.bytes FROM (
      ${Array.from(
        { length: queues },
        (
          _,
          at,
        ) => `(SELECT t.namespace, t.queue, t.seq, t.priority, t.scheduled_at FROM leasehold.task t
        WHERE t.queue = $${FIRST_QUEUE + at} AND ${due}
        ORDER BY ${IN_ORDER("t")} LIMIT 10 * $5::int + 100)`,
      ).join("\n      UNION ALL\n      ")}
      ORDER BY 4, 5, 3
    ) q CROSS JOIN LATERAL (
      SELECT ${BYTES} AS bytes FROM leasehold.task t
      WHERE t.namespace = q.namespace AND t.seq = q.seq AND t.state = 'pending'
        AND t.scheduled_at <= ${CLOCK_NOW}
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
    ORDER BY ${IN_ORDER("q")} LIMIT $5::int`;

const CLAIMED_COLUMNS = (row: string) => `${row}.id, ${row}.kind, ${row}.queue,
  ${row}.priority, ${row}.data, ${row}.lease_id AS "leaseId", ${row}.token, ${row}.attempt,
  ${row}.failures, ${row}.crashes, ${row}.max_attempts AS "maxAttempts",
  ${row}.dedupe_key AS "dedupeKey", ${row}.holder, ${micros(`${row}.scheduled_at`)} AS "scheduledAt",
  ${row}.version, ${row}.previous_holder AS "previousHolder", ${row}.checkpoint, ${row}.max_run_ms AS "maxRunMs",
  ${row}.postponed, ${row}.ttl_ms AS "ttlMs",
  ${micros(`${row}.expires_at`)} AS "expiresAt", ${micros("c.now")} AS now`;

/**
 * For how many queues the statement of a claim is: the next power of two, so that there are few such statements. Each
 * connection keeps the plans of those that it has run, of some 30 KB for each queue.
 */
export function claimedPlaces(queues: number): number {
  return 2 ** Math.ceil(Math.log2(queues));
}

const placesOf = (queues: number) =>
  Array.from({ length: queues }, (_, at) => `$${FIRST_QUEUE + at}::text`).join(", ");
const picked = (queues: number, due: string) =>
  queues === 1 ? pickedOfOne(PICKED("t"), due) : pickedOfMany(queues, due);

const pickedWithout = (queues: number) => `${keyedDue(placesOf(queues))},
  ${limitedBy(placesOf(queues))},
  picked AS MATERIALIZED (${picked(queues, UNKEYED_DUE)}
  )`;
/** Like the pick of {@link claimSql}, for the lean statement: of the first queue, with `columns`. */
export const LEAN_PICK = (columns: string) => `${keyedDue(placesOf(1))},
  ${limitedBy(placesOf(1))},
  picked AS MATERIALIZED (${pickedOfOne(columns, UNKEYED_DUE)}
  )`;
const pickedWithKeys = (queues: number) => `${keyedHeads(placesOf(queues), BYTES)},
  plain AS MATERIALIZED (${picked(queues, DUE)}
  ),
  picked AS MATERIALIZED (${pickedOfBoth(IN_ORDER("h"))}
  )`;
const pickedWithLimits = (queues: number) => `${limitsSeen(placesOf(queues))},
  ${keyedHeads(placesOf(queues), BYTES, OPEN_KEY)},
  ${limitedPlain(placesOf(queues), BYTES, IN_ORDER("x"))},
  picked AS MATERIALIZED (${pickedOfBoth(IN_ORDER("h"), "allowed_heads")}
  )`;
/** A claim that takes fewer than it may has perhaps not looked at all keys: the next one does. */
const LEFT_WITH_KEYS = `(
      SELECT m.namespace, m.queue FROM measured m WHERE NOT m.fits
      UNION ALL
      SELECT l.namespace, l.queue FROM looked l
      WHERE (SELECT count(*) FROM measured m WHERE m.fits) BETWEEN 1 AND $5::int - 1
    ) x`;

/** Which tasks the statement may take. If others are due, it takes nothing. */
export type ClaimMode = "plain" | "keyed" | "limited";
const PICKED_BY: Readonly<Record<ClaimMode, (queues: number) => string>> = {
  plain: pickedWithout,
  keyed: pickedWithKeys,
  limited: pickedWithLimits,
};
const MS_UNTIL = (time: string) => `(extract(epoch FROM ${time} - c.now) * 1000)::float8`;
const OUTCOME: Readonly<Record<ClaimMode, string>> = {
  plain: `x.id IS NULL AND (EXISTS (SELECT FROM keyed) OR EXISTS (SELECT FROM limited)) AS undecided,
  EXISTS (SELECT FROM limited) AS limited, NULL::float8 AS "retryInMs"`,
  keyed: `x.id IS NULL AND EXISTS (SELECT FROM looked) AS undecided,
  false AS limited, ${MS_UNTIL(KEYS_RESUME)} AS "retryInMs"`,
  limited: `x.id IS NULL AND (EXISTS (SELECT FROM looked) OR ${PASSED_OVER}) AS undecided,
  true AS limited, ${MS_UNTIL(`least(${KEYS_RESUME}, ${LIMITS_RESUME})`)} AS "retryInMs"`,
};

/**
 * Values: namespace, claimId, holder, ttlMs, limit, kinds, graceMs, then each queue, or null for none. A claim that took tasks is
 * recorded, and a repetition returns those still running. If a claim runs twice concurrently, only one
 * can be recorded: the other fails (23505) and finds the record on its retry.
 * @internal
 */
export const claimSql = (queues: number, how: ClaimMode) => `
WITH ${CLOCK},
  ${CLAIM_DIGEST},
  earlier AS MATERIALIZED (
    SELECT n.task_seqs FROM leasehold.claim n WHERE n.namespace = $1 AND n.claim_id = $2
  ),
  ${PICKED_BY[how](queues)},
  -- The size of a value is in its header: no data is read here.
  measured AS MATERIALIZED (
    SELECT p.namespace, p.queue, p.seq, p.bytes = sum(p.bytes) OVER upto
      OR sum(p.bytes) OVER upto <= ${CLAIMED_BYTES} AS fits
    FROM picked p WINDOW upto AS (ORDER BY ${IN_ORDER("p")} ROWS UNBOUNDED PRECEDING)
  ),
  -- This statement has locked them, so a concurrent claim may have found nothing.
  ${notifiedOf(how === "plain" ? "measured x WHERE NOT x.fits" : LEFT_WITH_KEYS)},
  claimed AS (
    UPDATE leasehold.task t SET state = 'running', attempt = t.attempt + 1,
      previous_holder = t.holder, holder = $3, lease_id = ${claimedLeaseId("t.seq")},
      token = greatest(t.token + 1, ${micros("c.now")}), ttl_ms = $4::int, started_at = c.now,
      heartbeat_at = NULL, ${claimedUntil("$4::int")}, result = NULL, progress = NULL${
        how === "limited" ? `,\n      limited = ${IS_LIMITED}` : ""
      }
    FROM clock c
    -- Not a join, for which the planner may scan the whole table.
    WHERE t.namespace = $1 AND t.seq = ANY (ARRAY(SELECT p.seq FROM measured p WHERE p.fits))
    RETURNING t.*
  ),
  noted AS (
    INSERT INTO leasehold.claim (namespace, claim_id, task_seqs, claimed_at)
    SELECT $1, $2, array_agg(x.seq), c.now FROM claimed x CROSS JOIN clock c GROUP BY c.now
  ),
  own AS (
    SELECT t.* FROM earlier CROSS JOIN unnest(earlier.task_seqs) AS e (seq)
      JOIN leasehold.task t ON t.namespace = $1 AND t.seq = e.seq CROSS JOIN clock c
    WHERE t.state = 'running' AND t.lease_id = ${claimedLeaseId("t.seq")}
      AND c.now < t.expires_at
  )${how === "plain" ? "" : `,\n  ${KEYED_LEFT}`}${how === "limited" ? `,\n  ${CHARGED}` : ""}
SELECT ${CLAIMED_COLUMNS("x")}, ${NOTIFIED},
  ${OUTCOME[how]}
FROM clock c LEFT JOIN (SELECT * FROM claimed UNION ALL SELECT * FROM own) x ON true
ORDER BY ${IN_ORDER("x")}`;

/** Looks of one claim at keys that must wait, or that another claim has locked. */
const LOOKS = 10;

interface Claimed {
  /** Of the tasks that the claim took, or had taken. */
  readonly rows: readonly (ClaimedRow & { readonly id: string })[];
  readonly retryInMs: number | null;
}

/** @param pause called before another look at what other claims have locked, with the number of looks so far */
export async function claimedRows(
  run: Run,
  places: number,
  how: ClaimMode,
  values: readonly Parameter[],
  pause: (looks: number) => Promise<void>,
): Promise<Claimed> {
  let rows = await run<ClaimedRow>(claimSql(places, how), values);
  let least = Number.POSITIVE_INFINITY;
  for (let looks = 1; rows[0]?.undecided && looks < LOOKS; looks += 1) {
    least = Math.min(least, rows[0].retryInMs ?? least);
    if (how === "limited") await pause(looks);
    rows = await run<ClaimedRow>(claimSql(places, rows[0].limited ? "limited" : "keyed"), values);
  }
  least = Math.min(least, rows[0]?.retryInMs ?? least);
  return {
    rows: rows.filter((row) => row.id !== null) as (ClaimedRow & { readonly id: string })[],
    retryInMs: Number.isFinite(least) ? Math.max(0, Math.ceil(least)) : null,
  };
}

/** Values: how long claims are kept, in milliseconds. */
export const FORGET_CLAIMS = `
DELETE FROM leasehold.claim
WHERE claimed_at < clock_timestamp() - $1::float8 * interval '1 millisecond'`;

/** Deletes old attempts. Values: namespaces, ids, the attempts up to which. */
export const FORGET_ATTEMPTS = `
DELETE FROM leasehold.attempt a
USING ${unnested([...KEY, ["attempt", "int"]])}
  JOIN leasehold.task t ON ${SAME_TASK("t", "i")}
WHERE a.namespace = t.namespace AND a.task_seq = t.seq AND a.attempt <= i.attempt`;
