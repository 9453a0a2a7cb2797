/** The command line as real processes that a test may kill, stop and continue. */
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Cli } from "../../../tests/support/processes/cli.js";

const HANDLERS = fileURLToPath(new URL("./handlers.js", import.meta.url));

/** A line of the log, which is JSON. */
export interface LogLine {
  readonly event?: string;
  readonly operation?: string;
  readonly id?: string;
  readonly fencingToken?: number;
  readonly reason?: string;
}

/** One process of the command line, from its start to its end. */
export class CliProcess {
  /** Resolves to how it ended, when all that it wrote has been read. */
  readonly ended: Promise<string>;
  /** Whether {@link end} was called before it ended. */
  endRequested = false;
  /** How it ended, when it has. */
  how: string | undefined;
  readonly #cli: Cli;

  constructor(
    readonly name: string,
    args: readonly string[],
  ) {
    this.#cli = new Cli(args);
    this.ended = this.#cli.ended.then(({ code }) => {
      this.how = typeof code === "string" ? code : `exit ${code}`;
      return this.how;
    });
  }

  get lines(): readonly string[] {
    return this.#cli.err;
  }

  get up(): boolean {
    return this.how === undefined && !this.endRequested;
  }

  get log(): LogLine[] {
    return this.lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  }

  says(text: string): boolean {
    return this.lines.some((line) => line.includes(text));
  }

  /** Resolves when a line with this text has been written. */
  async said(text: string): Promise<void> {
    await this.#cli.until(() => this.says(text));
  }

  /** Resolves to how it ended: `SIGKILL`, `exit 0`... A second signal after 15 s is SIGKILL. */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<string> {
    this.endRequested ||= this.how === undefined;
    this.#cli.kill(signal);
    const overdue = setTimeout(() => this.#cli.kill("SIGKILL"), 15_000);
    const how = await this.ended;
    clearTimeout(overdue);
    return how;
  }

  /** Stops it, then lets it continue after `ms`. */
  async pause(ms: number): Promise<void> {
    await this.#cli.stop();
    await delay(ms);
    this.#cli.cont();
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
    const args = [
      "serve",
      "--store",
      this.databaseUrl,
      "--port",
      `${this.port}`,
      // Chaos lives fast, and its machine is busy.
      "--limits",
      "shortestTtlMs=100,lateMs=none",
    ];
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

  /** Whether a fault may hit it: it works, and no other fault has stopped it. */
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
      "worker",
      "--store",
      server,
      "--handlers",
      HANDLERS,
      "--holder",
      holder,
      "--ttl",
      `${ttlMs}ms`,
      "--concurrency",
      `${concurrency}`,
      "--grace",
      "2s",
      "--option",
      `server=${server}`,
      "--option",
      `recorder=${recorder}`,
    ]);
    this.incarnations.push(process);
    void process.ended.then(() => {
      if (this.#supervised) this.#start();
    });
  }
}
