/**
 * Work that runs on exactly one node at a time, for as long as the node lives.
 *
 *   waiting ──lease──▶ working ──lost──▶ stopping (the signal aborts; the work ends) ──▶ waiting
 *      ▲                  │  └─ close() ─▶ stopping ──▶ released (see Drain for work that does not stop)
 *      └──── backoff ◀────┴── the work threw or returned (the lease is released first)
 *
 * The work of one node never overlaps itself: a new term begins only when the old work has ended.
 * Work that throws releases the lease before the pause, so that another node can try.
 */

import { jittered, sleep } from "../env/index.js";
import {
  Aborting,
  type AcquireOptions,
  ClosedError,
  checkFunction,
  checkKnown,
  checkNumber,
  type HeldLease,
  HOLDING,
  type Lease,
  type LeaseClient,
  logThrownLate,
} from "../lease/index.js";
import { Drain } from "./drain.js";
import { markedAs } from "./leadership.js";

/** Options of `leasehold.singleton`. */
export interface SingletonOptions extends Omit<AcquireOptions, "waitMs" | "signal"> {
  /** Pause before the work is started again after it ended, in milliseconds. Default 1,000. */
  restartDelayMs?: number;
  /** The pause doubles up to this while the work keeps ending. Default 60,000. */
  maxRestartDelayMs?: number;
  /**
   * How long the work may take to stop when its signal aborts, in milliseconds. Default 5,000, like a
   * client's. Work that still runs then keeps its lease until the lease expires.
   */
  graceMs?: number;
}

const OPTIONS: Readonly<Record<keyof SingletonOptions, true>> = {
  ...HOLDING,
  restartDelayMs: true,
  maxRestartDelayMs: true,
  graceMs: true,
};

/** One for all singletons: a client may have a thousand, and each of them ends with it. */
const aborting = new Aborting();

/** Must stop when `lease.signal` aborts; returning early counts as the work having ended. */
export type SingletonWork = (lease: Lease) => Promise<void>;

/** `leasehold.singleton()` calls it. Apart from the class, whose public type shows no constructor. */
export let singletonOver: (
  leases: LeaseClient,
  resource: string,
  work: SingletonWork,
  options?: SingletonOptions,
) => Singleton;

/**
 * Work that runs on one node at a time, for as long as any node lives. Made by
 * `leasehold.singleton(resource, work, options)`; begins with {@link Singleton.start}.
 * @example
 * ```ts
 * import { once } from "node:events";
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const singleton = leasehold.singleton("outbox", async ({ signal }) => {
 *   console.log("this node publishes");
 *   await once(signal, "abort");
 * });
 * singleton.start();
 * await singleton.close();
 * await leasehold.close();
 * ```
 */
export class Singleton implements AsyncDisposable {
  static {
    singletonOver = (leases, resource, work, options = {}) =>
      new Singleton(leases, resource, work, options);
  }

  readonly #leases: LeaseClient;
  readonly #work: SingletonWork;
  readonly #stopping = new AbortController();
  readonly #drain: Drain;
  readonly #contend: () => Promise<void>;
  #started = false;
  #settle: (ended: void | Promise<void>) => void = () => {};
  /** Resolves when all work has ended and nothing is held, for good: after `close()`, or with the client. */
  readonly ended: Promise<void>;
  #lease: HeldLease | undefined;

  private constructor(
    leases: LeaseClient,
    /** The resource whose lease decides which node works. */
    readonly resource: string,
    work: SingletonWork,
    options: SingletonOptions,
  ) {
    checkFunction("work", work);
    checkKnown(options, OPTIONS);
    const {
      restartDelayMs = 1_000,
      maxRestartDelayMs = 60_000,
      graceMs = 5_000,
      ...acquire
    } = options;
    checkNumber("restartDelayMs", restartDelayMs, 0, Number.MAX_SAFE_INTEGER);
    checkNumber("maxRestartDelayMs", maxRestartDelayMs, restartDelayMs, Number.MAX_SAFE_INTEGER);
    checkNumber("graceMs", graceMs, 0, Number.MAX_SAFE_INTEGER);
    // Checks resource and options: contending would fail on them again and again.
    leases.reusableLease(resource, acquire);
    this.#leases = leases;
    this.#work = work;
    this.#drain = new Drain(leases, graceMs, "singleton");
    const metadata = markedAs("singleton", leases, acquire.metadata);
    this.ended = new Promise((resolve) => {
      this.#settle = resolve;
    });
    this.#contend = () =>
      aborting.run([this.#stopping.signal, leases.closing], ({ signal }) =>
        this.#alternate(
          { ...acquire, metadata, signal },
          restartDelayMs,
          maxRestartDelayMs,
          signal,
        ),
      );
  }

  /**
   * Begins to contend for the lease. Later calls do nothing.
   * @throws CLOSED when this, or the client, is closed
   */
  start(): this {
    const { closing } = this.#leases;
    if (this.#stopping.signal.aborted) throw this.#stopping.signal.reason;
    if (closing.aborted) throw closing.reason;
    if (!this.#started) {
      this.#started = true;
      this.#settle(this.#contend());
    }
    return this;
  }

  /** The lease of the work that runs here now; undefined while another node has it. */
  get lease(): Lease | undefined {
    return this.#lease;
  }

  /**
   * Aborts the signal of the work, waits until the work has ended, and releases.
   * @throws STILL_RUNNING when it has not ended within `graceMs`: its lease is left to expire. Called again, it
   *   waits as long again
   */
  close(): Promise<void> {
    const closed = new ClosedError("this singleton");
    this.#stopping.abort(closed);
    this.#lease?.interrupt(closed);
    // Does nothing once it has started.
    this.#settle();
    return this.#drain.until(this.ended);
  }

  /** Closes. Work that does not stop is logged. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(() => {});
  }

  async #alternate(
    acquire: AcquireOptions,
    restartDelayMs: number,
    maxRestartDelayMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, logger, random } = this.#leases.env;
    const { resource } = this;
    let pauseMs = restartDelayMs;
    while (!signal.aborted) {
      let startedAtMs = Number.POSITIVE_INFINITY;
      try {
        await this.#leases.standBy(resource, acquire, async (lease) => {
          this.#lease = lease;
          if (signal.aborted) return;
          startedAtMs = clock.monotonic();
          try {
            await this.#drain.watch(lease, () => this.#work(lease));
          } catch (error) {
            if (!lease.signal.aborted) throw error;
            logThrownLate(logger, lease, error);
          }
        });
        if (signal.aborted || this.#leases.closing.aborted) return;
        logger.warn({ resource }, "the work ended by itself");
      } catch (error) {
        // Closed: by us, or with the client under us. The work may throw CLOSED of anything else.
        if (signal.aborted) return;
        // Lost: another node may have it already; contend again at once.
        if (this.#lease?.lostError) continue;
        logger.error({ err: error, resource }, "the work failed");
      } finally {
        this.#lease = undefined;
      }
      // Work that has run for a while starts the doubling over.
      if (clock.monotonic() - startedAtMs > maxRestartDelayMs) pauseMs = restartDelayMs;
      await sleep(clock, jittered(random, pauseMs, 0.1), { signal }).catch(() => {});
      pauseMs = Math.min(2 * pauseMs, maxRestartDelayMs);
    }
  }
}
