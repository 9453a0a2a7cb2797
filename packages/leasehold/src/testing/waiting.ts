/** How the suites wait in real time: for a condition, for events, for a body with a deadline. */
import { sleep, systemClock } from "../env/index.js";
import { PATIENCE_MS, POLL_MS } from "./calls.js";
import type { Expect } from "./framework.js";

/** Even on a busy machine, a condition that is still false after this time never becomes true. */
const NEVER_MS = 60_000;

/** Polls until the condition is true; fails after {@link NEVER_MS}. */
export async function until(
  expect: Expect,
  what: string,
  isTrue: () => boolean | Promise<boolean>,
): Promise<void> {
  const untilMs = systemClock.monotonic() + NEVER_MS;
  while (!(await isTrue())) {
    expect(systemClock.monotonic(), `still waiting: ${what}`).toBeLessThan(untilMs);
    await sleep(systemClock, POLL_MS);
  }
}

/**
 * Runs a body that must finish before a short TTL ends. The body returns false if the machine was too slow;
 * then it runs again with twice the TTL.
 */
export async function inTime(
  expect: Expect,
  ttl: { firstMs: number; maxMs: number },
  body: (ttlMs: number) => Promise<boolean>,
): Promise<void> {
  for (let ttlMs = ttl.firstMs; ttlMs <= Math.min(ttl.maxMs, PATIENCE_MS); ttlMs *= 2) {
    if (await body(ttlMs)) return;
  }
  expect(false, "the machine is too slow for ttls of seconds").toBe(true);
}

/** Collects the events of a watch in the background. */
export class Watching<Event> {
  readonly events: Event[] = [];
  readonly #controller = new AbortController();
  /** When the iterator has ended. */
  readonly ended: Promise<void>;

  constructor(watch: (options: { signal: AbortSignal }) => AsyncIterable<Event>) {
    this.ended = this.#follow(watch);
    // A rejection is not unhandled: stop() returns this promise, and its caller gets the error.
    this.ended.catch(() => {});
  }

  /** Aborts, and resolves when the iterator has ended. */
  stop(): Promise<void> {
    this.#controller.abort();
    return this.ended;
  }

  async #follow(watch: (options: { signal: AbortSignal }) => AsyncIterable<Event>): Promise<void> {
    const { signal } = this.#controller;
    for await (const event of watch({ signal })) this.events.push(event);
  }
}
