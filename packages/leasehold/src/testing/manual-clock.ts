/** Time and randomness under a test's control: time moves only when advanced, and a seed repeats a run. */
import TinyQueue from "tinyqueue";
import {
  type Clock,
  type Env,
  invariant,
  type Logger,
  nextTurn,
  type Random,
  silentLogger,
} from "../env/index.js";

/** A clock that stands still until it is advanced. */
export interface ManualClock extends Clock {
  /**
   * Moves both clocks by `ms` (zero or more) and runs the timers that come due, including those that timers
   * create: by due time, then in order of creation. Promises settle before the first timer and after each,
   * so the effects of a callback are complete when the next one runs.
   */
  advance(ms: number): Promise<void>;
  /** Lets pending promises settle without moving time. */
  settle(): Promise<void>;
  /** Sets the wall clock forward or, with a negative number, back. Timers are not affected. */
  jumpWall(ms: number): void;
  /** The number of pending timers. 0 shows that the code under test has cleaned up. */
  readonly pendingTimers: number;
}

/** An arbitrary fixed instant: noon of a day in 2020. */
const START_WALL_MS = Date.UTC(2020, 0, 1, 12);

/**
 * Creates a clock that stands still until a test advances it. The monotonic clock starts at 0 ms.
 * @param options.wallMs where the wall clock starts, in milliseconds since 1970; default 2020-01-01T12:00:00Z, a fixed
 *   time, so that runs repeat
 * @example
 * ```ts
 * import { manualClock } from "leasehold/testing";
 *
 * const clock = manualClock();
 * clock.timer(1_000, () => console.log("due at", clock.monotonic()));
 * clock.jumpWall(-60_000);
 * await clock.settle();
 * await clock.advance(1_000);
 * console.log(clock.pendingTimers);
 * ```
 */
export function manualClock(options: { wallMs?: number } = {}): ManualClock {
  interface Entry {
    readonly dueMs: number;
    readonly order: number;
    callback: (() => void) | null;
  }
  const queue = new TinyQueue<Entry>([], (a, b) => a.dueMs - b.dueMs || a.order - b.order);
  let nowMs = 0;
  let wallOffsetMs = options.wallMs ?? START_WALL_MS;
  let created = 0;
  let pending = 0;
  let advancing = false;

  const nextDue = (untilMs: number): Entry | undefined => {
    const entry = queue.peek();
    return entry && entry.dueMs <= untilMs ? queue.pop() : undefined;
  };

  return {
    wall: () => nowMs + wallOffsetMs,
    monotonic: () => nowMs,
    timer(delayMs, callback) {
      const entry: Entry = { dueMs: nowMs + Math.max(0, delayMs), order: created++, callback };
      queue.push(entry);
      pending += 1;
      return {
        cancel() {
          if (!entry.callback) return;
          entry.callback = null;
          pending -= 1;
        },
      };
    },
    async advance(ms) {
      invariant(ms >= 0, "a manual clock is advanced by zero or more milliseconds");
      invariant(!advancing, "one advance() ends before the next begins");
      advancing = true;
      try {
        const untilMs = nowMs + ms;
        await nextTurn();
        for (let entry = nextDue(untilMs); entry; entry = nextDue(untilMs)) {
          const { callback } = entry;
          if (!callback) continue;
          entry.callback = null;
          pending -= 1;
          nowMs = entry.dueMs;
          callback();
          await nextTurn();
        }
        nowMs = untilMs;
        await nextTurn();
      } finally {
        advancing = false;
      }
    },
    settle: nextTurn,
    jumpWall(ms) {
      wallOffsetMs += ms;
    },
    get pendingTimers() {
      return pending;
    },
  };
}

/**
 * Repeatable randomness: the same seed gives the same sequence. Not for secrets.
 * The generator is sfc32 of PractRand (Chris Doty-Humphrey, public domain).
 * @example
 * ```ts
 * import { seededRandom } from "leasehold/testing";
 *
 * console.log(seededRandom(7).float() === seededRandom(7).float());
 * ```
 */
export function seededRandom(seed: number): Random {
  let a = seed | 0;
  let b = Math.floor(seed / 2 ** 32) | 0;
  let c = 0x9e3779b9 | 0;
  let counter = 1;
  const next = (): number => {
    const out = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + out) | 0;
    return out >>> 0;
  };
  // Discards the first values, so that similar seeds give unrelated sequences.
  for (let round = 0; round < 12; round++) next();
  return {
    bytes(count) {
      const bytes = new Uint8Array(count);
      for (let index = 0; index < count; index++) bytes[index] = next() & 0xff;
      return bytes;
    },
    float: () => next() / 2 ** 32,
  };
}

/**
 * Creates an Env of a {@link manualClock} and a {@link seededRandom}, for `connect(source, { env })`.
 * @param options.seed default 1: a fixed number, so that runs repeat
 * @param options.logger default: silent
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { manualEnv } from "leasehold/testing";
 *
 * const env = manualEnv({ seed: 7 });
 * const leasehold = await connect("memory:", { env });
 * const lease = await leasehold.acquire("billing", { ttlMs: 10_000, autoRenew: false });
 * await env.clock.advance(10_000);
 * console.log(lease.checkAlive());
 * await leasehold.close();
 * ```
 */
export function manualEnv(
  options: { seed?: number; wallMs?: number; logger?: Logger } = {},
): Env & { readonly clock: ManualClock } {
  const { seed = 1, logger = silentLogger, ...clockOptions } = options;
  return { clock: manualClock(clockOptions), random: seededRandom(seed), logger };
}
