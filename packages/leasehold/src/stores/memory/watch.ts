import { type EventQueue, eventsUntil, type Resync } from "../../env/index.js";

/** Yields the events pushed to these sets, from now until the signal aborts or the sets end it. */
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
