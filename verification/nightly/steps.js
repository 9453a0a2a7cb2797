// What a night proves: long runs that `npm test` has only shares of, one after the other. Each writes a
// report as JSON into the folder, from which docs/reliability.md takes its figures.

/** Stores that histories and chaos run on. */
const STORES = "postgres,redis,etcd,zookeeper,http,consul";

/**
 * @typedef {object} Step
 * @property {string} name also of its report
 * @property {string} what for people
 * @property {(scale: number, report: string) => string[]} command of Node, from the project's root
 * @property {boolean} [prints] whether the report is what the command prints, not a file that it writes
 */

/** So much of the full size, and something at least. */
const size = (/** @type {number} */ full, /** @type {number} */ scale, least = 1) =>
  `${Math.max(least, Math.round(full * scale))}`;

/** @type {readonly Step[]} */
export const STEPS = [
  {
    name: "simulation",
    what: "100,000 worlds full of faults",
    command: (scale) => [
      "verification/simulation/main.js",
      "--json",
      "--seeds",
      size(100_000, scale, 1_000),
    ],
    prints: true,
  },
  {
    name: "spin",
    what: "every state of the protocol model",
    command: (_, report) => ["verification/spin/main.js", "--json", report],
  },
  {
    name: "planted-bugs",
    what: "known mistakes, each of which a check must catch",
    command: (_, report) => ["verification/planted-bugs/run.js", "--json", report],
  },
  {
    name: "histories",
    what: "2,520 histories of clients on real stores",
    command: (scale, report) => [
      "verification/histories/main.js",
      "--target",
      STORES,
      "--json",
      report,
      "--count",
      size(420, scale),
    ],
  },
  {
    name: "chaos",
    what: "processes and engines that are killed, stopped and cut off",
    command: (scale, report) => [
      "verification/chaos/main.js",
      "--stores",
      STORES,
      "--json",
      report,
      "--minutes",
      `${12 * scale}`,
    ],
  },
  {
    name: "scenarios",
    what: "failovers and restored backups, and what they lose",
    command: (_, report) => ["verification/chaos/main.js", "--scenario", "all", "--json", report],
  },
  {
    name: "soak",
    what: "an hour of load under faults, flat",
    command: (scale, report) => [
      "verification/soak/main.js",
      "--hours",
      `${scale}`,
      "--json",
      report,
    ],
  },
];
