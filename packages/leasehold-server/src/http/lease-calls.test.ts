import type { LeaseStore } from "leasehold";
import { asStoreError, grantIdOf, newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { openApp } from "../../../../tests/support/server/app.js";
import type { LeaseEvent } from "./index.js";

const KEY = { namespace: "default", resource: "r" };

async function open(change: Partial<LeaseStore> = {}, options: Parameters<typeof openApp>[0] = {}) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { leases: inner } = stores;
  const leases: LeaseStore = {
    capabilities: inner.capabilities,
    acquire: (requests, options) => inner.acquire(requests, options),
    renew: (requests) => inner.renew(requests),
    release: (requests) => inner.release(requests),
    revoke: (requests) => inner.revoke(requests),
    get: (keys) => inner.get(keys),
    list: (query) => inner.list(query),
    watch: (namespace, options) => inner.watch(namespace, options),
    collect: (olderThanMs) => inner.collect(olderThanMs),
    close: () => inner.close(),
    ...change,
  };
  const events: LeaseEvent[] = [];
  const app = await openApp({
    ...stores,
    leases,
    env,
    onLeaseEvent: (event) => void events.push(event),
    ...options,
  });
  onTestFinished(app.close);
  const call = async (operation: string, requests: object[], requestId = "q") => {
    const headers = { "x-request-id": requestId };
    return (await app.ask("POST", `/v1/leases/${operation}`, requests, { headers })).body;
  };
  const grant = (resource = "r") => {
    const leaseId = newLeaseId(env.random);
    return { leaseId: toWireLeaseId(resource, leaseId), grantId: grantIdOf(leaseId) };
  };
  const acquire = async ({ leaseId }: { leaseId: string }, holder = "h", requestId = "q") =>
    (await call("acquire", [{ leaseId, holder, ttlMs: 1_000 }], requestId))[0];
  return { app, stores, env, events, call, grant, acquire };
}

test("emits each change of a lease with its request id", async () => {
  const { env, events, call, grant, acquire } = await open();
  const [a, b, c] = [grant(), grant(), grant()] as const;
  const { token } = await acquire(a, "a", "q1");
  await acquire(a, "a", "q2");
  await acquire(b, "b", "q3");
  await call("renew", [{ leaseId: a.leaseId, ttlMs: 2_000 }], "q4");
  await env.clock.advance(2_000);
  await call("renew", [{ leaseId: a.leaseId, ttlMs: 2_000 }], "q5");
  const second = await acquire(b, "b", "q6");
  await acquire(a, "a", "q7");
  await call("revoke", [{ resource: "r", free: "now" }], "q8");
  const third = await acquire(c, "c", "q9");
  await call("release", [{ leaseId: c.leaseId }], "q10");
  await call("release", [{ leaseId: a.leaseId }], "q11");
  await call("revoke", [{ resource: "r" }], "q12");
  const cause = (requestId: string) => ({ requestId, resource: "r", tookMs: 0 });
  const byA = { type: "acquired", holder: "a", grantId: a.grantId, token, ttlMs: 1_000 };
  expect(events).toEqual([
    { ...byA, ...cause("q1"), replaced: null },
    { ...byA, ...cause("q2"), replaced: null },
    {
      type: "held",
      ...cause("q3"),
      holder: "b",
      heldBy: "a",
      grantId: a.grantId,
      token,
      asked: b.grantId,
      queueMs: null,
      ahead: null,
    },
    { type: "renewed", ...cause("q4"), grantId: a.grantId, token, ttlMs: 2_000 },
    { type: "lost", ...cause("q5"), grantId: a.grantId, token, reason: "expired" },
    {
      type: "acquired",
      ...cause("q6"),
      holder: "b",
      grantId: b.grantId,
      ttlMs: 1_000,
      token: second.token,
      replaced: { holder: "a", grantId: a.grantId, token, state: "expired" },
    },
    {
      type: "held",
      ...cause("q7"),
      holder: "a",
      heldBy: "b",
      grantId: b.grantId,
      token: second.token,
      asked: a.grantId,
      queueMs: null,
      ahead: null,
    },
    { type: "revoked", ...cause("q8"), token: second.token, free: "now" },
    {
      type: "acquired",
      ...cause("q9"),
      holder: "c",
      grantId: c.grantId,
      ttlMs: 1_000,
      token: third.token,
      replaced: { holder: "b", grantId: b.grantId, token: second.token, state: "revoked" },
    },
    { type: "released", ...cause("q10"), grantId: c.grantId, token: third.token },
    { type: "notHeld", ...cause("q11"), grantId: a.grantId },
  ]);
  const text = JSON.stringify(events);
  for (const { leaseId } of [a, b, c]) expect(text).not.toContain(leaseId.split(".")[1]);
});

