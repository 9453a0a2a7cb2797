/**
 * Adds tasks: inserts those without a conflict, then reads the conflicting tasks to distinguish a
 * repeated request from a conflict and a duplicate. Two statements, so that the second sees the transaction that the first
 * waited for.
 */
import { invariant, zip } from "../../env/index.js";
import type { SqlTransaction } from "../../lease/index.js";
import type { EnqueueOutcome, NewTask, TaskKey } from "../../tasks/port.js";
import { FIRST_VERSION } from "../../tasks/port.js";
import { encodeJson, isSameContent, type TaskContent } from "../../tasks/record.js";
import type { Parameter, Scalar, Schema } from "./connection.js";
import { failedOutcome, storeError } from "./failures.js";
import { type Columns, unnested } from "./sql-parts.js";
import { inTheWay, keyText, type Run, TRIES } from "./task-calls.js";
import {
  announced,
  BACKOFF_OF_NULL,
  CLOCK,
  KEY,
  NOTIFIED,
  notifiedOf,
  SAME_TASK,
} from "./task-statements.js";

const NEW_TASK: Columns = [
  ...KEY,
  ["kind", "text"],
  ["queue", "text"],
  ["priority", "smallint"],
  ["data", "text"],
  ["dedupe_key", "text"],
  ["scheduled_ms", "float8"],
  ["max_attempts", "int"],
  ["crash_limit", "int"],
  ["backoff_ms", "bigint"],
  ["max_backoff_ms", "bigint"],
  ["keep_done_ms", "bigint"],
  ["keep_dead_ms", "bigint"],
  ["concurrency_key", "text"],
  ["concurrency_limit", "int"],
  ["concurrency_any", "bool"],
  ["version", "smallint"],
  ["concurrency_rate", "int"],
  ["concurrency_rate_ms", "bigint"],
  ["max_run_ms", "bigint"],
  ["start_by_ms", "float8"],
  ["backoff_factor", "float8"],
  ["backoff_jitter", "float8"],
];

/** When the task of the row is due. */
export const SCHEDULED_AT = (row: string) =>
  `coalesce(to_timestamp(${row}.scheduled_ms / 1000), c.now)`;
const START_BY = (row: string) =>
  `${SCHEDULED_AT(row)} + ${row}.start_by_ms * interval '1 millisecond'`;

/** Inserts the tasks of `numbered`, in key order: {@link task-statements.ts}. */
const ADDED = `added AS (
    INSERT INTO leasehold.task (namespace, id, seq, state, kind, queue, priority, data, dedupe_key,
      max_attempts, crash_limit, backoff_ms, max_backoff_ms, keep_done_ms, keep_dead_ms,
      concurrency_key, concurrency_limit, concurrency_any, concurrency_rate, concurrency_rate_ms,
      version, max_run_ms, start_by, backoff_factor, backoff_jitter, created_at, scheduled_at)
    SELECT i.namespace, i.id, i.seq, 'pending', i.kind, i.queue, i.priority, i.data, i.dedupe_key,
      i.max_attempts, i.crash_limit, i.backoff_ms, i.max_backoff_ms, i.keep_done_ms, i.keep_dead_ms,
      i.concurrency_key, i.concurrency_limit, i.concurrency_any, i.concurrency_rate, i.concurrency_rate_ms, i.version,
      i.max_run_ms, ${START_BY("i")}, i.backoff_factor, i.backoff_jitter, c.now, ${SCHEDULED_AT("i")}
    FROM numbered i CROSS JOIN clock c
    ORDER BY i.namespace COLLATE "C", i.kind COLLATE "C", i.dedupe_key COLLATE "C",
      CASE WHEN i.dedupe_key IS NULL THEN i.id END COLLATE "C", i.seq
    ON CONFLICT DO NOTHING
    RETURNING namespace, id, queue, created_at, scheduled_at
  ),
  ${notifiedOf("added x WHERE x.scheduled_at <= x.created_at", announced("added"))}`;

/** Returns the keys of the added tasks. Numbers them in the order of the requests, whatever the order of the locks. */
const ENQUEUE = `
WITH ${CLOCK},
  numbered AS MATERIALIZED (
    SELECT *, nextval('leasehold.task_seq') AS seq FROM ${unnested(NEW_TASK)}
  ),
  ${ADDED}
SELECT x.namespace, x.id, ${NOTIFIED} FROM added x`;

