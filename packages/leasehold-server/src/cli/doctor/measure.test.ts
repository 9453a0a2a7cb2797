/** What the doctor does to a store, and what it reads from the answers. */
import { type LeaseStore, StoreUnavailableError } from "leasehold";
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { measurePauses, measureStore } from "./measure.js";

interface Call {
  readonly operation: "acquire" | "renew" | "release";
  readonly resource: string;
  readonly leaseId: string;
  readonly ttlMs?: number;
}

/**
 * A store whose clock is `offsetMs` ahead, and whose renewals take these times.
 * @param renewals each with the part of its time after which the store reads its clock
 */
function open(renewals: readonly (readonly [tookMs: number, readAt: number] | Error)[]) {
  const env = manualEnv();
  const calls: Call[] = [];
  const state = { offsetMs: 7_000, ttl: { minMs: 100, maxMs: 3_600_000 }, showsClock: true };
  const left = [...renewals];
  const noted = (operation: Call["operation"], [request]: readonly Omit<Call, "operation">[]) => {
    if (request) calls.push({ ...request, operation });
  };
  const store = {
    get capabilities() {
      return { ttl: state.ttl };
    },
    async acquire(requests: readonly Call[]) {
      noted("acquire", requests);
      await env.clock.advance(80);
      return [{ status: "acquired" }];
    },
    async renew(requests: readonly Call[]) {
      noted("renew", requests);
      const next = left.shift() ?? [1, 0.5];
      if (next instanceof Error) return [{ status: "failed", error: next }];
      const [tookMs, readAt] = next;
      await env.clock.advance(tookMs * readAt);
      const expiresAtMs = env.clock.wall() + state.offsetMs + 20_000;
      await env.clock.advance(tookMs * (1 - readAt));
      const expiresAt = state.showsClock ? new Date(expiresAtMs).toISOString() : null;
      return [{ status: "renewed", expiresAt, remainingMs: 20_000 }];
    },
    async release(requests: readonly Call[]) {
      noted("release", requests);
      throw new Error("the release is only tried");
    },
  } as unknown as LeaseStore;
  const measure = (samples: number) => measureStore(store, env, { namespace: "n", samples });
  return { calls, state, measure };
}

it("renews a lease of its own for each sample, and takes the clock from the fastest answer", async () => {
  const { calls, measure } = open([
    [40, 1],
    [10, 0.5],
    [30, 0],
    [20, 1],
    [50, 0],
  ]);
  expect(await measure(5)).toEqual({
    acquireMs: 80,
    renewal: { count: 5, p50Ms: 30, p99Ms: 50, maxMs: 50 },
    clock: { offsetMs: 7_000, uncertainMs: 5 },
  });
  expect(calls.map(({ operation }) => operation)).toEqual([
    "acquire",
    ...Array.from({ length: 5 }, () => "renew"),
    "release",
  ]);
  const [first] = calls;
  expect(first?.resource).toMatch(/^leasehold-doctor:[0-9a-f]{8}$/);
  for (const { resource, leaseId } of calls) {
    expect([resource, leaseId]).toEqual([first?.resource, first?.leaseId]);
  }
});

it.each([
  [{ minMs: 100, maxMs: 3_600_000 }, 30_000],
  [{ minMs: 60_000, maxMs: 3_600_000 }, 60_000],
  [{ minMs: 100, maxMs: 5_000 }, 5_000],
])("asks for a TTL that the store grants: of %o, %i ms", async (ttl, expected) => {
  const { calls, state, measure } = open([]);
  state.ttl = ttl;
  await measure(5);
  const asked = calls.flatMap(({ ttlMs }) => ttlMs ?? []);
  expect(asked).toEqual(Array.from({ length: 6 }, () => expected));
});

it("releases the lease after a renewal that failed, and reports the store's error", async () => {
  const error = new StoreUnavailableError("it is down", { outcome: "unknown" });
  const { calls, measure } = open([[1, 0], error]);
  await expect(measure(5)).rejects.toBe(error);
  expect(calls.map(({ operation }) => operation)).toEqual(["acquire", "renew", "renew", "release"]);
});

it("has no offset where the store shows no clock", async () => {
  const { state, measure } = open([]);
  state.showsClock = false;
  expect(await measure(5)).toMatchObject({ clock: null, renewal: { count: 5 } });
});

it("measures how late timers are, each by itself, until it is stopped", async () => {
  const env = manualEnv();
  let lateMs = 0;
  const clock = { ...env.clock, monotonic: () => env.clock.monotonic() + lateMs };
  const stop = measurePauses({ ...env, clock });
  await env.clock.advance(10);
  lateMs += 400;
  await env.clock.advance(50);
  expect(stop()).toEqual({ count: 7, p50Ms: 0, p99Ms: 400, maxMs: 400 });
  expect(env.clock.pendingTimers).toBe(0);
});
