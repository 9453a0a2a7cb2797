/**
 * Child processes of this CLI, restarted when they end by themselves. They share the terminal's process
 * group, so a Ctrl-C reaches them too. The parent sends DRAIN over IPC to stop them, and the end of
 * that channel shows them that the parent is gone (see shutdown.ts).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Env, Timer } from "leasehold";
import { DRAIN } from "../shutdown.js";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
const RESTART_MS = 1_000;
const LONGEST_RESTART_MS = 10_000;
/** After this lifetime the restart delay begins again at RESTART_MS. */
const HEALTHY_MS = 5_000;

export interface ChildSpec {
  readonly name: string;
  /** @param holder a new name for each start, because each process is a different holder */
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
      /** Its last line on stderr. */
      readonly said: string;
      /** Delay of the restart; null if it is not restarted. */
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

  /** Starts the process at once. */
  constructor(spec: ChildSpec, env: Env, onEvent: (event: ChildEvent) => void) {
    this.#spec = spec;
    this.#env = env;
    this.#onEvent = onEvent;
    this.#start();
  }

  /** Asks it to drain. Resolves when it has ended. */
  stop(): Promise<void> {
    this.#stopping = true;
    this.#restart?.cancel();
    // It may have ended just now.
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
      // "close" follows the last output of the child. "error" means that it could not be started.
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

/** Returns the message of a log line, or any other line unchanged. */
function messageOf(line: string): string {
  try {
    const { msg } = JSON.parse(line) as { msg?: unknown };
    return typeof msg === "string" ? msg : line;
  } catch {
    return line;
  }
}
