/**
 * Real processes that a test starts, waits for, stops, continues and ends by their recorded pids.
 * Each leads a process group of its own. None outlives the test that calls endAll(), and none this
 * process, whatever ends it: a watchdog, which knows all pids, kills the groups when it is gone.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { finished } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { clockEnvironment, type FakeClock, forgetClock } from "./fake-clock.js";

const POLL_MS = 10;
/** After which the output of a killed process is closed, should another one hold it open. */
const LEFT_OPEN_MS = 2_000;

export interface ChildOptions {
  /** All of it. Default: this process's, without the warnings of clients that lose leases on purpose. */
  readonly env?: NodeJS.ProcessEnv;
  /** Written to stdin, which is then closed. Default: it stays open, for say(). */
  readonly input?: string | Uint8Array;
  readonly cwd?: string;
  /** The time it sees, where libfaketime is installed. */
  readonly clock?: FakeClock;
}

export interface Ended {
  /** The exit code, or the signal that ended it. */
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

const running = new Set<Child>();
const folders = new Set<string>();

/** For afterEach: no process outlives its test, but for one that is shared. Folders go too. */
export async function endAll(shared?: Child): Promise<void> {
  const own = [...running].filter((child) => child !== shared);
  await Promise.all(own.map((child) => child.endGroup()));
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
  folders.clear();
}

/** An empty folder of a process's own, until endAll(). */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-process-"));
  folders.add(folder);
  return folder;
}

/** A process, with all that it prints. */
export class Child {
  readonly out: string[] = [];
  readonly err: string[] = [];
  /** When all that it wrote has been read. */
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #waiting = new Set<() => void>();
  #over = false;

  constructor(command: string, args: readonly string[], options: ChildOptions = {}) {
    const { env = quiet(), input, cwd, clock } = options;
    // The channel tells a program of ours that we are gone: see packages/leasehold-server/src/cli/shutdown.ts.
    this.#child = spawn(command, args, {
      stdio: ["pipe", "pipe", "pipe", "ipc"],
      detached: true,
      cwd,
      env: { ...env, ...clockEnvironment(clock) },
    });
    running.add(this);
    tellWatchdog();
    this.#read(this.#child.stdout, this.out);
    this.#read(this.#child.stderr, this.err);
    this.#child.stdin?.on("error", () => {});
    if (input !== undefined) this.#child.stdin?.end(input);
    this.#child.once("error", (error) => this.err.push(error.message));
    this.ended = new Promise((resolve) => {
      this.#child.once("close", (code, signal) => {
        running.delete(this);
        tellWatchdog();
        if (clock) forgetClock(this.pid);
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

  /** A line to its stdin. */
  say(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Sends a message over IPC, unless the process has ended. */
  tell(message: unknown): void {
    if (this.#child.connected) this.#child.send(message as object, () => {});
  }

  /** Closes the IPC channel. */
  disconnect(): void {
    const { stdout, stderr } = this.#child;
    // Node 20 emits no "close" for a process whose channel its parent has closed.
    this.#child.once("exit", (code, signal) => {
      const outputs = [stdout, stderr].flatMap((stream) => (stream ? [finished(stream)] : []));
      void Promise.allSettled(outputs).then(() => this.#child.emit("close", code, signal));
    });
    this.#child.disconnect();
  }

  /** Calls back with each message that it sends over IPC. */
  onMessage(listener: (message: unknown) => void): void {
    this.#child.on("message", listener);
  }

  /** The end of its stdin. */
  closeInput(): void {
    this.#child.stdin?.end();
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  end(signal: NodeJS.Signals): Promise<Ended> {
    this.kill(signal);
    return this.ended;
  }

  /** Kills it and those that it has started, and they in turn. What has left its group is not waited for. */
  endGroup(): Promise<Ended> {
    setTimeout(() => this.#closeOutput(), LEFT_OPEN_MS).unref();
    try {
      if (!this.#over && this.pid > 0) process.kill(-this.pid, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
    return this.ended;
  }

  /** SIGSTOP. Resolves when it stands still. */
  async stop(): Promise<void> {
    this.kill("SIGSTOP");
    while (!["T", "Z", ""].includes(await stateOf(this.pid))) await delay(POLL_MS);
  }

  /** SIGCONT. */
  cont(): void {
    this.kill("SIGCONT");
  }

  /**
   * Calls `find` at each printed line, and resolves with its first truthy result. Rejects with the output
   * when the process ends without one.
   */
  async until<T>(find: (child: this) => T | null | undefined | false): Promise<T> {
    for (;;) {
      const found = find(this);
      if (found) return found;
      if (this.#over) throw this.#endedMeanwhile();
      let wake = () => {};
      await new Promise<void>((resolve) => {
        wake = resolve;
        this.#waiting.add(wake);
      });
      this.#waiting.delete(wake);
    }
  }

  /** Resolves when a server accepts connections at this port of 127.0.0.1; rejects as until(). */
  async listening(port: number): Promise<void> {
    while (!(await canConnect(port))) {
      if (this.#over) throw this.#endedMeanwhile();
      await delay(POLL_MS);
    }
  }

  #closeOutput(): void {
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
  }

  #endedMeanwhile(): Error {
    return new Error(`ended meanwhile:\n${[...this.out, ...this.err].join("\n")}`);
  }

  #read(stream: NodeJS.ReadableStream | null, lines: string[]): void {
    if (!stream) return;
    createInterface(stream).on("line", (line) => {
      lines.push(line);
      for (const wake of this.#waiting) wake();
    });
  }
}

function quiet(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS = "" } = process.env;
  return { ...process.env, NODE_OPTIONS: `${NODE_OPTIONS} --disable-warning=LeaseholdWarning` };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

let watchdog: ChildProcess | undefined;

/**
 * Sends the watchdog the pids of all running processes. It kills them when its input ends, which happens
 * when this process ends. The last process to end takes the watchdog with it.
 */
function tellWatchdog(): void {
  if (!watchdog) {
    const script = `while read -r line; do pids=$line; done
      for pid in $pids; do kill -s KILL -- "-$pid"; done`;
    watchdog = spawn("sh", ["-c", script], { stdio: ["pipe", "ignore", "ignore"], detached: true });
    watchdog.on("error", () => {});
    watchdog.stdin?.on("error", () => {});
  }
  const pids = [...running].map(({ pid }) => pid).filter((pid) => pid > 0);
  watchdog.stdin?.write(`${pids.join(" ")}\n`);
  if (running.size > 0) return;
  watchdog.stdin?.end();
  watchdog = undefined;
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
