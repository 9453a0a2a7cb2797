/** The limits of kinds and queues in PostgreSQL: see task-limited-claim.ts for the claims that keep them. */
import type { CallOptions } from "../../lease/index.js";
import { type BlockingTask, NAMED_OF_KEY } from "../../tasks/blocked-keys.js";
import {
  type DeclareLimitOutcome,
  type DeclareLimitRequest,
  type LimitKey,
  type LimitScope,
  type LimitView,
  MOST_LIMITS,
  type TaskLimits,
} from "../../tasks/limits-port.js";
import { type ConcurrencyRow, rateOf } from "./concurrency.js";
import { CHANNEL } from "./connection.js";
import { failedOutcome } from "./failures.js";
import type { Run } from "./task-calls.js";
import { windowOf } from "./task-key-statements.js";
import { runningOf } from "./task-limited-claim.js";
import { CLOCK, micros } from "./task-statements.js";
import { iso, isoOrNull } from "./task-views.js";

/** The running task t counts for the limit l. A CASE, so that each scope has its own conditions. */
const SAME_SCOPE = (scope: string, name: string) =>
  `CASE ${scope} WHEN 'kind' THEN t.kind ELSE t.queue END = ${name}`;
/** Workers of any queue may wait: an empty name of a queue. */
const WAKE = `pg_notify('${CHANNEL}', json_build_array('task', x.namespace, '')::text)::text`;

interface DeclaredRow {
  readonly change: "added" | "changed" | "none" | "full";
}
/**
 * Values: namespace, scope, name, running, rate limit, its perMs, who, the most limits. Writes nothing if it is so already.
 * It waits for a claim that has locked the row.
 */
const DECLARE = `
WITH ${CLOCK},
  before AS MATERIALIZED (
    SELECT (l.running_most, l.rate_limit, l.rate_per_ms)
      IS NOT DISTINCT FROM ($4::int, $5::int, $6::bigint) AS same
    FROM leasehold.task_limit l WHERE l.namespace = $1 AND l.scope = $2 AND l.name = $3
  ),
  declared AS (
    INSERT INTO leasehold.task_limit AS l
      (namespace, scope, name, running_most, rate_limit, rate_per_ms, declared_at, declared_by)
    SELECT $1, $2, $3, $4::int, $5::int, $6::bigint, c.now, $7 FROM clock c
    WHERE CASE WHEN EXISTS (SELECT FROM before) THEN NOT (SELECT b.same FROM before b)
      ELSE (SELECT count(*) FROM leasehold.task_limit l WHERE l.namespace = $1) < $8::int END
    ON CONFLICT (namespace, scope, name) DO UPDATE SET running_most = excluded.running_most,
      rate_limit = excluded.rate_limit, rate_per_ms = excluded.rate_per_ms,
      declared_at = excluded.declared_at, declared_by = excluded.declared_by
    RETURNING l.namespace
  )
SELECT CASE WHEN b.same THEN 'none' WHEN b.same IS NOT NULL THEN 'changed' WHEN x.namespace IS NULL THEN 'full'
    ELSE 'added' END AS change, CASE WHEN x.namespace IS NOT NULL THEN ${WAKE} END AS notified
FROM (SELECT) one LEFT JOIN before b ON true LEFT JOIN declared x ON true`;

/**
 * Marks tasks that run since before the limit was declared, so that they count. Values: namespace, scope, name. Those whose
 * rows are locked are marked by the next declaration.
 */
const MARK = `
UPDATE leasehold.task t SET limited = true
WHERE t.ctid = ANY (ARRAY(
  SELECT t.ctid FROM leasehold.task t
  WHERE t.namespace = $1 AND t.state = 'running' AND NOT t.limited AND ${SAME_SCOPE("$2::text", "$3")}
  FOR NO KEY UPDATE OF t SKIP LOCKED
)) AND t.state = 'running'`;

