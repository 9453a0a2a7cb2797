/** Every public method, called with wrong arguments: the error names the argument and what it must be. */
import { EventEmitter } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  connect,
  defineTask,
  InvalidOptionError,
  type Leasehold,
  migrate,
  openStores,
} from "./index.js";
import { consul } from "./stores/consul/index.js";
import { etcd } from "./stores/etcd/index.js";
import { http } from "./stores/http/index.js";
import { kubernetes } from "./stores/kubernetes/index.js";
import { memory } from "./stores/memory/index.js";
import { pglite, postgres } from "./stores/postgres/index.js";
import { redis } from "./stores/redis/index.js";
import { zookeeper } from "./stores/zookeeper/index.js";

// JavaScript callers have no types.
type Loose = (...args: unknown[]) => unknown;
function loose(target: object, name: string): Loose {
  const method: unknown = Reflect.get(target, name);
  if (typeof method !== "function") throw new Error(`there is no ${name}()`);
  return (...args) => Reflect.apply(method, target, args);
}

async function refusal(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return "the call was not refused";
}

/** The method, its arguments, and the path that the error names. */
type Wrong = readonly [method: string, args: readonly unknown[], path: string];

const work = () => {};
const mail = defineTask("mail");
const id = "018f3f4e-0000-7000-8000-000000000000";
const signal = new AbortController().signal;

async function refuses(target: object, [method, args, path]: Wrong): Promise<void> {
  const error = await refusal(() => loose(target, method)(...args));
  expect(error).toBeInstanceOf(InvalidOptionError);
  expect(error).toMatchObject({ code: "INVALID_OPTION", path, retryable: false, outcome: "none" });
  const { message } = error as Error;
  expect(message.slice(0, path.length + 1)).toBe(`${path} `);
  expect(message).not.toContain("[object");
}

async function client(): Promise<Leasehold> {
  const leasehold = await connect("memory:");
  onTestFinished(() => leasehold.close());
  return leasehold;
}

/** Wrong options for whatever takes them as its last argument, after the right ones. */
function wrongOptions(method: string, ...args: readonly unknown[]): Wrong[] {
  return [
    [method, [...args, null], "options"],
    [method, [...args, "x"], "options"],
    [method, [...args, 5], "options"],
    [method, [...args, []], "options"],
    [method, [...args, work], "options"],
    [method, [...args, { unknown: 1 }], "unknown"],
  ];
}

/** Wrong values of what an acquire takes. */
function wrongLeaseOptions(method: string, ...args: readonly unknown[]): Wrong[] {
  return [
    ...wrongOptions(method, ...args),
    [method, [...args, { ttlMs: "10s" }], "ttlMs"],
    [method, [...args, { ttlMs: null }], "ttlMs"],
    [method, [...args, { autoRenew: "no" }], "autoRenew"],
    [method, [...args, { stopOnRenewError: 1 }], "stopOnRenewError"],
    [method, [...args, { metadata: "x" }], "metadata"],
    [method, [...args, { metadata: { a: 1 } }], "metadata.a"],
    [method, [...args, { renewIntervalMs: "1" }], "renewIntervalMs"],
    [method, [...args, { marginMs: Number.NaN }], "marginMs"],
    [method, [...args, { driftRatio: 2 }], "driftRatio"],
  ];
}

