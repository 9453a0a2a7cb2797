/** The order of waiters: who may contend, who keeps a position in the store, and for how long a caller waits. */
import { describe, expect, it, onTestFinished } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import type { AcquireRequest, LeaseStore } from "./port.js";

const TTL_MS = 30_000;

/** Clients of one store, and how many attempts each has made. */
function world() {
  const logged: [message: string, fields: object][] = [];
  const warn = (fields: object, message: string) => void logged.push([message, fields]);
  const env = manualEnv({ logger: { debug() {}, info() {}, error() {}, warn } });
  const store = faultyStore(env);
  const attempts: Record<string, number> = {};
  const counted: LeaseStore = {
    ...store,
    acquire(requests: readonly AcquireRequest[]) {
      for (const { holder } of requests) attempts[holder] = (attempts[holder] ?? 0) + 1;
      return store.acquire(requests);
    },
  };
  const client = (holder: string) => {
    const options = { env, holder, defaults: { ttlMs: TTL_MS } };
    const leases = new LeaseClient(counted, options, { close: undefined });
    // Nothing moves the clock any more.
    onTestFinished(() => void leases.close());
    return leases;
  };
  const [a, b, c] = [client("a"), client("b"), client("c")];
  return { clock: env.clock, store, attempts, logged, a, b, c };
}
const codeOf = (error: unknown) => (error as { code?: unknown }).code;

describe("a caller that leaves the queue of its client", () => {
  it("lets no other caller contend beside the head", async () => {
    const { clock, attempts, a, b } = world();
    await a.acquire("r");
    const abort = new AbortController();
    void b.acquire("r").catch(() => {});
    const gone = b.acquire("r", { signal: abort.signal }).catch(() => "gone");
    void b.acquire("r").catch(() => {});
    await clock.settle();
    const before = attempts["b"];
    abort.abort();
    expect(await gone).toBe("gone");
    await clock.settle();
    expect(attempts["b"]).toBe(before);
  });

  it("releases nothing, as it has asked the store for nothing", async () => {
    const { clock, store, a, b } = world();
    await a.acquire("r");
    void b.acquire("r").catch(() => {});
    const gone = b.acquire("r", { waitMs: 100 }).catch(codeOf);
    await clock.advance(200);
    expect(await gone).toBe("LEASE_UNAVAILABLE");
    expect(store.calls.release).toBe(0);
  });
});

describe("a position in the store", () => {
  it("is freed at once when its waiter goes", async () => {
    const { clock, a, b, c } = world();
    const held = await a.acquire("r");
    const abort = new AbortController();
    const gone = b.acquire("r", { signal: abort.signal }).catch(() => "gone");
    await clock.advance(100);
    abort.abort();
    expect(await gone).toBe("gone");
    await clock.settle();
    await held.release();
    expect(await c.tryAcquire("r")).not.toBeNull();
  });

  it("is freed at once when its waiter goes, though its last attempt has failed", async () => {
    const { clock, store, a, b, c } = world();
    const held = await a.acquire("r");
    const abort = new AbortController();
    const gone = b.acquire("r", { ttlMs: 1_000, signal: abort.signal }).catch(() => "gone");
    await clock.advance(100);
    store.faults.acquire = "refuse";
    await clock.advance(1_000);
    abort.abort();
    expect(await gone).toBe("gone");
    store.faults.acquire = "ok";
    await clock.settle();
    await held.release();
    expect(await c.tryAcquire("r")).not.toBeNull();
  });

  it("is kept for its waiter against those who come later", async () => {
    const { clock, store, a, b, c } = world();
    const held = await a.acquire("r");
    const waiting = b.acquire("r");
    await clock.advance(100);
    store.faults.acquire = "hold";
    await held.release();
    await clock.settle();
    store.faults.acquire = "ok";
    expect(await c.tryAcquire("r")).toBeNull();
    store.open();
    expect((await waiting).checkAlive()).toBe(true);
  });

  it("is not taken by a try, which does not wait", async () => {
    const { clock, a, b, c } = world();
    const held = await a.acquire("r");
    expect(await b.tryRun("r", () => "never")).toStrictEqual({
      ran: false,
      holder: "a",
      remainingMs: TTL_MS,
    });
    await held.release();
    await clock.settle();
    expect(await c.tryAcquire("r")).not.toBeNull();
  });

  it("behind another one costs the store fewer polls", async () => {
    const { clock, attempts, a, b, c } = world();
    await a.acquire("r");
    void b.acquire("r").catch(() => {});
    await clock.settle();
    void c.acquire("r").catch(() => {});
    await clock.advance(1_000);
    // The first attempt, one after it has subscribed, and one for the resync of the subscription.
    expect(attempts["c"]).toBeLessThanOrEqual(3);
    expect(attempts["b"]).toBeGreaterThan(4);
  });
});

it("gets a lease that is released before it has subscribed, without a poll", async () => {
  const { env, clock, store, a } = leasesWorld();
  const held = await a.acquire("r");
  let isReleased = false;
  const late: LeaseStore = {
    ...store,
    async acquire(requests) {
      const outcomes = await store.acquire(requests);
      if (!isReleased) await held.release();
      isReleased = true;
      return outcomes;
    },
  };
  const leases = new LeaseClient(late, { env, holder: "b" }, { close: undefined });
  // A client that has subscribed already gets no resync, which would wake all its waiters.
  leases.listen("another", () => {});
  await clock.settle();
  let isHeld = false;
  void leases.acquire("r").then(() => (isHeld = true));
  await clock.settle();
  await clock.settle();
  expect(isHeld).toBe(true);
});

it.each([
  ["a call that hangs", 300, 3_000],
  ["a pause between two calls", 900, 1_000],
])("ends its wait in time during %s", async (_, hangsFromMs, waitMs) => {
  const { clock, store, a, b } = world();
  await a.acquire("r");
  let endedAtMs = Number.NaN;
  const waiting = b.acquire("r", { waitMs }).catch((error: unknown) => {
    endedAtMs = clock.monotonic();
    return codeOf(error);
  });
  await clock.advance(hangsFromMs);
  store.faults.acquire = "hang";
  await clock.advance(20_000);
  expect(await waiting).toBe("LEASE_UNAVAILABLE");
  expect(endedAtMs).toBe(waitMs);
});

describe("a long wait is logged", () => {
  const waits = (logged: readonly [string, object][]) =>
    logged.flatMap(([message, fields]) => (message === "waiting for a lease" ? [fields] : []));

  it("for each caller, also for one behind the head of its client", async () => {
    const { clock, logged, a, b } = world();
    await a.acquire("r");
    void b.acquire("r").catch(() => {});
    void b.acquire("r").catch(() => {});
    await clock.advance(10_000);
    expect(waits(logged)).toEqual([
      expect.objectContaining({ holder: "another caller of this client", remainingMs: null }),
      expect.objectContaining({ holder: "a" }),
    ]);
  });

  it("ten seconds after the first answer, as an answer is not waited for in a queue", async () => {
    const { clock, store, logged, a, b } = world();
    await a.acquire("r");
    store.faults.acquire = "hold";
    void b.acquire("r").catch(() => {});
    await clock.advance(2_000);
    store.faults.acquire = "ok";
    store.open();
    await clock.advance(9_999);
    expect(waits(logged)).toEqual([]);
    await clock.advance(1);
    expect(waits(logged)).toHaveLength(1);
  });
});
