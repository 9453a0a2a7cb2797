/**
 * The part of a claim that takes tasks with a concurrency key, by the rules in tasks/keys.ts.
 *
 *   looked ── rows of due_key, in claim order, locked
 *     └─▶ own_keys ── their keys, locked, as this statement sees them
 *           ├─▶ examined ─▶ heads ── the tasks that may run next, as many as the key has free places
 *           │                 └─ not claimed after all ─▶ again
 *           └─▶ forgotten ── the rows of these keys that it has looked at: deleted
 *
 * - No more tasks of a key run than its limit: all claims of a key follow each other. The statement counts its running
 *   tasks by its own snapshot, so it must see every earlier claim. Each claim therefore changes the row of the key: a
 *   version newer than the snapshot is not found by its position (see task-statements.ts), and the key is passed over.
 * - No task is missed: whatever may make a task claimable inserts a row into due_key in the same transaction. A claim
 *   deletes only rows that it sees, and so has seen what they are about; what it leaves, it inserts again.
 * - It waits only for claims that add the row of the same key, in the order of keys.
 */

import type { ClaimRequest } from "../../tasks/port.js";
import { FIRST_VERSION, versionTaken } from "../../tasks/port.js";
import { CLOCK_NOW, IN_TIME } from "./task-statements.js";

/**
 * The kinds of a claim as its value $6: their names, and for each later version that it takes, the name and the version.
 * Nearly all tasks are of the first version, and this costs them a comparison of two numbers.
 */
export function kindsTaken(request: Pick<ClaimRequest, "kinds" | "versions">): string[] | null {
  if (!request.kinds || !request.versions) return request.kinds && [...request.kinds];
  return request.kinds.flatMap((kind) => {
    const later = Math.max(0, versionTaken(request, kind) - FIRST_VERSION);
    return [kind, ...Array.from({ length: later }, (_, at) => `${kind}\x01${at + 2}`)];
  });
}
/** Whether the claim takes the version of the row, which is a task or has a kind and a version like one. */
export const VERSION_TAKEN = (row: string) => `(${row}.version = 1 OR $6::text[] IS NULL
          OR ${row}.kind || E'\\x01' || ${row}.version = ANY ($6::text[]))`;
const isCurrent = (row: string, perMs: string) =>
  `coalesce(c.now >= ${row}.window_start AND c.now < ${endOf(`${row}.window_start`, perMs)}, false)`;
const endOf = (start: string, perMs: string) => `${start} + ${perMs} * interval '1 millisecond'`;
/** Of the rate of a key or a limit: whether its last window is under way, when it ends, and how many it lets start. */
export const windowOf = (row: string, limit: string, perMs: string) => `
        SELECT v.current, ${endOf(`${row}.window_start`, perMs)} AS ends_at,
          CASE WHEN v.current THEN ${limit} - ${row}.window_used ELSE ${limit} END AS permits
        FROM (SELECT ${isCurrent(row, perMs)} AS current) v`;

/** Whether tasks with a key are due in one of the queues: then the claim is left to the statement that can take them. */
export const keyedDue = (queues: string) => `keyed AS MATERIALIZED (
    SELECT FROM leasehold.due_key d
    WHERE d.namespace = $1 AND d.queue = ANY (ARRAY[${queues}]) AND d.due_at <= ${CLOCK_NOW}
    LIMIT 1
  )`;

const SAME_KEY = (row: string) => `${row}.namespace = k.namespace AND ${row}.queue = k.queue
          AND ${row}.kind = k.kind`;
/** The task t is one of the key k. */
export const OF_KEY = `${SAME_KEY("t")} AND t.concurrency_key = k.key`;
/** The task t runs, as the indexes of running tasks by key and by limit have it: see baseline-task-limits.ts. */
export const RUNS = "t.state || '' = 'running'";
/** The number of the task t, as the index of keys has it: see baseline-task-limits.ts. */
export const NUMBER = "(t.seq + 0)";

/**
 * @param bytes the size of the task t
 * @param open a condition on the due row d
 */
