/**
 * Reports what a waiting command waits for: a store that has stopped answering, a server that refuses by a limit, and
 * that this is over; and who holds the lease. The library logs all of it. Its first warning of a store that does not
 * answer starts a poll, which ends with the outage.
 *
 *   answering ── a warning ──▶ polled ── an answer ──▶ answering      nothing is reported
 *       │                        └── no answer ──▶ reported, polled ── an answer ──▶ reported, answering
 *       └── a refusal ──▶ reported ── an answer ──▶ reported, answering
 */

import {
  type AnyLease,
  type Clock,
  type Leasehold,
  LeaseholdError,
  type Logger,
  StoreUnavailableError,
} from "leasehold";
import {
  formatDuration,
  PAUSED_HOLDER,
  silentLogger,
  sleep,
  systemClock,
} from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import type { Notify } from "./notices.js";

const POLL_MS = 1_000;
/** A lease that is free sooner needs no report. */
const SAY_HELD_AFTER_MS = 1_000;

type Trouble = "unanswered" | "refused";

interface HeldFields {
  readonly resource: string;
  readonly holder: string;
  readonly remainingMs: number | null;
}

/** What is left of a wait of which some has passed. */
export function leftOf(waitMs: number, passedMs: number): number {
  return Math.max(0, waitMs - passedMs);
}

export class Outage {
  readonly #notify: Notify;
  readonly #patienceMs: number;
  readonly #clock: Clock;
  /** When the wait ends, by the wall clock. */
  #untilMs = Number.POSITIVE_INFINITY;
  readonly #ended = new AbortController();
  readonly #hopeless = new AbortController();
  #poll: (() => Promise<unknown>) | undefined;
  #isPolling = false;
  /** When the trouble began, by the wall clock. */
  #sinceMs: number | undefined;
  #reported: Trouble | undefined;
  #last: unknown;
  #isHeldReported = false;

  /**
   * @param patienceMs how long the command waits for a store that does not answer; it does not wait for a limit.
   *   Default: for ever
   */
  constructor(notify: Notify, patienceMs = Number.POSITIVE_INFINITY, clock: Clock = systemClock) {
    this.#notify = notify;
    this.#patienceMs = patienceMs;
    this.#clock = clock;
  }

  /** For the client that is watched. */
  readonly logger: Logger = {
    ...silentLogger,
    debug: (fields) => {
      if (isHeld(fields)) this.#held(fields);
    },
    info: (_, message) => {
      if (message === "the store answers again") this.answered();
    },
    warn: (fields) => {
      if ("err" in fields) this.#suspect(fields.err);
    },
  };

  /** Aborts when a further wait is in vain, with the error that says why. */
  get hopeless(): AbortSignal {
    return this.#hopeless.signal;
  }

  /** Whether the command has said that it gets no answer. */
  get isReported(): boolean {
    return this.#reported !== undefined;
  }

  /**
   * Begins to watch; until then, warnings are ignored.
   * @param waitMs how long the command waits at all, from now on; the library ends the wait. Default: for ever
   */
  watch(
    leasehold: Pick<Leasehold<AnyLease>, "get">,
    resource: string,
    waitMs = Number.POSITIVE_INFINITY,
  ): void {
    this.#untilMs = this.#clock.wall() + waitMs;
    this.#poll = () => leasehold.get(resource);
  }

  end(): void {
    this.#ended.abort();
  }

