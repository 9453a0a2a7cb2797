/** Leases on a Leasehold server: the port over batches to /v1/leases. */
import type * as port from "../../lease/index.js";
import type * as wire from "../../wire/index.js";
import { BOUNDS, toWireLeaseId } from "../../wire/index.js";
import { chunked, sendBatch } from "./batch.js";
import { type Connection, HttpClient, isFailed, queryOf } from "./connection.js";
import { followEvents } from "./watch.js";

export class HttpLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities;
  readonly #client: HttpClient;

  constructor(connection: Connection, capabilities: port.Capabilities) {
    this.#client = new HttpClient(connection);
    this.capabilities = capabilities;
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    return this.#ofOwn(requests, (own) => {
      const bodies = own.map(({ resource, leaseId, queueMs, holder, ttlMs, metadata }) => {
        return {
          leaseId: toWireLeaseId(resource, leaseId),
          holder,
          ttlMs,
          ...(queueMs === undefined ? {} : { queueMs: Math.min(queueMs, BOUNDS.queueMs) }),
          ...(metadata === undefined ? {} : { metadata }),
        } satisfies wire.AcquireRequest;
      });
      return this.#send("acquire", bodies, options);
    });
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    return this.#ofOwn(requests, (own) => {
      const bodies = own.map(({ resource, leaseId, ttlMs }) => {
        return { leaseId: toWireLeaseId(resource, leaseId), ttlMs } satisfies wire.RenewRequest;
      });
      return this.#send("renew", bodies, options);
    });
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#ofOwn(requests, (own) => {
      const bodies = own.map(({ resource, leaseId }) => {
        return { leaseId: toWireLeaseId(resource, leaseId) } satisfies wire.ReleaseRequest;
      });
      return this.#send("release", bodies, options);
    });
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#ofOwn(requests, async (own) => {
      const bodies = own.map(({ namespace, ...request }) => request satisfies wire.RevokeRequest);
      return this.#send("revoke", bodies, options);
    });
  }

  async get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    const views: (port.LeaseView | null)[] = [];
    const resources = keys.map(({ namespace, resource }) => {
      this.#client.checkNamespace(namespace);
      return resource;
    });
    const maxBytes = Math.min(BOUNDS.batchBodyBytes, this.#client.connection.maxBodyBytes);
    for (const { body } of chunked(resources, maxBytes)) {
      const path = "/v1/leases/get";
      const answer = await this.#client.send({ method: "POST", path, body });
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
  }: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    this.#client.checkNamespace(namespace);
    // A query cannot express an empty list of states.
    if (states?.length === 0) return { items: [], nextCursor: null };
    const query = queryOf({
      prefix: prefix === "" ? undefined : prefix,
      state: states,
      renewedOnly,
      limit: limit === undefined ? undefined : Math.min(limit, BOUNDS.page),
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
  ): AsyncGenerator<port.WatchEvent, void, void> {
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
      method: "POST",
      path: "/v1/leases/collect",
      body: JSON.stringify({ olderThanMs } satisfies wire.CollectRequest),
    });
    if (isFailed(answer)) throw answer.error;
    return (answer.body as wire.CollectAnswer).collected;
  }

  async close(): Promise<void> {
    this.#client.close();
  }

  /**
   * Calls with the requests of the key's namespace. The others fail, each by itself: a server whose store is another server
   * has batches of several tenants.
   * @throws InvalidOptionError if all are of other namespaces
   */
  async #ofOwn<Request extends { readonly namespace: string }, Outcome>(
    requests: readonly Request[],
    call: (own: readonly Request[]) => Promise<(Outcome | port.Failed)[]>,
  ): Promise<(Outcome | port.Failed)[]> {
    const errors = requests.map(({ namespace }) => this.#client.namespaceError(namespace));
    const [first] = errors;
    if (first && errors.every(Boolean)) throw first;
    const outcomes = (await call(requests.filter((_, at) => !errors[at]))).values();
    return errors.map((error) =>
      error
        ? { status: "failed", applied: "no", retryable: false, error }
        : (outcomes.next().value as Outcome),
    );
  }

  #send<Outcome>(
    operation: "acquire" | "renew" | "release" | "revoke",
    requests: readonly object[],
    options: port.CallOptions = {},
  ): Promise<(Outcome | port.Failed)[]> {
    const path = `/v1/leases/${operation}`;
    const maxBytes = BOUNDS.batchBodyBytes;
    const maxCount = operation === "revoke" ? BOUNDS.revocations : BOUNDS.batch;
    return sendBatch(this.#client, { ...options, path, requests, maxBytes, maxCount });
  }
}
