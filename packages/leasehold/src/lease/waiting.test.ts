/** What a waiting caller learns, and what an operator sees of the wait. */
import { expect, it, onTestFinished } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { StoreUnavailableError } from "./errors.js";

function open() {
  const logged: (readonly [message: string, fields: object])[] = [];
  const log = (fields: object, message: string) => void logged.push([message, fields]);
  const details: (readonly [message: string, fields: object])[] = [];
  const detail = (fields: object, message: string) => void details.push([message, fields]);
  const env = manualEnv({ logger: { debug: detail, info: detail, warn: log, error: log } });
  const { telemetry, valuesOf } = recordedTelemetry();
  const store = faultyStore(env);
  const client = (holder: string) => {
    const defaults = { ttlMs: 30_000 };
    const own = { ...env, telemetry };
    const leases = new LeaseClient(store, { env: own, holder, defaults }, { close: undefined });
    // Nothing moves the clock any more.
    onTestFinished(() => void leases.close());
    return leases;
  };
  const [a, b] = [client("a"), client("b")];
  return { env, clock: env.clock, store, logged, details, valuesOf, a, b };
}
const unavailable = (holder: string) =>
  expect.objectContaining({ code: "LEASE_UNAVAILABLE", resource: "r", holder });

it("names the holder that was waited for in vain, also another caller of this client", async () => {
  const { clock, store, a, b } = open();
  const lease = await a.acquire("r");
  const byOther = b.acquire("r", { waitMs: 2_000 });
  const byOwn = a.acquire("r", { waitMs: 2_000 });
  const refused = [
    expect(byOther).rejects.toEqual(unavailable("a")),
    expect(byOwn).rejects.toEqual(unavailable("a")),
  ];
  await clock.advance(2_000);
  await Promise.all(refused);
  await lease.release();
  // The first caller of b gets no answer of the store; the second one waits behind it.
  store.faults.acquire = "hang";
  const first = b.acquire("r", { waitMs: 2_000 }).catch((error: unknown) => error);
  const second = b.acquire("r", { waitMs: 1_000 });
  const behind = expect(second).rejects.toEqual(unavailable("another caller of this client"));
  await clock.advance(1_000);
  await behind;
  await clock.advance(60_000);
  expect(await first).toMatchObject({ code: "STORE_UNAVAILABLE" });
  store.faults.acquire = "ok";
  await clock.advance(60_000);
});

it("logs a wait of ten seconds once, with the holder and what is left to it", async () => {
  const { clock, logged, a, b } = open();
  const lease = await a.acquire("r", { autoRenew: false, ttlMs: 60_000 });
  const waiting = b.acquire("r");
  await clock.advance(9_999);
  expect(logged).toEqual([]);
  await clock.advance(1);
  const fields = { resource: "r", holder: "a", waitedMs: 10_000 };
  expect(logged).toEqual([["waiting for a lease", { ...fields, remainingMs: expect.any(Number) }]]);
  await clock.advance(10_000);
  expect(logged).toHaveLength(1);
  await lease.release();
  await clock.advance(1_000);
  await (await waiting).release();
});

it("logs a wait for a lease of the same client alike", async () => {
  const { clock, logged, details, a } = open();
  const lease = await a.acquire("r");
  const waiting = a.acquire("r");
  await clock.advance(10_000);
  const held = { resource: "r", holder: "a", remainingMs: expect.any(Number) };
  expect(details).toEqual([["the lease is held; waiting for it", held]]);
  expect(logged).toEqual([
    [
      "waiting for a lease",
      { resource: "r", holder: "a", remainingMs: expect.any(Number), waitedMs: 10_000 },
    ],
  ]);
  await lease.release();
  await clock.advance(1_000);
  await (await waiting).release();
});

it("logs no long wait of a standby, nor one that has ended", async () => {
  const { clock, logged, a, b } = open();
  const lease = await a.acquire("r");
  let worked = false;
  const standingBy = b.standBy("r", {}, async () => void (worked = true));
  const ended = a.acquire("r", { waitMs: 5_000 }).catch(() => "in vain");
  await clock.advance(20_000);
  expect(await ended).toBe("in vain");
  expect(logged).toEqual([]);
  await lease.release();
  await clock.advance(1_000);
  await standingBy;
  expect(worked).toBe(true);
});

it("logs once who holds the lease, and after failed attempts that the store answers again", async () => {
  const { clock, store, logged, details, a, b } = open();
  const lease = await a.acquire("r", { autoRenew: false });
  const waiting = b.acquire("r");
  await clock.advance(5_000);
  const held = { resource: "r", holder: "a", remainingMs: expect.any(Number) };
  expect(details).toEqual([["the lease is held; waiting for it", held]]);
  store.faults.acquire = "refuse";
  await clock.advance(20_000);
  expect(logged.map(([message]) => message)).toContain("waiting for a store that does not answer");
  store.faults.acquire = "ok";
  await clock.advance(5_000);
  expect(details.slice(1)).toEqual([["the store answers again", { resource: "r" }]]);
  await lease.release();
  await clock.advance(5_000);
  await (await waiting).release();
});

it("logs of a server that refuses by a limit that it does, until the lease is granted", async () => {
  const { clock, store, logged, details, a } = open();
  const refusedBy = "limit" as const;
  const error = new StoreUnavailableError("at most 1", { outcome: "none", refusedBy });
  const { acquire } = store;
  store.acquire = async (requests) =>
    requests.map(() => ({ status: "failed", applied: "no", retryable: true, error }));
  const waiting = a.acquire("r");
  await clock.advance(20_000);
  const refused = "waiting for a server that refuses by a limit";
  expect(logged).toContainEqual([refused, { err: error, resource: "r" }]);
  const logs = logged.map(([message]) => message);
  expect(logs).not.toContain("waiting for a store that does not answer");
  store.acquire = acquire;
  await clock.advance(20_000);
  expect(details.at(-1)).toEqual(["the store answers again", { resource: "r" }]);
  await (await waiting).release();
});

