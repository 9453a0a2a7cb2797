/** Published kinds on a Leasehold server: the port over /v1/kinds. */
import type { Act } from "../../control/index.js";
import {
  type CallOptions,
  LeaseholdError,
  type Page,
  StoreUnavailableError,
} from "../../core/index.js";
import type {
  KindKey,
  KindQuery,
  KindStore,
  KindView,
  PublishOutcome,
  PublishRequest,
} from "../../tasks/kinds/port.js";
import type { Json } from "../../tasks/port.js";
import type * as wire from "../../wire/index.js";
import { LIMITS } from "../../wire/index.js";
import { type Call, type Connection, failed, HttpClient, isFailed, queryOf } from "./connection.js";
import { jsonOf } from "./json.js";

export class HttpKindStore implements KindStore {
  readonly #client: HttpClient;

  constructor(connection: Connection) {
    this.#client = new HttpClient(connection);
  }

  async publish(
    { schema, by: publishedBy, ...key }: PublishRequest,
    { timeoutMs }: CallOptions = {},
  ): Promise<PublishOutcome> {
    const request = { schema: JSON.parse(schema) as Json, publishedBy };
    const body = jsonOf(request satisfies wire.PublishKindRequest);
    const call: Call = { method: "PUT", path: this.#pathOf(key), body, budgetMs: timeoutMs };
    const answer = await this.#client.send(call).catch((error: unknown) => {
      // The server refused the request, and did nothing.
      if (error instanceof LeaseholdError) return failed("no", error);
      throw error;
    });
    if (isFailed(answer)) {
      const isLimit =
        answer.error instanceof StoreUnavailableError && answer.error.refusedBy === "limit";
      return isLimit ? { status: "full" } : answer;
    }
    const { change } = answer.body as wire.KindPublished;
    return { status: "published", change };
  }

  async schemas(keys: readonly KindKey[]): Promise<readonly (string | null)[]> {
    const found: (string | null)[] = [];
    for (const key of keys) {
      const { status, body } = await this.#client.read(this.#pathOf(key));
      found.push(status === 404 ? null : JSON.stringify((body as wire.Kind).schema));
    }
    return found;
  }

  async list({ namespace, kind, limit, cursor }: KindQuery): Promise<Page<KindView>> {
    this.#client.checkNamespace(namespace);
    const asked = limit === undefined ? undefined : Math.min(limit, LIMITS.page);
    const query = queryOf({ kind, limit: asked, cursor });
    return (await this.#client.read(`/v1/kinds${query}`)).body as wire.KindPage;
  }

  /** @param by for the server's audit */
  async withdraw(key: KindKey, by: Partial<Pick<Act, "actor" | "reason">> = {}): Promise<boolean> {
    const query = queryOf({ reason: by.reason ?? undefined });
    const path = `${this.#pathOf(key)}${query}`;
    const answer = await this.#client.send({ method: "DELETE", path, actor: by.actor });
    if (isFailed(answer)) throw answer.error;
    return (answer.body as wire.KindWithdrawn).wasPublished;
  }

  close(): void {
    this.#client.close();
  }

  #pathOf({ namespace, kind, version }: KindKey): string {
    this.#client.checkNamespace(namespace);
    return `/v1/kinds/${encodeURIComponent(kind)}/${version}`;
  }
}
