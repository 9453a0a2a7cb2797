/** A planned handover: the leader names its successor in a lease beside that of the election. */

import { checkName, checkNumber, type HeldLease, type LeaseClient, Wakeup } from "../core/index.js";
import { jittered } from "../env/index.js";
import { observeLeader } from "./observer.js";

/** An announced handover: other candidates stand aside until it expires. */
export interface Announcement {
  /** Resolves when the successor leads, or the announcement has expired. */
  taken(): Promise<void>;
}

const POLL_MS = 250;

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
    const leaseIsOver = new AbortController();
    // It is not renewed: its own trusted time is how long others wait.
    lease.onLost(() => leaseIsOver.abort());
    const signal = AbortSignal.any([leaseIsOver.signal, lease.signal]);
    let isTaken = false;
    for await (const { leader } of observeLeader(this.#leases, this.#name, signal)) {
      isTaken = leader === successor;
      if (isTaken) break;
    }
    await lease[Symbol.asyncDispose]();
    const { closing, env } = this.#leases;
    if (isTaken || closing.aborted) return;
    const [name, handoverMs] = [this.#name, this.#handoverMs];
    env.logger.warn({ name, successor, handoverMs }, "the named successor did not take over");
  }

  /** Whether a live announcement names another candidate; false if the store is unavailable. */
  async isAnothers(signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    const view = await this.#leases.get(this.#resource).catch(() => null);
    return view?.state === "live" && successorOf(view.metadata) !== this.#leases.holder;
  }

  /** Resolves when no live announcement names another candidate. */
  async standAside(signal: AbortSignal): Promise<void> {
    const { env } = this.#leases;
    const wakeup = new Wakeup();
    const unlisten = this.#leases.listen(this.#resource, wakeup.set);
    try {
      while (!signal.aborted && !this.#leases.closing.aborted && (await this.isAnothers(signal))) {
        await wakeup.wait(env, jittered(env.random, POLL_MS, 0.5), signal);
      }
    } finally {
      unlisten();
    }
  }
}

function successorOf(metadata: string | null): string | null {
  const { successor } = JSON.parse(metadata ?? "{}") as { successor?: string };
  return successor ?? null;
}