/** What tasks that are enqueued together differ in, more often than not. */
const OWN: ReadonlySet<string> = new Set(["id", "data"]);
const ALIKE_COLUMNS = NEW_TASK.map(([name, type], index) =>
  OWN.has(name) ? `i.${name}` : `$${index + 1}::${type} AS ${name}`,
);
const OWN_COLUMNS = NEW_TASK.flatMap(([name, type], index) =>
  OWN.has(name) ? [`$${index + 1}::${type}[]`] : [],
);

/**
 * The same for tasks that differ in their ids and data only, and have no dedupeKey. The other values come once: to write
 * their arrays took the client 4 us of 5 a task, and to read them the server 3 us of 13. Returns one row.
 */
const ENQUEUE_ALIKE = `
WITH ${CLOCK},
  numbered AS MATERIALIZED (
    SELECT ${ALIKE_COLUMNS.join(", ")}, nextval('leasehold.task_seq') AS seq
    FROM unnest(${OWN_COLUMNS.join(", ")}) AS i (${[...OWN].join(", ")})
  ),
  ${ADDED}
SELECT a.added, ${NOTIFIED}, CASE WHEN a.added < cardinality(${OWN_COLUMNS[0]})
  THEN (SELECT string_agg(x.id, chr(10)) FROM added x) END AS ids
FROM (SELECT count(*)::int AS added FROM added) a`;

interface AlikeRow {
  readonly added: number;
  /** Of the added tasks, a line each; null: all were added, or none. */
  readonly ids: string | null;
}

export interface ThereRow {
  readonly n: number;
  /** Of the existing task with the id; null: there is none. */
  readonly kind: string | null;
  readonly queue: string | null;
  /** Null if it is other data. */
  readonly data: string | null;
  /** The unfinished task with the dedupeKey. */
  readonly rival: string | null;
}
/**
 * Finds the tasks that conflict. Values: namespaces, ids, kinds, dedupeKeys, data. Equal JSON has equal length, whatever
 * the order of its names. So no more data is read than was sent.
 */
const THERE = `
SELECT i.n::int AS n, same.kind, same.queue, rival.id AS rival,
  CASE WHEN octet_length(same.data) = octet_length(i.data) THEN same.data END AS data
FROM ${unnested([...KEY, ["kind", "text"], ["dedupe_key", "text"], ["data", "text"]])}
  LEFT JOIN leasehold.task same ON ${SAME_TASK("same", "i")}
  LEFT JOIN leasehold.task rival ON rival.namespace = i.namespace AND rival.kind = i.kind
    AND rival.dedupe_key = i.dedupe_key AND rival.state IN ('pending', 'running')`;

export async function enqueue(tasks: readonly NewTask[], run: Run): Promise<EnqueueOutcome[]> {
  const outcomes = new Array<EnqueueOutcome>(tasks.length);
  let open = tasks.map((task, index) => ({ task, index }));
  const enqueued = ({ task, index }: (typeof open)[number]) => {
    outcomes[index] = { status: "enqueued", id: task.id };
  };
  try {
    for (let tries = 1; tries <= TRIES && open.length > 0; tries += 1) {
      const added = await add(
        open.map(({ task }) => task),
        run,
      );
      if (added.length === open.length) {
        for (const entry of open) enqueued(entry);
        open = [];
        break;
      }
      const keys = new Set(added.map(keyText));
      // Of requests with the same id, the statement has added one: below, each is compared with it.
      const asked = countOf(open.map(({ task }) => keyText(task)));
      for (const entry of open) {
        const key = keyText(entry.task);
        if (keys.has(key) && asked.get(key) === 1) enqueued(entry);
      }
      open = open.filter(({ index }) => !outcomes[index]);
      if (open.length === 0) break;
      for (const row of await run<ThereRow>(THERE, thereColumns(open.map(({ task }) => task)))) {
        const entry = open[row.n - 1] as (typeof open)[number];
        if (row.kind !== null) outcomes[entry.index] = repeated(contentOf(row), entry.task);
        else if (row.rival) outcomes[entry.index] = { status: "duplicate", id: row.rival };
      }
      // The conflicting task of the dedupeKey has finished meanwhile: retry.
      open = open.filter(({ index }) => !outcomes[index]);
    }
    for (const { task, index } of open) outcomes[index] = inTheWay(task);
  } catch (error) {
    for (const { index } of open) outcomes[index] = failedOutcome(error);
  }
  return outcomes;
}

