/** Passes the events of one watch from the shared connection to the loop that reads them. */

import type { WatchEvent } from "../../core/index.js";
import { eventsUntil } from "../../env/index.js";
import type { Hints } from "./watch-connection.js";

/** The message that wait-queue.ts publishes: the grant id of the waiter to wake, and the resource. */
const HINT = /^([0-9a-f]{16}) (.+)$/s;

/** Runs until one of the signals aborts. */
export function watchHints(
  hints: Hints,
  channel: string,
  namespace: string,
  signals: readonly AbortSignal[],
): AsyncGenerator<WatchEvent, void, void> {
  return eventsUntil<WatchEvent>(signals, (queue) =>
    hints.watch(channel, {
      resync: () => queue.resync(),
      hint(message) {
        const [, wakes, resource] = HINT.exec(message) ?? [];
        // Ignore malformed messages: any client may publish.
        if (wakes === undefined || resource === undefined) return;
        queue.push({ type: "changed", namespace, resource, wakes });
      },
    }),
  );
}
