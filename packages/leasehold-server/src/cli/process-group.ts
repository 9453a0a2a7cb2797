/**
 * A command in a process group of its own, so that it and everything that it starts can be stopped
 * together, and so that it does not get the terminal's signals a second time beside ours.
 *
 *   leasehold run ──spawns──▶ CMD (leads the group) ──▶ what it starts
 *        └────────spawns──▶ guard: reads a pipe from us
 *
 * - CMD ends, and leaves behind what it has started: stop() ends that too, before the lease is given
 *   back. Only what has left the group (setsid, a daemon) is out of our reach.
 * - We are killed (SIGKILL, out of memory): nobody would renew the lease nor stop CMD. The guard then
 *   sees the pipe close without a word, and stops the group in our stead.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import type { Clock } from "leasehold";
import { sleep } from "leasehold/internal";

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
  readonly #guard: Writable;
  readonly #options: GroupOptions;
  #stopping: Promise<void> | undefined;

  /** Starts the command at once. Whoever does that calls stop() in the end. */
  constructor(command: string, args: readonly string[], options: GroupOptions) {
    this.#options = options;
    const { env, graceMs } = options;
    // The guard first, so that no command is ever without one.
    this.#guard = startGuard(graceMs);
    const child = spawn(command, args, { env, stdio: "inherit", detached: true });
    this.#pid = child.pid;
    if (child.pid !== undefined) this.#guard.write(`${child.pid}\n`);
    this.exited = exitCodeOf(child);
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
  stop(): Promise<void> {
    this.#stopping ??= this.#stop().finally(() => this.#guard.end("done\n"));
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { clock, graceMs } = this.#options;
    if (!(await this.#isAlive())) return;
    this.signal("SIGTERM");
    // A stopped process would not see it.
    this.signal("SIGCONT");
    const killAtMs = clock.monotonic() + graceMs;
    while (await this.#isAlive()) {
      if (clock.monotonic() >= killAtMs) this.signal("SIGKILL");
      await sleep(clock, LOOK_EVERY_MS);
    }
  }

  /** Whether one of the group can still do something: the dead whom nobody has buried cannot. */
  async #isAlive(): Promise<boolean> {
    const group = this.#pid ?? 0;
    if (!this.signal(0)) return false;
    // Twice: one that was just being started as its parent ended is in none of the first look.
    return (await hasLiving(group)) || (await hasLiving(group));
  }
}

/**
 * By Linux's /proc; where there is none, true. As the first process of a container we inherit what
 * our command orphaned, and its dead stay in the table: Node takes note of its own children alone.
 */
async function hasLiving(group: number): Promise<boolean> {
  const pids = await readdir("/proc").catch(() => []);
  const stats = await Promise.all(
    pids
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")),
  );
  // PID (NAME) STATE PARENT GROUP ...: only a name has parentheses in it.
  const found = stats.map((text) => text.slice(text.lastIndexOf(")") + 2).split(" "));
  const known = found.filter(([state]) => state);
  if (known.length === 0) return true;
  return known.some(([state = "", , of]) => Number(of) === group && !/[ZX]/.test(state));
}

async function exitCodeOf(child: ChildProcess): Promise<number> {
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 0) : 128 + constants.signals[signal];
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
