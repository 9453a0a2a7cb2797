/**
 * The HTTP client under network and server faults: answers are lost after the server has acted,
 * requests arrive twice, servers die and come back. The tests read the effect from the store behind
 * the server.
 * @module-tag safety
 */
import { describe, expect, it } from "vitest";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { describePostgres } from "../support/engines/postgres.js";
import { atOnce, type Fault, lost, refused, twice } from "../support/faults/fault-proxy.js";
import {
  claim,
  claimRequest,
  detailsOf,
  grantOf,
  hold,
  httpWorlds,
  namespace,
  newTask,
  openWorld,
  requestOf,
  TTL_MS,
  taskGrantOf,
  viewOf,
  type World,
} from "../support/faults/http-world.js";

httpWorlds();

/** Each changes something through the client, and checks that the store shows one change. */
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
      state: "running",
      attempts: [{ token: grant.token }],
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
      failures: 1,
      attempts: 1,
      state: "pending",
    });
  },
  async requeue(world, fault) {
    const grant = await claim(world);
    fault();
    expect(await world.client.tasks.requeue([grant])).toMatchObject([{ status: "returned" }]);
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
