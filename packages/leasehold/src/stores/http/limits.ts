/** The limits of tasks on a Leasehold server: the port over /v1/tasks/limits. */
import type { Act } from "../../control/index.js";
import { type CallOptions, LeaseholdError, StoreUnavailableError } from "../../lease/index.js";
import type {
  DeclareLimitOutcome,
  DeclareLimitRequest,
  LimitKey,
  LimitView,
  TaskLimits,
} from "../../tasks/port.js";
import type * as wire from "../../wire/index.js";
import { failed, type HttpClient, isFailed, queryOf } from "./connection.js";

const PATH = "/v1/tasks/limits";

/** An operator who asks, and why. */
type By = Pick<Act, "actor" | "reason">;

export class HttpTaskLimits implements TaskLimits {
  readonly #client: HttpClient;

  constructor(client: HttpClient) {
    this.#client = client;
  }

  /** @param operator for the server's audit; without it, a program declares */
  async declare(
    { namespace, scope, name, limit, by }: DeclareLimitRequest,
    { timeoutMs }: CallOptions = {},
    operator?: By,
  ): Promise<DeclareLimitOutcome> {
    this.#client.checkNamespace(namespace);
    const body: wire.TaskLimitRequest = { scope, name, ...limit };
    const query = queryOf({ reason: operator?.reason ?? undefined });
    const sent = this.#client.send({
      method: operator ? "POST" : "PUT",
      path: operator ? `${PATH}${query}` : PATH,
      body: JSON.stringify(body),
      actor: operator?.actor ?? by,
      budgetMs: timeoutMs,
    });
    const answer = await sent.catch((error: unknown) => {
      // The server refused the request, and did nothing.
      if (error instanceof LeaseholdError) return failed("no", error);
      throw error;
    });
    if (!isFailed(answer)) {
      return { status: "declared", change: (answer.body as wire.TaskLimitDeclared).change };
    }
    const { error } = answer;
    const isFull = error instanceof StoreUnavailableError && error.refusedBy === "limit";
    return isFull ? { status: "full" } : answer;
  }

  async list(namespace: string): Promise<readonly LimitView[]> {
    this.#client.checkNamespace(namespace);
    const { items } = (await this.#client.read(PATH)).body as wire.TaskLimits;
    return items.map((item) => ({ namespace, ...item }));
  }

  async remove({ namespace, scope, name }: LimitKey, operator?: By): Promise<boolean> {
    this.#client.checkNamespace(namespace);
    const query = queryOf({ scope, name, reason: operator?.reason ?? undefined });
    const path = `${PATH}${query}`;
    const answer = await this.#client.send({ method: "DELETE", path, actor: operator?.actor });
    if (isFailed(answer)) throw answer.error;
    return (answer.body as wire.TaskLimitRemoved).wasDeclared;
  }
}
