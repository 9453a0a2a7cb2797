/**
 * Stores behind a real server on loopback, for the suites. A server serves one namespace and the
 * suites use many, so each namespace gets an app and a client of its own, over the same stores; a
 * listener tells them apart by a header.
 */
import type { Backing } from "../../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../../packages/leasehold/src/env/index.js";
import type { LeaseStore } from "../../../packages/leasehold/src/lease/index.js";
import type { OnceStore } from "../../../packages/leasehold/src/once/index.js";
import { http } from "../../../packages/leasehold/src/stores/http/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import type {
  ScheduleStore,
  TaskLimits,
  TaskStore,
} from "../../../packages/leasehold/src/tasks/index.js";
import {
  createApp,
  type Listening,
  listen,
} from "../../../packages/leasehold-server/src/http/index.js";
import { TEST_LIMITS } from "./test-limits.js";

const HEADER = "x-test-namespace";

/**
 * Everything behind servers; the namespaces appear as they are used.
 * @param behind the stores of each server, closed with the harness. Of several servers on one
 *   database each request goes to the next one: what one has granted, another one renews.
 */
export async function openHttpHarness(behind: readonly Stores[]): Promise<Stores> {
  const servers = await Promise.all(behind.map(serve));
  let requests = 0;
  const next: typeof fetch = (path, init) => {
    requests += 1;
    const { url } = servers[requests % servers.length]!;
    return fetch((path as string).replace(BASE, url), init);
  };
  const opened = new Recent(async (namespace) => {
    const headers = { [HEADER]: encodeURIComponent(namespace) };
    return http({ url: BASE, headers, fetch: next }).open(systemEnv);
  });
  const clientOf = (namespace: string) => opened.of(namespace);
  const { leases, tasks } = await clientOf(SHARED);
  const all = () => opened.all();
  const [{ once, schedules } = {}] = behind;
  return {
    leases: leasesOf(leases, clientOf, all),
    tasks: tasksOf(tasks, clientOf, all),
    backing: backingOf(clientOf),
    ...(schedules && { schedules: schedulesOf(clientOf) }),
    ...(once && { once: onceOf(once, leasesOf(leases, clientOf, all), clientOf) }),
    async close() {
      await opened.close();
      for (const server of servers) await server.close();
      for (const stores of behind) await stores.close();
    },
  };
}

/** A placeholder: each request replaces it by the address of the next server. */
const BASE = "http://next-server";

/** One listener; server and clients are in real time, whatever the time of the stores. */
function serve(behind: Stores): Promise<Listening> {
  const apps = new Recent(async (namespace) =>
    createApp({ ...behind, namespace, auth: "none", version: "test", limits: TEST_LIMITS }),
  );
  return listen({
    app: {
      async fetch(request) {
        const app = await apps.of(decodeURIComponent(request.headers.get(HEADER) ?? ""));
        return app.fetch(request);
      },
      drain() {},
      close: () => apps.close(),
    },
    port: 0,
  });
}

/**
 * What each namespace has of its own, for those that are in use: apps and clients of hundreds of tests that are
 * over would go on looking after their tasks and watching their leases.
 */
class Recent<Opened extends { close(): Promise<unknown> }> {
  readonly #opened = new Map<string, Promise<Opened>>();
  readonly #closing: Promise<unknown>[] = [];

  constructor(readonly open: (namespace: string) => Promise<Opened>) {}

  of(namespace: string): Promise<Opened> {
    const opened = this.#opened.get(namespace) ?? this.open(namespace);
    // The last one in the order of the map is the one used last.
    this.#opened.delete(namespace);
    this.#opened.set(namespace, opened);
    const others = [...this.#opened].filter(([name]) => name !== SHARED);
    for (const [name, old] of others.slice(0, -KEPT)) {
      this.#opened.delete(name);
      this.#closing.push(old.then((one) => one.close()));
    }
    return opened;
  }

  all(): Promise<Opened[]> {
    return Promise.all(this.#opened.values());
  }

  async close(): Promise<void> {
    await Promise.all([...this.#closing, ...(await this.all()).map((one) => one.close())]);
  }
}
/** More namespaces than a test uses. */
const KEPT = 10;
/** Serves the calls that concern all namespaces. */
const SHARED = "default";

type ClientOf = (namespace: string) => Promise<Stores>;

/** One call per namespace, the outcomes in the order of the requests. */
async function perNamespace<Request extends { readonly namespace: string }, Outcome>(
  requests: readonly Request[],
  call: (namespace: string, requests: Request[]) => Promise<Outcome[]>,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const namespace of new Set(requests.map((request) => request.namespace))) {
    const indexes = [...requests.keys()].filter(
      (index) => requests[index]?.namespace === namespace,
    );
    const answered = await call(
      namespace,
      indexes.map((index) => requests[index] as Request),
    );
    for (const [position, index] of indexes.entries()) {
      outcomes[index] = answered[position] as Outcome;
    }
  }
  return outcomes;
}

function leasesOf(one: LeaseStore, of: ClientOf, all: () => Promise<Stores[]>): LeaseStore {
  return {
    capabilities: one.capabilities,
    acquire: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).leases.acquire(some, options)),
    renew: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).leases.renew(some, options)),
    release: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).leases.release(some, options)),
    revoke: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).leases.revoke(some, options)),
    get: (keys) => perNamespace(keys, async (n, some) => (await of(n)).leases.get(some)),
    list: async (query) => (await of(query.namespace)).leases.list(query),
    async *watch(namespace, options) {
      yield* (await of(namespace)).leases.watch(namespace, options);
    },
    collect: (olderThanMs) => one.collect(olderThanMs),
    close: async () => {
      for (const { leases } of await all()) await leases.close();
    },
  };
}

