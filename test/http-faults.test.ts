/**
 * The HTTP client against what networks and servers do: answers that are lost after the server has
 * acted, requests that arrive twice, servers that die and come back. What was done is read from the
 * store behind the server.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../src/env/index.js";
import { connect } from "../src/index.js";
import type { AcquireRequest, Grant, LeaseView } from "../src/lease/index.js";
import { createApp, listen } from "../src/server/index.js";
import { http } from "../src/stores/http/index.js";
import { memory } from "../src/stores/memory/index.js";
import { openPostgres } from "../src/stores/postgres/index.js";
import type { Stores } from "../src/stores/source.js";
import { DEFAULTS } from "../src/tasks/index.js";
import type { ClaimedTask, NewTask, TaskDetails, TaskGrant } from "../src/tasks/port.js";
import { only } from "../src/testing/calls.js";
import { LeaseWatching } from "../src/testing/lease-suite/fixture.js";
import { until as waitUntil } from "../src/testing/waiting.js";
import { Cli, checkBuild, endAll } from "./support/cli.js";
import { compile } from "./support/compile.js";
import {
  atOnce,
  type Fault,
  type FaultProxy,
  lost,
  openFaultProxy,
  refused,
  twice,
} from "./support/fault-proxy.js";
import { describePostgres, freePort, freshDatabase } from "./support/postgres.js";
import { TEST_LIMITS } from "./support/test-limits.js";

/** Fresh in each test, so that they may share a database. */
let namespace = "";
beforeEach(() => {
  namespace = `faults-${newLeaseId(systemRandom)}`;
});
const TTL_MS = 60_000;
const until = (what: string, isTrue: () => boolean | Promise<boolean>) =>
  waitUntil(expect, what, isTrue);

const closing: (() => Promise<unknown>)[] = [];
const later = <T extends { close(): Promise<unknown> }>(opened: T): T => {
  closing.unshift(() => opened.close());
  return opened;
};
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await endAll();
});

interface World {
  /** What the server works with. */
  readonly behind: Stores;
  readonly proxy: FaultProxy;
  /** Through the proxy. */
  readonly client: Stores;
}

let database: { readonly url: string; drop(): Promise<void> } | undefined;
afterAll(() => database?.drop());

const ENGINES = {
  memory: () => memory().open(systemEnv),
  async PostgreSQL() {
    database ??= await freshDatabase();
    return openPostgres({ url: database.url }, systemEnv);
  },
};

async function openWorld(engine: keyof typeof ENGINES): Promise<World> {
  const behind = later(await ENGINES[engine]());
  const app = createApp({ ...behind, namespace, version: "test", limits: TEST_LIMITS });
  const server = later(await listen({ app, port: 0 }));
  return { behind, ...(await openProxied(server.port)) };
}

async function openProxied(port: number): Promise<Pick<World, "proxy" | "client">> {
  const proxy = later(await openFaultProxy(port));
  return { proxy, client: later(await http({ url: proxy.url, namespace }).open(systemEnv)) };
}

function requestOf(resource: string): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  return { namespace, resource, leaseId, holder: "holder", ttlMs: TTL_MS };
}
function grantOf({ namespace, resource, leaseId }: Grant): Grant {
  return { namespace, resource, leaseId };
}
async function hold({ behind }: Pick<World, "behind">, resource = "r") {
  const request = requestOf(resource);
  const outcome = only(await behind.leases.acquire([request]));
  if (outcome.status !== "acquired") throw new Error(outcome.status);
  return { ...request, token: outcome.token };
}
async function viewOf({ behind }: Pick<World, "behind">, resource = "r"): Promise<LeaseView> {
  const { items } = await behind.leases.list({ namespace });
  expect(items).toHaveLength(1);
  const view = only(await behind.leases.get([{ namespace, resource }]));
  if (!view) throw new Error("there is such a lease");
  return view;
}