const LEASEHOLD: readonly Wrong[] = [
  ...["run", "tryRun"].flatMap((method): Wrong[] => [
    [method, [undefined, work], "resource"],
    [method, ["", work], "resource"],
    [method, ["r"], "work"],
    [method, ["r", "work"], "work"],
    [method, ["r", {}, "work"], "work"],
    [method, ["r", "x", work], "options"],
    [method, ["r", work, { ttlMs: 5_000 }], "work"],
    [method, ["r", { unknown: 1 }, work], "unknown"],
    [method, ["r", { ttlMs: "10s" }, work], "ttlMs"],
    [method, ["r", { autoRenew: "no" }, work], "autoRenew"],
    [method, ["r", { onUnavailable: "x" }, work], "onUnavailable"],
  ]),
  ...["acquire", "tryAcquire"].flatMap((method): Wrong[] => [
    [method, [undefined], "resource"],
    [method, [7], "resource"],
    [method, [{ resource: "r" }], "resource"],
    ...wrongLeaseOptions(method, "r"),
    [method, ["r", { waitMs: "1" }], "waitMs"],
    [method, ["r", { signal: {} }], "signal"],
    [method, ["r", signal], "options"],
  ]),
  ["acquireAll", [undefined], "resources"],
  ["acquireAll", ["r"], "resources"],
  ["acquireAll", [[]], "resources"],
  ["acquireAll", [[undefined]], "resource"],
  ...wrongLeaseOptions("acquireAll", ["r"]),
  ["once", ["k"], "work"],
  ["once", ["k", {}, "work"], "work"],
  ["reusableLease", [undefined], "resource"],
  ...wrongLeaseOptions("reusableLease", "r"),
  ["reusableLease", ["r", { waitMs: 5 }], "waitMs"],
  ["reusableLease", ["r", { acquireRetries: "3" }], "acquireRetries"],
  ["reusableLease", ["r", { acquireRetryDelayMs: "3" }], "acquireRetryDelayMs"],
  ["get", [undefined], "resource"],
  ["get", [{}], "resource"],
  ...wrongOptions("list"),
  ["list", [{ limit: "10" }], "limit"],
  ["list", [{ cursor: 5 }], "cursor"],
  ["list", [{ prefix: 5 }], "prefix"],
  ["list", [{ states: "live" }], "states"],
  ["list", [{ states: ["alive"] }], "states.0"],
  ["list", [{ renewedOnly: "yes" }], "renewedOnly"],
  ["revoke", [undefined], "resource"],
  ...wrongOptions("revoke", "r"),
  ["revoke", ["r", { free: "soon" }], "free"],
  ["revoke", ["r", { expectedToken: "1" }], "expectedToken"],
  ["revoke", ["r", { reason: 5 }], "reason"],
  ["watch", [], "options"],
  ["watch", ["x"], "options"],
  ["watch", [signal], "options"],
  ["watch", [{}], "signal"],
  ["watch", [{ signal: "x" }], "signal"],
  ["elector", [undefined], "name"],
  ...wrongLeaseOptions("elector", "e"),
  ["elector", ["e", { waitMs: 5 }], "waitMs"],
  ["elector", ["e", { signal }], "signal"],
  ["elector", ["e", { retryDelayMs: "1" }], "retryDelayMs"],
  ["elector", ["e", { handoverMs: "1" }], "handoverMs"],
  ["elector", ["e", { graceMs: "1" }], "graceMs"],
  ["singleton", [undefined, work], "resource"],
  ["singleton", ["s"], "work"],
  ["singleton", ["s", "work"], "work"],
  ["singleton", ["s", {}, work], "work"],
  ...wrongLeaseOptions("singleton", "s", work),
  ["singleton", ["s", work, { waitMs: 5 }], "waitMs"],
  ["singleton", ["s", work, { restartDelayMs: "1" }], "restartDelayMs"],
  ["singleton", ["s", work, { maxRestartDelayMs: "1" }], "maxRestartDelayMs"],
  ["singleton", ["s", work, { graceMs: null }], "graceMs"],
  ["shards", [undefined, { count: 2, work }], "name"],
  ["shards", ["s"], "options"],
  ["shards", ["s", "x"], "options"],
  ["shards", ["s", {}], "count"],
  ["shards", ["s", { count: "2", work }], "count"],
  ["shards", ["s", { count: 2 }], "work"],
  ["shards", ["s", { count: 2, work, member: 5 }], "member"],
  ["shards", ["s", { count: 2, work, pollIntervalMs: "1" }], "pollIntervalMs"],
  ["shards", ["s", { count: 2, work, graceMs: "1" }], "graceMs"],
  ["shards", ["s", { count: 2, work, ttlMs: "1" }], "ttlMs"],
  ["shards", ["s", { count: 2, work, metadata: {} }], "metadata"],
  ["shards", ["s", { count: 2, work, unknown: 1 }], "unknown"],
];

