/**
 * The part of a claim that keeps the limits of kinds and queues, by the rules in tasks/limits.ts.
 *
 *   seen ── the limits that concern the claim
 *     └─▶ open ── those not reached, as this statement sees them: locked
 *           └─▶ within, places ── how many tasks each lets start
 *                 └─▶ candidates, heads ── due tasks of each kind and queue that has places, in claim order
 *                       └─▶ allowed ── the first of them, as many as there are places ─▶ plain, allowed_heads
 *   claimed ─▶ charged ── changes the rows of the limits
 *
 * - No more tasks run than a limit lets: all claims that take its tasks follow each other. The statement counts by its own
 *   snapshot, so it must see every earlier claim. Each claim that takes such tasks therefore changes the row of the limit:
 *   where the locked version is not the one that the snapshot sees, the limit has no place in this claim.
 * - It waits for no lock. A limit that another claim has locked has no place in this one, which looks again if it has taken
 *   nothing.
 * - Each kind is read by itself, from an index: the backlog of a kind that must wait is in no other's way.
 */
import { RUNS, VERSION_TAKEN, windowOf } from "./task-key-statements.js";
import { CLOCK_NOW, IN_TIME } from "./task-statements.js";

const CONCERNS = (queues: string) => `l.namespace = $1 AND CASE l.scope
        WHEN 'kind' THEN $6::text[] IS NULL OR l.name = ANY ($6::text[])
        ELSE l.name = ANY (ARRAY[${queues}]) END`;

/** Whether a limit concerns the claim: then it is left to the statement that keeps limits. */
export const limitedBy = (queues: string) => `limited AS MATERIALIZED (
    SELECT FROM leasehold.task_limit l
    WHERE ${CONCERNS(queues)}
    LIMIT 1
  )`;

/** The running tasks t of the limit `row`, by the index of its scope. */
export const runningOf = (row: string, scope: "kind" | "queue") =>
  `t.namespace = ${row}.namespace AND t.${scope} = ${row}.name AND t.limited AND ${RUNS} AND t.${scope} || '' <> ''`;
/** A subquery about the running tasks of the limit `row`. */
const ofRunning = (row: string, select: (condition: string) => string) => {
  const where = (scope: "kind" | "queue") => select(runningOf(row, scope));
  return `CASE ${row}.scope WHEN 'kind' THEN (${where("kind")}) ELSE (${where("queue")}) END`;
};
const LIVE = (row: string) =>
  ofRunning(
    row,
    (condition) =>
      `SELECT count(*) FROM leasehold.task t WHERE ${condition} AND ${CLOCK_NOW} < t.expires_at`,
  );
/** An expired lease counts unless it is locked: a renewal that this statement does not see may have extended it. */
const RUNNING = (row: string) =>
  ofRunning(
    row,
    (condition) => `SELECT count(*) - (
            SELECT count(*) FROM (
              SELECT FROM leasehold.task t WHERE ${condition} AND ${CLOCK_NOW} >= t.expires_at
              FOR NO KEY UPDATE OF t SKIP LOCKED
            ) e
          ) FROM leasehold.task t WHERE ${condition}`,
  );

/** The task t waits in the queue, without a key. The last condition is that of the index task_kinds. */
const WAITS = (queue: string) => `t.namespace = $1 AND t.queue = ${queue} AND t.state = 'pending'
            AND t.concurrency_key IS NULL AND t.kind || '' <> ''`;

export const limitsSeen = (queues: string) => `seen AS MATERIALIZED (
    SELECT l.ctid AS at, l.namespace, l.scope, l.name, l.running_most AS most, w.*
    FROM leasehold.task_limit l CROSS JOIN clock c CROSS JOIN LATERAL (${windowOf("l", "l.rate_limit", "l.rate_per_ms")}
      ) w
    WHERE ${CONCERNS(queues)}
      AND NOT EXISTS (SELECT FROM earlier)
  ),
  unreached AS MATERIALIZED (
    SELECT s.* FROM seen s
    WHERE coalesce(s.permits > 0, true) AND (s.most IS NULL OR s.most > ${LIVE("s")})
  ),
  open AS MATERIALIZED (
    SELECT s.*, o.at AS locked FROM unreached s CROSS JOIN LATERAL (
      SELECT o.ctid AS at FROM leasehold.task_limit o
      WHERE o.namespace = $1 AND o.scope = s.scope AND o.name = s.name
      FOR NO KEY UPDATE OF o SKIP LOCKED
    ) o
  ),
  -- On its own, and no join: without statistics, the planner would count once for each pair of limits.
  within AS MATERIALIZED (
    SELECT o.scope, o.name, least(o.permits, CASE WHEN o.most IS NOT NULL THEN o.most - ${RUNNING("o")} END) AS free
    FROM open o WHERE o.at = o.locked
  ),
  places AS MATERIALIZED (
    SELECT o.scope, o.name, greatest(o.free, 0)::int AS free, true AS own FROM within o
    UNION ALL
    SELECT s.scope, s.name, 0, false FROM seen s
    WHERE (s.scope, s.name) NOT IN (SELECT o.scope, o.name FROM within o)
  )`;

/** As NOT IN, for which the planner hashes the names: a namespace may have many limits. */
const hasPlaces = (scope: string, name: string) =>
  `${name} NOT IN (SELECT p.name FROM places p WHERE p.scope = '${scope}' AND p.free = 0)`;
/** The due key d is of a kind and a queue with places. */
export const OPEN_KEY = `${hasPlaces("kind", "d.kind")} AND ${hasPlaces("queue", "d.queue")}`;
/**
 * The pairs of a queue and a kind that one claim looks at: more than a namespace has limits, so that the first queue has
 * some without a limit among them. Of more, a claim takes those of other queues each time.
 */
