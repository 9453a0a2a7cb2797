/** A store between a client and a real one, whose calls a test can hold, drop or cut after apply. */

import type { Env } from "../../../packages/leasehold/src/env/index.js";
import { asStoreError, type LeaseStore } from "../../../packages/leasehold/src/lease/index.js";
import {
  MemoryLeaseState,
  MemoryLeaseStore,
} from "../../../packages/leasehold/src/stores/memory/store.js";

export type Operation = "acquire" | "renew" | "release";

/**
 * ok: as it is. refuse: not applied, and said so. cut: applied, the answer lost. hang: not applied,
 * no answer ever. hold: applied when `open()` is called; answered then.
 */
export type Fault = "ok" | "refuse" | "cut" | "hang" | "hold";

export interface FaultyStore extends LeaseStore {
  /** The fault of each operation from now on; `ok` at first. */
  readonly faults: Record<Operation, Fault>;
  /** Calls so far. */
  readonly calls: Record<Operation, number>;
  /** How many requests the largest call had. */
  readonly largest: Record<Operation, number>;
  /** Lets held calls go. */
  open(): void;
  /** The store beneath, without faults. */
  readonly inner: LeaseStore;
}

export function faultyStore(env: Env): FaultyStore {
  const inner = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  const faults: Record<Operation, Fault> = { acquire: "ok", renew: "ok", release: "ok" };
  const calls: Record<Operation, number> = { acquire: 0, renew: 0, release: 0 };
  const largest: Record<Operation, number> = { acquire: 0, renew: 0, release: 0 };
  const gates: (() => void)[] = [];

  const through = async <Request, Outcome>(
    operation: Operation,
    requests: readonly Request[],
    apply: () => Promise<Outcome[]>,
  ): Promise<Outcome[]> => {
    calls[operation] += 1;
    largest[operation] = Math.max(largest[operation], requests.length);
    const failed = (applied: "no" | "maybe") =>
      requests.map(() => ({
        status: "failed",
        applied,
        retryable: true,
        error: asStoreError(new Error(`${operation} was cut`), applied),
      })) as Outcome[];
    switch (faults[operation]) {
      case "ok":
        return apply();
      case "refuse":
        return failed("no");
      case "cut":
        await apply();
        return failed("maybe");
      case "hang":
        return new Promise(() => {});
      case "hold":
        await new Promise<void>((resolve) => gates.push(resolve));
        return apply();
    }
  };

  return {
    capabilities: inner.capabilities,
    inner,
    faults,
    calls,
    largest,
    open: () => {
      for (const gate of gates.splice(0)) gate();
    },
    acquire: (requests) => through("acquire", requests, () => inner.acquire(requests)),
    renew: (requests) => through("renew", requests, () => inner.renew(requests)),
    release: (requests) => through("release", requests, () => inner.release(requests)),
    revoke: (requests) => inner.revoke(requests),
    get: (keys) => inner.get(keys),
    list: (query) => inner.list(query),
    watch: (namespace, options) => inner.watch(namespace, options),
    collect: (olderThanMs) => inner.collect(olderThanMs),
    close: () => inner.close(),
  };
}
