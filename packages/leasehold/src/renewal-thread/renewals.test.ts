/** Both sides of a renewal thread in one simulated world, in which the timers of the main thread can be blocked. */
import { expect, it } from "vitest";
import { type Fault, faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { type Clock, type Logger, silentLogger } from "../env/index.js";
import { type AcquireOptions, LeaseClient, type LeaseStore } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { Answers } from "./answers.js";
import type { FromThread, Start } from "./messages.js";
import { Renewals } from "./renewals.js";

const TTL_MS = 3_000;

async function world(options: AcquireOptions = {}, maxBlockedMs = 60_000) {
  const env = manualEnv();
  const { clock } = env;
  const counted = { main: 0, renewed: 0, others: [] as string[] };
  const logged: string[] = [];
  const add = (_: unknown, text: string) => void logged.push(text);
  const note: Logger = { ...silentLogger, warn: add, error: add };

  let blockedSinceMs: number | undefined;
  let late: (() => void)[] = [];
  /** For messages and timers: what the event loop does. */
  const inLoop = (callback: () => void) =>
    blockedSinceMs === undefined ? callback() : late.push(callback);
  const mainClock: Clock = {
    wall: () => clock.wall(),
    monotonic: () => clock.monotonic(),
    timer: (delayMs, callback, given) => clock.timer(delayMs, () => inLoop(callback), given),
  };

  // The faults are those of the thread's own connection.
  const store = faultyStore(env);
  const { inner } = store;
  const mainStore = new Proxy(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        if (name === "renew") counted.main += 1;
        return value.apply(target, args);
      };
    },
  });
  const wakes = new Map<number, () => void>();
  const renewals = new Renewals({
    store,
    env: { ...env, logger: note },
    maxBlockedMs,
    lastRunMs: () => blockedSinceMs ?? clock.monotonic(),
    post: (message: FromThread) => {
      if (message.type === "renewals") {
        counted.renewed += message.renewed;
        counted.others.push(...message.others.map(({ status }) => status));
      }
      if (message.type === "wake") inLoop(() => wakes.get(message.id)?.());
    },
  });
  const thread = {
    start(
      namespace: string,
      granted: Start["granted"],
      { signal: _, ...keep }: Start["options"] & { signal?: unknown },
      wake: () => void,
    ) {
      const answers = new Answers();
      const id = wakes.size;
      wakes.set(id, wake);
      const start = {
        type: "start",
        id,
        namespace,
        options: keep,
        answers: answers.memory,
      } as const;
      renewals.start(structuredClone({ ...start, granted }));
      return {
        isRunning: true,
        read: () => answers.read(),
        renewed: (sent: Start["granted"]["sent"], remainingMs: number) =>
          renewals.start(structuredClone({ ...start, granted: { ...granted, sent, remainingMs } })),
        stop: () => renewals.stop(id),
      };
    },
  };
  const leases = new LeaseClient(
    mainStore,
    { env: { ...env, clock: mainClock }, holder: "me" },
    { close: undefined, thread },
  );
  const lease = await leases.acquire("r", { ttlMs: TTL_MS, ...options });
  const reasons: string[] = [];
  lease.onLost((reason) => reasons.push(reason));
  return {
    clock,
    store,
    leases,
    lease,
    counted,
    reasons,
    logged,
    live: async () => (await inner.get([{ namespace: "default", resource: "r" }]))[0]?.state,
    block() {
      blockedSinceMs = clock.monotonic();
    },
    unblock() {
      blockedSinceMs = undefined;
      const due = late;
      late = [];
      for (const callback of due) callback();
    },
  };
}

it("renews while the event loop is blocked, and the lease is judged by that before any timer runs", async () => {
  const { clock, lease, reasons, block, unblock, live } = await world();
  block();
  await clock.advance(5 * TTL_MS);
  expect(lease.remainingMs()).toBeGreaterThan(TTL_MS / 2);
  expect(lease.remainingMs()).toBeLessThanOrEqual(TTL_MS * 0.99 - 10);
  expect(lease.checkAlive()).toBe(true);
  unblock();
  await clock.advance(5 * TTL_MS);
  expect(lease.checkAlive()).toBe(true);
  expect(lease.signal.aborted).toBe(false);
  expect(reasons).toEqual([]);
  expect(await live()).toBe("live");
});

