// The reports of a night. What is made in parts, side by side or one day after the other, is one report:
// `histories-redis.json` and `histories-etcd.json`, `simulation-1.json` and `simulation-2.json`. All are of the same
// sources of the packages: figures of different code do not add up.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { STEPS } from "../nightly/steps.js";

/** @typedef {Record<string, any>} Report */
/** @typedef {Record<string, Report | undefined>} Reports by the name of their step */

/**
 * @param {string} folder
 * @returns {Map<string, Report[]>} by step, in the order of their names
 */
export function readReports(folder) {
  const inOrder = new Intl.Collator("en", { numeric: true }).compare;
  const files = existsSync(folder) ? readdirSync(folder).sort(inOrder) : [];
  const isOf = (/** @type {string} */ file, /** @type {string} */ name) =>
    file === `${name}.json` || (file.startsWith(`${name}-`) && file.endsWith(".json"));
  return new Map(
    STEPS.map(({ name }) => [
      name,
      files
        .filter((file) => isOf(file, name))
        .map((file) => JSON.parse(readFileSync(join(folder, file), "utf8"))),
    ]),
  );
}

/**
 * @param {Map<string, Report[]>} runs
 * @returns {string[]} the hashes of the sources that they are of; undefined for reports from before there were hashes
 */
export function sourcesOf(runs) {
  // The protocol model is written by hand: what it shows does not depend on the packages.
  const ofSources = [...runs].filter(([name]) => name !== "spin").flatMap(([, reports]) => reports);
  return [...new Set(ofSources.map((report) => report["sources"]))];
}

/** Of a run of chaos, beside its faults. */
const CHAOS_COUNTS = [
  "expiries",
  "pausesPastTtl",
  "staleRefused",
  "fencedViolations",
  "unfencedViolations",
];

/** @type {Readonly<Record<string, (parts: Report[]) => Report>>} */
const JOINS = {
  "planted-bugs": (parts) => ({
    ...parts[0],
    bugs: parts.flatMap(({ bugs }) => bugs),
    controls: parts.flatMap(({ controls }) => controls),
  }),
  mutants: (reports) => ({ parts: reports.flatMap(({ parts }) => parts) }),
  overload: (parts) => ({ runs: parts.flatMap(runsOf) }),
  chaos: (parts) => ({
    stores: parts.flatMap(({ stores }) => stores),
    faults: addEach(parts.map(({ faults }) => faults)),
    ...Object.fromEntries(CHAOS_COUNTS.map((name) => [name, add(parts.map((one) => one[name]))])),
    holds: parts.every(({ holds }) => holds),
  }),
  histories(parts) {
    checkSeedsOnce(parts.flatMap(campaignsOf));
    return { results: parts.flatMap(({ results }) => results) };
  },
  simulation(parts) {
    checkSeedsOnce(parts);
    return {
      seeds: add(parts.map(({ seeds }) => seeds)),
      events: add(parts.map(({ events }) => events)),
      figures: addEach(parts.map(({ figures }) => figures)),
      faults: addEach(parts.map(({ faults }) => faults)),
      failures: parts.flatMap(({ failures }) => failures),
      unseen: unseenBy(parts.map(({ unseen }) => unseen)),
    };
  },
};

/**
 * @param {Map<string, Report[]>} runs
 * @returns {Reports}
 */
export function joined(runs) {
  return Object.fromEntries(
    [...runs].map(([name, parts]) => {
      const join = JOINS[name];
      if (parts.length === 0 || (parts.length === 1 && !join)) return [name, parts[0]];
      if (!join)
        throw new Error(`${name} has ${parts.length} reports, and cannot be made in parts`);
      return [name, join(parts)];
    }),
  );
}

/**
 * What one part has not seen, another may have; null: none was large enough to be judged.
 * @param {(string[] | null)[]} parts
 */
function unseenBy(parts) {
  const [first = null, ...others] = parts.filter((unseen) => unseen !== null);
  return first && first.filter((name) => others.every((unseen) => unseen.includes(name)));
}

/** A flood is one run, and each attack is one. */
const runsOf = (/** @type {Report} */ { attacks, ...flood }) => attacks ?? [flood];

const campaignsOf = (/** @type {Report} */ { from, results }) =>
  results.map((/** @type {Report} */ { target, count }) => ({ target, from, seeds: count }));

/** A seed that runs again shows nothing more. */
function checkSeedsOnce(/** @type {Report[]} */ runs) {
  for (const target of new Set(runs.map((run) => run["target"]))) {
    const own = runs.filter((run) => run["target"] === target);
    const inOrder = own.toSorted((a, b) => a["from"] - b["from"]);
    for (const [at, { from }] of inOrder.entries()) {
      const before = inOrder[at - 1];
      if (before && before["from"] + before["seeds"] > from)
        throw new Error(
          `seed ${from} ran twice${target ? ` on ${target}` : ""}: take another --from`,
        );
    }
  }
}

export const add = (/** @type {number[]} */ numbers) =>
  numbers.reduce((total, one) => total + one, 0);

function addEach(/** @type {Record<string, number>[]} */ counts) {
  /** @type {Record<string, number>} */
  const sum = {};
  for (const [name, count] of counts.flatMap((one) => Object.entries(one)))
    sum[name] = (sum[name] ?? 0) + count;
  return sum;
}