const newTask = (task: Partial<NewTask> = {}): NewTask => ({
  ...{ ...DEFAULTS, namespace, id: newTaskId(), kind: "k", data: { n: 1 } },
  ...{ scheduledAt: null, dedupeKey: null, ...task },
});
let tasksMade = 0;
function newTaskId(): string {
  tasksMade += 1;
  return `01890000-0000-7000-8000-${String(tasksMade).padStart(12, "0")}`;
}
const claimRequest = () => ({
  ...{ namespace, claimId: newLeaseId(systemRandom), holder: "holder" },
  ...{ queues: ["default"], kinds: null, limit: 2, ttlMs: TTL_MS },
});
async function claim(world: Pick<World, "behind">): Promise<TaskGrant> {
  await world.behind.tasks.enqueue([newTask()]);
  const outcome = await world.behind.tasks.claim(claimRequest());
  if (outcome.status !== "claimed") throw outcome.error;
  return taskGrantOf(only(outcome.tasks));
}
function taskGrantOf({ id, leaseId, token }: ClaimedTask): TaskGrant {
  return { namespace, id, leaseId, token };
}
async function detailsOf({ behind }: World, id: string): Promise<TaskDetails> {
  const details = await behind.tasks.get({ namespace, id });
  if (!details) throw new Error("there is such a task");
  return details;
}

/** Each changes something through the client, once as far as anybody can tell. */
const CALLS: Readonly<Record<string, (world: World, fault: () => void) => Promise<void>>> = {
  async acquire(world, fault) {
    const request = requestOf("r");
    fault();
    const outcome = only(await world.client.leases.acquire([request]));
    const view = await viewOf(world);
    expect(outcome).toMatchObject({ status: "acquired", token: view.token });
    expect(view).toMatchObject({ grantId: grantIdOf(request.leaseId), state: "live" });
    // The first grant of the resource, and no second one: the next token shows it in memory.
    await world.behind.leases.release([request]);
    expect((await hold(world)).token).toBeGreaterThan(view.token);
    if (view.token < 10) expect(view.token).toBe(1);
  },
  async renew(world, fault) {
    const held = await hold(world);
    fault();
    const outcome = only(await world.client.leases.renew([{ ...grantOf(held), ttlMs: TTL_MS }]));
    expect(outcome).toMatchObject({ status: "renewed", token: held.token, ttlMs: TTL_MS });
    const { renewedAt, ...view } = await viewOf(world);
    expect(view).toMatchObject({ state: "live", token: held.token });
    expect(renewedAt).not.toBeNull();
  },
  async release(world, fault) {
    const held = await hold(world);
    fault();
    expect(await world.client.leases.release([grantOf(held)])).toEqual([{ status: "released" }]);
    expect(await viewOf(world)).toMatchObject({ state: "released", token: held.token });
  },
  async enqueue(world, fault) {
    const task = newTask();
    fault();
    expect(await world.client.tasks.enqueue([task])).toEqual([{ status: "enqueued", id: task.id }]);
    const { items } = await world.behind.tasks.list({ namespace });
    expect(items.map(({ id }) => id)).toEqual([task.id]);
  },
  async "enqueue with a dedupeKey"(world, fault) {
    const task = newTask({ dedupeKey: "once" });
    fault();
    expect(await world.client.tasks.enqueue([task])).toEqual([{ status: "enqueued", id: task.id }]);
    const { items } = await world.behind.tasks.list({ namespace });
    expect(items.map(({ id }) => id)).toEqual([task.id]);
  },
  async claim(world, fault) {
    const added = Array.from({ length: 5 }, () => newTask());
    await world.behind.tasks.enqueue(added);
    fault();
    const outcome = await world.client.tasks.claim(claimRequest());
    if (outcome.status !== "claimed") throw outcome.error;
    expect(outcome.tasks.map(({ id }) => id)).toEqual(added.slice(0, 2).map(({ id }) => id));
    expect(await world.behind.tasks.counts(namespace)).toMatchObject({ running: 2, pending: 3 });
    const grants = outcome.tasks.map((task) => ({ ...taskGrantOf(task), ttlMs: TTL_MS }));
    const beats = await world.behind.tasks.heartbeat(grants);
    expect(beats.map(({ status }) => status)).toEqual(["renewed", "renewed"]);
    for (const { id, attempt } of outcome.tasks) {
      expect(attempt).toBe(1);
      expect((await detailsOf(world, id)).attempts).toHaveLength(1);
    }
  },
  async heartbeat(world, fault) {
    const grant = await claim(world);
    fault();
    const beat = { ...grant, ttlMs: 2 * TTL_MS, progress: { percent: 50 } };
    const outcome = only(await world.client.tasks.heartbeat([beat]));
    expect(outcome).toMatchObject({ status: "renewed", ttlMs: 2 * TTL_MS });
    expect(await detailsOf(world, grant.id)).toMatchObject({
      ...{ state: "running", attempts: [{ token: grant.token }] },
    });
  },
  async complete(world, fault) {
    const grant = await claim(world);
    fault();
    const outcome = only(await world.client.tasks.complete([{ ...grant, output: { sum: 3 } }]));
    expect(outcome).toMatchObject({ status: "completed", output: { sum: 3 } });
    expect(await detailsOf(world, grant.id)).toMatchObject({ state: "done", output: { sum: 3 } });
  },
  async fail(world, fault) {
    const grant = await claim(world);
    fault();
    const failure = { ...grant, error: "no disk", retryInMs: 3_600_000 };
    const outcome = only(await world.client.tasks.fail([failure]));
    if (outcome.status !== "recorded") throw new Error(outcome.status);
    expect(outcome.state).toBe("pending");
    expect(outcome.retryInMs).toBeGreaterThan(3_500_000);
    expect(outcome.retryInMs).toBeLessThanOrEqual(3_600_000);
    const { failures, attempts, state } = await detailsOf(world, grant.id);
    expect({ failures, attempts: attempts.length, state }).toEqual({
      ...{ failures: 1, attempts: 1, state: "pending" },
    });
  },
  async giveBack(world, fault) {
    const grant = await claim(world);
    fault();
    expect(await world.client.tasks.giveBack([grant])).toEqual([{ status: "returned" }]);
    const { failures, crashes, state } = await detailsOf(world, grant.id);
    expect({ failures, crashes, state }).toEqual({ failures: 0, crashes: 0, state: "pending" });
  },
};