const MOST_PAIRS = 2_000;

/**
 * After `heads`. Twice as many of a kind as the claim takes, and some: others may be locking them.
 * @param bytes the size of the task t
 * @param order of the row x
 */
export const limitedPlain = (
  queues: string,
  bytes: string,
  order: string,
) => `wanted AS MATERIALIZED (
    SELECT w.queue, w.kind, least(pq.free, pk.free) AS free FROM (
      SELECT q.queue, k.kind FROM (
        SELECT q.queue FROM unnest(ARRAY[${queues}]) AS q (queue)
        WHERE q.queue IS NOT NULL AND ${hasPlaces("queue", "q.queue")} ORDER BY random()
      ) q CROSS JOIN LATERAL (
        SELECT DISTINCT g.kind FROM unnest($6::text[]) AS g (kind) WHERE g.kind NOT LIKE E'%\\x01%'
        UNION ALL
        SELECT f.kind FROM (
          WITH RECURSIVE found AS (
            (SELECT t.kind FROM leasehold.task t WHERE ${WAITS("q.queue")} ORDER BY t.kind LIMIT 1)
            UNION ALL
            SELECT (
              SELECT t.kind FROM leasehold.task t WHERE ${WAITS("q.queue")} AND t.kind > f.kind
              ORDER BY t.kind LIMIT 1
            ) FROM found f WHERE f.kind IS NOT NULL
          )
          SELECT f.kind FROM found f WHERE f.kind IS NOT NULL
        ) f WHERE $6::text[] IS NULL
      ) k LIMIT ${MOST_PAIRS}
    ) w
      LEFT JOIN places pq ON pq.scope = 'queue' AND pq.name = w.queue
      LEFT JOIN places pk ON pk.scope = 'kind' AND pk.name = w.kind
    WHERE coalesce(pk.free, 1) > 0 AND NOT EXISTS (SELECT FROM earlier)
  ),
  candidates AS MATERIALIZED (
    SELECT w.queue, w.kind, t.* FROM wanted w CROSS JOIN LATERAL (
      SELECT t.seq, t.priority, t.scheduled_at FROM leasehold.task t
      WHERE ${WAITS("w.queue")} AND t.kind = w.kind AND t.scheduled_at <= ${CLOCK_NOW}
        AND ${IN_TIME("t")} AND ${VERSION_TAKEN("t")}
      ORDER BY t.priority, t.scheduled_at, t.seq LIMIT least(w.free, 2 * $5::int + 20)
    ) t
  ),
  -- A queue without places has no candidates, so that what the first cut leaves makes progress.
  allowed AS MATERIALIZED (
    SELECT x.* FROM (
      SELECT x.*, row_number() OVER (PARTITION BY x.queue ORDER BY ${order}) AS of_queue FROM (
        SELECT x.*, row_number() OVER (PARTITION BY x.kind ORDER BY ${order}) AS of_kind FROM (
          SELECT c.queue, c.kind, c.seq, c.priority, c.scheduled_at, NULL AS key FROM candidates c
          UNION ALL
          SELECT h.queue, h.kind, h.seq, h.priority, h.scheduled_at, h.key FROM heads h
        ) x
      ) x LEFT JOIN places p ON p.scope = 'kind' AND p.name = x.kind
      WHERE p.free IS NULL OR x.of_kind <= p.free
    ) x LEFT JOIN places p ON p.scope = 'queue' AND p.name = x.queue
    WHERE p.free IS NULL OR x.of_queue <= p.free
  ),
  allowed_heads AS MATERIALIZED (
    SELECT h.* FROM heads h WHERE h.seq IN (SELECT x.seq FROM allowed x WHERE x.key IS NOT NULL)
  ),
  plain AS MATERIALIZED (
    SELECT $1::text AS namespace, x.queue, x.priority, x.scheduled_at, x.seq, t.bytes FROM (
      SELECT x.* FROM allowed x WHERE x.key IS NULL ORDER BY ${order}
    ) x CROSS JOIN LATERAL (
      SELECT ${bytes} AS bytes FROM leasehold.task t
      WHERE t.namespace = $1 AND t.seq = x.seq AND t.state = 'pending' AND t.scheduled_at <= ${CLOCK_NOW}
      FOR NO KEY UPDATE OF t SKIP LOCKED
    ) t
    ORDER BY ${order} LIMIT $5::int
  )`;

/** Whether the task t is of a limited kind or queue. */
export const IS_LIMITED = `EXISTS (
        SELECT FROM seen s WHERE s.name = CASE s.scope WHEN 'kind' THEN t.kind ELSE t.queue END
      )`;

/** After `claimed`. */
export const CHARGED = `charged AS (
    UPDATE leasehold.task_limit o SET window_start = CASE WHEN s.current THEN o.window_start ELSE c.now END,
      window_used = CASE WHEN s.current THEN o.window_used ELSE 0 END + s.started
    FROM clock c CROSS JOIN (
      SELECT s.at, s.current, (
        SELECT count(*)::int FROM claimed x WHERE s.name = CASE s.scope WHEN 'kind' THEN x.kind ELSE x.queue END
      ) AS started
      FROM seen s
    ) s
    WHERE o.ctid = s.at AND s.started > 0
  )`;
/** A limit is not reached, but another claim has locked it, or changed it since this one began. */
export const PASSED_OVER = `EXISTS (
    SELECT FROM unreached s JOIN places p ON p.scope = s.scope AND p.name = s.name WHERE NOT p.own
  )`;
/** When the first of the limits whose rate is used up lets tasks start again. */
export const LIMITS_RESUME = `(SELECT min(s.ends_at) FROM seen s WHERE s.current AND s.permits <= 0)`;
