/**
 * Kinds of tasks that no live worker handles: such tasks are due, and stay pending for ever. A store
 * does not know its workers, so what it does know decides:
 *
 *   due for 10 s ─▶ a worker claims the kind? ─▶ one runs? ─▶ one was taken or ended within 2 min? ─▶ unhandled
 *
 * Each version counts by itself, and a worker of a later version handles those before it. A worker tells by itself of those
 * that it leaves to others, as while a deployment is under way; only where the store can group its tasks.
 */
import type { Env } from "../env/index.js";
import type { Page } from "../lease/index.js";
import type {
  ClaimRequest,
  DueKind,
  DueKindsQuery,
  TaskQuery,
  TaskState,
  TaskStore,
  TaskView,
} from "./port.js";
import { FIRST_VERSION, versionTaken } from "./values.js";

export interface UnhandledKind {
  readonly queue: string;
  readonly kind: string;
  readonly version: number;
  readonly tasks: number;
  /** False: there are at least so many tasks. */
  readonly complete: boolean;
  /** Since when the oldest of them is due, ISO 8601. */
  readonly dueAt: string;
}

interface Surroundings {
  /** Of the clock of the tasks' times, as near as one has it. */
  readonly nowMs: number;
  /** Recent claims, as far as they are known. */
  readonly claimers: readonly Pick<ClaimRequest, "queues" | "kinds" | "versions">[];
  readonly pausedQueues: readonly string[];
}

type List = (query: Omit<TaskQuery, "namespace">) => Promise<Page<TaskView>>;

export type DueKinds = (query: Omit<DueKindsQuery, "namespace">) => Promise<readonly DueKind[]>;

interface Source {
  readonly list: List;
  /** Undefined if the store cannot group its tasks. */
  readonly dueKinds?: DueKinds | undefined;
}

/** An idle worker takes a due task at once. */
const WAITED_MS = 10_000;
/** A worker that took none of a kind for longer has stopped, or handles other kinds. */
const RECENT_MS = 120_000;
/** Due tasks that a store counts: a look at a long backlog must stay cheap. */
const COUNTED = 20_000;
/** Pending tasks that are read from a store that cannot group them, newest first. */
const READ = 200;
/** Tasks of a kind that are read in each state: of later versions more, because others may hide them. */
const readOf = (version: number) => (version === FIRST_VERSION ? 20 : READ);
const MAX_KINDS = 20;
/** Of a worker, between two looks for later versions. */
const PAUSE_MS = 30_000;
/** Due tasks that such a look counts. */
const LOOKED_AT = 1_000;

/** By the number of their tasks; at most 20. Rejects if the store is unavailable. */
export async function unhandledKinds(
  source: Source,
  { nowMs, claimers, pausedQueues }: Surroundings,
): Promise<UnhandledKind[]> {
  const { list } = source;
  const isRecent = (at: string | null) => at !== null && nowMs - Date.parse(at) < RECENT_MS;
  const isWaiting = ({ queue, kind, version, startedAt }: DueKind): boolean => {
    const isClaimed = claimers.some(
      (claim) =>
        claim.queues.includes(queue) &&
        (claim.kinds === null || claim.kinds.includes(kind)) &&
        version <= versionTaken(claim, kind),
    );
    return !isClaimed && !isRecent(startedAt) && !pausedQueues.includes(queue);
  };
  const isHandled = async ({ queue, kind, version }: DueKind): Promise<boolean> => {
    const of = async (...states: TaskState[]) => {
      const { items } = await list({ states, queue, kind, limit: readOf(version) });
      return items.filter((task) => task.version >= version);
    };
    const [running, pending, ended] = await Promise.all([
      of("running"),
      of("pending"),
      of("done", "dead"),
    ]);
    const isTaken = pending.some((task) => isRecent(task.startedAt));
    const isEnded = ended.some((task) => isRecent(task.finishedAt));
    return running.length > 0 || isTaken || isEnded;
  };
  const { due, complete } = await countDue(source, nowMs);
  const kinds = due
    .filter(isWaiting)
    .sort((a, b) => b.tasks - a.tasks)
    .slice(0, MAX_KINDS);
  const handled = await Promise.all(kinds.map(isHandled));
  return kinds
    .filter((_, index) => !handled[index])
    .map(({ startedAt: _, ...kind }) => ({ ...kind, complete }));
}

async function countDue({ list, dueKinds }: Source, nowMs: number) {
  if (dueKinds) {
    const due = await dueKinds({ dueForMs: WAITED_MS, limit: COUNTED });
    return { due, complete: due.reduce((sum, { tasks }) => sum + tasks, 0) < COUNTED };
  }
  const { items, nextCursor } = await list({ states: ["pending"], limit: READ });
  const due = new Map<string, DueKind>();
  for (const { queue, kind, version, createdAt, scheduledAt, startedAt } of items) {
    const dueAt = createdAt > scheduledAt ? createdAt : scheduledAt;
    if (nowMs - Date.parse(dueAt) < WAITED_MS) continue;
    const name = JSON.stringify([queue, kind, version]);
    const known = due.get(name);
    const started = [known?.startedAt ?? null, startedAt].filter((at) => at !== null);
    due.set(name, {
      queue,
      kind,
      version,
      tasks: (known?.tasks ?? 0) + 1,
      dueAt: known && known.dueAt < dueAt ? known.dueAt : dueAt,
      startedAt: started.sort().at(-1) ?? null,
    });
  }
  return { due: [...due.values()], complete: nextCursor === null };
}

interface LaterVersions {
  readonly store: Pick<TaskStore, "dueKinds">;
  readonly env: Pick<Env, "clock" | "logger">;
}

/** @returns a function to call whenever a claim took fewer tasks than it could: it looks now and then, and waits for nothing */
export function laterVersions({ store, env: { clock, logger } }: LaterVersions) {
  const reported = new Set<string>();
  let lastMs = Number.NEGATIVE_INFINITY;
  return ({ namespace, queues, kinds, versions }: ClaimRequest): void => {
    if (!store.dueKinds || !kinds || clock.monotonic() - lastMs < PAUSE_MS) return;
    lastMs = clock.monotonic();
    const query = { namespace, queues, kinds, dueForMs: WAITED_MS, limit: LOOKED_AT };
    store.dueKinds(query).then(
      (due) => {
        for (const { queue, kind, version, tasks, dueAt } of due) {
          const taken = versionTaken({ kinds, versions }, kind);
          const name = JSON.stringify([queue, kind, version]);
          if (version <= taken || reported.has(name)) continue;
          reported.add(name);
          const fields = { queue, kind, version, taken, tasks, dueAt };
          logger.warn(
            fields,
            "due tasks are of a later version: this worker leaves them to others",
          );
        }
      },
      // The claims tell of a store that does not answer.
      () => {},
    );
  };
}
