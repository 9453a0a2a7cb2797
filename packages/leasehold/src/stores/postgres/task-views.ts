/** Views of tasks: read-only statements, and their rows as views. */
import { isoTime } from "../../env/index.js";
import {
  ATTEMPTS_BYTES,
  ATTEMPTS_KEPT,
  LISTED_BYTES,
  listedPayloads,
  PREVIEW_LENGTH,
} from "../../tasks/payloads.js";
import type {
  Attempt,
  DueKind,
  Json,
  TaskDetails,
  TaskQuery,
  TaskState,
  TaskView,
} from "../../tasks/port.js";
import { isTaskId, taskPosition } from "../../tasks/record.js";
import { type ConcurrencyRow, concurrencyColumns, concurrencyOf } from "./concurrency.js";
import type { Parameter } from "./connection.js";
import { grantId } from "./sql-parts.js";
import { micros } from "./task-statements.js";

/** Without payloads. */
interface PlainRow extends ConcurrencyRow {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly state: TaskState;
  readonly dedupeKey: string | null;
  readonly version: number;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly crashLimit: number;
  readonly maxRunMs: number | null;
  readonly startBy: number | null;
  readonly postponed: number;
  readonly createdAt: number;
  readonly scheduledAt: number;
  readonly startedAt: number | null;
  readonly heartbeatAt: number | null;
  readonly expiresAt: number | null;
  readonly holder: string | null;
  readonly grantId: string | null;
  readonly token: number;
  readonly finishedAt: number | null;
  readonly now: number;
}

const COLUMNS = `t.id, t.kind, t.queue, t.priority, t.state, t.dedupe_key AS "dedupeKey",
  ${concurrencyColumns("t")}, t.version,
  t.attempt, t.failures, t.crashes, t.max_attempts AS "maxAttempts", t.crash_limit AS "crashLimit",
  t.max_run_ms AS "maxRunMs", ${micros("t.start_by")} AS "startBy", t.postponed,
  ${micros("t.created_at")} AS "createdAt", ${micros("t.scheduled_at")} AS "scheduledAt",
  ${micros("t.started_at")} AS "startedAt", ${micros("t.heartbeat_at")} AS "heartbeatAt",
  ${micros("t.expires_at")} AS "expiresAt", t.holder, ${grantId("t")} AS "grantId", t.token,
  ${micros("t.finished_at")} AS "finishedAt", ${micros("clock_timestamp()")} AS now`;

type Payload = "data" | "output" | "error" | "progress";
/** Payloads as stored text, or the beginning of it where it is cut. */
export type ListedRow = PlainRow & {
  readonly seq: number;
} & {
  readonly [Name in Payload]: string | null;
} & {
  readonly [Name in `${Payload}Cut`]: boolean | null;
};

/**
 * At most the beginning of a payload leaves the database. The size needs no more than the value's header, and the
 * beginning no more than the first chunks of a large value.
 */
const listed = (
  payload: Payload,
) => `octet_length(t.${payload}) > ${LISTED_BYTES} AS "${payload}Cut",
  left(t.${payload}, CASE WHEN octet_length(t.${payload}) > ${LISTED_BYTES}
    THEN ${PREVIEW_LENGTH} ELSE ${LISTED_BYTES} END) AS ${payload}`;
const LISTED_COLUMNS = `${COLUMNS}, t.seq,
  ${[listed("data"), listed("output"), listed("error"), listed("progress")].join(",\n  ")}`;

/** An attempt of the history; times in microseconds, progress as stored text. */
type StoredAttempt = Omit<Attempt, "startedAt" | "heartbeatAt" | "endedAt" | "progress"> & {
  readonly startedAt: number;
  readonly heartbeatAt: number | null;
  readonly endedAt: number;
  readonly progress: string | null;
};
export interface DetailsRow extends PlainRow {
  readonly data: string;
  readonly output: string | null;
  readonly error: string | null;
  readonly progress: string | null;
  readonly checkpoint: string | null;
  readonly ttlMs: number;
  /** A JSON array of {@link StoredAttempt}, oldest first; null if there are none. */
  readonly attempts: string | null;
}
/**
 * Values: namespace, id. A single statement, so that the attempts are consistent with the task. The size of a text is
 * in its header: no text is read that is not returned.
 */