  /** The command itself has asked in vain. */
  failed(error: unknown): void {
    if (this.#ended.signal.aborted) return;
    this.#last = error;
    const trouble = isRefusal(error) ? "refused" : "unanswered";
    if (this.#sinceMs === undefined) this.#begin();
    if (this.#reported === trouble || this.#giveUp(error)) return;
    const nowMs = this.#clock.wall();
    const untilMs = Math.min(this.#untilMs, (this.#sinceMs ?? nowMs) + this.#patienceMs);
    // The command tries no more, and its error says why.
    if (untilMs <= nowMs) return;
    this.#reported = trouble;
    const since = isoOf(this.#sinceMs ?? nowMs);
    const until = Number.isFinite(untilMs) ? { until: isoOf(untilMs) } : {};
    const why = error === undefined ? "no answer" : reasonOf(error);
    const [event, what] =
      trouble === "refused"
        ? (["refused", "the server has refused"] as const)
        : (["retrying", "the store has not answered"] as const);
    this.#notify({ event, message: `${what} since ${since}: ${why}`, since, ...until });
  }

  /** The store has answered. */
  answered(): void {
    const was = this.#reported;
    [this.#reported, this.#sinceMs] = [undefined, undefined];
    if (was === undefined || this.#ended.signal.aborted) return;
    const message = was === "refused" ? "the server no longer refuses" : "the store answers again";
    this.#notify({ event: "answering", message });
  }

  /** The library has asked in vain. */
  #suspect(error: unknown): void {
    if (!this.#poll || this.#ended.signal.aborted) return;
    if (isFinal(error)) this.#hopeless.abort(error);
    else if (isRefusal(error)) this.failed(error);
    else void this.#watch();
  }

  #begin(): void {
    const clock = this.#clock;
    const sinceMs = clock.wall();
    this.#sinceMs = sinceMs;
    if (!Number.isFinite(this.#patienceMs)) return;
    const { signal } = this.#ended;
    sleep(clock, this.#patienceMs, { signal }).then(
      () => this.#sinceMs === sinceMs && this.#hopeless.abort(this.#last),
      () => {},
    );
  }

  /** Without an end of its own, a wait is not for a limit of the tenant: it may stay reached for ever. */
  #giveUp(error: unknown): boolean {
    if (!Number.isFinite(this.#patienceMs) || refusedBy(error) !== "limit") return false;
    this.#hopeless.abort(error);
    return true;
  }

  /** Never rejects. */
  async #watch(): Promise<void> {
    const poll = this.#poll;
    if (!poll || this.#isPolling) return;
    this.#isPolling = true;
    if (this.#sinceMs === undefined) this.#begin();
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const failure = await poll().then(
        () => null,
        (error: unknown) => error,
      );
      if (signal.aborted) break;
      // Also a server that refuses the poll itself has answered.
      if (failure === null || isFinal(failure)) {
        if (this.#reported !== "refused") this.answered();
        break;
      }
      this.failed(failure);
      await sleep(this.#clock, POLL_MS, { signal }).catch(() => {});
    }
    this.#isPolling = false;
  }

  #held({ resource, holder, remainingMs }: HeldFields): void {
    if (this.#isHeldReported) return;
    this.#isHeldReported = true;
    const clock = this.#clock;
    const atMs = clock.monotonic();
    const report = () => {
      const leftMs =
        remainingMs && Math.max(0, Math.round(remainingMs - (clock.monotonic() - atMs)));
      const until = Number.isFinite(this.#untilMs) ? { until: isoOf(this.#untilMs) } : {};
      const message = heldMessage(resource, holder, leftMs);
      this.#notify({ event: "waiting", resource, holder, remainingMs: leftMs, message, ...until });
    };
    const { signal } = this.#ended;
    sleep(clock, SAY_HELD_AFTER_MS, { signal }).then(report, () => {});
  }
}

function heldMessage(resource: string, holder: string, leftMs: number | null): string {
  if (holder === PAUSED_HOLDER) return `"${resource}" is paused by an operator`;
  const forMs =
    leftMs === null ? "" : ` for another ${formatDuration(leftMs)}, unless it renews it`;
  return `"${resource}" is held by ${holder}${forMs}`;
}

function isHeld(fields: object): fields is HeldFields {
  return "holder" in fields && "remainingMs" in fields && "resource" in fields;
}

/** Whether no retry can help. */
function isFinal(error: unknown): boolean {
  return error instanceof LeaseholdError && error.code === "STORE_MISCONFIGURED";
}

function refusedBy(error: unknown) {
  return error instanceof StoreUnavailableError ? error.refusedBy : undefined;
}

const isRefusal = (error: unknown) => refusedBy(error) !== undefined;

function isoOf(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
