import { describe, expect, it } from "vitest";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { LeaseClient } from "./client.js";
import { LeaseLostError, LeaseUnavailableError } from "./errors.js";

describe("run and tryRun", () => {
  it("runs, answers the work's value, and releases", async () => {
    const { a } = leasesWorld();
    const value = await a.run("r", async (lease) => {
      expect(lease).toMatchObject({ resource: "r", holder: "a" });
      expect(lease.checkAlive()).toBe(true);
      return lease.token;
    });
    expect(await a.get("r")).toMatchObject({ state: "released", token: value });
  });

  it("passes on what the work throws, and releases", async () => {
    const { a } = leasesWorld();
    await expect(a.run("r", () => Promise.reject(new Error("boom")))).rejects.toThrow("boom");
    expect(await a.get("r")).toMatchObject({ state: "released" });
  });

  it.each(["returns", "throws"])(
    "rejects LEASE_LOST when lost, whatever the work %s",
    async (how) => {
      const { a, clock, store } = leasesWorld();
      store.faults.renew = "refuse";
      const running = a.run("r", async (lease) => {
        await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
        if (how === "throws") throw new Error("stopped");
      });
      const outcome = expect(running).rejects.toBeInstanceOf(LeaseLostError);
      await clock.advance(2 * LEASE_TTL_MS);
      await outcome;
    },
  );

  it("notices a loss before any timer has fired", async () => {
    const { a, clock } = leasesWorld();
    const running = a.run("r", () => clock.jumpWall(2 * LEASE_TTL_MS));
    await expect(running).rejects.toBeInstanceOf(LeaseLostError);
  });

  it("tryRun says who holds it", async () => {
    const { a, b } = leasesWorld();
    await using _held = await a.acquire("r");
    expect(await b.tryRun("r", () => 1)).toEqual({
      ran: false,
      holder: "a",
      remainingMs: LEASE_TTL_MS,
    });
    expect(await b.tryRun("s", {}, () => 1)).toEqual({ ran: true, value: 1 });
  });

  it("refuses work that is no function", async () => {
    const { a } = leasesWorld();
    await expect(a.run("r", {} as never)).rejects.toMatchObject({ path: "work" });
  });
});

