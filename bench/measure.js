// What all questions share: rounds that alternate between the contenders, and what is measured in one.

/**
 * The extent of this run: everything, or sizes that take a few minutes.
 * @typedef {object} Scope
 * @property {boolean} quick
 * @property {(full: number, quick: number) => number} size the number for the run at hand
 * @property {(text: string) => void} progress one line about the current step
 * @property {import("./engines.js").Engines} engines
 */

/**
 * What one contender measured in one round.
 * @typedef {object} Round
 * @property {number} value such as operations per second, or milliseconds
 * @property {Record<string, number>} [cpuUs] CPU time per operation: of the client, of the server
 */

/**
 * @typedef {object} Question
 * @property {string} question
 * @property {(scope: Scope) => Promise<import("./rows.js").Row[]>} run
 */

/** @param {readonly number[]} values */
export function median(values) {
  return quantile(values, 0.5);
}

/**
 * @param {readonly number[]} values
 * @param {number} share 0 to 1
 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(at)] ?? NaN, sorted[Math.ceil(at)] ?? NaN];
  return low + (high - low) * (at - Math.floor(at));
}

/**
 * Runs each contender once a round and rotates their order from round to round, so that a machine
 * that becomes slower affects all of them alike.
 * @template {string} Name
 * @template Measured
 * @param {number} rounds
 * @param {Record<Name, (round: number) => Promise<Measured>>} contenders what each measures in one round
 * @param {(text: string) => void} progress
 * @param {number} [warmUps] rounds before them, which do not count; default 1, for contenders that keep their process
 * @returns {Promise<Record<Name, Measured[]>>}
 */
export async function interleaved(rounds, contenders, progress, warmUps = 1) {
  const names = /** @type {Name[]} */ (Object.keys(contenders));
  const measured = /** @type {Record<Name, Measured[]>} */ ({});
  for (const name of names) measured[name] = [];
  for (let round = 1 - warmUps; round <= rounds; round += 1) {
    for (let at = 0; at < names.length; at += 1) {
      const name = names[(at + round + warmUps) % names.length];
      progress(`round ${round} of ${rounds}: ${name}`);
      const value = await contenders[name](round);
      if (round > 0) measured[name].push(value);
    }
  }
  return measured;
}

/**
 * Counts the CPU time that `work` takes per operation.
 * @param {import("./cpu.js").Clocks} cpu
 * @param {() => Promise<{ value: number, count: number }>} work
 * @returns {Promise<Round>}
 */
export async function metered(cpu, work) {
  const before = Object.entries(cpu).map(([name, clock]) => ({ name, clock, usedUs: clock() }));
  const { value, count } = await work();
  const cpuUs = before.map(({ name, clock, usedUs }) => [name, (clock() - usedUs) / count]);
  return { value, cpuUs: Object.fromEntries(cpuUs) };
}

/**
 * Calls `work` for each item, with `callers` concurrent callers.
 * @template Item
 * @param {number} callers
 * @param {readonly Item[]} items
 * @param {(item: Item) => unknown} work
 */
export async function forEach(callers, items, work) {
  let next = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (next < items.length) await work(items[next++]);
    }),
  );
}

/**
 * Measures `count` operations as a rate per second.
 * @param {import("./cpu.js").Clocks} cpu
 * @param {number} count
 * @param {() => Promise<number | void>} work resolves to the milliseconds that count, if not all of them do
 */
export function rateOfAll(cpu, count, work) {
  return metered(cpu, async () => {
    const begin = performance.now();
    const tookMs = (await work()) ?? performance.now() - begin;
    return { value: (count / tookMs) * 1_000, count };
  });
}

/**
 * Counts the calls per second of `callers` concurrent callers, each of which calls `work` in a loop for `forMs`.
 * @param {import("./cpu.js").Clocks} cpu
 * @param {number} callers
 * @param {number} forMs
 * @param {(caller: number, turn: number) => Promise<unknown>} work
 */
export function rateOf(cpu, callers, forMs, work) {
  return metered(cpu, async () => {
    const begin = performance.now();
    let count = 0;
    await Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        for (let turn = 0; performance.now() - begin < forMs; turn += 1) {
          await work(caller, turn);
          count += 1;
        }
      }),
    );
    return { value: (count / (performance.now() - begin)) * 1_000, count };
  });
}

/**
 * Calls `work` `times` times in sequence, and returns the median of the milliseconds that a call took.
 * @param {import("./cpu.js").Clocks} cpu
 * @param {number} times
 * @param {(turn: number) => Promise<unknown>} work
 * @param {number} [idleMs] before each; default 0
 */
export function latencyOf(cpu, times, work, idleMs = 0) {
  return metered(cpu, async () => {
    const latencies = [];
    for (let turn = 0; turn < times; turn += 1) {
      if (idleMs > 0) await new Promise((resolve) => setTimeout(resolve, idleMs));
      const begin = performance.now();
      await work(turn);
      latencies.push(performance.now() - begin);
    }
    return { value: median(latencies), count: times };
  });
}
