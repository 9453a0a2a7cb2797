// The report of a run, as text.
import { readFileSync } from "node:fs";
import { PROPERTIES } from "./properties.js";

/** @typedef {import("./configurations.js").Configuration} Configuration */
/** @typedef {import("./configurations.js").Variant} Variant */
/** @typedef {import("./verify.js").Result} Result */
/** @typedef {{ configurations: (Configuration & Result)[], variants: (Variant & Result)[] }} Report */

/** The columns of bounds, each with the constant of the model. */
const BOUNDS = {
  clients: "CLIENTS",
  leases: "LEASES",
  TTL: "TTL",
  faults: "FAULTS",
  copies: "COPIES",
  revokes: "REVOKES",
  kills: "CRASHES",
};
const count = (/** @type {number} */ number) => number.toLocaleString("en-US");

/** The bounds that the model has where a configuration names no others. */
function defaults() {
  const text = readFileSync(new URL("bounds.pml", import.meta.url), "utf8");
  return Object.fromEntries(
    [...text.matchAll(/^#define (\w+) (\d+)$/gm)].map(([, name, value]) => [name, Number(value)]),
  );
}

/**
 * @param {Configuration} configuration
 * @returns {string[]} one for each column of bounds
 */
function boundsOf({ defines }) {
  const all = { ...defaults(), ...defines };
  return Object.values(BOUNDS).map((name) => `${all[name]}`);
}

/** Whether every property holds for the protocol, and each variant breaks the one that it must. */
export function isAsExpected(/** @type {Report} */ { configurations, variants }) {
  return (
    configurations.every(({ broken }) => broken === null) &&
    variants.every(({ broken, breaks }) => broken === breaks)
  );
}

/**
 * @param {Report} report
 * @returns {string} three tables, and what happened where a property was broken
 */
export function textOf({ configurations, variants }) {
  const titles = ["configuration", ...Object.keys(BOUNDS)];
  const figures = ["states", "transitions", "depth", "MB", "result"];
  const explored = configurations.map((one) => [
    one.name,
    ...boundsOf(one),
    count(one.states),
    count(one.transitions),
    count(one.depth),
    count(one.megabytes),
    one.broken === null ? "holds" : `BREAKS ${one.broken}`,
  ]);
  const checked = PROPERTIES.map(({ name, words, isLiveness = false }) => {
    const own = configurations.filter((one) => (one.isLiveness ?? false) === isLiveness);
    const states = own.reduce((sum, one) => sum + one.states, 0);
    const depth = Math.max(0, ...own.map((one) => one.depth));
    const isBroken = own.some(({ broken }) => broken === name);
    const result = own.length === 0 ? "not checked" : isBroken ? "BROKEN" : "holds";
    return [name, `${own.length}`, count(states), count(depth), result, words];
  });
  const broken = variants.map(({ name, mistake, breaks, broken: seen, states, story }) => {
    const result = seen === null ? "NOTHING FAILED" : `${seen} at step ${story.length}`;
    return [name, breaks, result, count(states), mistake];
  });
  const failures = configurations.filter(({ broken: seen }) => seen !== null);
  return [
    columns([...titles, ...figures], explored),
    columns(
      ["property", "runs", "states", "depth", "result", "words"],
      configurations.length > 0 ? checked : [],
    ),
    columns(["broken variant", "must break", "breaks", "states", "mistake"], broken),
    ...failures.map(({ name, story }) => `${name}:\n${storyText(story)}`),
  ]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** @param {readonly string[]} story */
export function storyText(story) {
  return story.map((line, at) => `${`${at + 1}`.padStart(4)}  ${line}`).join("\n");
}

/**
 * Aligned columns, numbers to the right. Nothing without a row.
 * @param {string[]} titles
 * @param {string[][]} rows
 */
function columns(titles, rows) {
  if (rows.length === 0) return "";
  const widths = titles.map((title, at) =>
    Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)),
  );
  const isNumber = titles.map((_, at) => rows.every((row) => /^[\d,.]+$/.test(row[at] ?? "")));
  const lineOf = (/** @type {string[]} */ cells) =>
    cells
      .map((cell, at) =>
        isNumber[at] ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0),
      )
      .join("  ")
      .trimEnd();
  return [titles, ...rows].map(lineOf).join("\n");
}
