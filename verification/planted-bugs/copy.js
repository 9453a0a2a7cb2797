/** A copy of the project, in which one bug at a time is planted: in one line, or in several that must agree. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { CLOSE_MS, endGroup, PREFIX, remove, TIMEOUT_MS } from "./orphan.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const PARTS = [
  "packages",
  "apps",
  "verification",
  "tests",
  "scripts",
  "docs",
  "examples",
  "package.json",
  "README.md",
  "tsconfig.json",
  "vitest.config.ts",
];

/** Many a bug makes a test hang. */
const HUNG_AFTER_MS = 60_000;

/** With the bug, whose lines must each stand in exactly one place. @returns the new text of each file */
function planted(bug, read) {
  const texts = new Map();
  for (const { file = bug.file, find, by } of [bug, ...(bug.also ?? [])]) {
    const parts = (texts.get(file) ?? read(file)).split(find);
    if (parts.length !== 2) {
      throw new Error(`${bug.name}: what it replaces stands ${parts.length - 1} times in ${file}`);
    }
    texts.set(file, parts.join(by));
  }
  return texts;
}

export class Copy {
  #folder = mkdtempSync(join(tmpdir(), PREFIX));
  #children = new Set();
  /** The one that is in the copy. */
  #bug = null;
  /** Files that the tester may know as they were before. */
  #changed = new Set();
  #tester;

  constructor() {
    const wanted = (path) => !["node_modules", "dist"].includes(basename(path));
    for (const part of PARTS) {
      cpSync(join(root, part), join(this.#folder, part), { recursive: true, filter: wanted });
    }
    // .servers may be missing: what needs one of them is skipped, and reported.
    for (const part of ["node_modules", ".servers"]) {
      symlinkSync(join(root, part), join(this.#folder, part));
    }
  }

  /** Calls back while the bug is in the copy. */
  async with(bug, use) {
    const sources = new Map();
    const read = (file) => {
      const source = readFileSync(join(this.#folder, file), "utf8");
      sources.set(file, source);
      return source;
    };
    const write = (texts) => {
      for (const [file, text] of texts) {
        const path = join(this.#folder, file);
        writeFileSync(path, text);
        this.#changed.add(path);
      }
    };
    write(planted(bug, read));
    this.#bug = bug;
    try {
      return await use();
    } finally {
      this.#bug = null;
      write(sources);
    }
  }

  /** A program of Node's; null for its status: it took too long. */
  async run(args, timeoutMs = TIMEOUT_MS) {
    const child = this.#start(args, ["ignore", "pipe", "pipe"]);
    const timer = setTimeout(() => endGroup(child.pid), timeoutMs);
    const output = ["", ""];
    for (const [at, stream] of [child.stdout, child.stderr].entries()) {
      stream.setEncoding("utf8").on("data", (text) => {
        output[at] += text;
      });
    }
    const [status] = await once(child, "close");
    clearTimeout(timer);
    const [stdout, stderr] = output;
    return { status, stdout, stderr };
  }

  /**
   * Runs those tests of some files whose names are as `pattern` says; default: all. A file of two tiers runs that part of it
   * which is in the tiers of `npm test`, or the other one. With a bug, a test fails when it has hung for `hungAfterMs`.
   * @returns which one failed first, or null, its file and tier, and the files that passed
   */
  async test(paths, { pattern, inNpmTest, timeoutMs, hungAfterMs = HUNG_AFTER_MS }) {
    this.#tester ??= await this.#startTester();
    const tester = this.#tester;
    tester.send({
      paths,
      pattern,
      inNpmTest,
      hungAfterMs,
      isSpoilt: this.#bug !== null,
      changed: [...this.#changed],
    });
    this.#changed.clear();
    const over = new AbortController();
    const { signal } = over;
    const answer = await Promise.race([
      once(tester, "message", { signal }).then(([message]) => message),
      once(tester, "exit", { signal }).then(() => ({ problem: "the tester has ended" })),
      sleep(timeoutMs, { problem: "it came to no end", isOver: true }, { signal }),
    ]).finally(() => over.abort());
    if (answer.isOver) {
      this.#tester = undefined;
      endGroup(tester.pid);
    }
    if (answer.problem) throw new Error(`${paths} did not run: ${answer.problem.slice(0, 2_000)}`);
    return answer;
  }

  /** When what tests have started has been ended in good order. */
  async remove() {
    const tester = this.#tester;
    if (tester?.connected) {
      tester.send("close");
      await Promise.race([once(tester, "exit"), sleep(CLOSE_MS, null, { ref: false })]);
    }
    this.removeNow();
  }

  /** With all that runs in it; for a process that ends at once. */
  removeNow() {
    for (const { pid } of this.#children) endGroup(pid);
    remove(this.#folder);
  }

  async #startTester() {
    const stdio = ["ignore", "ignore", "pipe", "ipc"];
    const tester = this.#start(["verification/planted-bugs/tester.js"], stdio);
    let said = "";
    tester.stderr.setEncoding("utf8").on("data", (text) => {
      said = `${said}${text}`.slice(-2_000);
    });
    // What a test has started may hold it for longer than the tester lives.
    tester.stderr.unref();
    tester.once("exit", () => {
      if (this.#tester === tester) this.#tester = undefined;
    });
    const over = new AbortController();
    const { signal } = over;
    const problem = await Promise.race([
      once(tester, "message", { signal }).then(() => null),
      once(tester, "close", { signal }).then(
        ([code, by]) => `it has ended (${by ?? code}): ${said}`,
      ),
      sleep(TIMEOUT_MS, `it came to no end: ${said}`, { signal }),
    ]).finally(() => over.abort());
    if (problem === null) return tester;
    endGroup(tester.pid);
    throw new Error(`the tester did not start: ${problem.trim()}`);
  }

  /** In a process group of its own. */
  #start(args, stdio) {
    const options = { cwd: this.#folder, detached: true, stdio };
    const child = spawn(process.execPath, args.map(String), options);
    if (child.pid !== undefined) this.#children.add(child);
    child.once("exit", () => {
      this.#children.delete(child);
      // One that was killed leaves those that it has started.
      endGroup(child.pid);
    });
    return child;
  }
}
