/** The pending tasks of a queue, without what is in them, for those who ask why one of them waits. */
import type { TaskStore, TaskView } from "leasehold/internal";

const PAGE = 200;
/** Of the pending tasks of a queue the newest so many pages are looked at. */
const MOST_PAGES = 5;

/** A queue of a tenant. */
export interface QueueKey {
  readonly namespace: string;
  readonly queue: string;
}

export interface Queued {
  readonly tasks: readonly Pick<TaskView, "id" | "priority" | "scheduledAt">[];
  /** Whether there are more: older ones. */
  readonly more: boolean;
}

/**
 * The newest are listed first, and those that come first are the oldest: of very many some are missed.
 * Rejects as the store does.
 */
export async function queuedIn(
  tasks: Pick<TaskStore, "list">,
  { namespace, queue }: QueueKey,
): Promise<Queued> {
  const queued: Pick<TaskView, "id" | "priority" | "scheduledAt">[] = [];
  let cursor: string | null | undefined;
  for (let pages = 0; pages < MOST_PAGES && cursor !== null; pages += 1) {
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