test("emits failures, and whether the outcome is unknown", async () => {
  const error = asStoreError(new Error("cut"), "maybe");
  const failing = async (requests: readonly unknown[]) =>
    requests.map(() => ({ status: "failed", applied: "maybe", retryable: true, error }) as const);
  const failures = { acquire: failing, renew: failing, release: failing, revoke: failing };
  // With a control store, revocations go through it.
  const { events, call, grant, acquire } = await open(failures, { control: undefined });
  const { leaseId, grantId } = grant();
  expect(await acquire({ leaseId })).toMatchObject({ status: "failed", applied: "maybe" });
  await call("renew", [{ leaseId, ttlMs: 1_000 }]);
  await call("release", [{ leaseId }]);
  await call("revoke", [{ resource: "r" }]);
  const cause = { requestId: "q", resource: "r", tookMs: 0 };
  const common = { type: "failed", ...cause, applied: "maybe" };
  expect(events).toEqual(
    ["acquire", "renew", "release", "revoke"].map((operation) => ({
      ...common,
      operation,
      code: "STORE_UNAVAILABLE",
      message: error.message,
      grantId: operation === "revoke" ? null : grantId,
    })),
  );
});

test("a batch of revocations is one call if there is no audit", async () => {
  const sizes: number[] = [];
  const revoke: LeaseStore["revoke"] = (requests, options) => {
    sizes.push(requests.length);
    return stores.leases.revoke(requests, options);
  };
  const { call, stores } = await open({ revoke }, { control: undefined });
  const outcomes = await call(
    "revoke",
    Array.from({ length: 50 }, (_, n) => ({ resource: `r-${n}` })),
  );
  expect(outcomes).toHaveLength(50);
  expect(sizes).toEqual([50]);
});

test("a replaced grant is in the history a second later, and not in the response", async () => {
  const { env, stores, call, grant, acquire } = await open();
  const [a, b, c] = [grant(), grant(), grant()] as const;
  const first = await acquire(a, "a");
  await env.clock.advance(1_000);
  expect(await acquire(b, "b")).not.toHaveProperty("replaced");
  await acquire(b, "b");
  await call("release", [{ leaseId: b.leaseId }]);
  const found = () => stores.history?.find(KEY, a.grantId);
  expect(await found()).toBeNull();
  await env.clock.advance(1_000);
  expect(await found()).toMatchObject({
    ...KEY,
    holder: "a",
    token: first.token,
    state: "expired",
    remainingMs: 0,
  });
  await acquire(c, "c");
  await env.clock.advance(1_000);
  const { items = [] } = (await stores.history?.list(KEY)) ?? {};
  expect(items.map(({ grantId, state }) => [grantId, state])).toEqual([
    [b.grantId, "released"],
    [a.grantId, "expired"],
  ]);
});

test("closing writes pending history, which is collected a week later", async () => {
  const { app, env, stores, grant, acquire } = await open();
  const a = grant();
  await acquire(a);
  await env.clock.advance(1_000);
  await acquire(grant());
  await app.app.close();
  const expired = { grantId: a.grantId, state: "expired" };
  expect(await stores.history?.find(KEY, a.grantId)).toMatchObject(expired);
  expect(env.clock.pendingTimers).toBe(0);

  const other = await openApp({ ...stores, env });
  onTestFinished(() => other.app.close());
  const dayMs = 24 * 3_600_000;
  env.clock.jumpWall(7 * dayMs - 4_500_000);
  await env.clock.advance(3_600_000);
  expect(await stores.history?.find(KEY, a.grantId)).toMatchObject(expired);
  await env.clock.advance(7_200_000);
  expect(await stores.history?.find(KEY, a.grantId)).toBeNull();
});

