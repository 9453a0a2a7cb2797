/**
 * Hints that a resource may have become free, for everybody of one client who waits: one
 * subscription to the store while anybody listens, none otherwise.
 *
 * A subscription that breaks is made anew, and its first event is a `resync`, which wakes all: what
 * was missed meanwhile is found by reading. Hints are never relied on; each waiter also polls.
 */
import { type Env, jittered, sleep } from "../env/index.js";
import type { LeaseStore } from "./port.js";

const RESUBSCRIBE_MS = 1_000;

/** @param wakes the only waiter that has reason to ask the store, by `grantIdOf`; undefined: everybody */
type Listener = (wakes?: string) => void;

export class Hints {
  readonly #store: LeaseStore;
  readonly #namespace: string;
  readonly #env: Env;
  readonly #listeners = new Map<string, Set<Listener>>();
  #subscription: AbortController | undefined;

  constructor(store: LeaseStore, namespace: string, env: Env) {
    this.#store = store;
    this.#namespace = namespace;
    this.#env = env;
  }

  /** Calls `listener` on every hint about the resource until the returned function is called. */
  listen(resource: string, listener: Listener): () => void {
    let listeners = this.#listeners.get(resource);
    if (!listeners) {
      listeners = new Set();
      this.#listeners.set(resource, listeners);
    }
    listeners.add(listener);
    if (!this.#subscription) {
      this.#subscription = new AbortController();
      void this.#follow(this.#subscription.signal);
    }
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#listeners.get(resource) !== listeners) return;
      this.#listeners.delete(resource);
      if (this.#listeners.size > 0) return;
      this.#subscription?.abort();
      this.#subscription = undefined;
    };
  }

  /** Wakes those who wait for a resource: a lease of this very client has ended. */
  changed(resource: string, wakes?: string): void {
    for (const listener of this.#listeners.get(resource) ?? []) listener(wakes);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const event of this.#store.watch(this.#namespace, { signal })) {
          if (event.type === "changed") this.changed(event.resource, event.wakes);
          else for (const resource of this.#listeners.keys()) this.changed(resource);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#env.logger.warn({ err: error }, "watch broke; subscribing again");
      }
      await sleep(this.#env.clock, jittered(this.#env.random, RESUBSCRIBE_MS, 0.5), {
        signal,
      }).catch(() => {});
    }
  }
}

/** A flag that can be awaited: set by any number of hints, cleared by the wait that saw it. */
export class Wakeup {
  #set = false;
  #resolve: (() => void) | undefined;

  readonly set = (): void => {
    this.#set = true;
    this.#resolve?.();
  };

  /** Resolves at a hint or after `timeoutMs`; rejects with the signal's reason. */
  async wait(env: Env, timeoutMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#set) {
      await new Promise<void>((resolve, reject) => {
        const timer = env.clock.timer(timeoutMs, done);
        const onAbort = () => {
          timer.cancel();
          reject(signal.reason);
        };
        signal.addEventListener("abort", onAbort, { once: true });
        this.#resolve = done;
        function done() {
          timer.cancel();
          signal.removeEventListener("abort", onAbort);
          resolve();
        }
      }).finally(() => {
        this.#resolve = undefined;
      });
    }
    this.#set = false;
  }
}
