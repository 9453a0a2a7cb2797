/**
 * Results and statistics of tasks. A caller that waits is a row of leasehold.result_wait until its time is over: a
 * statement that ends tasks looks there (`endedOf`). It locks nothing, so no completion waits for a caller.
 */
import { REPEATED_BYTES } from "../../tasks/payloads.js";
import type {
  TaskKey,
  TaskResult,
  TaskState,
  TaskStatistics,
  TaskStats,
  TaskStatsQuery,
} from "../../tasks/port.js";
import { FIRST_VERSION, NO_TASKS } from "../../tasks/port.js";
import { isTaskId } from "../../tasks/record.js";
import { afterMs, unnested } from "./sql-parts.js";
import type { Run } from "./task-calls.js";
import { CLOCK, KEY, SAME_TASK } from "./task-statements.js";
import { decode } from "./task-views.js";

/**
 * Records that their ends are awaited, in key order so that concurrent calls cannot deadlock. Values: namespaces, ids,
 * notifyMs. A row that lasts for half of the time stays as it is.
 */
const AWAIT = `
WITH ${CLOCK}
INSERT INTO leasehold.result_wait AS w (namespace, task_id, expires_at)
SELECT DISTINCT t.namespace, t.id, ${afterMs("$3::float8")}
FROM ${unnested(KEY)} JOIN leasehold.task t ON ${SAME_TASK("t", "i")} CROSS JOIN clock c
WHERE t.state IN ('pending', 'running') AND NOT EXISTS (
  SELECT FROM leasehold.result_wait f WHERE f.namespace = t.namespace AND f.task_id = t.id
    AND f.expires_at > ${afterMs("$3::float8 / 2")}
)
ORDER BY 1, 2
ON CONFLICT (namespace, task_id) DO UPDATE SET expires_at = greatest(w.expires_at, excluded.expires_at)`;

/** Skips rows that a concurrent call renews. */
export const FORGET_WAITS = `
DELETE FROM leasehold.result_wait WHERE ctid = ANY (ARRAY(
  SELECT w.ctid FROM leasehold.result_wait w WHERE w.expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
))`;

interface ResultRow {
  readonly n: number;
  readonly state: TaskState;
  /** The output of a task that is done, the error of another one. */
  readonly text: string | null;
  readonly fits: boolean;
}
const TEXT = `CASE WHEN t.state = 'done' THEN t.output WHEN t.state IN ('dead', 'cancelled', 'expired') THEN t.error END`;
/** Values: namespaces, ids. The size of a value is in its header: what does not fit is not read. */
const RESULTS = `
SELECT r.n::int AS n, r.state, r.fits, CASE WHEN r.fits THEN ${TEXT.replaceAll("t.", "r.")} END AS text
FROM (
  SELECT i.n, t.state, t.output, t.error, b.bytes = sum(b.bytes) OVER upto
    OR sum(b.bytes) OVER upto <= ${REPEATED_BYTES} AS fits
  FROM ${unnested(KEY)} JOIN leasehold.task t ON ${SAME_TASK("t", "i")}
    CROSS JOIN LATERAL (SELECT coalesce(octet_length(${TEXT}), 0) AS bytes) b
  WINDOW upto AS (ORDER BY i.n ROWS UNBOUNDED PRECEDING)
) r`;

