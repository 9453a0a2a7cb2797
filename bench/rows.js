// The lines of the report: how rounds become a ratio, when a ratio is reached, and how figures are printed.
import { median } from "./measure.js";

/**
 * @typedef {object} Side
 * @property {number} value the median of the rounds
 * @property {string} unit such as `/s` or `ms`
 * @property {Record<string, number>} [cpuUs] CPU time per operation, by process: the median of the rounds
 */

/**
 * One line of the report. `ratio` is what its question defines.
 * @typedef {object} Row
 * @property {string} id stable
 * @property {string} what is measured
 * @property {string} beside what it is compared with
 * @property {number} ratio the median of `samples`
 * @property {string} unit of the ratio: `x`, or that of a figure with a bound of its own
 * @property {number | null} reach null: the ratio is only shown
 * @property {"higher" | "lower"} better
 * @property {boolean} gate whether a release must reach it
 * @property {number[]} samples the ratios of the rounds
 * @property {Record<string, Side>} sides the measured values
 */

/** @typedef {Pick<Row, "id" | "what" | "beside" | "reach" | "better"> & { gate?: boolean }} Target */
/** @typedef {import("./measure.js").Round} Round */

/**
 * The first side divided by the second: the median of the rounds' ratios.
 * @param {Target} target
 * @param {string} unit of the sides
 * @param {Record<string, readonly Round[]>} sides two, of the same rounds
 * @returns {Row}
 */
export function ratioRow(target, unit, sides) {
  const [first = [], second = []] = Object.values(sides);
  const samples = first.map(({ value }, round) => value / (second[round]?.value ?? NaN));
  return row(target, "x", samples, sidesOf(unit, sides));
}

/**
 * A figure with a bound of its own.
 * @param {Target} target
 * @param {string} unit
 * @param {readonly number[]} samples
 * @param {Row["sides"]} sides
 */
export function valueRow(target, unit, samples, sides) {
  return row(target, unit, samples, sides);
}

/**
 * @param {string} unit
 * @param {Record<string, readonly Round[]>} sides
 */
export function sidesOf(unit, sides) {
  return Object.fromEntries(
    Object.entries(sides).map(([name, rounds]) => [name, sideOf(unit, rounds)]),
  );
}

/**
 * @param {string} unit
 * @param {readonly Round[]} rounds
 * @returns {Side}
 */
function sideOf(unit, rounds) {
  const names = Object.keys(rounds[0]?.cpuUs ?? {});
  const cpuUs = names.map((name) => [name, median(rounds.map((one) => one.cpuUs?.[name] ?? NaN))]);
  const value = median(rounds.map((one) => one.value));
  return { value, unit, ...(names.length > 0 && { cpuUs: Object.fromEntries(cpuUs) }) };
}

/**
 * @param {Target} target
 * @param {string} unit
 * @param {readonly number[]} samples
 * @param {Row["sides"]} sides
 * @returns {Row}
 */
function row({ id, what, beside, reach, better, gate = false }, unit, samples, sides) {
  const ratio = median(samples);
  return { id, what, beside, ratio, unit, reach, better, gate, samples: [...samples], sides };
}

/** @param {Pick<Row, "ratio" | "reach" | "better">} row @returns whether it is within reach; null: it has none */
export function isReached({ ratio, reach, better }) {
  if (reach === null) return null;
  return better === "higher" ? ratio >= reach : ratio <= reach;
}

/** @param {Pick<Row, "ratio" | "better" | "unit">} row */
export function ratioText({ ratio, better, unit }) {
  return withUnit(two(worse(ratio, better)), unit);
}

/** @param {Pick<Row, "samples" | "better">} row */
export function spreadText({ samples, better }) {
  const [least, most] = [Math.min(...samples), Math.max(...samples)];
  return `${two(worse(least, better))} to ${two(worse(most, better))}`;
}

/** @param {Pick<Row, "reach" | "better" | "unit">} row */
export function reachText({ reach, better, unit }) {
  return reach === null ? "" : `${better === "higher" ? ">=" : "<="} ${withUnit(`${reach}`, unit)}`;
}

/** @param {Side} side such as `51,200/s (client 12.3 us, server 9.8 us)` */
export function sideText({ value, unit, cpuUs = {} }) {
  const used = Object.entries(cpuUs)
    .filter(([, us]) => Number.isFinite(us))
    .map(([name, us]) => `${name} ${us.toFixed(1)} us`);
  return withUnit(rounded(value), unit) + (used.length > 0 ? ` (${used.join(", ")})` : "");
}

/** @param {readonly Row[]} rows @returns one sentence: which gates are reached and which are missed */
export function gatesText(rows) {
  const gates = rows.filter(({ gate }) => gate);
  const missed = gates.filter((gate) => !isReached(gate)).map(({ id }) => id);
  const said = `${gates.length - missed.length} of ${gates.length} gates reached`;
  return missed.length > 0 ? `${said}; missed: ${missed.join(", ")}` : said;
}

/** @param {string} text @param {string} unit */
function withUnit(text, unit) {
  return /^[a-z]{2}|^[A-Z]/.test(unit) ? `${text} ${unit}` : `${text}${unit}`;
}

/** @param {number} value */
function rounded(value) {
  return Math.abs(value) < 10 ? two(value) : Math.round(value).toLocaleString("en");
}

/**
 * Rounds to hundredths, to the worse side: a ratio of 0.4996 does not read as if it reached 0.5.
 * @param {number} ratio
 * @param {Row["better"]} better
 */
function worse(ratio, better) {
  // 1.1 * 100 is a little more than 110.
  const hundredths = Number((ratio * 100).toFixed(6));
  return (better === "higher" ? Math.floor(hundredths) : Math.ceil(hundredths)) / 100;
}

/** @param {number} value */
function two(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });
}
