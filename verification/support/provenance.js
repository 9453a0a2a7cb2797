// Where a report comes from: when, from which commit, on which machine. Every report of a long run has it.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** The conformance suites of leasehold/testing are tests, too. */
const SUITE = /\/testing\/\w+-suite(\/|\.ts$)/;
/** Options that say where something is written, which says nothing of what was done. */
const FILES = ["--json", "--keep", "--markdown", "--plot"];

/** @param argv of Node: a script, and its arguments */
export function provenance(/** @type {readonly string[]} */ argv = process.argv.slice(1)) {
  const [cpu] = cpus();
  const [script = "", ...args] = argv;
  // `simulate --json` names no file.
  const namesFile = (/** @type {number} */ at) =>
    FILES.includes(args[at] ?? "") && args[at + 1]?.startsWith("--") === false;
  const said = args
    .filter((_, at) => !namesFile(at) && !namesFile(at - 1))
    .filter((arg) => !FILES.some((option) => arg.startsWith(`${option}=`)))
    .map((arg) => arg.replace(/:\/\/[^@/]*@/, "://"))
    .map((arg) => (arg.includes(" ") ? `"${arg}"` : arg));
  return {
    command: ["node", relative(root, resolve(root, script)), ...said].join(" "),
    date: new Date().toISOString(),
    commit:
      git("rev-parse", "--short", "HEAD") +
      (git("status", "--porcelain", "--untracked-files=no") ? " and changes" : ""),
    sources: sourcesHash(),
    node: process.version,
    machine: `${cpus().length} x ${cpu?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
  };
}

/**
 * Of the packages' sources without their tests: while it is unchanged, an earlier report says what a new one would.
 * @returns {string} the first 16 hex digits
 */
export function sourcesHash() {
  const hash = createHash("sha256");
  for (const file of sourceFiles()) hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest("hex").slice(0, 16);
}

/** What the packages are made of, by its path from the root, in an order that depends on no file system. */
function sourceFiles() {
  const packages = readdirSync(join(root, "packages"));
  return packages
    .flatMap((name) => {
      const folder = join("packages", name, "src");
      return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) =>
        join(folder, file),
      );
    })
    .filter((file) => /(?<!\.test)\.(ts|js|sql|lua)$/.test(file) && !SUITE.test(file))
    .sort();
}

/** Writes `{ kind, command, date, commit, sources, node, machine, ...figures }` as JSON; nothing without a file. */
export function writeReport(
  /** @type {string | undefined} */ file,
  /** @type {string} */ kind,
  /** @type {object} */ figures,
) {
  if (file === undefined) return;
  mkdirSync(dirname(resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify({ kind, ...provenance(), ...figures }, null, 1)}\n`);
}

/** Nothing where there is no repository. */
function git(/** @type {string[]} */ ...args) {
  try {
    return execFileSync("git", args, {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return "";
  }
}
