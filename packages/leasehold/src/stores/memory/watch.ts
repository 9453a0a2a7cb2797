import { type EventQueue, eventsUntil, type Resync } from "../../env/index.js";

/** The events of a watch that is in these sets, from now until the signal aborts or they are ended. */
export function follow<Event>(
  signal: AbortSignal,
  sets: readonly Set<EventQueue<Event>>[],
): AsyncGenerator<Event | Resync, void, void> {
  return eventsUntil<Event>([signal], (queue) => {
    for (const set of sets) set.add(queue);
    queue.resync();
    return () => {
      for (const set of sets) set.delete(queue);
    };
  });
}