const ELECTOR: readonly Wrong[] = [
  ["lead", [], "work"],
  ["lead", ["work"], "work"],
  ...wrongOptions("lead", work),
  ["lead", [work, signal], "options"],
  ["lead", [work, { signal: "x" }], "signal"],
  ...wrongOptions("resign"),
  ["resign", [{ successor: 5 }], "successor"],
  ["runIfLeader", [], "work"],
  ["runIfLeader", ["work"], "work"],
  ...wrongOptions("runIfLeader", work),
  ["runIfLeader", [work, { leaderWrite: "yes" }], "leaderWrite"],
  ["observe", [], "options"],
  ["observe", ["x"], "options"],
  ["observe", [signal], "options"],
  ["observe", [{}], "signal"],
];

const LEASE: readonly Wrong[] = [
  ["onLost", [], "handler"],
  ["onLost", ["x"], "handler"],
];

const TASKS: readonly Wrong[] = [
  ["enqueue", [], "definition"],
  ["enqueue", ["mail", {}], "definition"],
  ["enqueue", [{ kind: "mail" }, {}], "definition"],
  ["enqueue", [null, {}], "definition"],
  ["enqueue", [{}, mail], "definition"],
  ...wrongOptions("enqueue", mail, {}),
  ["enqueue", [mail, {}, { data: {} }], "data"],
  ["enqueue", [mail, {}, { scheduledAt: "2026-11-22T12:00:00Z" }], "scheduledAt"],
  ["enqueue", [mail, {}, { scheduledAt: 1_700_000_000_000 }], "scheduledAt"],
  ["enqueue", [mail, {}, { scheduledAt: null }], "scheduledAt"],
  ["enqueue", [mail, {}, { scheduledAt: "" }], "scheduledAt"],
  ["enqueue", [mail, {}, { scheduledAt: new Date("x") }], "scheduledAt"],
  ["enqueue", [mail, {}, { priority: "high" }], "priority"],
  ["enqueue", [mail, {}, { priority: 1.5 }], "priority"],
  ["enqueue", [mail, {}, { queue: 5 }], "queue"],
  ["enqueue", [mail, {}, { maxAttempts: "3" }], "maxAttempts"],
  ["enqueue", [mail, {}, { crashLimit: 0 }], "crashLimit"],
  ["enqueue", [mail, {}, { backoff: { firstMs: "1s" } }], "backoff.firstMs"],
  ["enqueue", [mail, {}, { backoff: { longestMs: -1 } }], "backoff.longestMs"],
  ["enqueue", [mail, {}, { backoff: { firstMs: 5_000, longestMs: 100 } }], "backoff.firstMs"],
  ["enqueue", [mail, {}, { backoff: { factor: 0.5 } }], "backoff.factor"],
  ["enqueue", [mail, {}, { backoff: { jitter: 2 } }], "backoff.jitter"],
  ["enqueue", [mail, {}, { backoff: { ms: 2 } }], "ms"],
  ["enqueue", [mail, {}, { dedupeKey: 5 }], "dedupeKey"],
  ["enqueue", [mail, {}, { id: 5 }], "id"],
  ["enqueueAll", [], "definition"],
  ["enqueueAll", ["mail", [{ data: {} }]], "definition"],
  ["enqueueAll", ["mail", []], "definition"],
  ["enqueueAll", [mail], "tasks"],
  ["enqueueAll", [mail, { data: {} }], "tasks"],
  ["enqueueAll", [mail, "x"], "tasks"],
  ["enqueueAll", [mail, [undefined]], "tasks.0"],
  ["enqueueAll", [mail, [{ data: {} }, "x"]], "tasks.1"],
  ["enqueueAll", [mail, [{ data: {}, scheduledAt: "x" }]], "scheduledAt"],
  ["enqueueAll", [mail, [{ data: {}, unknown: 1 }]], "unknown"],
  ...wrongOptions("enqueueAll", mail, [{ data: {} }]),
  ...["get", "cancel", "retry"].flatMap((method): Wrong[] => [
    [method, [], "id"],
    [method, ["x\n"], "id"],
    [method, [{ id }], "id"],
  ]),
  ...["list", "leases"].flatMap((method): Wrong[] => [
    ...wrongOptions(method),
    [method, [{ limit: "10" }], "limit"],
    [method, [{ cursor: 5 }], "cursor"],
    [method, [{ states: "done" }], "states"],
    [method, [{ states: ["x"] }], "states.0"],
  ]),
  ["list", [{ queue: 5 }], "queue"],
  ["list", [{ kind: 5 }], "kind"],
  ["leases", [{ renewedOnly: 1 }], "renewedOnly"],
  ["work", [], "handlers"],
  ["work", [mail.handle(work)], "handlers"],
  ["work", [[]], "handlers"],
  ["work", [[undefined]], "handlers.0"],
  ["work", [[mail]], "handlers.0"],
  ["work", [[{ run: work }]], "handlers.0"],
  ...wrongOptions("work", [mail.handle(work)]),
  ["work", [[mail.handle(work)], { concurrency: "4" }], "concurrency"],
  ["work", [[mail.handle(work)], { queues: "default" }], "queues"],
  ["work", [[mail.handle(work)], { queues: [] }], "queues"],
  ["work", [[mail.handle(work)], { queues: [5] }], "queues.0"],
  ["work", [[mail.handle(work)], { ttlMs: "30s" }], "ttlMs"],
  ["work", [[mail.handle(work)], { graceMs: "5s" }], "graceMs"],
];

