/**
 * A lease that is acquired and released any number of times, with one set of onLost handlers.
 *
 *   idle ──acquire()──▶ held ──release()──▶ idle
 *                         └──── lost ─────▶ idle   (handlers fire once per loss)
 *
 * Calls of acquire and release run in their order, so a release() that is called during an acquire releases what that
 * acquire gets.
 */
import { guarded, jittered, SerialExecutor, sleep } from "../env/index.js";
import { attempt } from "./acquire.js";
import type { LeaseContext } from "./context.js";
import { HeldLease } from "./held-lease.js";
import type { Lease, LostHandler } from "./lease.js";
import { measureAcquire } from "./measure.js";
import { checkFunction, type ResolvedOptions } from "./options.js";

export interface LeaseRetries {
  readonly acquireRetries: number;
  readonly acquireRetryDelayMs: number;
}

/** `leasehold.reusableLease()` calls it. Apart from the class, whose public type shows no constructor. */
export let reusableLeaseOver: (
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions & LeaseRetries,
) => ReusableLease;

/**
 * A lease on one resource that can be acquired and released any number of times. Made by
 * `leasehold.reusableLease(resource, options)`.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const lease = leasehold.reusableLease("shard-7", { ttlMs: 5_000 });
 * lease.onLost((reason) => console.log("stop:", reason));
 * if (await lease.acquire()) console.log(lease.checkAlive(), lease.held?.token);
 * await lease.release();
 * await leasehold.close();
 * ```
 */
export class ReusableLease<L = Lease> implements AsyncDisposable {
  static {
    reusableLeaseOver = (context, resource, options) =>
      new ReusableLease(context, resource, options);
  }

  readonly #context: LeaseContext;
  readonly #options: ResolvedOptions & LeaseRetries;
  readonly #handlers = new Set<LostHandler>();
  /** Also after its loss, as its holder may still be stopping: released at the next acquire or release. */
  #held: HeldLease | null = null;
  #acquiring: Promise<boolean> | undefined;
  readonly #calls = new SerialExecutor();

  private constructor(
    context: LeaseContext,
    /** What is leased while it is held. */
    readonly resource: string,
    options: ResolvedOptions & LeaseRetries,
  ) {
    this.#context = context;
    this.#options = options;
  }

  /** The current lease, with its token and signal; null when not held. */
  get held(): L | null {
    return this.checkAlive() ? (this.#held as L | null) : null;
  }

  /**
   * Resolves to `true` when this object holds the resource, also if it did before the call; to `false` when
   * another holder has it, and still had it after `acquireRetries` retries. Concurrent calls share one attempt.
   * @throws STORE_UNAVAILABLE when the outcome is unknown; CLOSED; the signal's reason when aborted
   */
  acquire(): Promise<boolean> {
    if (this.#acquiring) return this.#acquiring;
    const acquiring = this.#calls
      .run(this.resource, () => this.#acquire())
      .finally(() => {
        if (this.#acquiring === acquiring) this.#acquiring = undefined;
      });
    this.#acquiring = acquiring;
    return acquiring;
  }

  /**
   * Releases the resource; does nothing when it is not held. Resolves when the store has confirmed.
   * @throws STORE_UNAVAILABLE when the store did not confirm: the lease then expires by itself
   */
  release(): Promise<void> {
    // An acquire called after this one must not share an attempt begun before it.
    this.#acquiring = undefined;
    return this.#calls.run(this.resource, async () => {
      const held = this.#held;
      this.#held = null;
      await held?.release();
    });
  }

  /** Whether it is held, by the local clocks: no round trip, and never stale. */
  checkAlive(): boolean {
    return this.#held?.checkAlive() ?? false;
  }

  /**
   * Calls `handler` with the reason whenever a held lease is lost, once per loss; never for a
   * release. Returns a function that unsubscribes.
   * @throws INVALID_OPTION if `handler` is no function
   */
  onLost(handler: LostHandler): () => void {
    checkFunction("handler", handler);
    const own: LostHandler = (reason) => handler(reason);
    this.#handlers.add(own);
    return () => this.#handlers.delete(own);
  }

  /** Releases; an unconfirmed release is logged, because it must not mask the work's own error. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      this.#context.env.logger.warn({ err: error, resource: this.resource }, "lease not released");
    });
  }

  async #acquire(): Promise<boolean> {
    if (this.checkAlive()) return true;
    // The store may have renewed a lease that was lost here: contenders should not wait for it.
    if (this.#held?.lostError) await this.#held.release();
    const { aborting, closing, env } = this.#context;
    const { acquireRetries, acquireRetryDelayMs, signal: own } = this.#options;
    return aborting.run([own, closing], async (abort) => {
      for (let retries = 0; ; retries += 1) {
        const result = await measureAcquire(env, () =>
          attempt(this.#context, this.resource, this.#options, abort),
        );
        if (result instanceof HeldLease) {
          this.#hold(result);
          return true;
        }
        if (retries >= acquireRetries) return false;
        await sleep(env.clock, jittered(env.random, acquireRetryDelayMs, 0.1), {
          signal: abort.signal,
        });
      }
    });
  }

  #hold(lease: HeldLease): void {
    this.#held = lease;
    lease.onLost((reason) => {
      const { resource } = this;
      const { logger } = this.#context.env;
      const failed = (err: unknown) => logger.error({ err, resource }, "an onLost handler threw");
      for (const handler of Array.from(this.#handlers)) guarded(() => handler(reason), failed);
    });
  }
}
