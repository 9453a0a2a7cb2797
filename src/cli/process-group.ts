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
import { spawn } from "node:child_process";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import { type Clock, sleep } from "../env/index.js";

const GUARD = `
read -r pid || exit 0
read -r done && exit 0
kill -s TERM -- "-$pid"
kill -s CONT -- "-$pid"
sleep "$1"
kill -s KILL -- "-$pid"`;
const LOOK_EVERY_MS = 20;

export interface GroupOptions {
  readonly env: NodeJS.ProcessEnv;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly clock: Clock;
}

export class ProcessGroup {
  /**
   * The command's exit code, or 128 plus the number of the signal that ended it.
   * Rejects with node's own error (ENOENT, EACCES) when it could not be started.
   */
  readonly exited: Promise<number>;
  readonly #pid: number | undefined;
  readonly #options: GroupOptions;

  /** Starts the command at once. */
  constructor(command: string, args: readonly string[], options: GroupOptions) {
    this.#options = options;
    const { env, graceMs } = options;
    // The guard first, so that no command is ever without one.
    const guard = startGuard(graceMs);
    const child = spawn(command, args, { env, stdio: "inherit", detached: true });
    this.#pid = child.pid;
    if (child.pid !== undefined) guard.write(`${child.pid}\n`);
    this.exited = new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) =>
        resolve(signal === null ? (code ?? 0) : 128 + constants.signals[signal]),
      );
    }).finally(() => guard.end("done\n"));
  }

  /** To all of the group; false when nobody is left in it. */
  signal(name: NodeJS.Signals | 0): boolean {
    if (this.#pid === undefined) return false;
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

/** What it is told. Where there is no /bin/sh nobody hears it, and we alone stop the command. */
function startGuard(graceMs: number): Writable {
  const guard = spawn("/bin/sh", ["-c", GUARD, "leasehold-guard", `${graceMs / 1_000}`], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  return guard.stdin;
}