it("counts waiters while they wait", async () => {
  const { clock, valuesOf, a, b } = open();
  const lease = await a.acquire("r");
  const waiting = b.acquire("r", { waitMs: 1_000 }).catch(() => "in vain");
  await clock.advance(500);
  const waiters = () => valuesOf("leasehold.lease.waiters").map(([, by]) => by);
  expect(waiters()).toEqual([1]);
  await clock.advance(500);
  expect(await waiting).toBe("in vain");
  expect(waiters()).toEqual([1, -1]);
  await lease.release();
});

it("counts no waiter that has left the local queue behind its head", async () => {
  const { clock, valuesOf, a, b } = open();
  const lease = await b.acquire("r");
  const head = a.acquire("r");
  const leave = new AbortController();
  const behind = a.acquire("r", { signal: leave.signal }).catch(() => "left");
  await clock.advance(500);
  leave.abort();
  expect(await behind).toBe("left");
  await lease.release();
  await clock.advance(500);
  await (await head).release();
  const changes = valuesOf("leasehold.lease.waiters").map(([, by]) => by);
  expect(changes.reduce((sum, by) => sum + by, 0)).toBe(0);
});

it("asks for a position in the store's queue for no longer than it waits", async () => {
  const { clock, store, a, b } = open();
  const lease = await a.acquire("r");
  const { acquire } = store;
  const kept: number[] = [];
  store.acquire = (requests) => {
    for (const { queueMs = 0 } of requests) kept.push(clock.monotonic() + queueMs);
    return acquire(requests);
  };
  const waiting = b.acquire("r", { waitMs: 300 }).catch(() => "in vain");
  await clock.advance(300);
  expect(await waiting).toBe("in vain");
  expect(kept.length).toBeGreaterThan(1);
  expect(Math.max(...kept)).toBeLessThanOrEqual(301);
  await lease.release();
});

it("is ended by a release in a namespace of its own, without a poll", async () => {
  const { env, clock, store } = open();
  const client = (holder: string) => {
    const options = { env, holder, namespace: "tenant", defaults: { ttlMs: 30_000 } };
    return new LeaseClient(store, options, { close: undefined });
  };
  const [a, b] = [client("a"), client("b")];
  const lease = await a.acquire("r");
  let hasIt = false;
  const waiting = b.acquire("r").then(() => (hasIt = true));
  await clock.advance(5_000);
  await lease.release();
  // No poll comes without the clock.
  await clock.settle();
  expect(hasIt).toBe(true);
  await waiting;
  for (const leases of [a, b]) {
    const closing = leases.close();
    await clock.advance(5_000);
    await closing;
  }
});

it("ends for all impatient callers of a client with the same failed attempt", async () => {
  const { clock, store, a } = open();
  store.faults.acquire = "refuse";
  let failures = 0;
  const callers = Array.from({ length: 5 }, () =>
    a.run("r", { onUnavailable: "fail" }, () => "worked").catch(() => (failures += 1)),
  );
  // An attempt takes 5 s, and the callers behind the first do not make one of their own.
  await clock.advance(5_000);
  expect(failures).toBe(5);
  await Promise.all(callers);
});

it("ends for no patient caller with the failed attempt of the head", async () => {
  const { clock, store, a } = open();
  store.faults.acquire = "refuse";
  const callers = [a.acquire("r"), a.acquire("r")];
  await clock.advance(20_000);
  store.faults.acquire = "ok";
  await clock.advance(1_000);
  for (const caller of callers) {
    await (await caller).release();
    await clock.settle();
  }
});

it("ends for no caller with the reason of another one, even if that allows a retry", async () => {
  const { clock, store, a } = open();
  store.faults.acquire = "refuse";
  const abort = new AbortController();
  const head = a.acquire("r", { signal: abort.signal }).catch((error: unknown) => error);
  const behind = a.run("r", { onUnavailable: "fail" }, () => "worked");
  await clock.advance(100);
  store.faults.acquire = "ok";
  const reason = new StoreUnavailableError("another store", { outcome: "none" });
  abort.abort(reason);
  expect(await head).toBe(reason);
  expect(await behind).toBe("worked");
});

it("gets an answer for a caller whose time is over during its first attempt, without a position", async () => {
  const { clock, store, a, b } = open();
  const lease = await a.acquire("r");
  store.faults.acquire = "hold";
  const abort = new AbortController();
  const head = b.acquire("r", { signal: abort.signal }).catch(() => "gone");
  const behind = b.acquire("r", { waitMs: 1_000 }).catch((error: unknown) => error);
  await clock.advance(999);
  abort.abort();
  expect(await head).toBe("gone");
  await clock.advance(100);
  store.open();
  expect(await behind).toEqual(unavailable("a"));
  await clock.settle();
  // Only the head may have been granted what it no longer wants.
  expect(store.calls.release).toBe(1);
  await lease.release();
});

it("for an unavailable store asks it less and less often", async () => {
  const { clock, store, a } = open();
  store.faults.acquire = "refuse";
  const trying = a.tryAcquire("r").catch(() => "in vain");
  await clock.advance(5_000);
  expect(await trying).toBe("in vain");
  // At 25 ms at first, then at 200 ms: about thirty calls, instead of two hundred.
  expect(store.calls.acquire).toBeGreaterThan(15);
  expect(store.calls.acquire).toBeLessThan(60);
});
