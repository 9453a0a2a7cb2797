// Where a report comes from: when, from which commit, on which machine. Every report of a long run has it.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
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
    .map((arg) => arg.replace(/:\/\/[^@/]*@/, "://"));
  return {
    command: ["node", relative(root, resolve(root, script)), ...said].join(" "),
    date: new Date().toISOString(),
    commit:
      git("rev-parse", "--short", "HEAD") +
      (git("status", "--porcelain", "--untracked-files=no") ? " and changes" : ""),
    node: process.version,
    machine: `${cpus().length} x ${cpu?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
  };
}

/** Writes `{ kind, command, date, commit, node, machine, ...figures }` as JSON; nothing without a file. */
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