describe("acquire", () => {
  it("serves waiters of one client first in, first out, and only the head contends", async () => {
    const { a, clock, store } = leasesWorld();
    const first = await a.acquire("r");
    const order: number[] = [];
    const waiters = Array.from({ length: 50 }, (_, index) =>
      a.run("r", async () => {
        order.push(index);
      }),
    );
    await clock.advance(1_500);
    const idle = store.calls.acquire;
    expect(idle).toBeLessThan(10);
    await first.release();
    await clock.advance(1_000);
    await Promise.all(waiters);
    expect(order).toEqual(Array.from({ length: 50 }, (_, index) => index));
    // One attempt each: the next caller finds the resource free.
    expect(store.calls.acquire - idle).toBeLessThanOrEqual(51);
  });

  it("is woken by another client's release, without a poll", async () => {
    const { a, b, clock } = leasesWorld();
    const lease = await a.acquire("r");
    let got = false;
    const waiting = b.acquire("r").then(() => {
      got = true;
    });
    await clock.advance(10);
    await lease.release();
    await clock.settle();
    await clock.settle();
    expect(got).toBe(true);
    await waiting;
  });

  it("is woken though the watch has broken before", async () => {
    const { a, b, clock, store } = leasesWorld();
    const watch = store.watch.bind(store);
    store.watch = () => {
      store.watch = watch;
      throw new Error("broken");
    };
    const held = await a.acquire("r");
    const waiting = b.acquire("r");
    await clock.advance(5_000);
    await held.release();
    // No poll comes without the clock.
    await clock.settle();
    expect((await waiting).checkAlive()).toBe(true);
  });

  it("takes over at the expiry of a dead holder", async () => {
    const { a, b, clock, store } = leasesWorld();
    await a.acquire("r", { autoRenew: false });
    let gotAtMs = Number.NaN;
    void b.acquire("r").then(() => {
      gotAtMs = clock.monotonic();
    });
    store.faults.release = "hang";
    await clock.advance(LEASE_TTL_MS + 5);
    expect(gotAtMs).toBeGreaterThanOrEqual(LEASE_TTL_MS);
    expect(gotAtMs).toBeLessThanOrEqual(LEASE_TTL_MS + 2);
  });

  it("takes over at the expiry of a lease of its own whose release was not confirmed", async () => {
    const { a, clock, store } = leasesWorld();
    const held = await a.acquire("r");
    store.faults.release = "refuse";
    const releasing = held.release().catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await releasing).toMatchObject({ code: "STORE_UNAVAILABLE" });
    store.faults.release = "ok";
    const again = a.acquire("r", { waitMs: LEASE_TTL_MS });
    await clock.advance(LEASE_TTL_MS);
    const next = await again;
    expect(next.token).toBeGreaterThan(held.token);
    await next.release();
    let closed = false;
    void a.close().then(() => {
      closed = true;
    });
    await clock.advance(0);
    expect(closed).toBe(true);
  });

  it("gives up after waitMs, naming the holder", async () => {
    const { a, b, clock } = leasesWorld();
    await a.acquire("r");
    const waiting = b.acquire("r", { waitMs: 1_000 }).catch((error: unknown) => error);
    await clock.advance(1_001);
    expect(await waiting).toBeInstanceOf(LeaseUnavailableError);
    expect(await waiting).toMatchObject({ holder: "a", waitedMs: 1_000, retryable: true });
    expect(await b.acquire("r", { waitMs: 0 }).catch((e: unknown) => e)).toBeInstanceOf(
      LeaseUnavailableError,
    );
    await using free = await b.acquire("s", { waitMs: 0 });
    expect(free.checkAlive()).toBe(true);
  });

  it("rejects with the caller's own reason on abort, in the queue and at its head", async () => {
    const { a, b, clock } = leasesWorld();
    await a.acquire("r");
    const abort = new AbortController();
    const head = b.acquire("r", { signal: abort.signal }).catch((error: unknown) => error);
    const queued = b.acquire("r", { signal: abort.signal }).catch((error: unknown) => error);
    await clock.advance(100);
    const reason = new Error("enough");
    abort.abort(reason);
    expect(await head).toBe(reason);
    expect(await queued).toBe(reason);
  });

  it("passes the head of the local queue on when its caller aborts", async () => {
    const { a, b, clock } = leasesWorld();
    const held = await a.acquire("r");
    const abort = new AbortController();
    const head = b.acquire("r");
    const gone = b.acquire("r", { signal: abort.signal }).catch(() => "gone");
    const last = b.acquire("r");
    await clock.advance(100);
    abort.abort();
    expect(await gone).toBe("gone");
    await held.release();
    await (await head).release();
    expect((await last).checkAlive()).toBe(true);
  });

  it("lets any number of calls share a signal without a warning", async () => {
    const { a, b, clock } = leasesWorld();
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on("warning", onWarning);
    await a.acquire("r");
    const abort = new AbortController();
    const { signal } = abort;
    const waiting = Array.from({ length: 100 }, () => b.acquire("r", { signal }).catch(() => "x"));
    await Promise.all(Array.from({ length: 100 }, (_, i) => b.tryAcquire(`s${i}`, { signal })));
    await clock.advance(100);
    abort.abort();
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["x"]));
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });

  it("answers the same grant when the first answer was lost", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    const acquiring = a.tryAcquire("r");
    await clock.settle();
    store.faults.acquire = "ok";
    await clock.advance(500);
    const lease = await acquiring;
    expect(lease?.checkAlive()).toBe(true);
    expect(await a.get("r")).toMatchObject({ token: 1, state: "live" });
  });

  it("trusts a replayed grant only for what is left of it", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    const acquiring = a.tryAcquire("r");
    await clock.settle();
    await clock.advance(1);
    store.faults.acquire = "ok";
    await clock.advance(500);
    const lease = await acquiring;
    const view = await a.get("r");
    expect(lease?.remainingMs()).toBeLessThanOrEqual(view?.remainingMs ?? 0);
  });

  it("frees what it gave up on", async () => {
    const { a, b, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    const acquiring = a.tryAcquire("r").catch((error: unknown) => error);
    // Its grant would not have expired by then.
    await clock.advance(LEASE_TTL_MS / 2);
    expect(await acquiring).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
    store.faults.acquire = "ok";
    await clock.settle();
    expect(await b.tryAcquire("r")).not.toBeNull();
  });

  it("says unknown, and frees, when a refusal follows a call without an answer", async () => {
    const { a, b, clock, store } = leasesWorld();
    store.faults.acquire = "cut";
    const acquiring = a.tryAcquire("r").catch((error: unknown) => error);
    await clock.settle();
    store.faults.acquire = "refuse";
    await clock.advance(LEASE_TTL_MS / 2);
    expect(await acquiring).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
    store.faults.acquire = "ok";
    expect(await b.tryAcquire("r")).not.toBeNull();
  });

  it("asks under one lease id while it waits: its place in the queue", async () => {
    const { a, b, clock, store } = leasesWorld();
    const asked = new Set<string>();
    const { acquire } = store;
    store.acquire = (requests) => {
      for (const request of requests) if (request.holder === "b") asked.add(request.leaseId);
      return acquire(requests);
    };
    const leases = new LeaseClient(store, { env: b.env, holder: "b" }, { close: undefined });
    const lease = await a.acquire("r");
    const waiting = leases.acquire("r");
    await clock.advance(20_000);
    await lease.release();
    await clock.advance(10);
    expect((await waiting).leaseId).toBe([...asked][0]);
    expect(asked.size).toBe(1);
  });

  it("frees a grant whose caller has aborted meanwhile", async () => {
    const { a, b, clock, store } = leasesWorld();
    store.faults.acquire = "hold";
    const abort = new AbortController();
    const acquiring = a.acquire("r", { signal: abort.signal }).catch((error: unknown) => error);
    await clock.settle();
    abort.abort("bye");
    expect(await acquiring).toBe("bye");
    store.faults.acquire = "ok";
    store.open();
    await clock.settle();
    expect(await b.tryAcquire("r")).not.toBeNull();
  });

  it.each([
    ["whenever", false],
    ["of a second attempt whenever", true],
  ])(
    "frees the grant %s the abort comes, also between the answer and its reader",
    async (_, isSecond) => {
      for (let turns = 0; turns < 30; turns += 1) {
        const { a, b, clock, store } = leasesWorld();
        store.faults.acquire = isSecond ? "refuse" : "hold";
        const abort = new AbortController();
        const acquiring = a.tryAcquire("r", { signal: abort.signal }).catch(() => null);
        await clock.settle();
        if (isSecond) {
          store.faults.acquire = "hold";
          await clock.advance(1_000);
        }
        store.open();
        for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
        abort.abort();
        const lease = await acquiring;
        store.faults.acquire = "ok";
        await clock.settle();
        const free = (await b.tryAcquire("r")) !== null;
        expect(free, `aborted after ${turns} turns`).toBe(lease === null);
        if (lease) expect(lease.checkAlive()).toBe(true);
      }
    },
  );

  it("is not late for waitMs because of a poll", async () => {
    const { a, b, clock } = leasesWorld();
    await a.acquire("r");
    let gaveUpAtMs = Number.NaN;
    void b.acquire("r", { waitMs: 1_777 }).catch(() => {
      gaveUpAtMs = clock.monotonic();
    });
    await clock.advance(3_000);
    expect(gaveUpAtMs).toBe(1_777);
  });

  it("does not count a grant whose trust had passed on arrival", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "hold";
    const acquiring = a.tryAcquire("r", { ttlMs: 100 }).catch((error: unknown) => error);
    await clock.settle();
    clock.jumpWall(200);
    store.faults.acquire = "refuse";
    store.open();
    await clock.advance(500);
    expect(await acquiring).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await a.get("r")).toMatchObject({ state: "released" });
  });

  it("keeps no timer of its wait, whether it gets the lease at once, later or not", async () => {
    const { a, b, clock } = leasesWorld();
    const first = await a.acquire("r", { waitMs: 600_000, autoRenew: false });
    const waiting = b.acquire("r", { waitMs: 600_000, autoRenew: false });
    const failing = expect(b.acquire("r", { waitMs: 100 })).rejects.toMatchObject({
      code: "LEASE_UNAVAILABLE",
    });
    await clock.advance(200);
    await failing;
    await first.release();
    await clock.advance(1_000);
    await (await waiting).release();
    expect(clock.pendingTimers).toBe(0);
  });

  it("renews by itself for the TTL of the lease, whatever a caller has renewed it for once", async () => {
    const { a, clock } = leasesWorld();
    const lease = await a.acquire("r");
    await lease.renew({ ttlMs: 10 * LEASE_TTL_MS });
    expect((await a.get("r"))?.ttlMs).toBe(10 * LEASE_TTL_MS);
    await clock.advance(20 * LEASE_TTL_MS);
    expect(lease.checkAlive()).toBe(true);
    expect((await a.get("r"))?.ttlMs).toBe(LEASE_TTL_MS);
    await lease.release();
  });

  it("waits through an outage of the store", async () => {
    const { a, clock, store } = leasesWorld();
    store.faults.acquire = "refuse";
    const acquiring = a.acquire("r");
    await clock.advance(20_000);
    store.faults.acquire = "ok";
    await clock.advance(5_000);
    expect((await acquiring).checkAlive()).toBe(true);
  });

  it("checks names before anything is sent", async () => {
    const { a, store } = leasesWorld();
    await expect(a.acquire("")).rejects.toMatchObject({ code: "INVALID_OPTION", path: "resource" });
    expect(store.calls.acquire).toBe(0);
  });
});

describe("batching", () => {
  it("sends concurrent acquires and due renewals together", async () => {
    const { a, clock, store } = leasesWorld();
    const leases = await Promise.all(Array.from({ length: 500 }, (_, i) => a.acquire(`r${i}`)));
    // A call takes half of the callers, so that the store works on one while others are answered.
    expect(store.calls.acquire).toBe(2);
    await clock.advance(5 * LEASE_TTL_MS);
    expect(leases.every((lease) => lease.checkAlive())).toBe(true);
    await Promise.all(leases.map((lease) => lease.release()));
    expect(store.calls.release).toBe(2);
    expect(clock.pendingTimers).toBe(0);
  });
});
