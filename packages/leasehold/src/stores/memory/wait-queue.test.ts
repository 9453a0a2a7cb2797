/** That a queue position costs the same however many waiters there are, and is the one that the rules state. */
import { expect, it } from "vitest";
import { grantIdOf } from "../../env/index.js";
import { acquireInTurn, LeaseClient, type QueuedWaiter } from "../../lease/index.js";
import { manualEnv, seededRandom } from "../../testing/index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "./store.js";

const KEY = { namespace: "n", resource: "r" };
const request = (leaseId: string, queueMs = 10_000) => ({
  ...KEY,
  leaseId,
  holder: `holder of ${leaseId}`,
  ttlMs: 3_600_000,
  queueMs,
});

const NO_CHANGE = {
  ...KEY,
  version: null,
  record: null,
  changesGrant: false,
  joins: [],
  served: null,
  withdrawn: [],
  wakes: false,
};

it("decides beside many waiters without looking at all of them", async () => {
  let reads = 0;
  const state = new MemoryLeaseState(manualEnv().clock);
  const store = new MemoryLeaseStore(state);
  await store.acquire([request("held")]);
  for (let number = 0; number < 5_000; number += 1) {
    const waiter = {
      holder: "w",
      get leaseId() {
        reads += 1;
        return `waiter ${number}`;
      },
      get expiresAtMs() {
        reads += 1;
        return 5_000;
      },
    };
    state.namespace("n").waitQueue.save({ ...NO_CHANGE, joins: [waiter] });
  }
  reads = 0;
  const names = Array.from({ length: 50 }, (_, number) => `new ${number}`);
  const outcomes = await store.acquire(names.map((name) => request(name)));
  expect(outcomes.map((outcome) => outcome.status === "held" && outcome.ahead)).toEqual(
    names.map((_, number) => 5_000 + number),
  );
  expect(await store.acquire([request("waiter 4321")])).toMatchObject([{ ahead: 4_321 }]);
  expect(await store.release(names.map((name) => request(name)))).toMatchObject(
    names.map(() => ({ status: "notHeld" })),
  );
  expect(await store.acquire([request("last")])).toMatchObject([{ ahead: 5_000 }]);
  expect(reads).toBeLessThan(5_000);
});

it("answers and orders the waiters as the rules for lists of waiters do", async () => {
  const random = seededRandom(5);
  const below = (most: number) => Math.floor(random.float() * most);
  const env = manualEnv();
  const state = new MemoryLeaseState(env.clock);
  const store = new MemoryLeaseStore(state);
  const { records, waitQueue } = state.namespace("n");
  let model: readonly QueuedWaiter[] = [];
  const seen = new Set<string>();
  for (let step = 0; step < 3_000; step += 1) {
    await env.clock.advance(below(100));
    const leaseId = `${Math.floor(step / 100)} ${below(20)}`;
    const nowMs = env.clock.monotonic();
    if (below(10) === 0) {
      const [released] = await store.release([{ ...KEY, leaseId }]);
      if (released?.status !== "released") {
        model = model.filter((waiter) => waiter.leaseId !== leaseId);
      }
      continue;
    }
    const asked = { ...request(leaseId, below(4) * 700), ttlMs: 400 };
    const isPaused = below(20) === 0;
    store.setPaused(KEY, isPaused);
    const record = records.get("r") ?? null;
    const expected = acquireInTurn(record, model, asked, nowMs, (last) => last + 1, isPaused);
    const [outcome] = await store.acquire([asked]);
    expect(outcome).toMatchObject(expected.outcome);
    model = expected.waiters;
    expect(waitQueue.waiters("r", nowMs)).toEqual(model);
    seen.add(outcome?.status ?? "");
  }
  expect([...seen].sort()).toEqual(["acquired", "ended", "held"]);
});

it("wakes the next waiter when one withdraws that only expired ones are ahead of", async () => {
  const env = manualEnv();
  const store = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  await store.acquire([request("held", 0)]);
  await store.acquire([request("dead", 300), request("first"), request("second")]);
  await store.release([request("held")]);
  await env.clock.advance(400);
  const signal = new AbortController();
  const events = store.watch("n", { signal: signal.signal });
  expect(await events.next()).toMatchObject({ value: { type: "resync" } });
  expect(await store.release([request("first")])).toEqual([{ status: "notHeld" }]);
  const next = events.next();
  await env.clock.settle();
  signal.abort();
  expect(await next).toMatchObject({ value: { type: "changed", wakes: grantIdOf("second") } });
});

it("grants a resource to its waiter at the end of a pause, without a poll", async () => {
  const env = manualEnv();
  const store = new MemoryLeaseStore(new MemoryLeaseState(env.clock));
  const leases = new LeaseClient(store, { env, namespace: "n", holder: "a" }, { close: undefined });
  store.setPaused(KEY, true);
  let token = 0;
  const waiting = leases.acquire("r").then((lease) => {
    token = lease.token;
    return lease.release();
  });
  await env.clock.settle();
  expect(token).toBe(0);
  store.setPaused(KEY, false);
  await env.clock.settle();
  expect(token).toBe(1);
  await waiting;
  await leases.close();
});
