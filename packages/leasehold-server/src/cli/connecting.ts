/**
 * Opens the stores of a command. While that takes long, it says so, and it says when the store has answered.
 *
 *   opening ── soon ──▶ open                                   nothing is reported
 *      └── not soon ──▶ "retrying" ── the store answers ──▶ "answering", open
 *                           ├── the time has passed ──▶ the error
 *                           └── the signal aborts ──▶ its reason
 */
import { type LeaseholdError, type Logger, StoreUnavailableError } from "leasehold";
import { Aborting, notingFailures, sleep, systemClock } from "leasehold/internal";
import type { Notify } from "./notices.js";
import { shownUrl } from "./shown-url.js";

const CONNECT_TIMEOUT_MS = 30_000;
/** PGlite starts in this process: it creates a database in a few seconds, and in many more on a busy machine. */
const START_TIMEOUT_MS = 120_000;
const CONNECT_AGAIN_MS = 500;
/** How long the first attempt of a patient command may take, even if its wait is shorter. */
const ATTEMPT_MS = 5_000;

/**
 * After this time without a connection, a command says that it still tries. On a busy machine, to load a driver and to
 * connect may take more than a second.
 */
const SAY_AFTER_MS = 3_000;

const aborting = new Aborting();

/** PGlite and memory, which are in this process. */
const isLocal = (url: string) => /^(pglite|memory|sqlite):/i.test(url);

/** How long a command tries to open these stores, by default. */
export function patienceMs(...urls: readonly string[]): number {
  return urls.every(isLocal) ? START_TIMEOUT_MS : CONNECT_TIMEOUT_MS;
}

export interface Connecting {
  /** How long the command tries. Default: {@link patienceMs}. 0: once, without a notice. */
  readonly waitMs?: number | undefined;
  /** Of commands that wait anyway: a failure that comes at once is retried, too. */
  readonly isPatient?: boolean;
  /** Ends the attempts. While an embedded database starts, it waits for that: an end could leave half of one. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * @param timeoutMs how long this attempt may take
 * @param noting wraps the client's logger, to learn from its log why there is no connection yet
 */
export type Open<Opened> = (timeoutMs: number, noting: (own: Logger) => Logger) => Promise<Opened>;

/** @throws the last error; the reason of the signal */
export async function connecting<Opened>(
  urls: readonly string[],
  open: Open<Opened>,
  notify: Notify,
  { waitMs = patienceMs(...urls), isPatient = false, signal }: Connecting = {},
): Promise<Opened> {
  const clock = systemClock;
  const remote = urls.filter((url) => !isLocal(url));
  const attemptMs = remote.length < urls.length ? START_TIMEOUT_MS : ATTEMPT_MS;
  const untilMs = clock.monotonic() + waitMs;
  const firstUntilMs = isPatient ? Math.max(untilMs, clock.monotonic() + attemptMs) : untilMs;
  const stopping = remote.length === urls.length ? signal : undefined;
  const shown = remote.map((url) => shownUrl(url)).join(" and ");
  let said = false;
  let last: LeaseholdError | undefined;
  const say = (message: string, giveUpMs: number) => {
    if (said) return;
    said = true;
    const until = new Date(clock.wall() + giveUpMs - clock.monotonic()).toISOString();
    notify({ event: "retrying", message, until });
  };
  const timer = clock.timer(SAY_AFTER_MS, () => {
    const what = isRefusal(last) ? "no access" : "no connection";
    say(`${what} to ${shown} yet${last ? `: ${last.message}` : ""}`, firstUntilMs);
  });
  // PGlite starts in this process, which takes a while and never fails for a while.
  const isShort = waitMs === 0 || firstUntilMs - clock.monotonic() <= SAY_AFTER_MS;
  if (isShort || remote.length === 0) timer.cancel();
  const noting = (own: Logger) =>
    notingFailures(own, (error) => {
      last = error;
    });
  try {
    for (let endMs = firstUntilMs; ; endMs = untilMs) {
      try {
        const leftMs = Math.max(1, Math.ceil(endMs - clock.monotonic()));
        // What is opened after the signal has aborted stays open: the process ends.
        const opened = await aborting.run([stopping], (abort) => abort.race(open(leftMs, noting)));
        if (said) notify({ event: "answering", message: `connected to ${shown}` });
        return opened;
      } catch (error) {
        stopping?.throwIfAborted();
        const isOver = clock.monotonic() + CONNECT_AGAIN_MS >= untilMs;
        if (isOver || !(error instanceof StoreUnavailableError)) throw error;
        if (!said && !isPatient) throw error;
        say(shown ? `no connection to ${shown} yet: ${error.message}` : error.message, untilMs);
      }
      await sleep(clock, CONNECT_AGAIN_MS, stopping && { signal: stopping });
    }
  } finally {
    timer.cancel();
  }
}

/** A server has answered, and refused. */
function isRefusal(error: LeaseholdError | undefined): boolean {
  return error instanceof StoreUnavailableError && error.refusedBy !== undefined;
}