test("refuses a lease id that names another holder's grant, not the repeated request", async () => {
  const { app, env, call, grant, acquire } = await open();
  const a = grant();
  const { token } = await acquire(a, "a");
  await env.clock.advance(10);
  expect(await acquire(a, "a")).toMatchObject({ status: "acquired", token, remainingMs: 990 });
  const refused = await acquire(a, "b");
  expect(refused).toMatchObject({
    status: "failed",
    applied: "no",
    retryable: false,
    error: { code: "INVALID_OPTION", message: expect.stringContaining('the holder "a"') },
  });
  // A ttl that is shorter than what is left does not hide it, nor does a longer one.
  for (const ttlMs of [100, 5_000]) {
    const [other] = await call("acquire", [{ leaseId: a.leaseId, holder: "b", ttlMs }]);
    expect(other).toMatchObject({ status: "failed" });
  }
  const body = { resource: "r", ownerId: "b", leaseId: a.leaseId, ttlMs: 1_000 };
  const lock = await app.ask("POST", "/v1/locks/acquire", body);
  expect([lock.status, lock.body.errors]).toEqual([
    422,
    [{ path: "leaseId", problem: expect.stringContaining("names a grant of the holder") }],
  ]);
  expect(await acquire(a, "a")).toMatchObject({ status: "acquired", token });
});

test.each([
  ["whole seconds of a session", { clock: "session", stepMs: 1_000 }],
  ["a session", { clock: "session", stepMs: 1 }],
  ["observers", { clock: "observed", stepMs: 1_000 }],
] as const)(
  "refuses another holder's lease id at once if %s hide a repetition",
  async (_, { clock, stepMs }) => {
    const inner = (await memory().open(manualEnv())).leases;
    const capabilities = {
      ...inner.capabilities,
      clock,
      ttl: { ...inner.capabilities.ttl, stepMs },
    };
    const { env, grant, acquire } = await open({ capabilities });
    const a = grant();
    await acquire(a, "a");
    for (const elapsedMs of [0, 1, 400]) {
      await env.clock.advance(elapsedMs);
      expect(await acquire(a, "a")).toMatchObject({ status: "acquired" });
      expect(await acquire(a, "b")).toMatchObject({
        status: "failed",
        error: { code: "INVALID_OPTION", message: expect.stringContaining('the holder "a"') },
      });
    }
  },
);

test("answers a repeated request although the read that compares holders fails", async () => {
  const get = () => Promise.reject(new Error("down"));
  const { env, grant, acquire } = await open({ get });
  const a = grant();
  const { token } = await acquire(a, "a");
  await env.clock.advance(10);
  expect(await acquire(a, "a")).toMatchObject({ status: "acquired", token });
});

test("takes no grant id with a wrong secret for the grant of a paused resource", async () => {
  const { app, env, call, grant, acquire } = await open();
  const own = grant();
  const secret = newLeaseId(env.random).slice(own.grantId.length);
  const forged = { leaseId: toWireLeaseId("r", own.grantId + secret) };
  await acquire(own);
  await app.ask("PUT", "/v1/pauses", { kind: "prefix", name: "r", reason: "x" });
  expect(await acquire(own)).toMatchObject({ status: "acquired" });
  expect(await acquire(forged)).toMatchObject({ status: "held" });
  await call("release", [{ leaseId: own.leaseId }]);
  expect(await acquire(own)).toEqual({ status: "ended" });
  expect(await acquire(forged)).toEqual({ status: "ended" });
  expect(await acquire(grant())).toMatchObject({ status: "held", holder: "paused" });
});
