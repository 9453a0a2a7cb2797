/**
 * Operator actions through a server, which enters them in its audit under the caller's key, with the actor
 * as claimed.
 */
import type {
  Act,
  ApiKey,
  ApiKeyQuery,
  AuditEntry,
  AuditQuery,
  Backing,
  ChainEnd,
  OperatorActors,
  Pause,
  PauseKey,
  Performed,
  RemoteOperator,
  TenantLimits,
  Verification,
} from "../../control/index.js";
import { InvalidOptionError, type Page } from "../../lease/index.js";
import type { AdminOutcome, TaskKey } from "../../tasks/port.js";
import type * as wire from "../../wire/index.js";
import { BOUNDS } from "../../wire/index.js";
import { sendBatch } from "./batch.js";
import {
  type Call,
  type Connection,
  HttpClient,
  isFailed,
  misconfigured,
  queryOf,
} from "./connection.js";
import { HttpTaskLimits } from "./limits.js";
import type { HttpOnceStore } from "./once.js";
import type { HttpScheduleStore } from "./schedules.js";

const PAUSES = "/v1/pauses";

/** Who asks for an action, and why. */
type By = Pick<Act, "actor" | "reason">;

/** The stores that are loaded at first use. */
interface Opening {
  readonly once: () => Promise<HttpOnceStore>;
  readonly schedules: () => Promise<HttpScheduleStore>;
}