it.each([
  ["set back, then suspended", [-3_600_000, TTL_MS]],
  ["suspended, then set back", [TTL_MS, -3_600_000]],
  ["set forward twice", [TTL_MS / 2, TTL_MS / 2]],
])("loses the lease within a second after the machine was %s", async (_, jumps) => {
  const { clock, store, reasons } = await world();
  await clock.advance(TTL_MS);
  // The thread's renewals are not answered any more.
  store.faults.renew = "hang";
  for (const ms of jumps) {
    clock.jumpWall(ms);
    await clock.advance(500);
  }
  await clock.advance(500);
  expect(reasons).toEqual(["expired"]);
});

it("leaves the judgement to the timers that run first after a block", async () => {
  const { clock, lease, reasons, block, unblock } = await world();
  block();
  await clock.advance(5 * TTL_MS);
  unblock();
  expect(reasons).toEqual([]);
  expect(lease.signal.aborted).toBe(false);
});

it("renews alone, and the event loop does nothing twice", async () => {
  const { clock, counted, lease } = await world();
  await clock.advance(20 * TTL_MS);
  expect(lease.checkAlive()).toBe(true);
  expect(counted.main).toBe(0);
  expect(counted.renewed).toBeGreaterThanOrEqual(54);
  expect(counted.renewed).toBeLessThanOrEqual(67);
});

it.each<Fault>(["refuse", "hang"])(
  "leaves renewals to the event loop under `%s`, and takes them back",
  async (fault) => {
    const { clock, store, counted, lease, logged } = await world();
    store.faults.renew = fault;
    await clock.advance(10 * TTL_MS);
    expect(lease.checkAlive()).toBe(true);
    expect(logged).toContain("renewal failed");
    expect(counted.main).toBeGreaterThan(5);
    store.faults.renew = "ok";
    await clock.advance(2 * TTL_MS);
    counted.main = 0;
    await clock.advance(10 * TTL_MS);
    expect(lease.checkAlive()).toBe(true);
    expect(counted.main).toBe(0);
  },
);

it("renews no more after maxBlockedMs, and the lease is lost", async () => {
  const maxBlockedMs = 4 * TTL_MS;
  const { clock, lease, reasons, logged, block, unblock, live } = await world({}, maxBlockedMs);
  block();
  await clock.advance(maxBlockedMs);
  expect(await live()).toBe("live");
  await clock.advance(TTL_MS);
  expect(await live()).toBe("expired");
  expect(logged).toEqual(["the event loop is blocked: its leases are no longer renewed"]);
  expect(lease.checkAlive()).toBe(false);
  unblock();
  expect(reasons).toEqual(["expired"]);
});

it("goes on when the event loop runs again before the trust has ended", async () => {
  const { clock, counted, lease, block, unblock } = await world({}, TTL_MS);
  block();
  await clock.advance(1.5 * TTL_MS);
  unblock();
  await clock.advance(2 * TTL_MS);
  counted.main = 0;
  await clock.advance(10 * TTL_MS);
  expect(lease.checkAlive()).toBe(true);
  expect(counted.main).toBe(0);
});

it("logs once of each block that it renews no more, not only of the first", async () => {
  const { clock, lease, logged, block, unblock } = await world({}, TTL_MS);
  for (const blocks of [1, 2]) {
    block();
    await clock.advance(1.5 * TTL_MS);
    unblock();
    await clock.advance(2 * TTL_MS);
    expect(logged).toHaveLength(blocks);
  }
  expect(lease.checkAlive()).toBe(true);
});

it("tells the event loop of renewals that failed, and does not count them as renewed", async () => {
  const { clock, store, counted } = await world();
  store.faults.renew = "refuse";
  await clock.advance(TTL_MS);
  expect(counted.renewed).toBe(0);
  expect(new Set(counted.others)).toEqual(new Set(["failed"]));
  store.faults.renew = "ok";
  counted.others.length = 0;
  await clock.advance(2 * TTL_MS);
  expect(counted.renewed).toBeGreaterThan(0);
  expect(counted.others).toEqual([]);
});

it("counts from before the request of the thread", async () => {
  const { clock, store, lease, block } = await world();
  block();
  store.faults.renew = "hold";
  await clock.advance((TTL_MS / 3) * 1.1);
  expect(store.calls.renew).toBe(1);
  await clock.advance(300);
  const beforeMs = lease.remainingMs();
  store.open();
  await clock.settle();
  expect(lease.remainingMs()).toBeGreaterThan(beforeMs + 500);
  expect(lease.remainingMs()).toBeLessThanOrEqual(TTL_MS * 0.99 - 10 - 300);
});

