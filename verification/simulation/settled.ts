/**
 * When an event has settled: every promise reaction that it set off has run, and the real code waits for no
 * turn of the event loop. Such a turn belongs to the event. If it came later, the code would continue at the
 * simulated time of a later event, or only when the world has no more events.
 */
import { nextTurn } from "leasehold/internal";

/** Takes at least one turn of the event loop, as real events do. */
export async function settledByTurns(): Promise<void> {
  do await nextTurn();
  while (isTurnPending());
}

/** Leads to the same course, faster: few events need a turn, which is a call of the operating system. */
export async function settledByTicks(): Promise<void> {
  // Ticks come after promise reactions only if a promise reaction schedules them.
  await Promise.resolve();
  await new Promise<void>((resolve) => process.nextTick(resolve));
  while (isTurnPending()) await nextTurn();
}

/** In Node, nextTurn() calls setImmediate(). */
function isTurnPending(): boolean {
  return process.getActiveResourcesInfo().includes("Immediate");
}
