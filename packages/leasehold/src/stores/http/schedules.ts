/** Schedules on a Leasehold server: the port over /v1/schedules. The server ticks. */
import type { Act } from "../../control/index.js";
import {
  type CallOptions,
  LeaseholdError,
  type Page,
  StoreUnavailableError,
} from "../../lease/index.js";
import type {
  DeclareOutcome,
  DeclareRequest,
  PauseScheduleRequest,
  RunNowOutcome,
  RunNowRequest,
  ScheduleChange,
  ScheduleKey,
  ScheduleQuery,
  ScheduleStore,
  ScheduleView,
} from "../../tasks/schedules/port.js";
import type * as wire from "../../wire/index.js";
import { BOUNDS } from "../../wire/index.js";
import { type Call, type Connection, failed, HttpClient, isFailed, queryOf } from "./connection.js";
import { jsonOf } from "./json.js";

/** Who asks for an operator action, and why. */
type By = Partial<Pick<Act, "actor" | "reason">>;

export class HttpScheduleStore implements ScheduleStore {
  readonly #client: HttpClient;

  constructor(connection: Connection) {
    this.#client = new HttpClient(connection);
  }

  async declare(
    { declaration, ...key }: DeclareRequest,
    { timeoutMs }: CallOptions = {},
  ): Promise<DeclareOutcome> {
    const { version, ...task } = declaration.task;
    // Servers of an older version know no versions.
    const sent = { ...declaration, task: version === 1 ? task : declaration.task };
    const body = jsonOf(sent satisfies wire.DeclareScheduleRequest);
    const call: Call = { method: "PUT", path: this.#pathOf(key), body, budgetMs: timeoutMs };
    const answer = await this.#client.send(call).catch((error: unknown) => {
      // The server refused the request, and did nothing.
      if (error instanceof LeaseholdError) return failed("no", error);
      throw error;
    });
    if (isFailed(answer)) return isLimit(answer.error) ? { status: "full" } : answer;
    const { change } = answer.body as wire.ScheduleDeclared;
    return { status: "declared", change };
  }

  async get(key: ScheduleKey): Promise<ScheduleView | null> {
    const { status, body } = await this.#client.read(this.#pathOf(key));
    return status === 404 ? null : viewOf(key.namespace, body as wire.Schedule);
  }

  async list({ namespace, limit, cursor }: ScheduleQuery): Promise<Page<ScheduleView>> {
    this.#client.checkNamespace(namespace);
    const asked = limit === undefined ? undefined : Math.min(limit, BOUNDS.page);
    const { body } = await this.#client.read(`/v1/schedules${queryOf({ limit: asked, cursor })}`);
    const { items, nextCursor } = body as wire.SchedulePage;
    return { items: items.map((item) => viewOf(namespace, item)), nextCursor };
  }

  async pause({ by, reason, ...key }: PauseScheduleRequest): Promise<ScheduleChange> {
    const answer = await this.#act(key, "POST", "/pause", { actor: by, reason });
    if (answer === null) return "unknown";
    return (answer as wire.SchedulePaused).wasRunning ? "changed" : "unchanged";
  }

  /** @param by for the server's audit */
  async resume(key: ScheduleKey, by: By = {}): Promise<ScheduleChange> {
    const answer = await this.#act(key, "POST", "/resume", by);
    if (answer === null) return "unknown";
    return (answer as wire.ScheduleResumed).wasPaused ? "changed" : "unchanged";
  }

  async remove(key: ScheduleKey, by: By = {}): Promise<boolean> {
    const answer = await this.#act(key, "DELETE", "", by);
    return (answer as wire.ScheduleRemoved).wasDeclared;
  }

  async runNow({ taskId, ...key }: RunNowRequest, by: By = {}): Promise<RunNowOutcome> {
    try {
      const answer = await this.#act(key, "POST", "/run", by, { taskId });
      if (answer === null) return { status: "unknown" };
      return { status: "enqueued", id: (answer as wire.ScheduleRun).taskId };
    } catch (error) {
      if (error instanceof LeaseholdError)
        return failed(error.outcome === "unknown" ? "maybe" : "no", error);
      throw error;
    }
  }

  close(): void {
    this.#client.close();
  }

  #pathOf({ namespace, name }: ScheduleKey): string {
    this.#client.checkNamespace(namespace);
    return `/v1/schedules/${encodeURIComponent(name)}`;
  }

  /** @returns null: there is no such schedule */
  async #act(
    key: ScheduleKey,
    method: Call["method"],
    verb: string,
    { actor, reason }: By,
    more: { readonly taskId?: string } = {},
  ): Promise<unknown> {
    const query = queryOf({ reason: reason ?? undefined, ...more });
    const answer = await this.#client.send({
      method,
      path: `${this.#pathOf(key)}${verb}${query}`,
      actor,
    });
    if (isFailed(answer)) throw answer.error;
    return answer.status === 404 ? null : answer.body;
  }
}

function isLimit(error: LeaseholdError): boolean {
  return error instanceof StoreUnavailableError && error.refusedBy === "limit";
}

function viewOf(namespace: string, schedule: wire.Schedule): ScheduleView {
  const { nextFireTimes: _, ...view } = schedule;
  return { namespace, ...view };
}