const FAULTS: readonly (readonly [name: string, faults: readonly Fault[], requests: number])[] = [
  ["whose answer is lost", [lost], 2],
  ["whose answer is lost three times", [lost, lost, lost], 4],
  ["that arrives twice", [twice], 1],
  ["that arrives twice at the same time", [atOnce], 1],
  ["whose repetition arrives twice", [lost, atOnce], 2],
];

for (const engine of ["memory", "PostgreSQL"] as const) {
  const describeEngine = engine === "memory" ? describe : describePostgres;
  describeEngine(`over ${engine}`, () => {
    describe.each(FAULTS)("a request %s", (_, faults, requests) => {
      it.each(Object.entries(CALLS))("does the same as one: %s", async (_, call) => {
        const world = await openWorld(engine);
        let before = 0;
        await call(world, () => {
          before = world.proxy.seen.length;
          world.proxy.next(...faults);
        });
        const seen = world.proxy.seen.slice(before);
        expect(seen).toHaveLength(requests);
        expect(new Set(seen.map(({ path, body }) => `${path} ${body}`)).size).toBe(1);
        const budgets = seen.map(({ budgetMs }) => budgetMs ?? Number.NaN);
        expect(budgets).toEqual([...budgets].sort((a, b) => b - a));
        expect(new Set(budgets).size, "each try says what is left").toBe(requests);
      });
    });

    it("a revocation whose answer is lost is not repeated", async () => {
      const world = await openWorld(engine);
      const { token } = await hold(world);
      const before = world.proxy.seen.length;
      world.proxy.next(lost);
      const revoke = { namespace, resource: "r", free: "now" } as const;
      expect(await world.client.leases.revoke([revoke])).toMatchObject([
        { status: "failed", applied: "maybe", retryable: true },
      ]);
      expect(world.proxy.seen.length - before).toBe(1);
      expect(await viewOf(world)).toMatchObject({ state: "revoked", token });
      const next = await hold(world);
      world.proxy.next(twice);
      const expected = { ...revoke, expectedToken: token };
      expect(await world.client.leases.revoke([expected])).toEqual([{ status: "otherToken" }]);
      expect(await viewOf(world)).toMatchObject({ state: "live", token: next.token });
    });
  });
}

