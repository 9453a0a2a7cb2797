/** The memory store as the world's database. The checkers see each decision as it is made. */

import type { LeaseStore } from "leasehold";
import type { Key, LeaseRecord } from "leasehold/internal";
import { type MemoryLeaseState, MemoryLeaseStore } from "leasehold/internal/memory";

/** One request, as it was decided. */
export interface Step extends Key {
  readonly operation: "acquire" | "renew" | "release" | "revoke";
  /** Of the request; null for a revoke. */
  readonly leaseId: string | null;
  readonly before: LeaseRecord | null;
  readonly after: LeaseRecord | null;
  readonly outcome: { readonly status: string };
  /** By the store's clock. */
  readonly storeMs: number;
}

export function observedStore(state: MemoryLeaseState, onStep: (step: Step) => void): LeaseStore {
  const store = new MemoryLeaseStore(state);
  const record = ({ namespace, resource }: Key) =>
    state.namespaces.get(namespace)?.records.get(resource) ?? null;
  /** A batch is decided request by request; the memory store decides before it yields. */
  const each = <
    Request extends Key & { readonly leaseId?: string },
    Outcome extends { status: string },
  >(
    operation: Step["operation"],
    decide: (requests: readonly Request[]) => Promise<Outcome[]>,
  ) => {
    return async (requests: readonly Request[]): Promise<Outcome[]> => {
      const outcomes: Outcome[] = [];
      for (const request of requests) {
        const { namespace, resource, leaseId = null } = request;
        const before = record(request);
        const storeMs = state.clock.monotonic();
        const answer = decide([request]);
        const after = record(request);
        const [outcome] = await answer;
        if (!outcome) continue;
        onStep({ operation, namespace, resource, leaseId, before, after, outcome, storeMs });
        outcomes.push(outcome);
      }
      return outcomes;
    };
  };
  return {
    capabilities: store.capabilities,
    acquire: each("acquire", (requests) => store.acquire(requests)),
    renew: each("renew", (requests) => store.renew(requests)),
    release: each("release", (requests) => store.release(requests)),
    revoke: each("revoke", (requests) => store.revoke(requests)),
    get: (keys) => store.get(keys),
    list: (query) => store.list(query),
    watch: (namespace, options) => store.watch(namespace, options),
    collect: (olderThanMs) => store.collect(olderThanMs),
    close: () => store.close(),
  };
}