interface LimitRow extends Pick<ConcurrencyRow, "rateLimit" | "ratePerMs"> {
  readonly scope: LimitScope;
  readonly name: string;
  readonly running: number | null;
  readonly declaredAt: number;
  readonly declaredBy: string;
  readonly live: number;
  /** JSON of {@link BlockingTask}s, with times in microseconds; null: none. */
  readonly by: string | null;
  readonly started: number;
  readonly usedUpUntil: number | null;
}
/** Values: namespace. */
const LIST = `
WITH ${CLOCK}
SELECT l.scope, l.name, l.running_most AS running, l.rate_limit AS "rateLimit", l.rate_per_ms AS "ratePerMs",
  ${micros("l.declared_at")} AS "declaredAt", l.declared_by AS "declaredBy", r.live,
  CASE WHEN r.live >= l.running_most THEN r.by::text END AS by,
  CASE WHEN w.current THEN l.window_used ELSE 0 END AS started,
  CASE WHEN w.current AND w.permits <= 0 THEN ${micros("w.ends_at")} END AS "usedUpUntil"
FROM leasehold.task_limit l CROSS JOIN clock c
  CROSS JOIN LATERAL (${windowOf("l", "l.rate_limit", "l.rate_per_ms")}
  ) w
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS live, json_agg(json_build_object('id', t.id, 'state', 'running', 'holder', t.holder,
      'until', ${micros("t.expires_at")}) ORDER BY t.seq) FILTER (WHERE t.place <= ${NAMED_OF_KEY}) AS by
    FROM (
      SELECT t.id, t.seq, t.holder, t.expires_at, row_number() OVER (ORDER BY t.seq) AS place FROM (
        SELECT t.* FROM leasehold.task t
        WHERE l.scope = 'kind' AND ${runningOf("l", "kind")}
        UNION ALL
        SELECT t.* FROM leasehold.task t
        WHERE l.scope = 'queue' AND ${runningOf("l", "queue")}
      ) t WHERE c.now < t.expires_at
    ) t
  ) r
WHERE l.namespace = $1 ORDER BY l.scope, l.name`;

/** Values: namespace, scope, name. */
const REMOVE = `
WITH removed AS (
    DELETE FROM leasehold.task_limit l WHERE l.namespace = $1 AND l.scope = $2 AND l.name = $3
    RETURNING l.namespace
  )
SELECT ${WAKE} AS notified FROM removed x`;

/** @param within runs the statements of one call */
export function postgresLimits(within: (options?: CallOptions) => Run): TaskLimits {
  return {
    async declare(request: DeclareLimitRequest, options): Promise<DeclareLimitOutcome> {
      const { namespace, scope, name, limit, by } = request;
      const { running, rate } = limit;
      const rates = [rate?.limit ?? null, rate?.perMs ?? null];
      try {
        const run = within(options);
        const values = [namespace, scope, name, running, ...rates, by, MOST_LIMITS];
        const [row] = await run<DeclaredRow>(DECLARE, values);
        if (row === undefined || row.change === "full") return { status: "full" };
        await run(MARK, [namespace, scope, name]);
        return { status: "declared", change: row.change };
      } catch (error) {
        return failedOutcome(error);
      }
    },
    async list(namespace) {
      return (await within()<LimitRow>(LIST, [namespace])).map((row) => viewOf(namespace, row));
    },
    async remove({ namespace, scope, name }: LimitKey) {
      return (await within()(REMOVE, [namespace, scope, name])).length > 0;
    },
  };
}

function viewOf(namespace: string, row: LimitRow): LimitView {
  const { rateLimit, ratePerMs, declaredAt, by, usedUpUntil, ...rest } = row;
  return {
    namespace,
    ...rest,
    rate: rateOf({ rateLimit, ratePerMs }),
    declaredAt: iso(declaredAt),
    by: blockingOf(by ?? "[]"),
    usedUpUntil: isoOrNull(usedUpUntil),
  };
}

/** @param json tasks with times in microseconds */
export function blockingOf(json: string): BlockingTask[] {
  const tasks = JSON.parse(json) as (Omit<BlockingTask, "until"> & { readonly until: number })[];
  return tasks.map((task) => ({ ...task, until: iso(task.until) }));
}
