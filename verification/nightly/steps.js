// What a night proves: long runs that `npm test` has only shares of, one after the other. Each part writes a report as
// JSON into the folder, from which docs/reliability.md takes its figures. A part fits into an hour.
import { PARTS as MUTATED } from "../mutants/parts.js";
import { ATTACKED, ENGINES } from "../overload/engines.js";
import { AREAS } from "../planted-bugs/bugs.js";
import { isOfStrangers } from "../planted-bugs/report.js";

/** Servers that histories and chaos run on. */
const STORES = ["postgres", "redis", "etcd", "zookeeper", "consul", "http"];
/** Parts, worlds of each, and the first world: no earlier night has used these seeds. A world has about 8.3 expiries. */
const [SIMULATIONS, WORLDS, FIRST_WORLD] = [13, 10_000, 50_000_000];
/** Histories of a store, and the first one. */
const [HISTORIES, FIRST_HISTORY] = [420, 100_000];
/** Any test may catch the bugs of strangers, which takes longer. */
const BUGS_BY_PART = [
  { name: "named", minutes: 45, areas: AREAS.filter((area) => !isOfStrangers(area)) },
  ...AREAS.filter(isOfStrangers).map((area) => ({
    name: area.replace(" ", "-"),
    minutes: 40,
    areas: [area],
  })),
];

/**
 * @typedef {object} Part
 * @property {string} name also of its report; begins with that of its step
 * @property {number} minutes about, at full size on two cores with nothing else to do
 * @property {(scale: number, report: string) => string[]} command of Node, from the project's root
 * @property {boolean} [prints] whether the report is what the command prints, not a file that it writes
 */

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string} what for people
 * @property {readonly Part[]} parts
 */

/** So much of the full size, and something at least. */
const size = (/** @type {number} */ full, /** @type {number} */ scale, least = 1) =>
  `${Math.max(least, Math.round(full * scale))}`;

/** @type {readonly Step[]} */
export const STEPS = [
  {
    name: "simulation",
    what: "130,000 worlds full of faults",
    parts: Array.from({ length: SIMULATIONS }, (_, at) => ({
      name: `simulation-${at + 1}`,
      minutes: 4,
      command: (scale) => [
        "verification/simulation/main.js",
        "--json",
        "--from",
        `${FIRST_WORLD + at * WORLDS}`,
        "--seeds",
        size(WORLDS, scale, 100),
      ],
      prints: true,
    })),
  },
  {
    name: "spin",
    what: "every state of the protocol model",
    parts: [
      {
        name: "spin",
        minutes: 6,
        command: (_, report) => ["verification/spin/main.js", "--json", report],
      },
    ],
  },
  {
    name: "planted-bugs",
    what: "known mistakes, each of which a test must catch",
    parts: BUGS_BY_PART.map(({ name, minutes, areas }) => ({
      name: `planted-bugs-${name}`,
      minutes,
      command: (_, report) => [
        "verification/planted-bugs/run.js",
        ...areas.flatMap((area) => ["--area", area]),
        "--json",
        report,
      ],
    })),
  },
  {
    name: "mutants",
    what: "small changes of the code, which unit tests must notice",
    parts: MUTATED.map(({ name }) => ({
      name: `mutants-${name}`,
      minutes: ["lease", "server"].includes(name) ? 60 : 20,
      command: (_, report) => ["verification/mutants/run.js", name, "--json", report],
    })),
  },
  {
    name: "histories",
    what: "2,520 histories of clients on real stores",
    parts: STORES.map((store) => ({
      name: `histories-${store}`,
      minutes: 10,
      command: (scale, report) => [
        "verification/histories/main.js",
        "--target",
        store,
        "--json",
        report,
        "--from",
        `${FIRST_HISTORY}`,
        "--count",
        size(HISTORIES, scale),
      ],
    })),
  },
  {
    name: "chaos",
    what: "processes and engines that are killed, stopped and cut off",
    parts: STORES.map((store) => ({
      name: `chaos-${store}`,
      minutes: 12,
      command: (scale, report) => [
        "verification/chaos/main.js",
        "--stores",
        store,
        "--json",
        report,
        "--minutes",
        `${10 * scale}`,
      ],
    })),
  },
  {
    name: "scenarios",
    what: "failovers and restored backups, and what they lose",
    parts: [
      {
        name: "scenarios",
        minutes: 15,
        command: (_, report) => [
          "verification/chaos/main.js",
          "--scenario",
          "all",
          "--json",
          report,
        ],
      },
    ],
  },
  {
    name: "soak",
    what: "an hour of load under faults, flat",
    parts: [
      {
        name: "soak",
        minutes: 63,
        command: (scale, report) => [
          "verification/soak/main.js",
          "--hours",
          `${scale}`,
          "--json",
          report,
        ],
      },
    ],
  },
  {
    name: "overload",
    what: "a server with more requests than it can serve, and attacked by a tenant",
    parts: ENGINES.flatMap((engine) =>
      (ATTACKED.includes(engine) ? ["flood", "attacks"] : ["flood"]).map((kind) => ({
        name: `overload-${engine}-${kind}`,
        minutes: kind === "flood" ? 1 : 8,
        command: (/** @type {number} */ scale) => [
          "verification/overload/main.js",
          "--json",
          "--engine",
          engine,
          "--seconds",
          size(20, scale, 5),
          ...(kind === "attacks" ? ["--attack", "all"] : []),
        ],
        prints: true,
      })),
    ),
  },
];
