/**
 * Kinds of tasks that no live worker handles: such tasks are due, and stay pending for ever. A store
 * does not know its workers, so what it does know decides:
 *
 *   due for 10 s ─▶ a worker claims the kind? ─▶ one runs? ─▶ one was taken or ended within 2 min? ─▶ unhandled
 */
import type { Page } from "../core/index.js";
import type { TaskQuery, TaskView } from "./port.js";

export interface UnhandledKind {
  readonly queue: string;
  readonly kind: string;
  /** The number of due tasks among the newest pending ones. */
  readonly tasks: number;
  /** Since when the oldest of them is due, ISO 8601. */
  readonly dueAt: string;
}

interface Surroundings {
  /** Of the clock of the tasks' times, as near as one has it. */
  readonly nowMs: number;
  /** Recent claims, as far as they are known. */
  readonly claimers: readonly {
    readonly queues: readonly string[];
    readonly kinds: readonly string[] | null;
  }[];
  readonly pausedQueues: readonly string[];
}

type List = (query: Omit<TaskQuery, "namespace">) => Promise<Page<TaskView>>;

/** An idle worker takes a due task at once. */
const WAITED_MS = 10_000;
/** A worker that took none of a kind for longer has stopped, or handles other kinds. */
const RECENT_MS = 120_000;
/** Pending tasks that are read, newest first. */
const READ = 200;
/** Ended tasks of a kind that are read. */
const ENDED = 20;
const MAX_KINDS = 20;

/** By the number of their tasks; at most 20. Rejects if the store is unavailable. */
export async function unhandledKinds(
  list: List,
  { nowMs, claimers, pausedQueues }: Surroundings,
): Promise<UnhandledKind[]> {
  const isRecent = (at: string | null) => at !== null && nowMs - Date.parse(at) < RECENT_MS;
  const isHandled = async ({ queue, kind }: UnhandledKind): Promise<boolean> => {
    const [running, ended] = await Promise.all([
      list({ states: ["running"], queue, kind, limit: 1 }),
      list({ states: ["done", "dead"], queue, kind, limit: ENDED }),
    ]);
    return running.items.length > 0 || ended.items.some((task) => isRecent(task.finishedAt));
  };
  const { items: pending } = await list({ states: ["pending"], limit: READ });
  const waiting = new Map<string, UnhandledKind | null>();
  for (const task of pending) {
    const { queue, kind, createdAt, scheduledAt, startedAt } = task;
    const name = JSON.stringify([queue, kind]);
    const known = waiting.get(name);
    const isClaimed = claimers.some(
      ({ queues, kinds }) => queues.includes(queue) && (kinds === null || kinds.includes(kind)),
    );
    if (isClaimed || isRecent(startedAt) || pausedQueues.includes(queue)) waiting.set(name, null);
    const dueAt = createdAt > scheduledAt ? createdAt : scheduledAt;
    if (waiting.get(name) === null || nowMs - Date.parse(dueAt) < WAITED_MS) continue;
    const oldest = known && known.dueAt < dueAt ? known.dueAt : dueAt;
    waiting.set(name, { queue, kind, tasks: (known?.tasks ?? 0) + 1, dueAt: oldest });
  }
  const kinds = [...waiting.values()]
    .filter((kind) => kind !== null)
    .sort((a, b) => b.tasks - a.tasks)
    .slice(0, MAX_KINDS);
  const handled = await Promise.all(kinds.map(isHandled));
  return kinds.filter((_, index) => !handled[index]);
}
