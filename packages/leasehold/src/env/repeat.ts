import { Backoff } from "./backoff.js";
import type { Timer } from "./clock.js";
import type { Env } from "./env.js";

/** Work that comes round again until it is stopped. */
export interface Repeating {
  /** No further round begins; resolves when the one under way has ended. */
  stop(): Promise<void>;
}

/** A fleet that started together spreads out within a few rounds. */
const JITTER_RATIO = 0.2;
/** While its rounds fail, work waits up to this many times longer between them. */
const LARGEST_BACKOFF = 16;

/**
 * Runs `work` about every `everyMs`, the first time one interval from now, never twice at once, and
 * without holding the process open. A failing round is logged (once per run of failures, not each)
 * and tried again later, at most 16 intervals later: background work never throws at anybody.
 */
export function repeat(
  env: Env,
  name: string,
  everyMs: number,
  work: () => Promise<unknown>,
): Repeating {
  let stopped = false;
  const backoff = new Backoff(env.random, {
    firstMs: everyMs,
    longestMs: everyMs * LARGEST_BACKOFF,
    jitter: JITTER_RATIO,
  });
  let failing = false;
  let round: Promise<void> = Promise.resolve();
  let timer: Timer;
  const arm = () => {
    const start = () => {
      round = run();
    };
    timer = env.clock.timer(backoff.nextMs(), start, { background: true });
  };
  const run = async () => {
    try {
      await work();
      if (failing) env.logger.info({ work: name }, "background work succeeds again");
      failing = false;
      backoff.reset();
    } catch (err) {
      if (!failing) env.logger.warn({ err, work: name }, "background work failed");
      failing = true;
    }
    if (!stopped) arm();
  };
  arm();
  return {
    stop: () => {
      stopped = true;
      timer.cancel();
      return round;
    },
  };
}