it("reports a revoked lease at the next renewal", async () => {
  const { clock, leases, reasons, counted } = await world();
  await leases.revoke("r");
  await clock.advance(TTL_MS * 0.4);
  expect(reasons).toEqual(["revoked"]);
  expect(counted.others).toEqual(["lost"]);
});

it("loses a lease with stopOnRenewError at the first failure", async () => {
  const { clock, store, reasons } = await world({ stopOnRenewError: true });
  store.faults.renew = "refuse";
  await clock.advance(TTL_MS * 0.4);
  expect(reasons).toEqual(["expired"]);
});

it("renews on after an explicit renewal for longer", async () => {
  const { clock, lease, block } = await world();
  await lease.renew({ ttlMs: 10 * TTL_MS });
  expect(lease.remainingMs()).toBeGreaterThan(9 * TTL_MS);
  block();
  await clock.advance(20 * TTL_MS);
  expect(lease.checkAlive()).toBe(true);
});

it.each(["release", "letExpire"] as const)("renews nothing after %s", async (end) => {
  const { clock, store, lease, live, logged } = await world();
  await clock.advance(TTL_MS);
  await lease[end]();
  const { renew } = store.calls;
  await clock.advance(2 * TTL_MS);
  expect(store.calls.renew).toBe(renew);
  expect(await live()).toBe(end === "release" ? "released" : "expired");
  expect(clock.pendingTimers).toBe(0);
  expect(logged).toEqual([]);
});

it("leaves a lease without autoRenew alone", async () => {
  const { clock, store, reasons } = await world({ autoRenew: false });
  await clock.advance(TTL_MS);
  expect(store.calls.renew).toBe(0);
  expect(reasons).toEqual(["expired"]);
});

const RESOURCES = ["a", "b", "c", "d", "e", "f", "g", "h"];
it("reports each renewal of a batch under its resource, and wakes the lease that was lost alone", async () => {
  const env = manualEnv();
  const { inner } = faultyStore(env);
  const posts: FromThread[] = [];
  const post = (message: FromThread) => void posts.push(message);
  const lastRunMs = () => env.clock.monotonic();
  const batches: number[] = [];
  // Those that come due meanwhile go with the next call.
  const renew: LeaseStore["renew"] = async (requests, options) => {
    batches.push(requests.length);
    await new Promise<void>((resolve) => env.clock.timer(200, resolve));
    return inner.renew(requests, options);
  };
  const store = { renew } as LeaseStore;
  const renewals = new Renewals({ store, env, maxBlockedMs: 60_000, lastRunMs, post });
  const namespace = "default";
  const answers = new Map<string, Answers>();
  for (const [id, resource] of RESOURCES.entries()) {
    const request = { namespace, resource, leaseId: `id-${resource}`, holder: "me", ttlMs: TTL_MS };
    const [outcome] = await inner.acquire([request]);
    if (outcome?.status !== "acquired") throw new Error("not acquired");
    const { token, remainingMs } = outcome;
    const sent = { monotonicMs: env.clock.monotonic(), wallMs: env.clock.wall() };
    const shared = new Answers();
    answers.set(resource, shared);
    renewals.start({
      type: "start",
      id,
      namespace,
      granted: { ...request, sent, token, remainingMs } as unknown as Start["granted"],
      options: {
        ttlMs: TTL_MS,
        autoRenew: true,
        renewIntervalMs: TTL_MS / 3,
        marginMs: 10,
        driftRatio: 0.01,
        stopOnRenewError: false,
      },
      answers: shared.memory,
    });
  }
  for (const resource of ["a", "h"]) await inner.revoke([{ namespace, resource, free: "now" }]);
  renewals.stop(2);
  await env.clock.advance(TTL_MS * 0.6);
  expect(Math.max(...batches)).toBeGreaterThan(1);
  const counted = posts.flatMap((message) => (message.type === "renewals" ? [message] : []));
  expect(counted.reduce((sum, { renewed }) => sum + renewed, 0)).toBe(RESOURCES.length - 3);
  const lost = counted.flatMap(({ others }) => others.map(({ resource }) => resource));
  expect(lost.sort()).toEqual(["a", "h"]);
  const woken = posts.flatMap((message) => (message.type === "wake" ? [message.id] : []));
  expect(woken.sort()).toEqual([0, 7]);
  expect(answers.get("b")?.read()?.answer).toMatchObject({ status: "renewed" });
  expect(answers.get("a")?.read()?.answer).toEqual({ status: "lost", reason: "revoked" });
  expect(answers.get("c")?.read()).toBeUndefined();
  renewals.close();
  expect(env.clock.pendingTimers).toBe(0);
});
