/** Operator actions on all tasks that match a filter, whether they are shown or not. */
import type { BulkAnswer, BulkRequest, Counts, TaskPage } from "leasehold/internal/wire";
import { api, get } from "../../data/api.js";
import { ACTION_STATES, type Action } from "./task-actions.js";
import type { State, TaskFilter } from "./task-queries.js";

const PAGE = 200;
/** Counting lists the tasks, so it stops here and reports that there are more. */
const MOST_COUNTED = 2_000;

export interface Matching {
  readonly count: number;
  /** There are more than `count`. */
  readonly more: boolean;
}

/** The states that allow an action, limited to the shown one. */
export const statesFor = (action: Action, state: State | undefined): readonly State[] =>
  ACTION_STATES[action].filter((one) => state === undefined || one === state);

/** @throws ApiError */
export async function countMatching(
  action: Action,
  { state, queue, kind }: TaskFilter,
  signal: AbortSignal,
): Promise<Matching> {
  const states = statesFor(action, state);
  if (queue === undefined && kind === undefined) {
    const counts = await get<Counts>("/api/tasks/counts", { signal });
    return { count: states.reduce((sum, one) => sum + counts[one], 0), more: false };
  }
  let count = 0;
  for (const one of states) {
    let cursor: string | undefined;
    do {
      const { items, nextCursor }: TaskPage = await get<TaskPage>("/api/tasks", {
        signal,
        query: { state: one, queue, kind, limit: PAGE, cursor },
      });
      count += items.length;
      cursor = nextCursor ?? undefined;
      if (count >= MOST_COUNTED && cursor !== undefined) return { count, more: true };
    } while (cursor !== undefined);
  }
  return { count, more: false };
}

/** How many tasks the server changes in one request. */
const MOST_AT_ONCE = 1_000;
const MOST_REQUESTS = 100;

/**
 * Sends as many requests as the count requires and no more. Tasks that are added meanwhile, or die again
 * after a retry, could make it endless.
 * @throws ApiError
 */
export async function applyToMatching(
  action: Action,
  { state, queue, kind }: TaskFilter,
  matching: Matching,
  reason: string,
): Promise<{ changed: number; others: number; overLimit: number }> {
  const needed = Math.max(1, Math.ceil(matching.count / MOST_AT_ONCE));
  const requests = matching.more ? MOST_REQUESTS : needed;
  const filter = { states: statesFor(action, state), queue, kind };
  // One request: the server does nothing if another number matches than the one that the user has seen.
  const isOne = !matching.more && matching.count <= MOST_AT_ONCE;
  const expected = isOne ? { expected: matching.count } : {};
  const body: BulkRequest = { operation: action, filter, reason, ...expected };
  let changed = 0;
  let others = 0;
  let overLimit = 0;
  for (let request = 0; request < requests; request += 1) {
    const answer = await api<BulkAnswer>("POST", "/api/tasks/bulk", { body });
    changed += answer.changed;
    others += answer.conflicts;
    overLimit = answer.overLimit;
    if (!answer.more || answer.changed === 0 || overLimit > 0) break;
  }
  return { changed, others, overLimit };
}