export const GET = `
SELECT ${COLUMNS}, t.data, t.output, t.error, t.progress, t.checkpoint, t.ttl_ms AS "ttlMs", (
    SELECT json_agg(json_build_object('attempt', a.attempt, 'holder', a.holder,
      'grantId', a.grant_id, 'token', a.token, 'ttlMs', coalesce(a.ttl_ms, 0),
      'startedAt', ${micros("a.started_at")}, 'heartbeatAt', ${micros("a.heartbeat_at")},
      'endedAt', ${micros("a.ended_at")}, 'result', a.result, 'error', a.error,
      'progress', a.progress) ORDER BY a.attempt)::text
    FROM (
      SELECT e.*, row_number() OVER newest AS place,
        sum(coalesce(octet_length(e.error), 0) + coalesce(octet_length(e.progress), 0)) OVER newest
          + coalesce(CASE WHEN t.state = 'running' THEN octet_length(t.progress) END, 0) AS bytes
      FROM leasehold.attempt e WHERE e.namespace = t.namespace AND e.task_seq = t.seq
      WINDOW newest AS (ORDER BY e.attempt DESC ROWS UNBOUNDED PRECEDING)
    ) a
    WHERE a.attempt > t.attempt - ${ATTEMPTS_KEPT}
      AND (a.bytes <= ${ATTEMPTS_BYTES} OR (a.place = 1 AND t.state <> 'running'))
  ) AS attempts
FROM leasehold.task t WHERE t.namespace = $1 AND t.id = $2`;

/** Values: namespace. */
export const COUNTS = `
SELECT state, count(*) AS count FROM leasehold.task WHERE namespace = $1 GROUP BY state`;

export interface DueKindRow {
  readonly queue: string;
  readonly kind: string;
  readonly version: number;
  readonly tasks: number;
  readonly dueAt: number;
  readonly startedAt: number | null;
}
/** Values: namespace, milliseconds, limit, queues, kinds (null: any). The limit bounds what a long backlog costs. */
export const DUE_KINDS = `
SELECT d.queue, d.kind, d.version, count(*) AS tasks, ${micros("min(d.due_at)")} AS "dueAt",
  ${micros("max(d.started_at)")} AS "startedAt"
FROM (
  SELECT t.queue, t.kind, t.version, t.started_at, greatest(t.scheduled_at, t.created_at) AS due_at
  FROM leasehold.task t
  WHERE t.namespace = $1 AND t.state = 'pending'
    -- Follows from the next condition, and is in the indexes: tasks of later are not read.
    AND t.scheduled_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'
    AND greatest(t.scheduled_at, t.created_at)
      <= clock_timestamp() - $2::float8 * interval '1 millisecond'
    AND ($4::text[] IS NULL OR t.queue = ANY ($4)) AND ($5::text[] IS NULL OR t.kind = ANY ($5))
  LIMIT $3::int
) d GROUP BY d.queue, d.kind, d.version`;

export function dueKindOf({ dueAt, startedAt, ...row }: DueKindRow): DueKind {
  return { ...row, dueAt: iso(dueAt), startedAt: isoOrNull(startedAt) };
}

/**
 * Returns the statement and its values for a page and the first row of the next one. The text contains
 * only the conditions of the query, so that each can use its index.
 * @throws InvalidOptionError for a cursor that no page returned
 */
