/**
 * Runs a command in its own process group. The command and every process that it starts can then be
 * stopped together, and the command does not receive the terminal's signals twice.
 *
 *   leasehold run ──spawns──▶ gate (leads the group) ──reads "go", becomes──▶ CMD ──▶ what it starts
 *        └────────spawns──▶ guard: reads the group's pid, then "within SECONDS", "stopping" and "done", from a pipe
 *
 * - CMD ends and leaves processes running: stop() ends them too, before the lease is released. It cannot
 *   reach processes that have left the group (setsid, a daemon).
 * - This process is killed (SIGKILL, out of memory): no process renews the lease or stops CMD. The guard
 *   sees the pipe close without "done", and stops the group.
 * - This process is blocked (it writes to a full pipe that no process reads) or stopped (SIGSTOP): it cannot stop
 *   CMD. The guard stops the group when the time of the last stopWithin() has passed. Once stop() has sent
 *   SIGTERM, the guard only sends SIGKILL after the grace: a second SIGTERM makes some programs end at once.
 * - This process is killed before the guard has the pid: the gate sees its pipe close without
 *   "go", and CMD never starts. So CMD never runs unguarded.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import type { Clock } from "leasehold";
import { sleep } from "leasehold/internal";

const SHELL = "/bin/sh";
/** What the shell calls itself when it says why it could not start the command. */
const NAME = "leasehold: cannot start the command";
const GATE = `read -r go <&3 && exec "$@" 3<&-`;
// A timer that has fired ignores the guard's SIGTERM: a later message must not save the group from SIGKILL.
const GUARD = `
stop() {
  kill -s TERM -- "-$pid"
  kill -s CONT -- "-$pid"
  sleep "$1"
  kill -s KILL -- "-$pid"
}
timer=
read -r pid || exit 0
while read -r message seconds; do
  if [ "$timer" ]; then kill "$timer"; fi
  case $message in
    within) { sleep "$seconds"; trap "" TERM; stop "$1"; } & timer=$! ;;
    stopping) { sleep "$1"; kill -s KILL -- "-$pid"; } & timer=$! ;;
    done) kill -s KILL 0 ;;
  esac
done
if [ "$timer" ]; then kill "$timer"; fi
stop "$1"
kill -s KILL 0`;
const POLL_MS = 20;

export interface GroupOptions {
  readonly env: NodeJS.ProcessEnv;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** The first time for the guard, as `stopWithin` sets it. */
  readonly withinMs: number;
  readonly clock: Clock;
  /** Is given what the command writes, which is passed on as well. Without it the command has this process's own output. */
  readonly onOutput?: ((chunk: Buffer) => void) | undefined;
}

export class ProcessGroup {
  /**
   * The command's exit code, or 128 plus the number of the signal that ended it. If the command could
   * not be started, the gate's: 127 (not found) or 126 (not executable); the gate has printed why.
   * Rejects with Node's error if no process could be started at all.
   */
  readonly exited: Promise<number>;
  readonly #pid: number | undefined;
  readonly #guard: ChildProcess;
  readonly #options: GroupOptions;
  #stopping: Promise<void> | undefined;

  /** Starts the command at once. The caller must call stop() in the end. */
  constructor(command: string, args: readonly string[], options: GroupOptions) {
    this.#options = options;
    const { env, graceMs, withinMs, onOutput } = options;
    const output = onOutput ? "pipe" : "inherit";
    this.#guard = startGuard(graceMs);
    const gate = spawn(SHELL, ["-c", GATE, NAME, command, ...args], {
      env,
      stdio: ["inherit", output, output, "pipe"],
      detached: true,
    });
    this.#pid = gate.pid;
    for (const [from, to] of [
      [gate.stdout, process.stdout],
      [gate.stderr, process.stderr],
    ] as const) {
      from?.pipe(to, { end: false });
      if (onOutput) from?.on("data", onOutput);
    }
    const go = gate.stdio[3] as Writable;
    go.on("error", () => {});
    // Without a guard the gate stays shut: its pipe ends without "go".
    this.#guard.stdin?.write(`${gate.pid}\n`);
    // Before the command begins: this process may be stopped at any moment after that.
    this.stopWithin(withinMs);
    go.end(this.#guard.pid === undefined ? "" : "go\n");
    this.exited = Promise.race([
      exitCodeOf(gate, onOutput ? "close" : "exit"),
      failureOf(this.#guard),
    ]);
  }

  /** Signals every process of the group; false if none is left. */
  signal(name: NodeJS.Signals | 0): boolean {
    if (this.#pid === undefined) return false;
    try {
      process.kill(-this.#pid, name);
      return true;
    } catch (error) {
      // EPERM means that a process is left that we may not signal.
      return (error as NodeJS.ErrnoException).code === "EPERM";
    }
  }

  /** Has the guard stop the group after this time, unless it is called again or the group is gone by then. */
  stopWithin(ms: number): void {
    if (!this.#stopping) this.#guard.stdin?.write(`within ${ms / 1_000}\n`);
  }

  /** Sends SIGTERM before it returns, and SIGKILL after the grace. Resolves when no process is left. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop().finally(() => this.#guard.stdin?.end("done\n"));
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { clock, graceMs } = this.#options;
    if (!this.signal("SIGTERM")) return;
    // A stopped process handles SIGTERM only once it continues.
    this.signal("SIGCONT");
    this.#guard.stdin?.write("stopping\n");
    const killAtMs = clock.monotonic() + graceMs;
    while (await this.#isAlive()) {
      if (clock.monotonic() >= killAtMs) this.signal("SIGKILL");
      await sleep(clock, POLL_MS);
    }
  }

  /** Whether a process of the group is alive; zombies are not. */
  async #isAlive(): Promise<boolean> {
    const group = this.#pid ?? 0;
    if (!this.signal(0)) return false;
    // Twice: the first listing can miss a process that is forked just before its parent ends.
    return (await hasLiving(group)) || (await hasLiving(group));
  }
}

/**
 * Reads Linux's /proc; true on systems without it. As the first process of a container, this process
 * inherits the command's orphans, and Node does not reap them: their zombies stay in the table.
 */
async function hasLiving(group: number): Promise<boolean> {
  const pids = await readdir("/proc").catch(() => []);
  const stats = await Promise.all(
    pids
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")),
  );
  // PID (NAME) STATE PARENT GROUP ...: only the name may contain parentheses.
  const found = stats.map((text) => text.slice(text.lastIndexOf(")") + 2).split(" "));
  const known = found.filter(([state]) => state);
  if (known.length === 0) return true;
  return known.some(([state = "", , of]) => Number(of) === group && !/[ZX]/.test(state));
}

/** @param end `close`: when all that it wrote has been read, too */
async function exitCodeOf(child: ChildProcess, end: "exit" | "close"): Promise<number> {
  const [code, signal] = (await once(child, end)) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 0) : 128 + constants.signals[signal];
}

function startGuard(graceMs: number): ChildProcess {
  const guard = spawn(SHELL, ["-c", GUARD, "leasehold-guard", `${graceMs / 1_000}`], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.stdin.on("error", () => {});
  return guard;
}

/** Rejects if the process could not be started; never resolves. */
async function failureOf(child: ChildProcess): Promise<never> {
  const [error] = (await once(child, "error")) as [Error];
  throw error;
}
