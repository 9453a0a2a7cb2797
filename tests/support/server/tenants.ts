/** A server for several tenants, each with a key of every role and with things to ask about. */
import { createApiKey, type Role } from "../../../packages/leasehold/src/control/index.js";
import {
  type Env,
  grantIdOf,
  newLeaseId,
  taskIds,
} from "../../../packages/leasehold/src/env/index.js";
import { resourceOf } from "../../../packages/leasehold/src/once/port.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { toWireGrantId, toWireLeaseId } from "../../../packages/leasehold/src/wire/index.js";
import { createApp, type ServerLimits } from "../../../packages/leasehold-server/src/http/index.js";

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Empty for a stream, which is left at once. */
  readonly text: string;
}

/** Something that a request is about: it belongs to a tenant, or does not exist. */
export interface Thing {
  readonly resource: string;
  /** The names of their holders, queues and keys have this in them. */
  readonly mark: string;
  /** A held lease, by its ids on the wire. */
  lease(): Promise<{ readonly leaseId: string; readonly id: string; readonly token: number }>;
  /** A task under a lease. */
  running(): Promise<{ readonly id: string; readonly leaseId: string; readonly token: number }>;
  /** A task that waits in `queue`. */
  pending(): Promise<{ readonly id: string; readonly queue: string }>;
  /** A task that was cancelled. */
  ended(): Promise<{ readonly id: string }>;
  key(): Promise<{ readonly id: string }>;
  /** The lease on a key of `once`, whose work has not ended. */
  working(): Promise<{ readonly leaseId: string; readonly token: number }>;
  /** A key whose work has failed: `resource`. */
  once(): Promise<string>;
  /** A schedule of the name `resource`, as part of a path. */
  schedule(): Promise<string>;
  /** What begins with `resource` is paused. */
  pause(): Promise<void>;
}

const TTL_MS = 600_000;

export class Things {
  readonly #newTaskId: () => string;
  #count = 0;

  constructor(
    readonly stores: Stores,
    readonly env: Env,
  ) {
    this.#newTaskId = taskIds(env.clock, env.random);
  }