/** @param notifyMs how long the ends of those that are unfinished are notified */
export async function readResults(
  run: Run,
  keys: readonly TaskKey[],
  notifyMs: number | undefined,
): Promise<readonly TaskResult[]> {
  const known = keys.flatMap(({ namespace, id }, index) => {
    return isTaskId(id) && !namespace.includes("\0") ? { index, namespace, id } : [];
  });
  const results: TaskResult[] = keys.map(({ id }) => ({ id, state: "unknown" }));
  if (known.length === 0) return results;
  const columns = [known.map(({ namespace }) => namespace), known.map(({ id }) => id)];
  // In this order: what ends after the first statement is notified, what has ended before the second one is read.
  if (notifyMs !== undefined) await run(AWAIT, [...columns, notifyMs]);
  for (const { n, state, text, fits } of await run<ResultRow>(RESULTS, columns)) {
    const { index } = known[n - 1] as (typeof known)[number];
    const { id } = results[index] as TaskResult;
    if (!fits || state === "pending" || state === "running") results[index] = { id, state };
    else if (state === "done") results[index] = { id, state, output: decode(text) };
    else results[index] = { id, state, error: text };
  }
  return results;
}

const DUE = "t.state = 'pending' AND t.scheduled_at <= (SELECT now FROM clock)";
/** Each has a limit of its own: a long backlog hides nothing. */
const COUNTED: readonly (readonly [what: string, condition: string])[] = [
  ["due", DUE],
  ["pending", "t.state = 'pending' AND t.scheduled_at > (SELECT now FROM clock)"],
  ["running", "t.state = 'running'"],
];
const COUNTED_ENDED: typeof COUNTED = [
  ["dead", "t.state = 'dead'"],
  ["cancelled", "t.state = 'cancelled'"],
  ["expired", "t.state = 'expired'"],
  ["done", "t.state = 'done'"],
];

interface StatsRow {
  readonly queue: string;
  readonly kind: string;
  readonly what: TaskState | "due";
  readonly count: number;
  readonly dueForMs: number;
}
/** Values: namespace, queues, kinds (null: any), limit, JSON of the versions by kind (null: any). */
const statsSql = (counted: typeof COUNTED) => `
WITH ${CLOCK}
SELECT s.queue, s.kind, s.what, count(*)::int AS count,
  greatest(0, floor((extract(epoch FROM (SELECT now FROM clock) - min(s.due_at)) * 1000)))::float8 AS "dueForMs"
FROM (
${counted
  .map(
    ([
      what,
      condition,
    ]) => `  (SELECT t.queue, t.kind, '${what}' AS what, greatest(t.scheduled_at, t.created_at) AS due_at
    FROM leasehold.task t WHERE t.namespace = $1 AND ${condition}
      AND ($2::text[] IS NULL OR t.queue = ANY ($2)) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
      AND ($5::jsonb IS NULL OR t.version <= coalesce(($5 ->> t.kind)::int, ${FIRST_VERSION}))
    LIMIT $4::int)`,
  )
  .join("\n  UNION ALL\n")}
) s GROUP BY s.queue, s.kind, s.what ORDER BY s.queue, s.kind`;
const STATS = statsSql([...COUNTED, ...COUNTED_ENDED]);
const STATS_UNFINISHED = statsSql(COUNTED);

const NONE = { ...NO_TASKS, due: 0, dueForMs: null };

export async function readStats(run: Run, query: TaskStatsQuery): Promise<TaskStatistics> {
  const { namespace, queues = null, kinds = null, unfinishedOnly = false, limit } = query;
  const { versions } = query;
  const taken = kinds && versions ? JSON.stringify(versions) : null;
  const values = [namespace, queues, kinds, limit + 1, taken];
  const rows = await run<StatsRow>(unfinishedOnly ? STATS_UNFINISHED : STATS, values);
  const totals = new Map<string, number>();
  const items = new Map<string, TaskStats>();
  for (const { queue, kind, what, count, dueForMs } of rows) {
    totals.set(what, (totals.get(what) ?? 0) + count);
    const name = JSON.stringify([queue, kind]);
    const known = items.get(name) ?? { ...NONE, queue, kind };
    const state = what === "due" ? "pending" : what;
    const due = what === "due" ? { due: count, dueForMs } : {};
    items.set(name, { ...known, ...due, [state]: known[state] + count });
  }
  const complete = [...totals.values()].every((total) => total <= limit);
  return { items: [...items.values()], complete };
}
