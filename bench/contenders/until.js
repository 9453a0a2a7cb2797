// Ways in which contenders detect that they are done.
import { setTimeout as delay } from "node:timers/promises";
import { forEach } from "../measure.js";

const CALLERS = 64;
const BULK = 1_000;

/** Counts, and resolves a promise when the expected count is reached. */
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
 * Polls until the statement finds no unfinished task. The last handlers have already run; their completions
 * may still be in flight.
 * @param {import("pg").Pool} pool
 * @param {string} unfinished
 */
export async function untilNone(pool, unfinished) {
  while ((await pool.query(unfinished)).rows.length > 0) await delay(3);
}

/**
 * Counts the handlers that run within `forMs`, per second.
 * @param {Countdown} countdown
 * @param {number} forMs
 */
export async function rateDuring(countdown, forMs) {
  const [begin, before] = [performance.now(), countdown.left];
  await delay(forMs);
  return ((before - countdown.left) / (performance.now() - begin)) * 1_000;
}

/**
 * Measures the milliseconds that it takes to enqueue `count` tasks one by one, by 64 callers at once.
 * @param {number} count
 * @param {(n: number) => Promise<unknown>} enqueue
 */
export async function enqueueing(count, enqueue) {
  const numbers = Array.from({ length: count }, (_, n) => n);
  const begin = performance.now();
  await forEach(CALLERS, numbers, enqueue);
  return performance.now() - begin;
}

/**
 * Adds `count` tasks in sequence, 1,000 a call, and returns the milliseconds that it took.
 * @template Task
 * @param {number} count
 * @param {(n: number) => Task} taskOf
 * @param {(tasks: Task[]) => Promise<unknown>} add
 */
export async function addingInBulk(count, taskOf, add) {
  const begin = performance.now();
  for (let from = 0; from < count; from += BULK) {
    const length = Math.min(BULK, count - from);
    await add(Array.from({ length }, (_, n) => taskOf(from + n)));
  }
  return performance.now() - begin;
}

/**
 * Measures the milliseconds from the call of `enqueue` until its handler starts. The worker becomes idle
 * before each call.
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