  /** One that exists, or one with ids that were never used. */
  make(namespace: string, exists: boolean): Thing {
    this.#count += 1;
    const mark = `of-${namespace}-${this.#count}`;
    const resource = `own/${this.#count}`;
    const { leases, tasks, once, schedules, control } = this.stores;
    const { env } = this;
    const { random } = env;
    const pending = async () => {
      const [id, queue] = [this.#newTaskId(), mark];
      if (exists) {
        await tasks.enqueue([
          {
            namespace,
            id,
            queue,
            kind: mark,
            data: { mark },
            priority: 0,
            dedupeKey: null,
            scheduledAt: null,
            maxAttempts: 10,
            crashLimit: 10,
            backoff: { firstMs: 1_000, longestMs: 1_000, factor: 2, jitter: 0.5 },
            maxRunMs: null,
            startByMs: null,
          },
        ]);
      }
      return { id, queue };
    };
    const hold = async (resource: string) => {
      const leaseId = newLeaseId(random);
      let token = 1;
      if (exists) {
        const request = { namespace, resource, leaseId, holder: mark, ttlMs: TTL_MS };
        const [outcome] = await leases.acquire([request]);
        if (outcome?.status !== "acquired") throw new Error(`not acquired: ${resource}`);
        token = outcome.token;
      }
      return { leaseId, token };
    };
    return {
      resource,
      mark,
      async lease() {
        const { leaseId, token } = await hold(resource);
        const id = toWireGrantId(resource, grantIdOf(leaseId));
        return { leaseId: toWireLeaseId(resource, leaseId), id, token };
      },
      async working() {
        const onKey = resourceOf(resource);
        const { leaseId, token } = await hold(onKey);
        return { leaseId: toWireLeaseId(onKey, leaseId), token };
      },
      async once() {
        const grant = { namespace, key: resource, ...(await hold(resourceOf(resource))) };
        const failure = { ...grant, error: mark, maxAttempts: null, retryDelayMs: 0 };
        if (exists) await once?.fail(failure);
        return resource;
      },
      async schedule() {
        const path = encodeURIComponent(resource);
        if (!exists) return path;
        const task = {
          kind: mark,
          queue: mark,
          priority: 0,
          data: { mark },
          maxAttempts: 10,
          crashLimit: 10,
          backoff: { firstMs: 1_000, longestMs: 1_000, factor: 2, jitter: 0.5 },
          maxRunMs: null,
          startByMs: null,
          retain: { doneMs: null, deadMs: null },
          concurrency: null,
          version: 1,
        };
        const times = { cron: null, timeZone: "UTC", everyMs: 3_600_000, jitterMs: 0 };
        const declaration = { ...times, catchUp: "none", overlap: "allow", task } as const;
        await schedules?.declare({ namespace, name: resource, declaration });
        return path;
      },
      pending,
      async running() {
        const { id, queue } = await pending();
        if (!exists) return { id, leaseId: newLeaseId(random), token: 1 };
        const outcome = await tasks.claim({
          namespace,
          holder: mark,
          limit: 1,
          ttlMs: TTL_MS,
          queues: [queue],
          kinds: null,
          claimId: newLeaseId(random),
        });
        const [task] = outcome.status === "claimed" ? outcome.tasks : [];
        if (!task) throw new Error(`not claimed: ${id}`);
        return { id, leaseId: task.leaseId, token: task.token };
      },
      async ended() {
        const { id } = await pending();
        if (exists) await tasks.cancel([{ namespace, id }]);
        return { id };
      },
      async pause() {
        if (!exists) return;
        const pause = { namespace, kind: "prefix" as const, name: resource, reason: mark };
        const act = { namespace, actor: mark, action: "prefix.pause" as const, target: resource };
        await control?.perform({ ...act, reason: mark }, async ({ pauses }) => ({
          value: await pauses.set({ ...pause, actor: mark }),
          details: {},
        }));
      },
      async key() {
        if (!exists || !control) return { id: newLeaseId(random).slice(0, 12) };
        const order = { namespace, name: mark, role: "viewer" as const, prefixes: [""] };
        const { key } = await createApiKey(
          control,
          random,
          { ...order, lifetimeMs: null },
          { actor: "cli:test", reason: null },
        );
        return { id: key.id };
      },
    };
  }
}

export function openTenants(stores: Stores, env: Env, limits: Partial<ServerLimits> = {}) {
  const { control } = stores;
  if (!control) throw new Error("the store keeps no keys");
  const app = createApp({
    ...stores,
    env,
    version: "1.2.3",
    auth: "keys",
    limits: { ratePerSecond: null, lateMs: null, ...limits },
    metrics: async () =>
      'a_total{prefix="names"} 1\nb_total{of="c",prefix="names"} 2\na_total{prefix=""} 3\nc 4\n',
  });
  return {
    app,
    things: new Things(stores, env),
    newKey: (
      namespace: string,
      role: Role,
      {
        // Those of another role would limit it.
        prefixes = role === "holder" ? [""] : [],
        lifetimeMs = null,
      }: { prefixes?: string[]; lifetimeMs?: number | null } = {},
    ) =>
      createApiKey(
        control,
        env.random,
        { namespace, role, prefixes, lifetimeMs, name: `${role} of-${namespace}` },
        { actor: "cli:test", reason: null },
      ),
    ask: (key: string | null, request: Request) => askApp(app, key, request),
  };
}

async function askApp(
  app: { fetch(request: globalThis.Request): Promise<Response> },
  key: string | null,
  { method, path, body }: Request,
): Promise<Answer> {
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  );
  const { status, headers } = response;
  if (headers.get("content-type")?.startsWith("text/event-stream")) {
    await response.body?.cancel();
    return { status, headers, text: "" };
  }
  return { status, headers, text: await response.text() };
}
