// From Stryker's results to what the report keeps of them.
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { parse } from "yaml";

/**
 * @typedef {object} Survivor
 * @property {string} file
 * @property {number} line
 * @property {string} mutator
 * @property {string} original
 * @property {string} replacement
 * @property {string} text the line of the source
 * @property {boolean} covered whether a test ran it
 * @property {string} why it cannot be noticed, or need not; empty: not explained
 */

/**
 * @typedef {object} Figures
 * @property {number} score in percent
 * @property {number} killed
 * @property {number} timeouts
 * @property {number} survived
 * @property {number} noCoverage
 * @property {number} ignored
 * @property {Survivor[]} survivors
 */

/** @typedef {{ file: string, line: string, mutants: string[], why: string }} Explanation */

/** The hand-written ones, by the text of their line, so that they stay valid when lines move. */
export const explanations = () =>
  /** @type {Explanation[]} */ (
    parse(readFileSync(new URL("explanations.yml", import.meta.url), "utf8")) ?? []
  );

const LONGEST = 100;
/** Code in one line; long code by its beginning. */
const brief = (/** @type {string} */ code) => {
  const inLine = code.trim().replace(/\s+/g, " ");
  return inLine.length > LONGEST ? `${inLine.slice(0, LONGEST)}…` : inLine;
};

/** Timeouts count as killed: the tests would never end. */
const scoreOf = (/** @type {Omit<Figures, "score" | "survivors">} */ counts) => {
  const { killed, timeouts, survived, noCoverage } = counts;
  const total = killed + timeouts + survived + noCoverage;
  return total === 0 ? 100 : Math.floor((1_000 * (killed + timeouts)) / total) / 10;
};

/**
 * @param {readonly any[]} results of Stryker
 * @returns {Figures}
 */
export function figuresOf(results) {
  const count = (/** @type {string} */ status) =>
    results.filter((result) => result.status === status).length;
  const counts = {
    killed: count("Killed"),
    timeouts: count("Timeout"),
    survived: count("Survived"),
    noCoverage: count("NoCoverage"),
    ignored: count("Ignored"),
  };
  const survivors = results
    .filter(({ status }) => status === "Survived" || status === "NoCoverage")
    .map(survivorOf)
    .sort((a, b) => (a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1));
  return { score: scoreOf(counts), ...counts, survivors };
}

/** @returns {Survivor} */
function survivorOf(/** @type {any} */ { fileName, location, mutatorName, replacement, status }) {
  const lines = readFileSync(fileName, "utf8").split("\n");
  const { start, end } = location;
  const original = lines.slice(start.line - 1, end.line);
  original.push((original.pop() ?? "").slice(0, end.column - 1));
  original.unshift((original.shift() ?? "").slice(start.column - 1));
  return {
    file: relative(process.cwd(), fileName),
    line: start.line,
    mutator: mutatorName,
    original: brief(original.join("\n")),
    replacement: brief(replacement),
    text: lines[start.line - 1]?.trim() ?? "",
    covered: status === "Survived",
    why: "",
  };
}

/** A block is tested if it ends within so many lines. */
const LINES = 20;

/**
 * Where Stryker finds these mutants again: lines may have moved, and those that are gone have no place.
 * @param {readonly Survivor[]} survivors
 */
export function placesOf(survivors) {
  const places = survivors.flatMap(({ file, text, original }) => {
    const more = original.startsWith("{") ? LINES : 0;
    return readFileSync(file, "utf8")
      .split("\n")
      .flatMap((line, at) => (line.trim() === text ? `${file}:${at + 1}-${at + 1 + more}` : []));
  });
  return [...new Set(places)];
}

/**
 * The figures after the survivors without an explanation were tested again.
 * @param {Figures} figures
 * @param {readonly any[]} results of Stryker: of these mutants, and of others near them
 * @returns {Figures}
 */
export function afterAnotherTest(figures, results) {
  const { killed, timeouts, survived, noCoverage, ignored } = figures;
  const counts = { killed, timeouts, survived, noCoverage, ignored };
  const same = (/** @type {Survivor} */ one) => `${one.file} ${one.text} ${nameOf(one)}`;
  /** @type {Map<string, { status: string, mutant: Survivor }[]>} */
  const found = new Map();
  for (const result of results) {
    const mutant = survivorOf(result);
    found.set(same(mutant), [
      ...(found.get(same(mutant)) ?? []),
      { status: result.status, mutant },
    ]);
  }
  const survivors = withExplanations(figures).survivors.flatMap((survivor) => {
    if (survivor.why !== "") return survivor;
    counts[survivor.covered ? "survived" : "noCoverage"] -= 1;
    const now = found.get(same(survivor))?.shift();
    if (now?.status === "Killed") counts.killed += 1;
    if (now?.status === "Timeout") counts.timeouts += 1;
    if (now?.status !== "Survived" && now?.status !== "NoCoverage") return [];
    counts[now.mutant.covered ? "survived" : "noCoverage"] += 1;
    return now.mutant;
  });
  return { score: scoreOf(counts), ...counts, survivors };
}

/** As the explanations name it. */
export const nameOf = (/** @type {Survivor} */ { original, replacement }) =>
  `${original} → ${replacement}`;

/**
 * With the explanations as they are now.
 * @template {{ survivors: Survivor[] }} T
 * @param {T} figures
 * @returns {T}
 */
export function withExplanations(figures, known = explanations()) {
  const survivors = figures.survivors.map((survivor) => {
    const { file, text } = survivor;
    const found = known.find(
      (one) => one.file === file && one.line === text && one.mutants.includes(nameOf(survivor)),
    );
    return { ...survivor, why: found?.why.trim() ?? "" };
  });
  return { ...figures, survivors };
}
