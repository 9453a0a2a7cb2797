/** Results and statistics of tasks in memory. */

import { byteLength, RepeatedOutputs } from "../../tasks/payloads.js";
import type {
  Json,
  TaskKey,
  TaskResult,
  TaskStatistics,
  TaskStats,
  TaskStatsQuery,
} from "../../tasks/port.js";
import { NO_TASKS, versionTaken } from "../../tasks/port.js";
import { isUnfinished, type TaskRecord } from "../../tasks/record.js";
import type { TaskIndex } from "./task-index.js";

/** Reads the results of one call. */
export function resultsOf(
  keys: readonly TaskKey[],
  recordOf: (key: TaskKey) => TaskRecord | null,
): TaskResult[] {
  const bytes = new RepeatedOutputs();
  const isTooMuch = (text: string) => bytes.exceeds("", byteLength(text));
  return keys.map((key) => {
    const { id } = key;
    const record = recordOf(key);
    if (!record) return { id, state: "unknown" };
    const { state, output, error } = record;
    if (isUnfinished(state) || isTooMuch(state === "done" ? output : (error ?? ""))) {
      return { id, state };
    }
    return state === "done"
      ? { id, state, output: JSON.parse(output) as Json }
      : { id, state, error };
  });
}

/** What is counted up to the limit. */
type Counted = TaskRecord["state"] | "due";

export function statsOf(tasks: TaskIndex, query: TaskStatsQuery, nowMs: number): TaskStatistics {
  const { queues, kinds = null, versions, unfinishedOnly = false, limit } = query;
  const counted = new Map<Counted, number>();
  const items = new Map<string, TaskStats>();
  let complete = true;
  for (const record of tasks.newestFirst(undefined)) {
    const { queue, kind, version, state, scheduledAtMs, createdAtMs } = record;
    if (unfinishedOnly && !isUnfinished(state)) continue;
    if ((queues && !queues.includes(queue)) || (kinds && !kinds.includes(kind))) continue;
    if (versions && version > versionTaken({ kinds, versions }, kind)) continue;
    const isDue = state === "pending" && scheduledAtMs <= nowMs;
    const what = isDue ? "due" : state;
    const count = (counted.get(what) ?? 0) + 1;
    if (count > limit) {
      complete = false;
      continue;
    }
    counted.set(what, count);
    const name = JSON.stringify([queue, kind]);
    const known = items.get(name) ?? { ...NONE, queue, kind };
    const dueForMs = isDue ? nowMs - Math.max(scheduledAtMs, createdAtMs) : -1;
    items.set(name, {
      ...known,
      [state]: known[state] + 1,
      due: known.due + (isDue ? 1 : 0),
      dueForMs: isDue ? Math.max(known.dueForMs ?? 0, Math.floor(dueForMs)) : known.dueForMs,
    });
  }
  return { items: [...items.values()].sort(byName), complete };
}

const NONE = { ...NO_TASKS, due: 0, dueForMs: null };

function byName(a: TaskStats, b: TaskStats): number {
  if (a.queue !== b.queue) return a.queue < b.queue ? -1 : 1;
  return a.kind < b.kind ? -1 : 1;
}
