/**
 * Reports when the store of a waiting command stops answering, and when it answers again. The library logs a warning
 * each time that it retries. The first one starts a poll, which ends with the outage.
 *
 *   answering ── a warning ──▶ polled ── an answer ──▶ answering      nothing is reported
 *                                └── no answer ──▶ reported, polled ── an answer ──▶ reported, answering
 */
import type { AnyLease, Leasehold, Logger } from "leasehold";
import { silentLogger, sleep, systemEnv } from "leasehold/internal";
import type { Notify } from "./notices.js";

const POLL_MS = 1_000;

export class Outage {
  readonly #notify: Notify;
  readonly #ended = new AbortController();
  #poll: (() => Promise<unknown>) | undefined;
  #isPolling = false;

  constructor(notify: Notify) {
    this.#notify = notify;
  }

  /** For the client that is watched. */
  readonly logger: Logger = {
    ...silentLogger,
    warn: (fields) => {
      if ("err" in fields) void this.#watch();
    },
  };

  /** Begins to watch; until then, warnings are ignored. */
  watch(leasehold: Leasehold<AnyLease>, resource: string): void {
    this.#poll = () => leasehold.get(resource);
  }

  end(): void {
    this.#ended.abort();
  }

  /** Never rejects. */
  async #watch(): Promise<void> {
    const poll = this.#poll;
    if (!poll || this.#isPolling) return;
    this.#isPolling = true;
    const since = new Date(systemEnv.clock.wall()).toISOString();
    const { signal } = this.#ended;
    let isReported = false;
    while (!signal.aborted) {
      const failure = await poll().then(
        () => null,
        (error: unknown) => error,
      );
      if (signal.aborted) break;
      if (failure === null) {
        if (isReported) this.#notify({ event: "answering", message: "the store answers again" });
        break;
      }
      if (!isReported) {
        const why = failure instanceof Error ? failure.message : "no answer";
        const message = `the store has not answered since ${since}: ${why}`;
        this.#notify({ event: "retrying", message, since });
        isReported = true;
      }
      await sleep(systemEnv.clock, POLL_MS, { signal }).catch(() => {});
    }
    this.#isPolling = false;
  }
}