describe("a request that arrives again much later", () => {
  /** What the next request did, done again when the test says so. */
  function repeatable({ proxy }: World): () => Promise<void> {
    let again = async () => {};
    proxy.next(async ({ forward, answer }) => {
      answer(await forward());
      again = async () => void (await forward());
    });
    return () => again();
  }

  it("does not bring back a lease that has ended, nor end another one", async () => {
    const world = await openWorld("memory");
    const { leases } = world.client;
    const request = requestOf("r");
    const acquireAgain = repeatable(world);
    await leases.acquire([request]);
    const releaseAgain = repeatable(world);
    await leases.release([grantOf(request)]);
    const ended = await viewOf(world);
    await acquireAgain();
    expect(await viewOf(world)).toEqual(ended);
    const next = await hold(world);
    await releaseAgain();
    await acquireAgain();
    expect(await viewOf(world)).toMatchObject({ state: "live", token: next.token });
  });

  it("adds no task again, takes no other one, and starts none over", async () => {
    const world = await openWorld("memory");
    const { tasks } = world.client;
    const added = [newTask(), newTask()];
    const enqueueAgain = repeatable(world);
    await tasks.enqueue(added);
    const claimAgain = repeatable(world);
    const claimed = await tasks.claim({ ...claimRequest(), limit: 1 });
    if (claimed.status !== "claimed") throw claimed.error;
    const grant = taskGrantOf(only(claimed.tasks));
    const beatAgain = repeatable(world);
    await tasks.heartbeat([{ ...grant, ttlMs: TTL_MS }]);
    await tasks.complete([{ ...grant, output: 1 }]);
    const done = await detailsOf(world, grant.id);
    for (const again of [enqueueAgain, claimAgain, beatAgain]) await again();
    expect(await detailsOf(world, grant.id)).toEqual(done);
    const counts = await world.behind.tasks.counts(namespace);
    expect(counts).toMatchObject({ pending: 1, running: 0, done: 1 });
  });
});

describe("a server that cannot serve just now", () => {
  it("is asked again when it wishes, with what is left of the time", async () => {
    const { client, proxy } = await openWorld("memory");
    proxy.next(refused(503, { "retry-after": "1" }), refused(429));
    const before = proxy.seen.length;
    const startMs = systemEnv.clock.monotonic();
    const request = requestOf("r");
    const outcomes = await client.leases.acquire([request], { timeoutMs: 20_000 });
    expect(outcomes).toMatchObject([{ status: "acquired", token: 1 }]);
    expect(systemEnv.clock.monotonic() - startMs).toBeGreaterThanOrEqual(1_000);
    const [first = 0, second = 0, third = 0] = proxy.seen
      .slice(before)
      .map(({ budgetMs }) => budgetMs ?? Number.NaN);
    expect(first).toBeLessThanOrEqual(20_000);
    expect(second).toBeLessThanOrEqual(first - 1_000);
    expect(third).toBeLessThan(second);
  });
});

