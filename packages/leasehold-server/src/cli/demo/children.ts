/**
 * Processes of this same command line, restarted when they end by themselves. They share the
 * terminal's process group, so a Ctrl-C reaches them too; what they wait for is DRAIN over IPC, and
 * the end of that channel is what tells them that we are gone (see shutdown.ts).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Env, Timer } from "leasehold";
import { DRAIN } from "../shutdown.js";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
const RESTART_MS = 1_000;
const LONGEST_RESTART_MS = 10_000;
/** A child that has lived as long starts the doubling of the pause over. */
const HEALTHY_MS = 5_000;

export interface ChildSpec {
  readonly name: string;
  /** @param holder a new one for every start: an identity is of one incarnation */
  readonly args: (holder: string) => readonly string[];
}

export type ChildEvent =
  | {
      readonly type: "started";
      readonly name: string;
      readonly pid: number;
      readonly holder: string;
    }
  | {
      readonly type: "exited";
      readonly name: string;
      readonly pid: number;
      /** Its exit code, or the signal that ended it. */
      readonly code: number | string;
      /** The last that it wrote to stderr. */
      readonly said: string;
      /** null: it is not started again. */
      readonly restartMs: number | null;
    };

export class Child {
  readonly #spec: ChildSpec;
  readonly #env: Env;
  readonly #onEvent: (event: ChildEvent) => void;
  #process: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #restart: Timer | undefined;
  #restartMs = RESTART_MS;
  #stopping = false;

  /** Starts it at once. */
  constructor(spec: ChildSpec, env: Env, onEvent: (event: ChildEvent) => void) {
    this.#spec = spec;
    this.#env = env;
    this.#onEvent = onEvent;
    this.#start();
  }

  /** Tells it to drain; resolves when it has ended. */
  stop(): Promise<void> {
    this.#stopping = true;
    this.#restart?.cancel();
    // It may have ended this very moment.
    if (this.#process?.connected) this.#process.send(DRAIN, () => {});
    return this.#ended;
  }

  kill(): void {
    this.#process?.kill("SIGKILL");
  }

  #start(): void {
    const { clock, random } = this.#env;
    const { name, args } = this.#spec;
    const holder = `${name}-${Buffer.from(random.bytes(2)).toString("hex")}`;
    const startedAtMs = clock.monotonic();
    const child = spawn(process.execPath, [MAIN, ...args(holder)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#process = child;
    let said = "";
    if (child.stderr) {
      createInterface({ input: child.stderr }).on("line", (line) => {
        said = messageOf(line);
      });
    }
    const { pid = 0 } = child;
    this.#onEvent({ type: "started", name, pid, holder });
    this.#ended = new Promise((resolve) => {
      // "close": when all that it wrote has been read. "error": it could not even be started.
      const onEnd = (code: number | string) => {
        if (this.#process !== child) return;
        this.#process = undefined;
        if (clock.monotonic() - startedAtMs > HEALTHY_MS) this.#restartMs = RESTART_MS;
        const restartMs = this.#stopping ? null : this.#restartMs;
        this.#onEvent({ type: "exited", name, pid, code, said, restartMs });
        if (restartMs !== null) {
          this.#restart = clock.timer(restartMs, () => this.#start());
          this.#restartMs = Math.min(2 * restartMs, LONGEST_RESTART_MS);
        }
        resolve();
      };
      child.once("close", (code, signal) => onEnd(code ?? signal ?? "unknown"));
      child.once("error", (error) => onEnd(error.message));
    });
  }
}

/** Of a line of the log its message; any other line as it is. */
function messageOf(line: string): string {
  try {
    const { msg } = JSON.parse(line) as { msg?: unknown };
    return typeof msg === "string" ? msg : line;
  } catch {
    return line;
  }
}