function tasksOf(one: TaskStore, of: ClientOf, all: () => Promise<Stores[]>): TaskStore {
  return {
    capabilities: one.capabilities,
    enqueue: (added, options) =>
      perNamespace(added, async (n, some) => (await of(n)).tasks.enqueue(some, options)),
    claim: async (request, options) => (await of(request.namespace)).tasks.claim(request, options),
    heartbeat: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).tasks.heartbeat(some, options)),
    complete: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).tasks.complete(some, options)),
    fail: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).tasks.fail(some, options)),
    requeue: (requests, options) =>
      perNamespace(requests, async (n, some) => (await of(n)).tasks.requeue(some, options)),
    cancel: (keys) => perNamespace(keys, async (n, some) => (await of(n)).tasks.cancel(some)),
    retry: (keys) => perNamespace(keys, async (n, some) => (await of(n)).tasks.retry(some)),
    delete: (keys) => perNamespace(keys, async (n, some) => (await of(n)).tasks.delete(some)),
    get: async (task) => (await of(task.namespace)).tasks.get(task),
    list: async (query) => (await of(query.namespace)).tasks.list(query),
    counts: async (namespace) => (await of(namespace)).tasks.counts(namespace),
    results: (keys, options) =>
      perNamespace(keys, async (n, some) => [
        ...(await (await of(n)).tasks.results(some, options)),
      ]),
    async *watchResults(namespace, options) {
      yield* (await of(namespace)).tasks.watchResults(namespace, options);
    },
    blockedKeys: async (query) => (await of(query.namespace)).tasks.blockedKeys?.(query) ?? [],
    limits: {
      declare: async (request, options) =>
        limitsOf(await of(request.namespace)).declare(request, options),
      list: async (namespace) => limitsOf(await of(namespace)).list(namespace),
      remove: async (key) => limitsOf(await of(key.namespace)).remove(key),
    },
    stats: async (query) => (await of(query.namespace)).tasks.stats(query),
    leases: async (query) => (await of(query.namespace)).tasks.leases(query),
    reap: () => one.reap(),
    collect: (limit) => one.collect(limit),
    async *watch(namespace, options) {
      yield* (await of(namespace)).tasks.watch(namespace, options);
    },
    close: async () => {
      for (const { tasks } of await all()) await tasks.close();
    },
  };
}

/** @param behind where the server collects records */
function onceOf(behind: OnceStore, leases: LeaseStore, clientOf: ClientOf): OnceStore {
  const of = async (namespace: string): Promise<OnceStore> => {
    const { once } = await clientOf(namespace);
    if (!once) throw new Error("the server keeps no records of once");
    return once;
  };
  return {
    leases,
    get: async (key) => (await of(key.namespace)).get(key),
    list: async (query) => (await of(query.namespace)).list(query),
    succeed: async (request, options) => (await of(request.namespace)).succeed(request, options),
    fail: async (request, options) => (await of(request.namespace)).fail(request, options),
    retry: async (key) => (await of(key.namespace)).retry(key),
    delete: async (key) => (await of(key.namespace)).delete(key),
    collect: () => behind.collect(),
  };
}

function limitsOf({ tasks }: Stores): TaskLimits {
  if (!tasks.limits) throw new Error("the server keeps limits");
  return tasks.limits;
}

function schedulesOf(clientOf: ClientOf): ScheduleStore {
  const of = async (namespace: string): Promise<ScheduleStore> => {
    const { schedules } = await clientOf(namespace);
    if (!schedules) throw new Error("the server keeps no schedules");
    return schedules;
  };
  return {
    declare: async (request, options) => (await of(request.namespace)).declare(request, options),
    get: async (key) => (await of(key.namespace)).get(key),
    list: async (query) => (await of(query.namespace)).list(query),
    pause: async (request) => (await of(request.namespace)).pause(request),
    resume: async (key) => (await of(key.namespace)).resume(key),
    remove: async (key) => (await of(key.namespace)).remove(key),
    runNow: async (request) => (await of(request.namespace)).runNow(request),
  };
}

function backingOf(clientOf: ClientOf): Backing {
  const of = async (namespace: string) => {
    const { backing } = await clientOf(namespace);
    if (backing?.kind !== "server") throw new Error("a server is behind it");
    return backing;
  };
  return {
    kind: "server",
    read: async (namespace, path) => (await of(namespace)).read(namespace, path),
    change: async (namespace, change) => (await of(namespace)).change(namespace, change),
  };
}
