/** The pending tasks of a queue without their data, to find those ahead of a task. */
import type { TaskStore, TaskView } from "leasehold/internal";

const PAGE = 200;
/** Only this many pages of the newest pending tasks are read. */
const MAX_PAGES = 5;

/** A queue of a tenant. */
export interface QueueKey {
  readonly namespace: string;
  readonly queue: string;
}

export interface Queued {
  readonly tasks: readonly Pick<TaskView, "id" | "priority" | "scheduledAt">[];
  /** Whether there are further, older tasks. */
  readonly more: boolean;
}

/**
 * Stores list the newest tasks first, but the oldest are claimed first. So in a very long queue the result
 * misses some tasks that come first. Rejects if the store is unavailable.
 */
export async function queuedIn(
  tasks: Pick<TaskStore, "list">,
  { namespace, queue }: QueueKey,
): Promise<Queued> {
  const queued: Pick<TaskView, "id" | "priority" | "scheduledAt">[] = [];
  let cursor: string | null | undefined;
  for (let pages = 0; pages < MAX_PAGES && cursor !== null; pages += 1) {
    const from = cursor === undefined ? {} : { cursor };
    const query = { namespace, states: ["pending"] as const, queue, limit: PAGE };
    const page = await tasks.list({ ...query, ...from });
    queued.push(
      ...page.items.map(({ id, priority, scheduledAt }) => ({ id, priority, scheduledAt })),
    );
    cursor = page.nextCursor;
  }
  return { tasks: queued, more: cursor !== null };
}
