/** A planned handover: the leader names its successor in a lease beside that of the election. */

import { jittered } from "../env/index.js";
import {
  checkName,
  checkNumber,
  type HeldLease,
  type LeaseClient,
  Wakeup,
} from "../lease/index.js";
import { observeLeader } from "./observer.js";

/** An announced handover: other candidates stand aside until it expires. */
export interface Announcement {
  /** Resolves when the successor leads, or the announcement has expired. */
  taken(): Promise<void>;
}

const POLL_MS = 250;
/** Just after the expiry: an engine may take a while to notice it, and is not asked all the time until then. */
const AFTER_EXPIRY_MS = 10;

export class Handover {
  readonly #leases: LeaseClient;
  readonly #name: string;
  readonly #resource: string;
  readonly #handoverMs: number;

  /** @throws INVALID_OPTION */
  constructor(leases: LeaseClient, name: string, handoverMs: number) {
    const { minMs, maxMs } = leases.capabilities.ttl;
    checkNumber("handoverMs", handoverMs, Math.max(100, minMs), maxMs);
    this.#leases = leases;
    this.#name = name;
    this.#resource = `${name}/successor`;
    checkName("name", this.#resource);
    this.#handoverMs = Math.ceil(handoverMs);
  }

  /** Announces the handover. @throws STORE_UNAVAILABLE */
  async announce(successor: string): Promise<Announcement> {
    const options = { ttlMs: this.#handoverMs, autoRenew: false, metadata: { successor } };
    const lease = await this.#leases.acquire(this.#resource, options);
    lease.isToExpire = true;
    return { taken: () => this.#taken(lease, successor) };
  }

  async #taken(lease: HeldLease, successor: string): Promise<void> {
    // It is not renewed: its own trusted time is how long others wait.
    let isTaken = false;
    for await (const { leader } of observeLeader(this.#leases, this.#name, lease.signal)) {
      isTaken = leader === successor;
      if (isTaken) break;
    }
    await lease[Symbol.asyncDispose]();
    const { closing, env } = this.#leases;
    if (isTaken || closing.aborted) return;
    const [name, handoverMs] = [this.#name, this.#handoverMs];
    env.logger.warn({ name, successor, handoverMs }, "the named successor did not take over");
  }

  /**
   * How long a live announcement names another candidate, in milliseconds; 0: there is none, or the store is
   * unavailable.
   */
  async othersForMs(signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    const view = await this.#leases.get(this.#resource).catch(() => null);
    const successor = view?.state === "live" ? successorOf(view.metadata) : null;
    if (!view || successor === null || successor === this.#leases.holder) return 0;
    return view.remainingMs + AFTER_EXPIRY_MS;
  }

  /** Resolves when no live announcement names another candidate. @throws the signal's reason */
  async standAside(signal: AbortSignal): Promise<void> {
    const { env } = this.#leases;
    const wakeup = new Wakeup();
    // A store may notify of a resource with waiters alone, and this one has none: there, the polls find its release.
    const unlisten = this.#leases.listen(this.#resource, wakeup.set);
    try {
      for (;;) {
        const leftMs = await this.othersForMs(signal);
        if (leftMs === 0) return;
        const pollMs = jittered(env.random, POLL_MS, 0.5);
        await wakeup.wait(env, Math.min(pollMs, leftMs), signal);
      }
    } finally {
      unlisten();
    }
  }
}

/** Null for the lease of a program that happens to use this resource. */
function successorOf(metadata: string | null): string | null {
  try {
    const { successor } = JSON.parse(metadata ?? "{}") as { successor?: unknown };
    return typeof successor === "string" ? successor : null;
  } catch {
    return null;
  }
}
