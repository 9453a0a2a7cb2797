import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import type { Lease } from "./lease.js";
import type { LeaseOptions } from "./options.js";

const TTL_MS = 3_000;

function world() {
  const env = manualEnv();
  const store = faultyStore(env);
  const lease = (holder: string, options: LeaseOptions = {}) =>
    new LeaseClient(store, { env, holder }, { close: undefined }).reusableLease("r", {
      ttlMs: TTL_MS,
      ...options,
    });
  return { env, clock: env.clock, store, lease };
}

describe("Lease", () => {
  it("two owners: one true, one false", async () => {
    const { lease, clock } = world();
    const [a, b] = [lease("a"), lease("b")];
    const answers = Promise.all([a.acquire(), b.acquire()]);
    await clock.advance(2_000);
    expect(await answers).toEqual([true, false]);
    expect([a.checkAlive(), b.checkAlive()]).toEqual([true, false]);
    expect(a.held?.token).toBe(1);
    expect(b.held).toBeNull();
  });

  it("acquire is idempotent while held, alone and at once", async () => {
    const { lease, store } = world();
    const a = lease("a");
    expect(await Promise.all([a.acquire(), a.acquire()])).toEqual([true, true]);
    expect(await a.acquire()).toBe(true);
    expect(store.calls.acquire).toBe(1);
    expect(a.held?.token).toBe(1);
  });

  it("tries again acquireRetries times before it says false", async () => {
    const { lease, clock, store } = world();
    await lease("a").acquire();
    const asked = store.calls.acquire;
    const answer = lease("b", { acquireRetries: 2, acquireRetryDelayMs: 100 }).acquire();
    await clock.advance(1_000);
    expect(await answer).toBe(false);
    expect(store.calls.acquire - asked).toBe(3);
  });

  it("says true when the resource becomes free between the tries", async () => {
    const { lease, clock } = world();
    const a = lease("a");
    await a.acquire();
    const answer = lease("b").acquire();
    await clock.advance(250);
    await a.release();
    await clock.advance(300);
    expect(await answer).toBe(true);
  });

  it("rejects when the outcome is unknown, and is usable afterwards", async () => {
    const { lease, clock, store } = world();
    const a = lease("a");
    store.faults.acquire = "hang";
    const answer = a.acquire().catch((error: unknown) => error);
    await clock.advance(10_000);
    expect(await answer).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
    expect(a.checkAlive()).toBe(false);
    store.faults.acquire = "ok";
    expect(await a.acquire()).toBe(true);
  });

  it("release is a no-op when not held, and frees when held", async () => {
    const { lease, store } = world();
    const [a, b] = [lease("a"), lease("b")];
    await a.release();
    expect(store.calls.release).toBe(0);
    await a.acquire();
    await a.release();
    await a.release();
    expect(store.calls.release).toBe(1);
    expect(a.checkAlive()).toBe(false);
    expect(await b.acquire()).toBe(true);
  });

  it("releases an acquire that was under way, and starts anew afterwards", async () => {
    const { lease, clock, store } = world();
    const a = lease("a");
    store.faults.acquire = "hold";
    const acquiring = a.acquire();
    const releasing = a.release();
    const again = a.acquire();
    await clock.settle();
    store.faults.acquire = "ok";
    store.open();
    expect(await acquiring).toBe(true);
    await releasing;
    expect(await again).toBe(true);
    expect(a.held?.token).toBe(2);
  });

  it("shares an acquire that was called after a release, also when an earlier one ends", async () => {
    const { lease, clock, store } = world();
    const a = lease("a");
    store.faults.acquire = "hold";
    const first = a.acquire();
    const releasing = a.release();
    const second = a.acquire();
    await clock.settle();
    store.open();
    await first;
    await releasing;
    await clock.settle();
    const third = a.acquire();
    store.faults.acquire = "ok";
    store.open();
    expect(third).toBe(second);
    expect(await third).toBe(true);
    expect(store.calls.acquire).toBe(2);
  });

  it("fires onLost once per loss, over several grants, until unsubscribed", async () => {
    const { lease, clock, store } = world();
    const a = lease("a");
    const seen: string[] = [];
    const unsubscribe = a.onLost((reason) => seen.push(reason));
    a.onLost(() => {
      throw new Error("a careless handler");
    });
    for (let grant = 1; grant <= 2; grant += 1) {
      store.faults.renew = "ok";
      expect(await a.acquire()).toBe(true);
      store.faults.renew = "refuse";
      await clock.advance(2 * TTL_MS);
      expect(a.checkAlive()).toBe(false);
      expect(seen).toHaveLength(grant);
    }
    unsubscribe();
    await a.acquire();
    await clock.advance(2 * TTL_MS);
    expect(seen).toEqual(["expired", "expired"]);
  });

  it("calls a function once for each time that it was subscribed, and not unsubscribed", async () => {
    const { env, lease } = world();
    const a = lease("a");
    const seen: string[] = [];
    const handler = (reason: string) => seen.push(reason);
    const leave = a.onLost(handler);
    a.onLost(handler);
    leave();
    leave();
    await a.acquire();
    env.clock.jumpWall(2 * TTL_MS);
    expect(a.checkAlive()).toBe(false);
    expect(seen).toEqual(["expired"]);
  });

  it("calls a handler that another one has subscribed for the next loss, not for the same", async () => {
    const { env, lease } = world();
    const a = lease("a");
    const seen: string[] = [];
    const leave = a.onLost(() => {
      leave();
      a.onLost((reason) => seen.push(reason));
    });
    for (const losses of [[], ["expired"]]) {
      await a.acquire();
      env.clock.jumpWall(2 * TTL_MS);
      expect(a.checkAlive()).toBe(false);
      expect(seen).toEqual(losses);
    }
  });

  it("releases a grant that the store renewed after its loss, when it acquires again", async () => {
    const { lease, clock, store } = world();
    const a = lease("a");
    await a.acquire();
    store.faults.renew = "cut";
    await clock.advance(TTL_MS);
    expect(a.checkAlive()).toBe(false);
    const again = a.acquire();
    await clock.advance(300);
    expect(await again).toBe(true);
    expect(a.held?.token).toBe(2);
  });

  it("a holder paused past its ttl finds out, and its successor is not disturbed", async () => {
    const { lease, clock, store } = world();
    const [a, b] = [lease("a"), lease("b")];
    await a.acquire();
    store.faults.renew = "hang";
    await clock.advance(TTL_MS);
    store.faults.renew = "ok";
    expect(await b.acquire()).toBe(true);
    expect(a.checkAlive()).toBe(false);
    await a.release();
    await clock.settle();
    expect(b.checkAlive()).toBe(true);
    expect(b.held?.token).toBe(2);
  });

  it("asks the store once for callers that acquire at the same time, also in vain", async () => {
    const { lease, store } = world();
    await lease("a").acquire();
    const asked = store.calls.acquire;
    const b = lease("b", { acquireRetries: 0 });
    expect(await Promise.all([b.acquire(), b.acquire()])).toEqual([false, false]);
    expect(store.calls.acquire - asked).toBe(1);
    expect(await b.acquire()).toBe(false);
    expect(store.calls.acquire - asked).toBe(2);
  });

  it("ends an acquire at once when its signal aborts or its client closes", async () => {
    const { env, lease, clock, store } = world();
    await lease("a").acquire();
    const abort = new AbortController();
    const leases = new LeaseClient(store, { env }, { close: undefined });
    const one = lease("b", { signal: abort.signal }).acquire();
    const other = leases.reusableLease("r").acquire();
    const aborted = expect(one).rejects.toBe("bye");
    const closed = expect(other).rejects.toMatchObject({ code: "CLOSED" });
    await clock.settle();
    abort.abort("bye");
    await leases.close();
    await Promise.all([aborted, closed]);
    expect(clock.monotonic()).toBe(0);
  });

  it("refuses a handler that is no function, and logs what a handler throws", async () => {
    const errors: [message: string, fields: object][] = [];
    const error = (fields: object, message: string) => void errors.push([message, fields]);
    const { env, lease } = world();
    Object.assign(env, { logger: { ...env.logger, error } });
    const a = lease("a");
    expect(() => a.onLost(7 as never)).toThrow(expect.objectContaining({ path: "handler" }));
    const err = new Error("careless");
    a.onLost(() => {
      throw err;
    });
    await a.acquire();
    env.clock.jumpWall(2 * TTL_MS);
    expect(a.checkAlive()).toBe(false);
    expect(errors).toEqual([["an onLost handler threw", { err, resource: "r" }]]);
  });

  it("acquires anew after its holder has released the lease itself, confirmed or not", async () => {
    const { env, clock, store } = world();
    const a = new LeaseClient(store, { env }, { close: undefined }).reusableLease("r");
    await a.acquire();
    store.faults.release = "cut";
    const releasing = expect((a.held as Lease).release()).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
    });
    await clock.advance(1_000);
    await releasing;
    expect(await a.acquire()).toBe(true);
    expect(a.held?.token).toBe(2);
  });

  it("releases on disposal; an unconfirmed release is logged", async () => {
    const warned: [message: string, fields: object][] = [];
    const warn = (fields: object, message: string) => void warned.push([message, fields]);
    const { env, lease, clock, store } = world();
    Object.assign(env, { logger: { ...env.logger, warn } });
    const a = lease("a");
    await a.acquire();
    await a[Symbol.asyncDispose]();
    expect(store.calls.release).toBe(1);
    expect(warned).toEqual([]);
    await a.acquire();
    store.faults.release = "refuse";
    const disposing = a[Symbol.asyncDispose]();
    await clock.advance(1_000);
    await disposing;
    const err = expect.objectContaining({ code: "STORE_UNAVAILABLE" });
    expect(warned).toEqual([["lease not released", { err, resource: "r" }]]);
  });
});
