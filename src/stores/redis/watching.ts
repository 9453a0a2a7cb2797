/** The events of one watch, from the connection that all listen on to the one loop that reads them. */
import type { WatchEvent } from "../../lease/index.js";
import type { Hints } from "./hints.js";

/** So many unread hints say no more than "read everything again". */
const LONGEST_BACKLOG = 1_000;
/** As line.ts publishes it: the ticket whose turn it is, and the resource. */
const HINT = /^([0-9a-f]{16}) (.+)$/s;
const RESYNC = { type: "resync" } as const;

/** Until one of the signals aborts. Not AbortSignal.any: it would keep what is left of each watch. */
export async function* watchHints(
  hints: Hints,
  channel: string,
  namespace: string,
  signals: readonly AbortSignal[],
): AsyncGenerator<WatchEvent, void, void> {
  let backlog: WatchEvent[] = [];
  let over = signals.some(({ aborted }) => aborted);
  let wake = () => {};
  const end = () => {
    over = true;
    wake();
  };
  if (over) return;
  const unwatch = hints.watch(channel, {
    resync() {
      backlog = [RESYNC];
      wake();
    },
    hint(message) {
      const [, wakes, resource] = HINT.exec(message) ?? [];
      // Somebody tried whether he may publish.
      if (wakes === undefined || resource === undefined) return;
      const event = { type: "changed", namespace, resource, wakes } as const;
      if (backlog.length < LONGEST_BACKLOG) backlog.push(event);
      else backlog = [RESYNC];
      wake();
    },
  });
  for (const signal of signals) signal.addEventListener("abort", end, { once: true });
  try {
    while (!over) {
      const event = backlog.shift();
      if (event !== undefined) yield event;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    for (const signal of signals) signal.removeEventListener("abort", end);
    unwatch();
  }
}
