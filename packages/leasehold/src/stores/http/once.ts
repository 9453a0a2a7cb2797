/** Records of `once` on a Leasehold server: the port over /v1/once. */
import type { Act } from "../../control/index.js";
import {
  type CallOptions,
  type Failed,
  InvalidOptionError,
  LeaseholdError,
  type LeaseStore,
  type Page,
} from "../../lease/index.js";
import {
  type FailOnceOutcome,
  type FailOnceRequest,
  type OnceGrant,
  type OnceKey,
  type OnceQuery,
  type OnceStore,
  type OnceView,
  resourceOf,
  type SucceedOptions,
  type SucceedOutcome,
  type SucceedRequest,
} from "../../once/port.js";
import type * as wire from "../../wire/index.js";
import { BOUNDS, toWireLeaseId } from "../../wire/index.js";
import { type Call, type Connection, failed, HttpClient, isFailed, queryOf } from "./connection.js";
import { fromWireFailed, isWireFailed } from "./failures.js";
import { jsonOf } from "./json.js";

/** Who asks for an operator action, and why. */
type By = Partial<Pick<Act, "actor" | "reason">>;

export class HttpOnceStore implements OnceStore {
  readonly leases: LeaseStore;
  readonly #client: HttpClient;

  constructor(connection: Connection, leases: LeaseStore) {
    [this.#client, this.leases] = [new HttpClient(connection), leases];
  }

  async get(key: OnceKey): Promise<OnceView | null> {
    const { status, body } = await this.#client.read(this.#pathOf(key));
    if (status === 404) return null;
    return { namespace: key.namespace, ...(body as wire.OnceRecord) };
  }

  async list({ namespace, prefix, states, limit, cursor }: OnceQuery): Promise<Page<OnceView>> {
    this.#client.checkNamespace(namespace);
    // A query cannot express an empty list of states.
    if (states?.length === 0) return { items: [], nextCursor: null };
    const query = queryOf({
      prefix: prefix === "" ? undefined : prefix,
      state: states,
      limit: limit === undefined ? undefined : Math.min(limit, BOUNDS.page),
      cursor,
    });
    const { body } = await this.#client.read(`/v1/once${query}`);
    const { items, nextCursor } = body as wire.OncePage;
    return { items: items.map((record) => ({ namespace, ...record })), nextCursor };
  }

  async succeed(
    request: SucceedRequest,
    { client, ...options }: SucceedOptions = {},
  ): Promise<SucceedOutcome> {
    if (client) {
      throw new InvalidOptionError(
        "client",
        "needs records in the SQL database of the transaction: connect to PostgreSQL or PGlite itself",
      );
    }
    const { value, keepMs } = request;
    const body = { ...this.#grant(request), value, keepMs } satisfies wire.SucceedRequest;
    return this.#record("succeed", body, options);
  }

  async fail(request: FailOnceRequest, options?: CallOptions): Promise<FailOnceOutcome> {
    const { error, maxAttempts, retryDelayMs } = request;
    const grant = this.#grant(request);
    const body = { ...grant, error, maxAttempts, retryDelayMs } satisfies wire.FailOnceRequest;
    return this.#record("fail", body, options);
  }

  /** @param by for the server's audit, as in {@link HttpOnceStore.delete} */
  async retry(key: OnceKey, by: By = {}): Promise<boolean> {
    const path = `${this.#pathOf(key)}/retry`;
    return ((await this.#act({ method: "POST", path }, by)) as wire.OnceRetried).wasFailing;
  }

  async delete(key: OnceKey, by: By = {}): Promise<boolean> {
    const path = this.#pathOf(key);
    return ((await this.#act({ method: "DELETE", path }, by)) as wire.OnceDeleted).wasRecorded;
  }

  /** Does nothing: the server collects records. */
  async collect(): Promise<number> {
    this.#client.checkOpen();
    return 0;
  }

  close(): void {
    this.#client.close();
  }

  /** @throws InvalidOptionError for `.` and `..`, which no path of a URL can contain, however they are encoded */
  #pathOf({ namespace, key }: OnceKey): string {
    this.#client.checkNamespace(namespace);
    if (key === "." || key === "..") {
      throw new InvalidOptionError("key", 'must not be "." or ".." on a server');
    }
    return `/v1/once/${encodeURIComponent(key)}`;
  }

  #grant({ namespace, key, leaseId, token }: OnceGrant) {
    this.#client.checkNamespace(namespace);
    return { leaseId: toWireLeaseId(resourceOf(key), leaseId), token };
  }

  async #record<Outcome>(
    operation: "succeed" | "fail",
    request: object,
    { timeoutMs }: CallOptions = {},
  ): Promise<Outcome | Failed> {
    const [path, body] = [`/v1/once/${operation}`, jsonOf(request)];
    const sent = this.#client.send({ method: "POST", path, body, budgetMs: timeoutMs });
    const answer = await sent.catch((error: unknown) => {
      // The server refused the request, and did nothing.
      if (error instanceof LeaseholdError) return failed("no", error);
      throw error;
    });
    if (isFailed(answer)) return answer;
    const outcome = answer.body as Outcome | wire.Failed;
    return isWireFailed(outcome) ? fromWireFailed(outcome) : outcome;
  }

  async #act(call: Call, { actor, reason }: By): Promise<unknown> {
    const path = `${call.path}${queryOf({ reason: reason ?? undefined })}`;
    const answer = await this.#client.send({ ...call, path, actor });
    if (isFailed(answer)) throw answer.error;
    return answer.body;
  }
}