describe("a watch", () => {
  const resync = { type: "resync" };
  const changed = (resource: string) => ({
    ...{ type: "changed", namespace, resource },
    wakes: expect.any(String),
  });

  /** Somebody waits for the resource, which is released: whoever watches is told. */
  async function release(world: Pick<World, "behind">, resource: string): Promise<void> {
    const held = await hold(world, resource);
    const waiter = { ...requestOf(resource), queueMs: 60_000 };
    await world.behind.leases.acquire([waiter]);
    await world.behind.leases.release([grantOf(held)]);
  }

  it("goes on where its stream was cut, with what was told meanwhile", async () => {
    const world = await openWorld("memory");
    const { client, proxy } = world;
    const watching = new LeaseWatching(client.leases, namespace);
    await until("the first event", () => watching.events.length > 0);
    const expected: object[] = [resync];
    for (const round of ["a", "b", "c"]) {
      await release(world, `before ${round}`);
      await until("the hint", () => watching.events.length > expected.length);
      expect(proxy.cutStreams()).toBe(1);
      await release(world, `meanwhile ${round}`);
      expected.push(changed(`before ${round}`), changed(`meanwhile ${round}`));
      await until("the missed hint", () => watching.events.length >= expected.length);
      expect(watching.events).toEqual(expected);
    }
    const ids = proxy.seen.map(({ lastEventId }) => lastEventId).filter((id) => id !== null);
    expect(ids).toHaveLength(3);
    await watching.stop();
    await until("the stream has ended", () => proxy.cutStreams() === 0);
  });

  it("reads again after it has come to another server", async () => {
    const behind = later(await memory().open(systemEnv));
    const open = async (port: number) => {
      const app = createApp({ ...behind, namespace, version: "test", limits: TEST_LIMITS });
      return listen({ app, port, graceMs: 60_000 });
    };
    const first = await open(0);
    const { client, proxy } = await openProxied(first.port);
    const watching = new LeaseWatching(client.leases, namespace);
    await until("the first event", () => watching.events.length > 0);
    await first.close();
    await release({ behind }, "meanwhile");
    later(await open(first.port));
    await until("a second resync", () => watching.events.length > 1);
    await release({ behind }, "after");
    await until("a hint", () => watching.events.length > 2);
    expect(watching.events).toEqual([resync, resync, changed("after")]);
    expect(proxy.seen.at(-1)?.lastEventId).not.toBeNull();
    await watching.stop();
  });

  it("tells of tasks too, and ends for its client alone", async () => {
    const { behind, client, proxy } = await openWorld("memory");
    const events: unknown[] = [];
    const ending = new AbortController();
    const following = (async () => {
      const { signal } = ending;
      for await (const event of client.tasks.watch(namespace, { signal })) events.push(event);
    })();
    await until("the first event", () => events.length > 0);
    await behind.tasks.enqueue([newTask({ queue: "q" })]);
    await until("the hint", () => events.length > 1);
    expect(events).toEqual([resync, { type: "ready", queue: "q" }]);
    await client.close();
    await following;
    await until("the stream has ended", () => proxy.cutStreams() === 0);
  });

  it("wakes who waits for a lease, though its streams are cut all the time", async () => {
    const world = await openWorld("memory");
    const held = await hold(world, "contended");
    const leases = later(await connect(http({ url: world.proxy.url, namespace }), { namespace }));
    const waiting = leases.acquire("contended", { ttlMs: TTL_MS });
    for (let cuts = 0; cuts < 5; ) cuts += await cutOne(world.proxy);
    await world.behind.leases.release([grantOf(held)]);
    const lease = await waiting;
    expect(lease.token).toBeGreaterThan(held.token);
    await lease.release();
    await until("nobody waits, nobody listens", () => world.proxy.cutStreams() === 0);
  });

  it("keeps no process alive in which nobody waits any more", async () => {
    namespace = "default";
    const { proxy } = await openWorld("memory");
    const source = new URL("support/wait-and-idle.ts", import.meta.url);
    const program = await compile(source);
    try {
      const ended = await promisify(execFile)(process.execPath, [program.path, proxy.url]);
      expect(ended.stdout).toBe("released\n");
    } finally {
      await program.remove();
    }
    expect(proxy.seen.filter(({ path }) => path === "/v1/events?of=leases")).not.toEqual([]);
  });

  async function cutOne(proxy: FaultProxy): Promise<number> {
    let cut = 0;
    await until("a stream", () => {
      cut = proxy.cutStreams();
      return cut > 0;
    });
    return cut;
  }
});

