/** Operator actions through a server, which enters them in its audit under the caller's key. */
import type {
  Act,
  Operator,
  OperatorActors,
  Pause,
  PauseKey,
  Performed,
} from "../../control/index.js";
import type { AdminOutcome, TaskKey } from "../../tasks/port.js";
import type * as wire from "../../wire/index.js";
import { LIMITS } from "../../wire/index.js";
import { sendBatch } from "./batch.js";
import {
  type Call,
  type Connection,
  HttpClient,
  isFailed,
  misconfigured,
  queryOf,
} from "./connection.js";
import { HttpGeneratorState } from "./control-generator.js";

const PAUSES = "/v1/pauses";

export class HttpOperator implements Operator {
  readonly #client: HttpClient;
  readonly #generator: HttpGeneratorState;
  readonly pauses = { list: (namespace: string | null) => this.#paused(namespace) };

  constructor(connection: Connection) {
    this.#client = new HttpClient(connection);
    this.#generator = new HttpGeneratorState(connection);
  }

  /**
   * The server applies each call as an action of its own, so some calls may succeed while others fail.
   */
  async perform<T>(
    { reason }: Act,
    work: (actors: OperatorActors) => Promise<Performed<T>>,
  ): Promise<T> {
    const tasks = (operation: "cancel" | "retry" | "delete") => (keys: readonly TaskKey[]) =>
      this.#onTasks(operation, keys, reason);
    const { value } = await work({
      leases: {
        revoke: (requests, options) => {
          const bodies = requests.map(({ namespace, ...request }) => {
            this.#client.checkNamespace(namespace);
            const body = { ...request, ...(reason !== null && { reason }) };
            return body satisfies wire.RevokeRequest;
          });
          return sendBatch(this.#client, {
            path: "/v1/leases/revoke",
            requests: bodies,
            maxBytes: LIMITS.batchBodyBytes,
            ...options,
          });
        },
      },
      generator: {
        write: (namespace, change) => this.#generator.write(namespace, change, reason ?? undefined),
      },
      tasks: { cancel: tasks("cancel"), retry: tasks("retry"), delete: tasks("delete") },
      pauses: {
        set: (pause) => this.#pause(pause),
        clear: (key) => this.#resume(key, reason),
      },
    });
    return value;
  }

  close(): void {
    this.#client.close();
    this.#generator.close();
  }

  async #paused(namespace: string | null): Promise<readonly Pause[]> {
    const own = namespace ?? this.#client.connection.namespace;
    this.#client.checkNamespace(own);
    const answer = await this.#sent({ method: "GET", path: PAUSES });
    const { items } = answer as wire.PauseList;
    return items.map((pause) => ({ namespace: own, ...pause }));
  }

  async #pause({ namespace, kind, name, reason }: Omit<Pause, "since">): Promise<Pause> {
    this.#client.checkNamespace(namespace);
    const body = JSON.stringify({ kind, name, reason } satisfies wire.PauseRequest);
    const call = { method: "PUT", path: PAUSES, body } as const;
    return { namespace, ...((await this.#sent(call)) as wire.Pause) };
  }

  async #resume({ namespace, kind, name }: PauseKey, reason: string | null): Promise<boolean> {
    this.#client.checkNamespace(namespace);
    const path = `${PAUSES}${queryOf({ kind, name, reason: reason ?? undefined })}`;
    const answer = await this.#sent({ method: "DELETE", path });
    return (answer as wire.Resumed).wasPaused;
  }

  #onTasks(
    operation: string,
    keys: readonly TaskKey[],
    reason: string | null,
  ): Promise<AdminOutcome[]> {
    const requests = keys.map(({ namespace, id }) => {
      this.#client.checkNamespace(namespace);
      return id;
    });
    const path = `/api/tasks/${operation}${queryOf({ reason: reason ?? undefined })}`;
    const maxBytes = LIMITS.payloadBodyBytes;
    return sendBatch(this.#client, { path, requests, maxBytes });
  }

  async #sent(call: Call): Promise<unknown> {
    const answer = await this.#client.send(call);
    if (isFailed(answer)) throw answer.error;
    if (answer.status !== 200) throw misconfigured(`${call.path} returned status ${answer.status}`);
    return answer.body;
  }
}
