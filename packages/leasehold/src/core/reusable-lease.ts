/**
 * The Lease object: acquire and release any number of times, with one set of onLost handlers.
 *
 *   idle ──acquire()──▶ held ──release()──▶ idle
 *                         └──── lost ─────▶ idle   (handlers fire once per loss)
 *
 * acquire and release are carried out in the order in which they were called, so an acquire that is
 * under way when release() is called is released when it arrives.
 */
import { jittered, SerialExecutor, sleep } from "../env/index.js";
import { attempt } from "./acquire.js";
import type { LeaseContext } from "./context.js";
import { HeldLease, type LostHandler } from "./held-lease.js";
import type { ResolvedOptions } from "./options.js";
import { asked } from "./told.js";

export interface LeaseRetries {
  readonly acquireRetries: number;
  readonly acquireRetryDelayMs: number;
}

/** A right to one resource that comes and goes. Made by `leases.reusableLease(resource, options)`. */
export class ReusableLease implements AsyncDisposable {
  readonly #context: LeaseContext;
  readonly #options: ResolvedOptions & LeaseRetries;
  readonly #handlers = new Set<LostHandler>();
  #held: HeldLease | null = null;
  /** Lost, and its holder may still be stopping: given back at the next acquire or release. */
  #lost: HeldLease | null = null;
  #acquiring: Promise<boolean> | undefined;
  readonly #calls = new SerialExecutor();

  /** @internal */
  constructor(
    context: LeaseContext,
    readonly resource: string,
    options: ResolvedOptions & LeaseRetries,
  ) {
    this.#context = context;
    this.#options = options;
  }

  /** The grant in hand, with its token and signal; null when not held. */
  get held(): HeldLease | null {
    return this.checkAlive() ? this.#held : null;
  }

  /**
   * `true`: held, also if it was already. `false`: somebody else definitely holds it, and still did
   * after `acquireRetries` further tries. Concurrent calls share one attempt.
   * @throws STORE_UNAVAILABLE when nobody can say; CLOSED; the signal's reason when aborted
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
   * Gives the resource back; a no-op when not held. Resolves once the store has confirmed.
   * @throws STORE_UNAVAILABLE when it did not: it is free at its expiry at the latest
   */
  release(): Promise<void> {
    // An acquire called after this one must not share an attempt begun before it.
    this.#acquiring = undefined;
    return this.#calls.run(this.resource, async () => {
      const held = this.#held;
      this.#held = null;
      await this.#giveBackLost();
      await held?.release();
    });
  }

  /** Whether we still own it, by the local clocks: no round trip, and never stale. */
  checkAlive(): boolean {
    return this.#held?.checkAlive() ?? false;
  }

  /**
   * Calls `handler` with the reason whenever a held lease is lost, once per loss; never for a
   * release. Returns a function that unsubscribes.
   */
  onLost(handler: LostHandler): () => void {
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
    await this.#giveBackLost();
    const { aborting, closing, env } = this.#context;
    const { acquireRetries, acquireRetryDelayMs, signal: own } = this.#options;
    return aborting.run([own, closing], async (abort) => {
      for (let retries = 0; ; retries += 1) {
        const result = await asked(env, () =>
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

  /** The store may have renewed what we took for lost: nobody should wait for that. */
  async #giveBackLost(): Promise<void> {
    const lost = this.#lost;
    this.#lost = null;
    await lost?.release();
  }

  #hold(lease: HeldLease): void {
    this.#held = lease;
    lease.onLost((reason) => {
      if (this.#held === lease) this.#held = null;
      this.#lost = lease;
      for (const handler of Array.from(this.#handlers)) {
        try {
          handler(reason);
        } catch (error) {
          const { logger } = this.#context.env;
          logger.error({ err: error, resource: this.resource }, "an onLost handler threw");
        }
      }
    });
  }
}
