/**
 * Closes clients before the process ends by a signal, if they asked for it.
 *
 *   SIGTERM ──▶ close all that asked for it ──▶ our handlers off, the same signal again: the process
 *                 │                             ends by it, and its parent sees that
 *                 └── a second signal ──▶ the same, at once
 *
 * Failure cases. *One Ctrl-C that arrives twice*, from the terminal to the whole process group and
 * again from a parent such as npm that passes signals on: a signal that follows at once counts as the
 * same. *Other handlers for the same signal*: they have received it as well, and they decide how the
 * process ends, so the signal is not sent again. *A close that fails* is logged, and the process
 * ends all the same.
 */
import { systemClock } from "./clock.js";
import type { Logger } from "./logger.js";

/** Signals that ask a process to end, and leave it time to close. */
export type ClosingSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGQUIT" | "SIGBREAK" | "SIGUSR2";
export const CLOSING_SIGNALS: readonly ClosingSignal[] = [
  "SIGINT",
  "SIGTERM",
  "SIGHUP",
  "SIGQUIT",
  "SIGBREAK",
  "SIGUSR2",
];

/** Something to be closed first. */
export interface ClosedBySignals {
  readonly signals: readonly ClosingSignal[];
  close(): Promise<void>;
  readonly logger: Logger;
}

/** What is needed of Node's `process`; Deno and Bun have it too. */
interface Host {
  readonly pid: number;
  on(signal: ClosingSignal, listener: (signal: ClosingSignal) => void): unknown;
  off(signal: ClosingSignal, listener: (signal: ClosingSignal) => void): unknown;
  listenerCount(signal: ClosingSignal): number;
  kill(pid: number, signal: ClosingSignal): unknown;
}

const SAME_REQUEST_MS = 500;

// Of the process, as the signals are.
const registered = new Set<ClosedBySignals>();
const listening = new Set<ClosingSignal>();
let closingSinceMs: number | undefined;

/** Whether there is a process that receives signals; there is none in browsers. */
export function getsSignals(): boolean {
  return hostProcess() !== undefined;
}

/**
 * Closes it when one of its signals arrives, then lets the process end by that signal.
 * @returns what undoes this
 */
export function closeOnSignals(closed: ClosedBySignals): () => void {
  registered.add(closed);
  for (const signal of closed.signals) {
    if (listening.has(signal)) continue;
    listening.add(signal);
    hostProcess()?.on(signal, onSignal);
  }
  return () => {
    registered.delete(closed);
    for (const signal of Array.from(listening)) if (concerned(signal).length === 0) ignore(signal);
  };
}

function onSignal(signal: ClosingSignal): void {
  const nowMs = systemClock.monotonic();
  if (closingSinceMs === undefined) {
    closingSinceMs = nowMs;
    void closeAll(signal).finally(() => end(signal));
  } else if (nowMs - closingSinceMs > SAME_REQUEST_MS) {
    end(signal);
  }
}

async function closeAll(signal: ClosingSignal): Promise<void> {
  // What is waited for may be nothing that holds the process open.
  const hold = systemClock.timer(Infinity, () => {});
  // Again for what was opened meanwhile.
  for (let due = concerned(signal); due.length > 0; due = concerned(signal)) {
    await Promise.all(
      due.map(async (closed) => {
        closed.logger.info({ signal }, "closing, because the process received a signal to end");
        try {
          await closed.close();
        } catch (err) {
          closed.logger.error({ err, signal }, "could not close before the process ends");
        }
        registered.delete(closed);
      }),
    );
  }
  hold.cancel();
}

function end(signal: ClosingSignal): void {
  closingSinceMs = undefined;
  ignore(signal);
  const host = hostProcess();
  if (host?.listenerCount(signal) === 0) host.kill(host.pid, signal);
}

function ignore(signal: ClosingSignal): void {
  listening.delete(signal);
  hostProcess()?.off(signal, onSignal);
}

function concerned(signal: ClosingSignal): ClosedBySignals[] {
  return [...registered].filter(({ signals }) => signals.includes(signal));
}

function hostProcess(): Host | undefined {
  const host = (globalThis as { process?: Partial<Host> }).process;
  // Bundlers put something else in its place that knows no signals.
  return typeof host?.kill === "function" ? (host as Host) : undefined;
}
