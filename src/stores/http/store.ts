/** Leases behind a Leasehold server: the port over /v1/leases, in batches as they come. */
import type {
  AcquireOutcome,
  AcquireRequest,
  CallOptions,
  Capabilities,
  Failed,
  Key,
  LeaseStore,
  LeaseView,
  ListQuery,
  Page,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
  WatchEvent,
} from "../../lease/index.js";
import type * as wire from "../../protocol/index.js";
import { LIMITS, toWireLeaseId } from "../../protocol/wire.js";
import { chunked, sendBatch } from "./batch.js";
import { type Connection, HttpClient, isFailed, queryOf } from "./client.js";
import { followEvents } from "./events.js";

export class HttpLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities;
  readonly #client: HttpClient;

  constructor(connection: Connection, capabilities: Capabilities) {
    this.#client = new HttpClient(connection);
    this.capabilities = capabilities;
  }

  async acquire(
    requests: readonly AcquireRequest[],
    options?: CallOptions,
  ): Promise<AcquireOutcome[]> {
    const bodies = requests.map(({ namespace, resource, leaseId, queueMs, ...request }) => {
      this.#client.checkNamespace(namespace);
      const { holder, ttlMs, metadata } = request;
      return {
        leaseId: toWireLeaseId(resource, leaseId),
        holder,
        ttlMs,
        ...(queueMs === undefined ? {} : { queueMs: Math.min(queueMs, LIMITS.queueMs) }),
        ...(metadata === undefined ? {} : { metadata }),
      } satisfies wire.AcquireBody[number];
    });
    return this.#send("acquire", bodies, true, options);
  }

  async renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    const bodies = requests.map(({ namespace, resource, leaseId, ttlMs }) => {
      this.#client.checkNamespace(namespace);
      return { leaseId: toWireLeaseId(resource, leaseId), ttlMs } satisfies wire.RenewBody[number];
    });
    return this.#send("renew", bodies, true, options);
  }

  async release(
    requests: readonly ReleaseRequest[],
    options?: CallOptions,
  ): Promise<ReleaseOutcome[]> {
    const bodies = requests.map(({ namespace, resource, leaseId }) => {
      this.#client.checkNamespace(namespace);
      return { leaseId: toWireLeaseId(resource, leaseId) } satisfies wire.ReleaseBody[number];
    });
    return this.#send("release", bodies, true, options);
  }

  /** Not repeated when its answer is lost: the next grant could be the one that is ended. */
  async revoke(
    requests: readonly RevokeRequest[],
    options?: CallOptions,
  ): Promise<RevokeOutcome[]> {
    const bodies = requests.map(({ namespace, ...request }) => {
      this.#client.checkNamespace(namespace);
      return request satisfies wire.RevokeBody[number];
    });
    return this.#send("revoke", bodies, false, options);
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    const views: (LeaseView | null)[] = [];
    const resources = keys.map(({ namespace, resource }) => {
      this.#client.checkNamespace(namespace);
      return resource;
    });
    for (const { body } of chunked(resources, LIMITS.batchBodyBytes)) {
      const path = "/v1/leases/get";
      const answer = await this.#client.send({ method: "POST", path, body, repeatable: true });
      if (isFailed(answer)) throw answer.error;
      for (const view of answer.body as wire.GetAnswer) {
        views.push(view && { namespace: this.#client.connection.namespace, ...view });
      }
    }
    return views;
  }

  async list({
    namespace,
    prefix,
    states,
    renewedOnly,
    limit,
    cursor,
    ...filters
  }: ListQuery): Promise<Page<LeaseView>> {
    this.#client.checkNamespace(namespace);
    // No state at all is a filter that a query cannot say.
    if (states?.length === 0) return { items: [], nextCursor: null };
    const query = queryOf({
      prefix: prefix === "" ? undefined : prefix,
      state: states,
      renewedOnly,
      limit: limit === undefined ? undefined : Math.min(limit, LIMITS.page),
      cursor,
      ...filters,
    });
    const { body } = await this.#client.read(`/v1/leases${query}`);
    const { items, nextCursor } = body as wire.LeasePage;
    return { items: items.map((view) => ({ namespace, ...view })), nextCursor };
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, void> {
    for await (const event of followEvents(this.#client, { of: "leases", namespace, signal })) {
      if (event.type === "resync") yield event;
      if (event.type === "lease") {
        const { resource, wakes } = event;
        yield { type: "changed", namespace, resource, ...(wakes !== undefined && { wakes }) };
      }
    }
  }

  async collect(olderThanMs: number): Promise<number> {
    const answer = await this.#client.send({
      ...{ method: "POST", path: "/v1/leases/collect", repeatable: true },
      body: JSON.stringify({ olderThanMs }),
    });
    if (isFailed(answer)) throw answer.error;
    return (answer.body as wire.CollectAnswer).collected;
  }

  async close(): Promise<void> {
    this.#client.close();
  }

  #send<Outcome>(
    operation: "acquire" | "renew" | "release" | "revoke",
    requests: readonly object[],
    repeatable: boolean,
    options: CallOptions = {},
  ): Promise<(Outcome | Failed)[]> {
    const path = `/v1/leases/${operation}`;
    const maxBytes = LIMITS.batchBodyBytes;
    return sendBatch(this.#client, { ...options, path, requests, repeatable, maxBytes });
  }
}
