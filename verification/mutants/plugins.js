// What Stryker lacks: it mutates texts for people, and keeps nothing of a run that was interrupted.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, relative } from "node:path";

/** Two words with a space between them. Names, keys and codes have none. */
const PROSE = /[a-z]\S*\s+\S*[a-z]/i;

/** The wording of errors and logs: a test of it would only repeat it. */
const prose = {
  shouldIgnore(/** @type {any} */ { node }) {
    const text =
      node.type === "StringLiteral"
        ? node.value
        : node.type === "TemplateLiteral"
          ? node.quasis.map((/** @type {any} */ { value }) => value.cooked).join("x")
          : "";
    return PROSE.test(text) ? "a text for people" : undefined;
  },
};

/** `checkKnown(options, { ttlMs: true })` reads the names only. */
const names = {
  shouldIgnore(/** @type {any} */ { node, parentPath }) {
    const isTrue = node.type === "BooleanLiteral" && parentPath?.node.type === "ObjectProperty";
    const call = isTrue ? parentPath.parentPath.parentPath?.node : undefined;
    return call?.type === "CallExpression" && call.callee.name === "checkKnown"
      ? "a name, whose value is not read"
      : undefined;
  },
};

const hasCode = (/** @type {any} */ node) =>
  JSON.stringify(node, (key, value) => (key === "loc" ? undefined : value)).match(
    /"type":"(?:\w*Function\w*|\w*Method|CallExpression|NewExpression)"/,
  ) !== null;

/** What a module evaluates once, when it is loaded: the modules stay loaded from one mutant to the next. */
const constants = {
  shouldIgnore(/** @type {any} */ path) {
    const isValue = /^(?:(?:String|Boolean|RegExp|Template)Literal|(?:Object|Array)Expression)$/;
    if (!isValue.test(path.node.type)) return undefined;
    const inside = path.findParent((/** @type {any} */ { node }) =>
      /Function|Method|^Class/.test(node.type),
    );
    return inside === null && !hasCode(path.node) ? "a constant of a module" : undefined;
  },
};

const SAVED_EVERY_MS = 60_000;

/**
 * Writes the mutants that were tested so far in the form of Stryker's incremental file, so that the next
 * run tests only the others. At the end Stryker writes that file itself.
 */
class Partial {
  static inject = /** @type {const} */ (["options"]);
  #file;
  #savedMs = Date.now();
  #isSaved = true;
  /** @type {any[]} */
  #tests = [];
  /** @type {any[]} */
  #mutants = [];
  #onExit = () => this.#save();

  constructor(/** @type {{ incrementalFile: string }} */ { incrementalFile }) {
    this.#file = incrementalFile;
    // Ctrl-C makes Stryker exit.
    process.once("exit", this.#onExit);
  }

  onDryRunCompleted(/** @type {{ result: { tests: any[] } }} */ { result }) {
    this.#tests = result.tests;
  }

  onMutantTested(/** @type {any} */ result) {
    this.#mutants.push(result);
    this.#isSaved = false;
    if (Date.now() - this.#savedMs >= SAVED_EVERY_MS) this.#save();
  }

  onMutationTestReportReady() {
    this.#isSaved = true;
    process.off("exit", this.#onExit);
  }

  #save() {
    if (this.#isSaved) return;
    this.#savedMs = Date.now();
    this.#isSaved = true;
    const byFile = (/** @type {any[]} */ all) =>
      [...new Set(all.map(({ fileName }) => fileName))].map((fileName) => ({
        file: relative(process.cwd(), fileName),
        source: readFileSync(fileName, "utf8"),
        own: all.filter((one) => one.fileName === fileName),
      }));
    const report = {
      schemaVersion: "1.0",
      thresholds: { high: 80, low: 60 },
      files: Object.fromEntries(
        byFile(this.#mutants).map(({ file, source, own: mutants }) => [
          file,
          { language: "typescript", source, mutants },
        ]),
      ),
      testFiles: Object.fromEntries(
        byFile(this.#tests).map(({ file, source, own }) => [
          file,
          { source, tests: own.map(({ id, name }) => ({ id, name })) },
        ]),
      ),
    };
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, JSON.stringify(report));
  }
}

export const strykerPlugins = [
  { kind: "Ignore", name: "prose", value: prose },
  { kind: "Ignore", name: "names", value: names },
  { kind: "Ignore", name: "constants", value: constants },
  { kind: "Reporter", name: "partial", injectableClass: Partial },
];
