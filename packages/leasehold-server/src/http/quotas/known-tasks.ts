/** Tasks that a request names: a few kilobytes of ids may name a thousand tasks of megabytes. */
import { nextTurn, type TaskStore, type TaskView } from "leasehold/internal";

/** Ids that are looked up at once. */
const STEP = 200;

/** Pages of those that exist, without large payloads, with how many of the ids were looked up for each page. */
export async function* knownTasks(
  tasks: Pick<TaskStore, "list">,
  namespace: string,
  ids: readonly string[],
): AsyncGenerator<{ readonly asked: number; readonly found: readonly TaskView[] }, void, void> {
  const distinct = [...new Set(ids)];
  for (let from = 0; from < distinct.length; from += STEP) {
    // A store in this process does not yield by itself.
    if (from > 0) await nextTurn();
    const step = distinct.slice(from, from + STEP);
    const { items } = await tasks.list({ namespace, ids: step, limit: step.length });
    yield { asked: step.length, found: items };
  }
}

/** How many of the ids are those of no task. Counts no further than one page above `most`. */
export async function countAbsent(
  tasks: Pick<TaskStore, "list">,
  namespace: string,
  ids: readonly string[],
  most: number,
): Promise<number> {
  let absent = 0;
  for await (const { asked, found } of knownTasks(tasks, namespace, ids)) {
    absent += asked - found.length;
    if (absent > most) break;
  }
  return absent;
}