export class HttpOperator implements RemoteOperator {
  readonly #client: HttpClient;
  readonly #open: Opening;
  readonly #taskLimits: HttpTaskLimits;
  readonly pauses = { list: (namespace: string | null) => this.#paused(namespace) };
  readonly audit = {
    list: (query: AuditQuery) => this.#audited(query),
    verify: (exported: ChainEnd, from: "start" | "export" = "start") =>
      this.#verified(exported, from),
  };
  readonly keys = { list: (query: ApiKeyQuery) => this.#keys(query) };
  readonly limits = { read: (namespace: string) => this.#limits(namespace) };

  /** @param open what it gives, the caller closes */
  constructor(connection: Connection, open: Opening) {
    this.#open = open;
    this.#client = new HttpClient(connection);
    this.#taskLimits = new HttpTaskLimits(this.#client);
  }

  /**
   * The server applies each call as an action of its own, so some calls may succeed while others fail.
   */
  async perform<T>(
    { actor, reason }: Act,
    work: (actors: OperatorActors) => Promise<Performed<T>>,
  ): Promise<T> {
    const by = { actor, reason };
    const tasks = (operation: "cancel" | "retry" | "delete") => (keys: readonly TaskKey[]) =>
      this.#onTasks(operation, keys, by);
    const { value } = await work({
      leases: {
        revoke: async (requests, options) => {
          const bodies = requests.map(({ namespace, ...request }) => {
            this.#client.checkNamespace(namespace);
            const body = { ...request, ...(reason !== null && { reason }) };
            return body satisfies wire.RevokeRequest;
          });
          return sendBatch(this.#client, {
            path: "/v1/leases/revoke",
            requests: bodies,
            maxBytes: BOUNDS.batchBodyBytes,
            maxCount: BOUNDS.revocations,
            actor,
            ...options,
          });
        },
      },
      backing: backingOf(this.#client, actor),
      tasks: { cancel: tasks("cancel"), retry: tasks("retry"), delete: tasks("delete") },
      once: {
        retry: async (key) => (await this.#open.once()).retry(key, by),
        delete: async (key) => (await this.#open.once()).delete(key, by),
      },
      schedules: {
        pause: async (request) => (await this.#open.schedules()).pause(request),
        resume: async (key) => (await this.#open.schedules()).resume(key, by),
        remove: async (key) => (await this.#open.schedules()).remove(key, by),
        runNow: async (request) => (await this.#open.schedules()).runNow(request, by),
      },
      taskLimits: {
        declare: (request) => this.#taskLimits.declare(request, {}, by),
        remove: (key) => this.#taskLimits.remove(key, by),
      },
      pauses: {
        set: (pause) => this.#pause(pause),
        clear: (key) => this.#resume(key, by),
      },
    });
    return value;
  }

  close(): void {
    this.#client.close();
  }

  async #paused(namespace: string | null): Promise<readonly Pause[]> {
    const own = namespace ?? this.#client.connection.namespace;
    this.#client.checkNamespace(own);
    const answer = await this.#sent({ method: "GET", path: PAUSES });
    const { items } = answer as wire.PauseList;
    return items.map((pause) => ({ namespace: own, ...pause }));
  }

  /** @throws InvalidOptionError for all tenants at once: a server shows its callers their own */
  #ownNamespace(namespace: string | null): string {
    if (namespace === null) {
      throw new InvalidOptionError("namespace", "must be one tenant: a server shows no others");
    }
    this.#client.checkNamespace(namespace);
    return namespace;
  }

  async #audited(query: AuditQuery): Promise<Page<AuditEntry>> {
    const { target, actions, limit = 100, cursor } = query;
    const namespace = this.#ownNamespace(query.namespace);
    const asked = { target, action: actions, limit: Math.min(limit, BOUNDS.page), cursor };
    const answer = await this.#sent({ method: "GET", path: `/v1/audit${queryOf(asked)}` });
    const { items, nextCursor } = answer as wire.AuditPage;
    const entries = items.map(({ claimedActor, details, ...entry }) => {
      const claimed = claimedActor === null ? {} : { claimedActor };
      return { ...entry, namespace, details: JSON.stringify({ ...details, ...claimed }) };
    });
    return { items: entries, nextCursor };
  }

  async #verified({ seq, hash }: ChainEnd, from: "start" | "export"): Promise<Verification> {
    const kept = seq > 0 ? queryOf({ seq, hash, ...(from === "export" && { from }) }) : "";
    const answer = await this.#sent({ method: "GET", path: `/v1/audit/verify${kept}` });
    const verdict = answer as wire.Verification;
    const { ok, problem } = verdict;
    if (!ok) return { ok, seq: verdict.seq, problem: problem ?? "the server gave no details" };
    return { ok, entries: verdict.seq, head: { seq: verdict.seq, hash: verdict.hash ?? "" } };
  }

  async #keys({ namespace, limit = 100, cursor }: ApiKeyQuery): Promise<Page<ApiKey>> {
    this.#ownNamespace(namespace);
    const asked = { limit: Math.min(limit, BOUNDS.page), cursor };
    const answer = await this.#sent({ method: "GET", path: `/v1/keys${queryOf(asked)}` });
    return answer as wire.ApiKeyPage;
  }

  async #limits(namespace: string): Promise<TenantLimits> {
    this.#client.checkNamespace(namespace);
    return (await this.#sent({ method: "GET", path: "/v1/limits" })) as TenantLimits;
  }

  async #pause({ namespace, kind, name, actor, reason }: Omit<Pause, "since">): Promise<Pause> {
    this.#client.checkNamespace(namespace);
    const body = JSON.stringify({ kind, name, reason } satisfies wire.PauseRequest);
    const call = { method: "PUT", path: PAUSES, body, actor } as const;
    return { namespace, ...((await this.#sent(call)) as wire.Pause) };
  }

  async #resume({ namespace, kind, name }: PauseKey, { actor, reason }: By): Promise<boolean> {
    this.#client.checkNamespace(namespace);
    const path = `${PAUSES}${queryOf({ kind, name, reason: reason ?? undefined })}`;
    const answer = await this.#sent({ method: "DELETE", path, actor });
    return (answer as wire.Resumed).wasPaused;
  }

  #onTasks(
    operation: string,
    keys: readonly TaskKey[],
    { actor, reason }: By,
  ): Promise<AdminOutcome[]> {
    const requests = keys.map(({ namespace, id }) => {
      this.#client.checkNamespace(namespace);
      return id;
    });
    const path = `/api/tasks/${operation}${queryOf({ reason: reason ?? undefined })}`;
    const maxBytes = BOUNDS.payloadBodyBytes;
    return sendBatch(this.#client, { path, requests, maxBytes, actor });
  }

  async #sent(call: Call): Promise<unknown> {
    return sent(this.#client, call);
  }
}

/** @param actor who asks for the changes, as the caller claims */
export function backingOf(
  client: HttpClient,
  actor?: string,
): Extract<Backing, { readonly kind: "server" }> {
  const send = async (namespace: string, call: Call) => {
    client.checkNamespace(namespace);
    return sent(client, call);
  };
  return {
    kind: "server",
    read: (namespace, path) => send(namespace, { method: "GET", path }),
    change: (namespace, change) => send(namespace, { ...change, actor }),
  };
}

async function sent(client: HttpClient, call: Call): Promise<unknown> {
  const answer = await client.send(call);
  if (isFailed(answer)) throw answer.error;
  if (answer.status !== 200) throw misconfigured(`${call.path} returned status ${answer.status}`);
  return answer.body;
}
