/** Passes the events of one watch from the shared connection to the loop that reads them. */

import { eventsUntil } from "../../env/index.js";
import type { WatchEvent } from "../../lease/index.js";
import type { Notifications } from "./watch-connection.js";

/** The message that wait-queue.ts publishes: the grant id of the waiter to wake, and the resource. */
const MESSAGE = /^([0-9a-f]{16}) (.+)$/s;

/** Runs until one of the signals aborts. */
export function watchNotifications(
  notifications: Notifications,
  channel: string,
  namespace: string,
  signals: readonly AbortSignal[],
): AsyncGenerator<WatchEvent, void, void> {
  return eventsUntil<WatchEvent>(signals, (queue) =>
    notifications.watch(channel, {
      resync: () => queue.resync(),
      notify(message) {
        const [, wakes, resource] = MESSAGE.exec(message) ?? [];
        // Ignore malformed messages: any client may publish.
        if (wakes === undefined || resource === undefined) return;
        queue.push({ type: "changed", namespace, resource, wakes });
      },
    }),
  );
}
