/**
 * A command in a process group of its own, so that it and everything that it starts can be stopped
 * together, and so that it does not get the terminal's signals a second time beside ours.
 *
 *   leasehold run ──spawns──▶ CMD (leads the group)
 *        └────────spawns──▶ guard: reads a pipe from us
 *
 * If we are killed (SIGKILL, out of memory), nobody would renew the lease nor stop CMD. The guard
 * then sees the pipe close without a word, and stops the group in our stead.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { type Clock, sleep } from "../env/index.js";

const GUARD = `
read -r done && exit 0
kill -s TERM -- "-$1"
kill -s CONT -- "-$1"
sleep "$2"
kill -s KILL -- "-$1"`;
const LOOK_EVERY_MS = 20;

export interface GroupOptions {
  readonly env: NodeJS.ProcessEnv;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly clock: Clock;
}

export class ProcessGroup {
  /** The command's exit code, or 128 plus the number of the signal that ended it. */
  readonly exited: Promise<number>;
  readonly #pid: number;
  readonly #guard: ChildProcess;
  readonly #options: GroupOptions;

  private constructor(child: ChildProcess, pid: number, options: GroupOptions) {
    this.#pid = pid;
    this.#options = options;
    const guardArguments = ["-c", GUARD, "leasehold-guard", `${pid}`, `${options.graceMs / 1_000}`];
    this.#guard = spawn("/bin/sh", guardArguments, {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    // Without a guard the command is stopped by us alone.
    this.#guard.on("error", () => {});
    this.#guard.stdin?.on("error", () => {});
    this.exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        this.#guard.stdin?.end("done\n");
        resolve(signal === null ? (code ?? 0) : 128 + constants.signals[signal]);
      });
    });
  }

  /** Rejects with node's own error (ENOENT, EACCES) when the command cannot be started. */
  static start(
    command: string,
    args: readonly string[],
    options: GroupOptions,
  ): Promise<ProcessGroup> {
    const { env } = options;
    const child = spawn(command, args, { env, stdio: "inherit", detached: true });
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("spawn", () => {
        // Always there after "spawn".
        const { pid = 0 } = child;
        resolve(new ProcessGroup(child, pid, options));
      });
    });
  }

  /** To all of the group; false when nobody is left in it. */
  signal(name: NodeJS.Signals | 0): boolean {
    try {
      process.kill(-this.#pid, name);
      return true;
    } catch (error) {
      // Of a group in which one may not be signalled somebody is left.
      return (error as NodeJS.ErrnoException).code === "EPERM";
    }
  }

  /** SIGTERM, and SIGKILL for what is left after the grace. Resolves when nobody is left. */
  async stop(): Promise<void> {
    const { clock, graceMs } = this.#options;
    this.signal("SIGTERM");
    // A stopped process would not see it.
    this.signal("SIGCONT");
    const killAtMs = clock.monotonic() + graceMs;
    while (this.signal(0)) {
      if (clock.monotonic() >= killAtMs) this.signal("SIGKILL");
      await sleep(clock, LOOK_EVERY_MS);
    }
  }
}