const FUNCTIONS: readonly Wrong[] = [
  ["defineTask", [], "kind"],
  ["defineTask", [5], "kind"],
  ...wrongOptions("defineTask", "mail"),
  ["defineTask", ["mail", { schema: "x" }], "schema"],
  ["defineTask", ["mail", { schema: 5 }], "schema"],
  ["defineTask", ["mail", { priority: "high" }], "priority"],
  ...wrongOptions("connect", "memory:"),
  ["connect", ["memory:", { namespace: 5 }], "namespace"],
  ["connect", ["memory:", { namespace: " " }], "namespace"],
  ["connect", ["memory:", { namespace: "\u00a0 " }], "namespace"],
  ["connect", ["memory:", { holder: 5 }], "holder"],
  ["connect", ["memory:", { logger: "x" }], "logger"],
  ["connect", ["memory:", { logger: {} }], "logger"],
  ["connect", ["memory:", { logger: { warn: work, error: work } }], "logger"],
  ["connect", ["memory:", { env: { logger: {} } }], "env.logger"],
  ["connect", ["memory:", { env: { telemetry: {} } }], "env.telemetry"],
  ["connect", ["memory:", { env: "x" }], "env"],
  ["connect", ["memory:", { defaults: "x" }], "defaults"],
  ["connect", ["memory:", { defaults: { ttlMs: "x" } }], "ttlMs"],
  ["connect", ["memory:", { graceMs: "x" }], "graceMs"],
  ["connect", ["memory:", { unfenced: "yes" }], "unfenced"],
  ["connect", ["memory:", { connectTimeoutMs: "x" }], "connectTimeoutMs"],
  ["connect", ["memory:", { closeOnSignals: "x" }], "closeOnSignals"],
  ...wrongOptions("openStores", "memory:"),
  ["openStores", ["memory:", { connectTimeoutMs: "x" }], "connectTimeoutMs"],
  ["openStores", ["memory:", { logger: { log: work } }], "logger"],
  ...wrongOptions("migrate", "memory:"),
  ["migrate", ["memory:", { logger: {} }], "logger"],
  ...["postgres", "pglite", "redis", "http", "etcd", "kubernetes", "zookeeper", "consul"].flatMap(
    (method): Wrong[] => [
      [method, [], "options"],
      [method, [null], "options"],
      [method, ["postgres://localhost"], "options"],
    ],
  ),
  ["memory", ["x"], "options"],
  ["memory", [{ name: 5 }], "name"],
  ["postgres", [{}], "url"],
  ["postgres", [{ url: undefined }], "url"],
  ["postgres", [{ pool: undefined }], "pool"],
  ["postgres", [{ pool: "x" }], "pool"],
  ["pglite", [{}], "directory"],
  ["pglite", [{ directory: 5 }], "directory"],
  ["pglite", [{ db: undefined }], "db"],
  ["redis", [{}], "url"],
  ["redis", [{ url: undefined }], "url"],
  ["redis", [{ client: undefined }], "client"],
  ["redis", [{ client: { isOpen: true, sendCommand: work } }], "client"],
  ["http", [{}], "url"],
  ["etcd", [{}], "url"],
  ["etcd", [{ url: 5 }], "url"],
  ["kubernetes", [{ namespace: 5 }], "namespace"],
  ["consul", [{}], "url"],
  ["zookeeper", [{}], "servers"],
  ["zookeeper", [{ servers: "a" }], "servers"],
];
const PUBLIC = {
  connect,
  consul,
  defineTask,
  etcd,
  http,
  kubernetes,
  memory,
  migrate,
  openStores,
  pglite,
  postgres,
  redis,
  zookeeper,
};

