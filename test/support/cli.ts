/** The built command line as real processes, with all that they print. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const MAIN = join(root, "dist/cli/main.js");

/** Processes run what was built: that must be these sources. */
export function checkBuild(): void {
  const built = statSync(MAIN, { throwIfNoEntry: false })?.mtimeMs;
  if (built === undefined) throw new Error("there is no dist: npm run build");
  const newer = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).find(
    (path) => /(?<!\.test)\.ts$/.test(path) && statSync(join(root, "src", path)).mtimeMs > built,
  );
  if (newer !== undefined) throw new Error(`src/${newer} is newer than dist: npm run build`);
}

const running = new Set<Cli>();
/** For afterEach: no process outlives its test, but for one that is shared. */
export async function endAll(shared?: Cli): Promise<void> {
  const own = [...running].filter((cli) => cli !== shared);
  await Promise.all(own.map((cli) => cli.end("SIGKILL")));
}
process.once("exit", () => {
  for (const cli of running) cli.kill("SIGKILL");
});

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Written to stdin, which is then closed. */
  readonly input?: string;
  readonly cwd?: string;
  /** Another script of the package instead of the command line. */
  readonly script?: string;
}

export interface Ended {
  /** The exit code, or the signal that ended it. */
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A process that runs `leasehold ...args`. */
export class Cli {
  readonly out: string[] = [];
  readonly err: string[] = [];
  /** When all that it wrote has been read. */
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #waiting = new Set<() => void>();
  #over = false;

  constructor(args: readonly string[], options: CliOptions = {}) {
    const { env = {}, input = "", cwd = root, script = MAIN } = options;
    // The channel is for the case that this process is killed: see src/cli/shutdown.ts.
    this.#child = spawn(process.execPath, [script, ...args], {
      stdio: ["pipe", "pipe", "pipe", "ipc"],
      cwd,
      env: { ...ownEnvironment(), ...env },
    });
    running.add(this);
    this.#read(this.#child.stdout, this.out);
    this.#read(this.#child.stderr, this.err);
    this.#child.stdin?.on("error", () => {});
    this.#child.stdin?.end(input);
    this.ended = new Promise((resolve) => {
      this.#child.once("close", (code, signal) => {
        running.delete(this);
        this.#over = true;
        for (const wake of this.#waiting) wake();
        const [stdout, stderr] = [this.out.join("\n"), this.err.join("\n")];
        resolve({ code: signal ?? code ?? -1, stdout, stderr });
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  end(signal: NodeJS.Signals): Promise<Ended> {
    this.kill(signal);
    return this.ended;
  }

  /**
   * The first truthy value that `find` makes of what was printed so far, looked for at each line.
   * Rejects when the process ends without one, telling what it said.
   */
  async until<T>(find: (cli: this) => T | null | undefined | false): Promise<T> {
    for (;;) {
      const found = find(this);
      if (found) return found;
      if (this.#over) throw new Error(`ended meanwhile:\n${[...this.out, ...this.err].join("\n")}`);
      let wake = () => {};
      await new Promise<void>((resolve) => {
        wake = resolve;
        this.#waiting.add(wake);
      });
      this.#waiting.delete(wake);
    }
  }

  #read(stream: NodeJS.ReadableStream | null, lines: string[]): void {
    if (!stream) return;
    createInterface(stream).on("line", (line) => {
      lines.push(line);
      for (const wake of this.#waiting) wake();
    });
  }
}

/** Runs to its end. */
export function leasehold(args: readonly string[], options: CliOptions = {}): Promise<Ended> {
  return new Cli(args, options).ended;
}

export interface Serving {
  readonly cli: Cli;
  readonly url: string;
}

/** `leasehold serve` on a free port, when it listens. */
export async function serve(store = "memory:test", args: readonly string[] = []): Promise<Serving> {
  const cli = new Cli(["serve", "--port", "0", "--store", store, ...args]);
  const url = await cli.until(({ err }) =>
    err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
  );
  return { cli, url };
}

/** Whether the process exists and is not merely waiting for its parent to take note of its end. */
export async function isAlive(pid: number): Promise<boolean> {
  return !["", "Z"].includes(await stateOf(pid));
}

/** The state of a process as one letter of ps, T for stopped; empty when there is none. */
export function stateOf(pid: number): Promise<string> {
  return new Promise((resolve) => {
    execFile("ps", ["-o", "stat=", "-p", String(pid)], (_, stdout) =>
      resolve(stdout.trim().slice(0, 1)),
    );
  });
}

/** Without what would change the defaults that are tested. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(LEASEHOLD_|PORT$|NODE_OPTIONS$|FORCE_COLOR$|VITEST)/.test(name),
  );
  return Object.fromEntries(own);
}
