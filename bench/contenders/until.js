// How contenders know that they are done.
import { setTimeout as delay } from "node:timers/promises";

/** Counts, and tells when there were as many as expected. */
export class Countdown {
  #left = 0;
  #done = () => {};

  /** @param {number} count */
  of(count) {
    this.#left = count;
    /** @type {Promise<void>} */
    const done = new Promise((resolve) => {
      this.#done = resolve;
    });
    return done;
  }

  one() {
    this.#left -= 1;
    if (this.#left === 0) this.#done();
  }

  get left() {
    return this.#left;
  }
}

/**
 * Until the statement finds nothing: the last handlers have run, their completions are on the way.
 * @param {import("pg").Pool} pool
 * @param {string} unfinished
 */
export async function untilNone(pool, unfinished) {
  while ((await pool.query(unfinished)).rows.length > 0) await delay(3);
}

/**
 * As many handlers as run while the time goes by, per second.
 * @param {Countdown} countdown
 * @param {number} forMs
 */
export async function rateDuring(countdown, forMs) {
  const [begin, before] = [performance.now(), countdown.left];
  await delay(forMs);
  return ((before - countdown.left) / (performance.now() - begin)) * 1_000;
}

/**
 * Milliseconds from the call of `enqueue` until its handler starts, with pauses in which the worker
 * becomes idle.
 * @param {number} times
 * @param {() => Promise<unknown>} enqueue
 * @param {(started: () => void) => void} onStart
 */
export async function startLatencies(times, enqueue, onStart) {
  const latencies = [];
  for (let turn = 0; turn < times; turn += 1) {
    await delay(20 + 10 * Math.random());
    const startedAt = new Promise((resolve) => onStart(() => resolve(performance.now())));
    const begin = performance.now();
    await enqueue();
    latencies.push((await startedAt) - begin);
  }
  return latencies;
}