export const keyedHeads = (
  queues: string,
  bytes: string,
  open = "true",
) => `looked AS MATERIALIZED (
    SELECT d.* FROM unnest(ARRAY[${queues}]) AS q (queue) CROSS JOIN LATERAL (
      SELECT d.ctid AS at, d.namespace, d.queue, d.kind, d.key, d.priority FROM leasehold.due_key d
      WHERE d.namespace = $1 AND d.queue = q.queue AND d.due_at <= ${CLOCK_NOW}
        AND ($6::text[] IS NULL OR d.kind = ANY ($6::text[])) AND ${VERSION_TAKEN("d")} AND ${open}
        AND NOT EXISTS (SELECT FROM earlier)
      ORDER BY d.priority, d.due_at LIMIT $5::int
      FOR UPDATE OF d SKIP LOCKED
    ) d
  ),
  keys AS MATERIALIZED (SELECT DISTINCT namespace, queue, kind, key FROM looked),
  added AS (
    INSERT INTO leasehold.task_key (namespace, queue, kind, key, claimed_at)
    SELECT k.namespace, k.queue, k.kind, k.key, c.now FROM keys k CROSS JOIN clock c
    WHERE NOT EXISTS (SELECT FROM leasehold.task_key o WHERE ${SAME_KEY("o")} AND o.key = k.key)
    ORDER BY k.queue COLLATE "C", k.kind COLLATE "C", k.key COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING namespace, queue, kind, key
  ),
  found AS MATERIALIZED (
    SELECT k.*, o.at FROM keys k CROSS JOIN LATERAL (
      SELECT o.ctid AS at FROM leasehold.task_key o WHERE ${SAME_KEY("o")} AND o.key = k.key
      FOR NO KEY UPDATE OF o SKIP LOCKED
    ) o
  ),
  locked AS (
    UPDATE leasehold.task_key o SET claimed_at = c.now FROM found f CROSS JOIN clock c
    WHERE o.ctid = f.at
    RETURNING o.namespace, o.queue, o.kind, o.key
  ),
  own_keys AS MATERIALIZED (SELECT * FROM added UNION ALL SELECT * FROM locked),
  examined AS MATERIALIZED (
    SELECT k.*, n.any_order, greatest(least(n.most - r.running, w.permits), 0) AS free, r.stuck,
      n.per_ms, s.window_start, s.window_used, w.*
    FROM own_keys k CROSS JOIN clock c
      CROSS JOIN LATERAL (
        SELECT t.concurrency_limit AS most, t.concurrency_any AS any_order, t.concurrency_rate AS rate,
          t.concurrency_rate_ms AS per_ms
        FROM leasehold.task t
        WHERE ${OF_KEY} AND t.state = 'pending'
        ORDER BY ${NUMBER} DESC LIMIT 1
      ) n
      LEFT JOIN LATERAL (
        SELECT s.window_start, s.window_used FROM leasehold.key_rate s
        WHERE n.rate IS NOT NULL AND ${SAME_KEY("s")} AND s.key = k.key LIMIT 1
      ) s ON true
      CROSS JOIN LATERAL (${windowOf("s", "n.rate", "n.per_ms")}
      ) w
      CROSS JOIN LATERAL (
        SELECT count(*) - (
            -- Locked, because a renewal that this statement does not see may have extended it.
            SELECT count(*) FROM (
              SELECT FROM leasehold.task t
              WHERE ${OF_KEY} AND ${RUNS} AND c.now >= t.expires_at
              FOR NO KEY UPDATE OF t SKIP LOCKED
            ) e
          ) AS running,
          -- Expired, and not reaped yet: it keeps back those behind it.
          min(t.seq) FILTER (WHERE c.now >= t.expires_at) AS stuck
        FROM leasehold.task t WHERE ${OF_KEY} AND ${RUNS}
      ) r
  ),
  -- Of a key in order, none comes before one ahead of it: they have the largest priority and time so far.
  heads AS MATERIALIZED (
    SELECT k.namespace, k.queue, k.kind, k.key, k.any_order, h.*,
      row_number() OVER (PARTITION BY k.queue, k.kind, k.key ORDER BY h.seq) AS place
    FROM examined k CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT f.priority, f.scheduled_at, f.seq, f.version, f.bytes FROM (
        SELECT t.seq, t.version, t.bytes, max(t.priority) OVER upto AS priority,
          max(t.scheduled_at) OVER upto AS scheduled_at, bool_and(t.scheduled_at <= c.now) OVER upto AS due
        FROM (
          SELECT t.seq, t.priority, t.scheduled_at, t.version, ${bytes} AS bytes FROM leasehold.task t
          WHERE NOT k.any_order AND ${OF_KEY} AND t.state = 'pending'
            AND (t.scheduled_at <= c.now OR t.attempt > 0) AND ${IN_TIME("t")} AND (k.stuck IS NULL OR t.seq < k.stuck)
          ORDER BY ${NUMBER} LIMIT k.free
        ) t WINDOW upto AS (ORDER BY t.seq ROWS UNBOUNDED PRECEDING)
      ) f WHERE f.due
      UNION ALL (
        SELECT t.priority, t.scheduled_at, t.seq, t.version, ${bytes} AS bytes FROM leasehold.task t
        WHERE k.any_order AND ${OF_KEY} AND t.state = 'pending' AND t.scheduled_at <= c.now AND ${IN_TIME("t")}
        ORDER BY t.priority, t.scheduled_at, t.seq LIMIT k.free
      )
    ) h
  )`;

/**
 * The first tasks of those without a key (`plain`) and of the heads. A head whose row is locked keeps back those behind it.
 * @param heads those that may run, of the heads
 */