/** `acquire ["r",{"ttlMs":"10s"}]` */
function titled(rows: readonly Wrong[]): (readonly [title: string, row: Wrong])[] {
  return rows.map((row) => {
    const shown = (_: string, value: unknown) => {
      if (typeof value === "function") return "function";
      return value === undefined ? "undefined" : value;
    };
    return [`${row[0]} ${JSON.stringify(row[1], shown)} for ${row[2]}`, row];
  });
}

describe("a wrong argument", () => {
  it.each(titled(LEASEHOLD))("is refused by leasehold.%s", async (_, row) => {
    await refuses(await client(), row);
  });

  it.each(titled(ELECTOR))("is refused by elector.%s", async (_, row) => {
    await refuses((await client()).elector("e"), row);
  });

  it.each(titled(LEASE))("is refused by a lease's %s", async (_, row) => {
    const leasehold = await client();
    const lease = await leasehold.acquire("r");
    await refuses(lease, row);
    await refuses(leasehold.reusableLease("r"), row);
    // The client would wait for it when it closes.
    await lease.release();
  });

  it.each(titled(TASKS))("is refused by tasks.%s", async (_, row) => {
    await refuses((await client()).tasks, row);
  });

  it.each(titled(FUNCTIONS))("is refused by %s", async (_, row) => {
    await refuses(PUBLIC, row);
  });

  it.each([{}, { handler: "work" }, { handler: { run: work } }])(
    "is refused by definition.handle: %j",
    async ({ handler }: { handler?: unknown }) => {
      await refuses(mail, ["handle", [handler], "handler"]);
    },
  );

  it("of a method that returns a promise rejects the promise, and throws nothing", async () => {
    const leasehold = await client();
    const elector = leasehold.elector("e");
    const calls: [object, string][] = [
      ...["run", "tryRun", "acquire", "tryAcquire", "acquireAll", "get", "revoke"].map(
        (name): [object, string] => [leasehold, name],
      ),
      ...["lead", "runIfLeader"].map((name): [object, string] => [elector, name]),
      ...["enqueue", "enqueueAll", "get", "cancel", "retry"].map((name): [object, string] => [
        leasehold.tasks,
        name,
      ]),
      ...["connect", "openStores", "migrate"].map((name): [object, string] => [PUBLIC, name]),
    ];
    for (const [target, name] of calls) {
      const promise = loose(target, name)(undefined, null);
      expect(promise, name).toBeInstanceOf(Promise);
      await expect(promise, name).rejects.toMatchObject({ code: "INVALID_OPTION" });
    }
  });
});

