/** Leases as Lease objects: the port. lease-engine.ts has the operations on single leases, views.ts the rest. */

import type { Env } from "../../env/index.js";
import type * as port from "../../lease/index.js";
import type { KubernetesApi } from "./connection.js";
import { operationsByRules } from "./lease-engine.js";
import { LeaseObjects } from "./objects.js";
import { type LeaseObject, WHOLE_MS } from "./records.js";
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
  readonly acquire: port.LeaseStore["acquire"];
  readonly renew: port.LeaseStore["renew"];
  readonly release: port.LeaseStore["release"];
  readonly revoke: port.LeaseStore["revoke"];

  constructor(api: KubernetesApi, env: Env) {
    this.#api = api;
    this.#env = env;
    this.#objects = new LeaseObjects(api, env);
    this.#views = new Views(this.#objects);
    const operations = operationsByRules(this.#objects, env.clock);
    ({ acquire: this.acquire, renew: this.renew } = operations);
    ({ release: this.release, revoke: this.revoke } = operations);
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
}
