/** Views of tasks in memory. */

import { grantIdOf } from "../../env/index.js";
import { fittingAttempts, listedPayloads, listedText } from "../../tasks/payloads.js";
import type {
  Attempt,
  DueKind,
  DueKindsQuery,
  Json,
  Page,
  TaskDetails,
  TaskQuery,
  TaskView,
} from "../../tasks/port.js";
import {
  type AttemptRecord,
  type TaskRecord,
  taskCursor,
  taskPosition,
} from "../../tasks/record.js";
import { pageOf } from "./page.js";
import type { TaskIndex } from "./task-index.js";

/** Without payloads. */
function viewOf(record: TaskRecord, nowMs: number): Omit<TaskView, "error"> {
  const { last, state } = record;
  const leftMs = last && state === "running" ? last.expiresAtMs - nowMs : null;
  return {
    id: record.id,
    kind: record.kind,
    queue: record.queue,
    priority: record.priority,
    state,
    dedupeKey: record.dedupeKey,
    concurrency: record.concurrency ?? null,
    version: record.version,
    attempt: last?.attempt ?? 0,
    failures: record.failures,
    crashes: record.crashes,
    maxAttempts: record.maxAttempts,
    crashLimit: record.crashLimit,
    maxRunMs: record.maxRunMs ?? null,
    startBy: isoOrNull(record.startByAtMs),
    postponed: record.postponed,
    createdAt: iso(record.createdAtMs),
    scheduledAt: iso(record.scheduledAtMs),
    startedAt: last && iso(last.startedAtMs),
    heartbeatAt: last && isoOrNull(last.heartbeatAtMs),
    expiresAt: last && iso(last.expiresAtMs),
    holder: last && last.holder,
    grantId: last && grantIdOf(last.leaseId),
    token: last && last.token,
    remainingMs: leftMs === null ? null : Math.max(0, Math.ceil(leftMs)),
    finishedAt: isoOrNull(record.finishedAtMs),
  };
}

function listedOf(record: TaskRecord, nowMs: number): TaskView {
  const { data, output, error, last } = record;
  const payloads = listedPayloads({
    data: listedText(data),
    output: listedText(output),
    progress: last && listedText(last.progress),
    error: error === null ? null : listedText(error),
  });
  return { ...viewOf(record, nowMs), ...payloads };
}

export function dueKindsOf(
  tasks: TaskIndex,
  { dueForMs, limit, queues, kinds: wanted }: DueKindsQuery,
  nowMs: number,
): readonly DueKind[] {
  const kinds = new Map<string, DueKind>();
  let counted = 0;
  for (const record of tasks.dueBy(nowMs - dueForMs)) {
    const { queue, kind, version, scheduledAtMs, createdAtMs, last } = record;
    const dueAtMs = Math.max(scheduledAtMs, createdAtMs);
    if (dueAtMs > nowMs - dueForMs) continue;
    if ((queues && !queues.includes(queue)) || (wanted && !wanted.includes(kind))) continue;
    const name = JSON.stringify([queue, kind, version]);
    const known = kinds.get(name);
    const dueAt = iso(dueAtMs);
    const startedAt = [known?.startedAt ?? null, last && iso(last.startedAtMs)];
    kinds.set(name, {
      queue,
      kind,
      version,
      tasks: (known?.tasks ?? 0) + 1,
      dueAt: known && known.dueAt < dueAt ? known.dueAt : dueAt,
      startedAt:
        startedAt
          .filter((at) => at !== null)
          .sort()
          .at(-1) ?? null,
    });
    counted += 1;
    if (counted === limit) break;
  }
  return [...kinds.values()];
}

/**
 * @throws InvalidOptionError for a cursor that no page returned
 */
export function listOf(tasks: TaskIndex, query: TaskQuery, nowMs: number): Page<TaskView> {
  const { ids, states, queue, kind, excludeDue = false, limit = 100, cursor } = query;
  const before = cursor === undefined ? undefined : taskPosition(cursor);
  const records = ids ? tasks.newestOf(ids, before) : tasks.newestFirst(before);
  const { found, last } = pageOf(
    records,
    limit,
    (record) =>
      (!states || states.includes(record.state)) &&
      (queue === undefined || record.queue === queue) &&
      (kind === undefined || record.kind === kind) &&
      !(excludeDue && record.state === "pending" && record.scheduledAtMs <= nowMs),
  );
  return {
    items: found.map((record) => listedOf(record, nowMs)),
    nextCursor: last && taskCursor(last),
  };
}

export function detailsOf(record: TaskRecord, nowMs: number): TaskDetails {
  const { data, output, error, last } = record;
  return {
    ...viewOf(record, nowMs),
    data: decode(data),
    output: decode(output),
    error,
    progress: last ? decode(last.progress) : null,
    checkpoint: decode(record.checkpoint),
    attempts: fittingAttempts(grantsOf(record)).map(viewAttempt),
  };
}

/** Oldest first, including the last attempt. */
export function grantsOf({ earlier, last }: TaskRecord): readonly AttemptRecord[] {
  return last ? [...earlier, last] : earlier;
}

function viewAttempt(attempt: AttemptRecord): Attempt {
  const { error, progress } = attempt;
  return { ...viewGrant(attempt), error, progress: decode(progress) };
}

/** Without the progress, which may be large. */
export function viewGrant(attempt: AttemptRecord): Omit<Attempt, "error" | "progress"> {
  return {
    attempt: attempt.attempt,
    holder: attempt.holder,
    grantId: grantIdOf(attempt.leaseId),
    token: attempt.token,
    ttlMs: attempt.ttlMs,
    startedAt: iso(attempt.startedAtMs),
    heartbeatAt: isoOrNull(attempt.heartbeatAtMs),
    endedAt: isoOrNull(attempt.endedAtMs),
    result: attempt.result,
  };
}

function decode(text: string): Json {
  return JSON.parse(text) as Json;
}

export function iso(storeMs: number): string {
  return new Date(storeMs).toISOString();
}

function isoOrNull(storeMs: number | null): string | null {
  return storeMs === null ? null : iso(storeMs);
}
