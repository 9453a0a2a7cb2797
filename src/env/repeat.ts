import type { Timer } from "./clock.js";
import type { Env } from "./env.js";
import { jittered } from "./random.js";

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
  let failures = 0;
  let round: Promise<void> = Promise.resolve();
  let timer: Timer;
  const arm = () => {
    const delayMs = everyMs * Math.min(2 ** failures, LARGEST_BACKOFF);
    const start = () => {
      round = run();
    };
    timer = env.clock.timer(jittered(env.random, delayMs, JITTER_RATIO), start, {
      background: true,
    });
  };
  const run = async () => {
    try {
      await work();
      if (failures > 0) env.logger.info({ work: name }, "background work succeeds again");
      failures = 0;
    } catch (err) {
      if (failures === 0) env.logger.warn({ err, work: name }, "background work failed");
      failures += 1;
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