export function listSql(query: TaskQuery, limit: number): [text: string, values: Parameter[]] {
  const values: Parameter[] = [query.namespace];
  const conditions = ["t.namespace = $1"];
  const add = (condition: (value: string) => string, value: Parameter) => {
    values.push(value);
    conditions.push(condition(`$${values.length}`));
  };
  if (query.ids) {
    add((value) => `t.id = ANY (${value}::text[])`, query.ids.filter(isTaskId));
  }
  if (query.states) add((value) => `t.state = ANY (${value}::text[])`, query.states);
  if (query.queue !== undefined) add((value) => `t.queue = ${value}`, query.queue);
  if (query.kind !== undefined) add((value) => `t.kind = ${value}`, query.kind);
  if (query.excludeDue) {
    conditions.push("(t.state <> 'pending' OR t.scheduled_at > clock_timestamp())");
  }
  if (query.cursor !== undefined) {
    add((value) => `t.seq < ${value}::bigint`, taskPosition(query.cursor));
  }
  values.push(limit + 1);
  // The page is chosen first: a plan that sorts would otherwise read the payloads of all that it sorts.
  const text = `
SELECT ${LISTED_COLUMNS} FROM (
  SELECT t.* FROM leasehold.task t WHERE ${conditions.join(" AND ")}
  ORDER BY t.seq DESC LIMIT $${values.length}::int
) t ORDER BY t.seq DESC`;
  return [text, values];
}

export function listedOf(row: ListedRow): TaskView {
  const of = (payload: Payload) => {
    const text = row[payload];
    return text === null ? null : { text, cut: row[`${payload}Cut`] === true };
  };
  const texts = { data: of("data"), output: of("output") };
  return {
    ...viewOf(row),
    ...listedPayloads({ ...texts, progress: of("progress"), error: of("error") }),
  };
}

/** Without payloads. */
function viewOf(row: PlainRow): Omit<TaskView, "error"> {
  const granted = row.startedAt !== null;
  const leftMs = row.state === "running" ? ((row.expiresAt ?? 0) - row.now) / 1_000 : null;
  return {
    id: row.id,
    kind: row.kind,
    queue: row.queue,
    priority: row.priority,
    state: row.state,
    dedupeKey: row.dedupeKey,
    concurrency: concurrencyOf(row),
    version: row.version,
    attempt: row.attempt,
    failures: row.failures,
    crashes: row.crashes,
    maxAttempts: row.maxAttempts,
    crashLimit: row.crashLimit,
    maxRunMs: row.maxRunMs,
    startBy: isoOrNull(row.startBy),
    postponed: row.postponed,
    createdAt: iso(row.createdAt),
    scheduledAt: iso(row.scheduledAt),
    startedAt: isoOrNull(row.startedAt),
    heartbeatAt: isoOrNull(row.heartbeatAt),
    expiresAt: isoOrNull(row.expiresAt),
    holder: row.holder,
    grantId: row.grantId,
    token: granted ? row.token : null,
    remainingMs: leftMs === null ? null : Math.max(0, Math.ceil(leftMs)),
    finishedAt: isoOrNull(row.finishedAt),
  };
}

export function detailsOf(row: DetailsRow): TaskDetails {
  const view = viewOf(row);
  const [data, output, progress] = [decode(row.data), decode(row.output), decode(row.progress)];
  const stored = JSON.parse(row.attempts ?? "[]") as StoredAttempt[];
  const attempts: Attempt[] = stored.map((attempt) => ({
    ...attempt,
    startedAt: iso(attempt.startedAt),
    heartbeatAt: isoOrNull(attempt.heartbeatAt),
    endedAt: iso(attempt.endedAt),
    progress: decode(attempt.progress),
  }));
  const { attempt, holder, grantId: name, token, startedAt, heartbeatAt } = view;
  if (view.state === "running" && holder && name && token && startedAt) {
    const grant = { attempt, holder, grantId: name, token, ttlMs: row.ttlMs };
    const ended = { endedAt: null, result: null, error: null };
    attempts.push({ ...grant, startedAt, heartbeatAt, ...ended, progress });
  }
  const checkpoint = decode(row.checkpoint);
  return { ...view, data, output, error: row.error, progress, checkpoint, attempts };
}

/** Parses JSON stored as text; an absent value becomes null. */
export function decode(text: string | null): Json {
  return text === null ? null : (JSON.parse(text) as Json);
}

export function iso(micros: number): string {
  return isoTime(Math.floor(micros / 1_000));
}

export function isoOrNull(micros: number | null): string | null {
  return micros === null ? null : iso(micros);
}