describe("a wrong source", () => {
  class Pool extends EventEmitter {
    readonly totalCount = 0;
    readonly options = {};
    connect() {}
    query() {}
    end() {}
  }
  class Client extends EventEmitter {
    connect() {}
    query() {}
    end() {}
  }
  const ioredis = { status: "ready", options: {}, duplicate() {}, call() {}, connect() {} };
  const nodeRedis = { isOpen: true, sendCommand() {}, duplicate() {}, connect() {} };
  const db = { waitReady: Promise.resolve(), query() {}, exec() {}, transaction() {}, listen() {} };
  const rows: readonly [what: string, source: unknown, message: RegExp][] = [
    ["undefined", undefined, /got undefined: is DATABASE_URL set\?/],
    ["null", null, /got null: is DATABASE_URL set\?/],
    ["an empty string", "", /got an empty string: is DATABASE_URL set\?/],
    ["a number", 5432, /got the number 5432: pass a URL, such as "postgres:\/\/localhost\/app"/],
    ["a Pool of pg", new Pool(), /got a Pool of pg: wrap it: postgres\(\{ pool \}\)/],
    ["a Client of pg", new Client(), /got a Client of pg: .*postgres\(\{ pool: new pg\.Pool/],
    ["an ioredis client", ioredis, /got an ioredis client: wrap it: redis\(\{ client \}\)/],
    ["a node-redis client", nodeRedis, /got a client of node-redis: .*redis\(\{ url \}\)/],
    ["a PGlite", db, /got a PGlite: wrap it: pglite\(\{ db \}\)/],
    ["a promise of a store", Promise.resolve(memory()), /got a promise: await it/],
    ["a function", memory, /got a function: call it/],
    ["an object without open", { url: "redis://localhost" }, /got an object without open\(\)/],
    ["an object with another open", { open: true }, /got an object without open\(\)/],
    ["an array", ["memory:"], /got an array: pass a URL/],
    ["a Date", new Date(0), /got an object without open\(\)/],
    ["a URL without a scheme", "localhost:5432/app", /must begin with one of memory:, http:/],
    ["a URL of another database", new URL("mysql://localhost"), /must begin with one of/],
  ];
  const calls = {
    source: [
      (source: unknown) => loose(PUBLIC, "connect")(source),
      (source: unknown) => loose(PUBLIC, "openStores")(source),
      (source: unknown) => loose(PUBLIC, "migrate")(source),
    ],
    tasks: [(source: unknown) => loose(PUBLIC, "connect")("memory:", { tasks: source })],
    control: [(source: unknown) => loose(PUBLIC, "openStores")("memory:", { control: source })],
  };

  it.each(rows)("%s is refused with what to pass instead", async (_, source, message) => {
    for (const [path, ways] of Object.entries(calls)) {
      // Left out: the source keeps tasks and the rest itself.
      if (source === undefined && path !== "source") continue;
      for (const call of ways) {
        const error = await refusal(() => call(source));
        expect(error).toBeInstanceOf(InvalidOptionError);
        expect(error).toMatchObject({ path, message: expect.stringMatching(message) });
        expect((error as Error).message.slice(0, path.length + 1)).toBe(`${path} `);
      }
    }
  });

  it("a client is refused, because it is not a store", async () => {
    const leasehold = await client();
    for (const call of calls.source) {
      expect(await refusal(() => call(leasehold))).toMatchObject({
        path: "source",
        message: expect.stringMatching(/got a client of Leasehold: pass the source/),
      });
    }
  });

  it("opened stores are refused by connect, which takes the leases among them", async () => {
    const stores = await openStores("memory:");
    onTestFinished(() => stores.close());
    expect(await refusal(() => loose(PUBLIC, "connect")(stores))).toMatchObject({
      path: "source",
      message: expect.stringMatching(/got opened stores: pass their leases/),
    });
  });
});
