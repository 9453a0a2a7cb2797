/** The command line as real processes that a test may kill, stop and continue. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const HANDLERS = fileURLToPath(new URL("chaos-handlers.js", import.meta.url));

/** A line of the log, which is JSON. */
export interface LogLine {
  readonly event?: string;
  readonly operation?: string;
  readonly id?: string;
  readonly fencingToken?: number;
  readonly reason?: string;
}

const running = new Set<ChildProcess>();
// Were this process to end otherwise, theirs would end too: they notice that the channel closes.
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** One process of the command line, from its start to its end. */
export class CliProcess {
  readonly lines: string[] = [];
  /** Resolves to how it ended, when all that it wrote has been read. */
  readonly ended: Promise<string>;
  /** Whether it was we who ended it. */
  told = false;
  /** How it ended, when it has. */
  how: string | undefined;
  readonly #child: ChildProcess;
  readonly #waiting = new Set<() => void>();

  constructor(
    readonly name: string,
    args: readonly string[],
  ) {
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([key]) => !key.startsWith("LEASEHOLD_")),
    );
    // The channel is for ends that nobody planned: see src/cli/shutdown.ts.
    this.#child = spawn(process.execPath, [CLI, ...args], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      env,
    });
    running.add(this.#child);
    createInterface(this.#child.stderr!).on("line", (line) => {
      this.lines.push(line);
      this.#wake();
    });
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => this.lines.push(error.message));
      this.#child.once("close", (code, signal) => {
        running.delete(this.#child);
        this.how = signal ?? `exit ${code}`;
        this.#wake();
        resolve(this.how);
      });
    });
  }

  get up(): boolean {
    return this.how === undefined && !this.told;
  }

  get log(): LogLine[] {
    return this.lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  }

  says(text: string): boolean {
    return this.lines.some((line) => line.includes(text));
  }

  /** Resolves when a line with this text has been written. */
  async said(text: string): Promise<void> {
    while (!this.says(text)) {
      if (this.how !== undefined) {
        throw new Error(`${this.name} ended before "${text}":\n${this.lines.join("\n")}`);
      }
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** Resolves to how it ended: `SIGKILL`, `exit 0`... A second signal after 15 s is SIGKILL. */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<string> {
    this.told ||= this.how === undefined;
    this.#child.kill(signal);
    const overdue = setTimeout(() => this.#child.kill("SIGKILL"), 15_000);
    const how = await this.ended;
    clearTimeout(overdue);
    return how;
  }

  /** Stops it for so long and lets it continue, even if this process ends meanwhile. */
  async pause(ms: number): Promise<void> {
    const script = 'kill -STOP "$1"; sleep "$2"; kill -CONT "$1"';
    const args = ["-c", script, "sh", `${this.#child.pid}`, `${ms / 1_000}`];
    const shell = spawn("sh", args, { stdio: "ignore", detached: true });
    await new Promise((resolve) => shell.once("close", resolve));
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}

/** A server that keeps its port over restarts. */
export class ServerProcess {
  readonly incarnations: CliProcess[] = [];

  constructor(
    readonly name: string,
    readonly port: number,
    readonly databaseUrl: string,
  ) {}

  get current(): CliProcess {
    return this.incarnations.at(-1)!;
  }

  async start(): Promise<void> {
    const args = ["serve", "--store", this.databaseUrl, "--port", `${this.port}`];
    this.incarnations.push(new CliProcess(`${this.name}.${this.incarnations.length + 1}`, args));
    await this.current.said("listening on");
  }
}

/** What a worker ends with that finds no server when it starts. */
export const NO_SERVER = "exit 69";

export interface WorkerSettings {
  readonly server: string;
  readonly recorder: string;
  readonly ttlMs: number;
  readonly concurrency: number;
}

/** A worker that is started anew at once when it dies, under a holder name of its own each time. */
export class SupervisedWorker {
  readonly incarnations: CliProcess[] = [];
  paused = false;
  #supervised = true;

  constructor(
    readonly name: string,
    readonly settings: WorkerSettings,
  ) {
    this.#start();
  }

  get current(): CliProcess {
    return this.incarnations.at(-1)!;
  }

  /** Whether a fault would hit something: it works, and nobody has stopped it. */
  get working(): boolean {
    return this.current.up && !this.paused && this.current.says('"working"');
  }

  async kill(): Promise<void> {
    await this.current.end("SIGKILL");
  }

  async pause(ms: number): Promise<void> {
    this.paused = true;
    await this.current.pause(ms);
    this.paused = false;
  }

  /** Ends it for good. */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<string> {
    this.#supervised = false;
    return this.current.end(signal);
  }

  #start(): void {
    const { server, recorder, ttlMs, concurrency } = this.settings;
    const holder = `${this.name}.${this.incarnations.length + 1}`;
    const process = new CliProcess(holder, [
      ...["worker", "--store", server, "--handlers", HANDLERS, "--holder", holder],
      ...["--ttl", `${ttlMs}ms`, "--concurrency", `${concurrency}`, "--grace", "2s"],
      ...["--option", `server=${server}`, "--option", `recorder=${recorder}`],
    ]);
    this.incarnations.push(process);
    void process.ended.then(() => {
      if (this.#supervised) this.#start();
    });
  }
}
