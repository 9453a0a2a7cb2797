/**
 * Which task of a concurrency key may run next. A key belongs to a queue and a kind: of its tasks at most `perKey` run at
 * a time, in the order in which the store numbered them.
 *
 *   running, live          pending, by number
 *   ┌───┐ ┌───┐          ┌───┐ ┌───┐ ┌───┐
 *   │ 1 │ │ 2 │  ◀────── │ 3 │ │ 4 │ │ 5 │   one for each free place, from the head on
 *   └───┘ └───┘          └───┘ └───┘ └───┘
 *
 * The head keeps its place while it waits for its retry or for the reaper, and so keeps back those behind it. A task that
 * is scheduled for later has no place before it is due. `order: "any"` takes due tasks in claim order instead.
 */
import type { Concurrency } from "./port.js";
import type { TaskRecord } from "./record.js";

/** The unfinished tasks of one key. */
export interface KeyTasks {
  /** By number. */
  readonly pending: Iterable<TaskRecord>;
  readonly running: Iterable<TaskRecord>;
  /** As the newest pending task declares it: the limit and the order are those of the whole key. */
  readonly declared: Concurrency;
}

/** Whether a further task may run beside those that hold a live lease. */
export function hasPlace({ running, declared }: KeyTasks, nowMs: number): boolean {
  let live = 0;
  for (const record of running) if (isLive(record, nowMs)) live += 1;
  return live < declared.perKey;
}

/** The first pending task that may run next; null: it must wait for another one, or until it is due. */
export function headOfKey({ pending, running }: KeyTasks, nowMs: number): TaskRecord | null {
  let stuck = Number.POSITIVE_INFINITY;
  for (const record of running) if (!isLive(record, nowMs)) stuck = Math.min(stuck, record.seq);
  for (const record of pending) {
    if (record.seq > stuck) return null;
    if (record.scheduledAtMs <= nowMs) return record;
    if (record.last) return null;
  }
  return null;
}

function isLive({ last }: TaskRecord, nowMs: number): boolean {
  return last !== null && nowMs < last.expiresAtMs;
}
