/** Leases as Lease objects: the port over the reads and writes in transactions.ts. */

import type * as port from "../../core/index.js";
import { failedMaybe } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import { DEFAULT_BUDGET_MS, type KubernetesApi } from "./connection.js";
import {
  decideAcquire,
  decideRelease,
  decideRenew,
  decideRevoke,
  type Found,
  type Step,
  WHOLE_MS,
} from "./decide.js";
import { objectNameOf } from "./keys.js";
import type { LeaseObject } from "./records.js";
import { inParallel, LeaseObjects } from "./transactions.js";
import { Views } from "./views.js";
import { followLeases } from "./watch.js";

export class KubernetesLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities = {
    clock: "observed",
    grants: "portable",
    // client-go reads whole seconds, so it would miss renewals that are closer together.
    ttl: { minMs: 2 * WHOLE_MS, maxMs: 2_147_483 * WHOLE_MS, stepMs: WHOLE_MS },
    queue: false,
    watch: "push",
    // A contender counts from when it first sees the record, and then waits the whole duration.
    epsilonMs: 0,
  };
  readonly #api: KubernetesApi;
  readonly #env: Env;
  readonly #objects: LeaseObjects;
  readonly #views: Views;

  constructor(api: KubernetesApi, env: Env) {
    this.#api = api;
    this.#env = env;
    this.#objects = new LeaseObjects(api, env);
    this.#views = new Views(this.#objects, env);
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    return this.#each(requests, options, decideAcquire, false);
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    return this.#each(requests, options, decideRenew, true);
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#each(requests, options, decideRelease, true);
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#each(requests, options, decideRevoke, false);
  }

  get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    return this.#views.get(keys);
  }

  list(query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    return this.#views.list(query);
  }

  watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    // A waiter counts the age of the holder's record from here, not from its own next poll.
    const observe = (object: LeaseObject, deleted: boolean) => {
      if (deleted) this.#objects.observations.forget(object.metadata.name);
      else this.#objects.observations.note(object, this.#env.clock.monotonic());
    };
    return followLeases(this.#api, namespace, observe, { signal, env: this.#env });
  }

  collect(olderThanMs: number): Promise<number> {
    return this.#views.collect(olderThanMs);
  }

  async close(): Promise<void> {
    this.#api.close();
  }

  /** Returns one outcome per request. Requests for the same key run in order, others concurrently. */
  async #each<Request extends port.Key, Outcome>(
    requests: readonly Request[],
    { timeoutMs = DEFAULT_BUDGET_MS }: port.CallOptions = {},
    decide: (request: Request, found: Found) => Step<Outcome>,
    fromMemory: boolean,
  ): Promise<(Outcome | port.Failed)[]> {
    const deadlineMs = this.#env.clock.monotonic() + timeoutMs;
    const outcomes = new Array<Outcome | port.Failed>(requests.length);
    const byName = new Map<string, { readonly index: number; readonly request: Request }[]>();
    for (const [index, request] of requests.entries()) {
      const name = objectNameOf(request);
      const same = byName.get(name);
      if (same) same.push({ index, request });
      else byName.set(name, [{ index, request }]);
    }
    await inParallel([...byName.values()], async (same) => {
      for (const { index, request } of same) {
        const decideIt = (found: Found) => decide(request, found);
        const settled = this.#objects.settle(request, decideIt, deadlineMs, fromMemory);
        outcomes[index] = await settled.catch(failedMaybe);
      }
    });
    return outcomes;
  }
}
