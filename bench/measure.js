// What all questions share: interleaved rounds, and the figures computed from them.

/**
 * The extent of this run: everything, or sizes that take a few minutes.
 * @typedef {object} Scope
 * @property {boolean} quick
 * @property {(full: number, quick: number) => number} size the number for the run at hand
 * @property {(text: string) => void} progress one line about the current step
 * @property {import("./engines.js").Engines} engines
 */

/**
 * One line of the report. `ratio` is what its question defines; `samples` are the ratios of the rounds.
 * @typedef {object} Row
 * @property {string} id
 * @property {string} what
 * @property {number} ratio
 * @property {number} reach
 * @property {"higher" | "lower"} better
 * @property {number[]} samples
 * @property {Record<string, string>} figures the measured values, for people
 */

/**
 * @typedef {object} Question
 * @property {string} question
 * @property {string} sideBySide
 * @property {readonly string[]} ids of its rows
 * @property {(scope: Scope) => Promise<Row[]>} run
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
 * Measures each contender once a round and rotates their order from round to round, so that a machine
 * that becomes slower affects all of them alike. The first round warms up and does not count.
 * @template {string} Name
 * @param {number} rounds
 * @param {Record<Name, () => Promise<number>>} contenders what one round of each measures
 * @param {(text: string) => void} progress
 * @returns {Promise<Record<Name, number[]>>}
 */
export async function interleaved(rounds, contenders, progress) {
  const names = /** @type {Name[]} */ (Object.keys(contenders));
  const measured = /** @type {Record<Name, number[]>} */ ({});
  for (const name of names) measured[name] = [];
  for (let round = 0; round <= rounds; round += 1) {
    for (let at = 0; at < names.length; at += 1) {
      const name = names[(at + round) % names.length];
      progress(`round ${round} of ${rounds}: ${name}`);
      const value = await contenders[name]();
      if (round > 0) measured[name].push(value);
    }
  }
  return measured;
}

/**
 * Makes a row of interleaved rounds: its ratio is the median of the rounds' ratios.
 * @param {Omit<Row, "ratio" | "samples">} row
 * @param {readonly number[]} ours
 * @param {readonly number[]} theirs of the same rounds
 * @returns {Row}
 */
export function ratioRow(row, ours, theirs) {
  const samples = ours.map((value, round) => value / theirs[round]);
  return { ...row, ratio: median(samples), samples };
}

/**
 * Counts the calls per second of `callers` concurrent callers, each of which calls `work` in a loop for `forMs`.
 * @param {number} callers
 * @param {number} forMs
 * @param {(caller: number, turn: number) => Promise<unknown>} work
 */
export async function rateOf(callers, forMs, work) {
  const begin = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      for (let turn = 0; performance.now() - begin < forMs; turn += 1) {
        await work(caller, turn);
        done += 1;
      }
    }),
  );
  return (done / (performance.now() - begin)) * 1_000;
}

/**
 * Calls `work` `times` times in sequence, and returns the milliseconds that each call took.
 * @param {number} times
 * @param {(turn: number) => Promise<unknown>} work
 * @param {number} [idleMs] before each; default 0
 */
export async function latenciesOf(times, work, idleMs = 0) {
  const latencies = [];
  for (let turn = 0; turn < times; turn += 1) {
    if (idleMs > 0) await new Promise((resolve) => setTimeout(resolve, idleMs));
    const begin = performance.now();
    await work(turn);
    latencies.push(performance.now() - begin);
  }
  return latencies;
}

/** @param {number} value */
export function perSecond(value) {
  return `${Math.round(value).toLocaleString("en")}/s`;
}

/** @param {number} value */
export function ms(value) {
  return `${value < 10 ? value.toFixed(2) : Math.round(value).toLocaleString("en")} ms`;
}