/** Returns the keys of those that were added. */
async function add(tasks: readonly NewTask[], run: Run): Promise<readonly TaskKey[]> {
  const columns = newTaskColumns(tasks);
  const areAlike = zip(NEW_TASK, columns).every(
    ([[name], column]) => OWN.has(name) || column.every((value) => value === column[0]),
  );
  if (!areAlike) return run<TaskKey>(ENQUEUE, columns);
  const values = zip(NEW_TASK, columns).map(([[name], column]) =>
    OWN.has(name) ? column : (column[0] ?? null),
  );
  const [row] = await run<AlikeRow>(ENQUEUE_ALIKE, values);
  invariant(row, "the statement has one row");
  if (row.added === tasks.length) return tasks;
  const namespace = tasks[0]?.namespace ?? "";
  return (row.ids?.split("\n") ?? []).map((id) => ({ namespace, id }));
}

function contentOf({ kind, queue, data }: ThereRow): TaskContent | null {
  return kind === null || queue === null || data === null ? null : { kind, queue, data };
}

function repeated(same: TaskContent | null, task: NewTask): EnqueueOutcome {
  const isSame = same !== null && isSameContent(same, { ...task, data: encodeJson(task.data) });
  return { status: isSame ? "enqueued" : "conflict", id: task.id };
}

function countOf(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/** Runs statements in the caller's own transaction; they return only text and int. */
export function runIn(client: SqlTransaction, schema: Schema): Run {
  return async <Row>(text: string, values: readonly Parameter[]) => {
    try {
      return (await client.query(schema.sql(text), [...values])).rows as Row[];
    } catch (error) {
      throw storeError(error, true);
    }
  };
}

function newTaskColumns(tasks: readonly NewTask[]): (readonly Scalar[])[] {
  return [
    tasks.map(({ namespace }) => namespace),
    tasks.map(({ id }) => id),
    tasks.map(({ kind }) => kind),
    tasks.map(({ queue }) => queue),
    tasks.map(({ priority }) => priority),
    tasks.map(({ data }) => encodeJson(data)),
    tasks.map(({ dedupeKey }) => dedupeKey),
    tasks.map(({ scheduledAt }) => (scheduledAt === null ? null : Date.parse(scheduledAt))),
    tasks.map(({ maxAttempts }) => maxAttempts),
    tasks.map(({ crashLimit }) => crashLimit),
    tasks.map(({ backoff }) => backoff.firstMs),
    tasks.map(({ backoff }) => backoff.longestMs),
    tasks.map(({ retain }) => retain?.doneMs ?? null),
    tasks.map(({ retain }) => retain?.deadMs ?? null),
    tasks.map(({ concurrency }) => concurrency?.key ?? null),
    tasks.map(({ concurrency }) => concurrency?.perKey ?? null),
    tasks.map(({ concurrency }) => concurrency?.order === "any"),
    tasks.map(({ version }) => version ?? FIRST_VERSION),
    tasks.map(({ concurrency }) => concurrency?.rate?.limit ?? null),
    tasks.map(({ concurrency }) => concurrency?.rate?.perMs ?? null),
    tasks.map(({ maxRunMs }) => maxRunMs ?? null),
    tasks.map(({ startByMs }) => startByMs ?? null),
    // A null takes no byte of the row, and most tasks have what it means.
    tasks.map(({ backoff }) => nullIf(backoff.factor, BACKOFF_OF_NULL.factor)),
    tasks.map(({ backoff }) => nullIf(backoff.jitter, BACKOFF_OF_NULL.jitter)),
  ];
}

function nullIf(value: number, meaning: number): number | null {
  return value === meaning ? null : value;
}

function thereColumns(tasks: readonly NewTask[]): Parameter[] {
  return [
    tasks.map(({ namespace }) => namespace),
    tasks.map(({ id }) => id),
    tasks.map(({ kind }) => kind),
    tasks.map(({ dedupeKey }) => dedupeKey),
    tasks.map(({ data }) => encodeJson(data)),
  ];
}