export const pickedOfBoth = (order: string, heads = "heads") => `
    SELECT b.namespace, b.queue, b.priority, b.scheduled_at, b.seq, b.bytes FROM (
      SELECT b.*, row_number() OVER (PARTITION BY b.queue, b.kind, b.key ORDER BY b.seq) AS nth FROM (
        SELECT p.namespace, p.queue, p.priority, p.scheduled_at, p.seq, p.bytes, NULL AS kind, NULL AS key,
          true AS any_order, 0 AS place
        FROM plain p
        UNION ALL
        SELECT h.namespace, h.queue, h.priority, h.scheduled_at, h.seq, h.bytes, h.kind, h.key,
          h.any_order, h.place
        FROM (SELECT h.* FROM ${heads} h ORDER BY ${order} LIMIT $5::int) h CROSS JOIN LATERAL (
          SELECT FROM leasehold.task t
          WHERE t.namespace = h.namespace AND t.seq = h.seq AND t.state = 'pending'
            AND t.scheduled_at <= ${CLOCK_NOW} AND ${VERSION_TAKEN("t")}
          FOR NO KEY UPDATE OF t SKIP LOCKED
        ) t
      ) b
    ) b
    WHERE b.any_order OR b.nth = b.place
    ORDER BY 3, 4, 5 LIMIT $5::int`;

/** After `measured`, which says of the picked tasks whether the claim takes them. */
export const KEYED_LEFT = `forgotten AS (
    DELETE FROM leasehold.due_key d WHERE d.ctid = ANY (ARRAY(
      SELECT l.at FROM looked l JOIN own_keys k ON ${SAME_KEY("l")} AND l.key = k.key
    ))
  ),
  again AS (
    INSERT INTO leasehold.due_key (namespace, queue, kind, key, priority, due_at, version)
    SELECT h.namespace, h.queue, h.kind, h.key, min(h.priority), min(h.scheduled_at),
      -- Claims that take none of them need not look again.
      CASE WHEN bool_and(h.any_order) THEN min(h.version) ELSE (array_agg(h.version ORDER BY h.seq))[1] END
    FROM heads h
    WHERE NOT EXISTS (SELECT FROM measured m WHERE m.fits AND m.seq = h.seq)
    GROUP BY h.namespace, h.queue, h.kind, h.key
  ),
  -- Of the keys with a rate, how many of their tasks the claim starts.
  paced AS MATERIALIZED (
    SELECT k.*, (
      SELECT count(*)::int FROM heads h JOIN measured m ON m.seq = h.seq
      WHERE m.fits AND ${SAME_KEY("h")} AND h.key = k.key
    ) AS started
    FROM examined k WHERE k.permits IS NOT NULL
  ),
  -- No other claim writes these rows: this one has locked their keys.
  counted AS (
    INSERT INTO leasehold.key_rate (namespace, queue, kind, key, window_start, window_used, ends_at)
    SELECT k.namespace, k.queue, k.kind, k.key, x.begin, x.used + k.started, ${endOf("x.begin", "k.per_ms")}
    FROM paced k CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT CASE WHEN k.current THEN k.window_start ELSE c.now END AS begin,
        CASE WHEN k.current THEN k.window_used ELSE 0 END AS used
    ) x
    WHERE k.started > 0
    ON CONFLICT (namespace, queue, kind, key) DO UPDATE
      SET window_start = excluded.window_start, window_used = excluded.window_used, ends_at = excluded.ends_at
  ),
  -- A key whose rate is used up is due when the window ends.
  resumed AS (
    INSERT INTO leasehold.due_key (namespace, queue, kind, key, priority, due_at)
    SELECT k.namespace, k.queue, k.kind, k.key, (
        SELECT min(l.priority) FROM looked l WHERE ${SAME_KEY("l")} AND l.key = k.key
      ), CASE WHEN k.current THEN k.ends_at ELSE ${endOf("c.now", "k.per_ms")} END
    FROM paced k CROSS JOIN clock c WHERE k.started >= k.permits
  )`;
/** When the first of the keys that a rate keeps back may go on. */
export const KEYS_RESUME = `(SELECT min(k.ends_at) FROM paced k WHERE k.current AND k.permits <= 0)`;

/**
 * Deletes the rows of keys that no claim has looked at for a time, and that have no unfinished task. Values: the time in
 * milliseconds. A claim from before may hold the row, or have changed it: then the row stays.
 */
export const FORGET_KEYS = `
WITH old AS MATERIALIZED (
    SELECT k.ctid AS at FROM leasehold.task_key k
    WHERE k.claimed_at < clock_timestamp() - $1::float8 * interval '1 millisecond'
      AND NOT EXISTS (SELECT FROM leasehold.task t WHERE ${OF_KEY} AND t.state = 'pending')
      AND NOT EXISTS (SELECT FROM leasehold.task t WHERE ${OF_KEY} AND ${RUNS})
    LIMIT 10000
    FOR UPDATE OF k SKIP LOCKED
  )
DELETE FROM leasehold.task_key k USING old WHERE k.ctid = old.at`;

/** Deletes the windows of rates that have ended for a time. Values: the time in milliseconds. */
export const FORGET_RATES = `
WITH old AS MATERIALIZED (
    SELECT s.ctid AS at FROM leasehold.key_rate s
    WHERE s.ends_at < clock_timestamp() - $1::float8 * interval '1 millisecond'
    LIMIT 10000
    FOR UPDATE OF s SKIP LOCKED
  )
DELETE FROM leasehold.key_rate s USING old WHERE s.ctid = old.at`;