describePostgres("a server that is killed", () => {
  beforeAll(checkBuild);
  const PATIENT = { timeoutMs: 25_000 };

  beforeEach(() => {
    namespace = "default";
  });

  async function openServed() {
    const { url, drop } = await freshDatabase();
    closing.unshift(drop);
    const behind = later(await openPostgres({ url }, systemEnv));
    const port = await freePort();
    const start = async () => {
      const cli = new Cli(["serve", "--store", url, "--port", String(port)]);
      await cli.until(({ err }) => err.some((line) => line.includes("listening on")));
      return cli;
    };
    return { behind, port, start, server: await start() };
  }

  it("and started again between two calls is the same to its clients", async () => {
    const { behind, port, start, server } = await openServed();
    const client = later(await http({ url: `http://127.0.0.1:${port}` }).open(systemEnv));
    const request = requestOf("r");
    const first = only(await client.leases.acquire([request]));
    if (first.status !== "acquired") throw new Error(first.status);
    await behind.tasks.enqueue([newTask(), newTask()]);
    const claiming = claimRequest();
    const claimed = await client.tasks.claim({ ...claiming, limit: 1 });
    await server.end("SIGKILL");

    const renewing = client.leases.renew([{ ...grantOf(request), ttlMs: TTL_MS }], PATIENT);
    const again = client.leases.acquire([request], PATIENT);
    const claimedAgain = client.tasks.claim({ ...claiming, limit: 1 }, PATIENT);
    await start();
    expect(await renewing).toMatchObject([{ status: "renewed", token: first.token }]);
    expect(await again).toMatchObject([{ status: "acquired", token: first.token }]);
    expect(await viewOf({ behind })).toMatchObject({ token: first.token, state: "live" });
    const { status, tasks } = (await claimedAgain) as Extract<typeof claimed, { tasks: unknown }>;
    expect(status).toBe("claimed");
    const before = (claimed as { tasks: readonly ClaimedTask[] }).tasks;
    expect(tasks.map(taskGrantOf)).toEqual(before.map(taskGrantOf));
    expect(await behind.tasks.counts(namespace)).toMatchObject({ running: 1, pending: 1 });
    expect(await client.leases.release([grantOf(request)])).toEqual([{ status: "released" }]);
  });

  it("in the middle of a call, after it has acted, has acted once", async () => {
    const { behind, port, start, server } = await openServed();
    const { client, proxy } = await openProxied(port);
    const before = proxy.seen.length;
    proxy.next(async ({ forward, cut }) => {
      await forward();
      await server.end("SIGKILL");
      cut();
    });
    const request = requestOf("r");
    const acquiring = client.leases.acquire([request], PATIENT);
    await until("the client has tried again", () => proxy.seen.length > before + 2);
    await start();
    const view = await viewOf({ behind });
    expect(await acquiring).toMatchObject([{ status: "acquired", token: view.token }]);
    expect(view.grantId).toBe(grantIdOf(request.leaseId));
    const budgets = proxy.seen.slice(before).map(({ budgetMs }) => budgetMs ?? Number.NaN);
    expect(budgets[0]).toBeLessThanOrEqual(PATIENT.timeoutMs);
    for (const [index, budget] of budgets.slice(1).entries()) {
      expect(budget).toBeLessThan(budgets[index] ?? 0);
    }
  });

  it("while a claim waits in it, does not end the wait", async () => {
    const { behind, port, start, server } = await openServed();
    const { client, proxy } = await openProxied(port);
    const before = proxy.seen.length;
    const request = { ...claimRequest(), waitMs: 25_000 };
    const waiting = client.tasks.claim(request, { timeoutMs: 30_000 });
    await until("it waits", () => proxy.seen.length > before);
    await server.end("SIGKILL");
    await start();
    const task = newTask();
    await behind.tasks.enqueue([task]);
    expect(await waiting).toMatchObject({
      status: "claimed",
      tasks: [{ id: task.id, attempt: 1 }],
    });
    expect(await behind.tasks.counts(namespace)).toMatchObject({ running: 1, pending: 0 });
  });
});
