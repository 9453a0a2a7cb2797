/** Processes that are measured while they work: see observe.js, which is loaded into each of them. */
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ownEnvironment } from "../../tests/support/processes/cli.js";
import { Child } from "../../tests/support/processes/processes.js";

const pathOf = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const OBSERVE = new URL("./observe.js", import.meta.url).href;
export const HANDLERS = pathOf("handlers.js");
export const LOAD = pathOf("load.js");
const MAIN = pathOf("../../packages/leasehold-server/dist/cli/main.js");
/** A process that stands still answers later, or never. */
const MEASURED_WITHIN_MS = 5_000;

/** What a process holds, after garbage has been collected; sizes in bytes. */
export interface Measured {
  readonly heapUsed: number;
  readonly rss: number;
  readonly external: number;
  /** By kind, as process.getActiveResourcesInfo() names them. */
  readonly resources: Readonly<Record<string, number>>;
  /** Those that do not hold the process open too. */
  readonly timers: number;
  /** On `process`, on all emitters, and for the abort of signals. */
  readonly listeners: {
    readonly process: number;
    readonly emitters: number;
    readonly signals: number;
  };
  /** Of the event loop, since the last time. */
  readonly lateMs: { readonly p99: number; readonly max: number };
}

export interface Said {
  readonly probes: readonly Probe[];
  readonly accepted: readonly Accepted[];
  readonly lost: readonly Loss[];
}
export interface Probe {
  readonly kind: string;
  readonly startMs: number;
  readonly tookMs: number;
  readonly ok: boolean;
}
export interface Accepted {
  readonly id: string;
  readonly askedMs: number;
  readonly queue: string;
  /** Whether the time that it took counts. */
  readonly probe: boolean;
}
/** Of a lease that was to be kept. */
export interface Loss {
  readonly resource: string;
  readonly atMs: number;
  readonly reason: string;
}

/** A process of ours: the command line, or another script. */
export class Observed {
  readonly #child: Child;
  #measuring = 0;
  #answered: ((measured: Measured) => void) | undefined;

  constructor(
    readonly name: string,
    args: readonly string[],
    script = MAIN,
  ) {
    const flags = ["--expose-gc", "--import", OBSERVE];
    this.#child = new Child(process.execPath, [...flags, script, ...args], {
      input: "",
      env: ownEnvironment(),
    });
    this.#child.onMessage((message) => {
      const { measured, ...rest } = message as Measured & { measured?: number };
      if (measured === this.#measuring) this.#answered?.(rest);
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  get ended() {
    return this.#child.ended;
  }

  /** What it has written to its log. */
  get log(): readonly string[] {
    return this.#child.err;
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#child.onMessage(listener);
  }

  tell(message: unknown): void {
    this.#child.tell(message);
  }

  /** Resolves when a line of its log has this text. */
  async said(text: string): Promise<void> {
    await this.#child.until(({ err }) => err.some((line) => line.includes(text)));
  }

  /** Null when it does not answer in time. */
  async measure(): Promise<Measured | null> {
    this.#measuring += 1;
    const answer = new Promise<Measured>((resolve) => {
      this.#answered = resolve;
    });
    this.tell({ measure: this.#measuring });
    const over = new AbortController();
    const late = delay(MEASURED_WITHIN_MS, null, { signal: over.signal }).catch(() => null);
    try {
      return await Promise.race([answer, late]);
    } finally {
      over.abort();
    }
  }

  /** Stops the process for `ms`. */
  async pause(ms: number): Promise<void> {
    await this.#child.stop();
    await delay(ms);
    this.#child.cont();
  }

  /** A second signal after 15 s is SIGKILL. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.#child.cont();
    this.#child.kill(signal);
    const overdue = setTimeout(() => this.#child.kill("SIGKILL"), 15_000);
    await this.#child.ended;
    clearTimeout(overdue);
  }
}
