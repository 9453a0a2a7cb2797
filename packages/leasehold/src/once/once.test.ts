import { describe, expect, it, vi } from "vitest";
import { instead } from "../../../../tests/support/worlds/instead.js";
import { onceWith, onceWorld } from "../../../../tests/support/worlds/once-world.js";
import { EventQueue } from "../env/index.js";
import { connect, LeaseLostError, openStores, StoreUnavailableError } from "../index.js";
import type { WatchEvent } from "../lease/index.js";
import { memory } from "../stores/memory/index.js";
import { manualEnv } from "../testing/index.js";
import type { OnceLease } from "./lease.js";
import type { OnceOptions } from "./once.js";

/** Work that goes on until its end is called. */
function step() {
  let begin = () => {};
  let end = () => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const ended = new Promise<void>((resolve) => (end = resolve));
  return {
    begun,
    end,
    async wait() {
      begin();
      await ended;
    },
  };
}

describe("once", () => {
  it("does the work of a key once, and answers all others with its value", async () => {
    const { a, b } = await onceWorld();
    let runs = 0;
    const work = async () => {
      runs += 1;
      return { run: runs };
    };
    const answers = await Promise.all([a, b, a, b, b].map((client) => client.once("bill", work)));
    expect(runs).toBe(1);
    expect(answers.filter(({ ran }) => ran)).toEqual([{ ran: true, value: { run: 1 } }]);
    for (const answer of answers) expect(answer.value).toEqual({ run: 1 });
    const later = await b.once("bill", work);
    expect(later).toEqual({
      ran: false,
      value: { run: 1 },
      by: answers[0]?.ran ? "a" : "b",
      at: expect.any(String) as string,
    });
    expect(await a.once("mail", work)).toEqual({ ran: true, value: { run: 2 } });
  });

  it("sends a caller of a key that is done one read and no lease", async () => {
    const { a, b } = await onceWorld();
    await a.once("bill", () => 1);
    const { token } = (await a.get("once:bill")) ?? { token: 0 };
    await b.once("bill", () => 2);
    expect((await a.get("once:bill"))?.token).toBe(token);
  });

  it.each<[string, (lease: OnceLease) => PromiseLike<void>]>([
    ["releases", (lease) => lease.release()],
    ["disposes of", (lease) => lease[Symbol.asyncDispose]()],
  ])("keeps the lease that the work %s until its outcome is recorded", async (_, release) => {
    const { a, b, view } = await onceWorld();
    const failing = a.once("bill", async (lease) => {
      try {
        throw new Error("real reason");
      } finally {
        await release(lease);
      }
    });
    await expect(failing).rejects.toThrow("real reason");
    expect(await view("bill")).toMatchObject({ state: "failing", failures: 1 });
    const answer = await a.once("bill", async (lease) => {
      await release(lease);
      expect(lease.checkAlive()).toBe(true);
      expect(await b.tryAcquire("once:bill")).toBe(null);
      return "billed";
    });
    expect(answer).toEqual({ ran: true, value: "billed" });
    expect(await b.once("bill", () => "never")).toMatchObject({ ran: false, value: "billed" });
    expect(await a.get("once:bill")).not.toMatchObject({ state: "live" });
  });

  it("wakes all waiters when the key is done, not one after the other", async () => {
    const { a, b, env } = await onceWorld();
    const working = step();
    const first = a.once("bill", () => working.wait());
    await working.begun;
    const waiting = Array.from({ length: 20 }, () => b.once("bill", () => "never"));
    await env.clock.settle();
    const grant = await a.get("once:bill");
    working.end();
    expect((await first).ran).toBe(true);
    for (const answer of await Promise.all(waiting)) expect(answer.ran).toBe(false);
    // At most the head of the queue was granted the lease: the others were answered by the notification.
    const last = await a.get("once:bill");
    expect((last?.token ?? 0) - (grant?.token ?? 0)).toBeLessThanOrEqual(1);
  });

  it("does not warn of a long wait, which is what its callers are there for", async () => {
    const { env, a, b } = await onceWorld();
    const warn = vi.spyOn(env.logger, "warn");
    const working = step();
    const first = a.once("bill", () => working.wait());
    await working.begun;
    const second = b.once("bill", () => working.wait());
    await env.clock.advance(25_000);
    working.end();
    await first;
    expect((await second).ran).toBe(false);
    expect(warn).not.toHaveBeenCalled();
  });

  it("gives up after waitMs, at once with 0, and at the caller's signal", async () => {
    const { a, b, env } = await onceWorld();
    const working = step();
    const first = a.once("bill", () => working.wait());
    await working.begun;
    const now = b.once("bill", { waitMs: 0 }, () => 1).catch((error: Error) => error);
    expect(await now).toMatchObject({ code: "LEASE_UNAVAILABLE", holder: "a" });
    const later = b.once("bill", { waitMs: 5_000 }, () => 1).catch((error: Error) => error);
    const leaving = new AbortController();
    const { signal } = leaving;
    const aborted = b.once("bill", { signal }, () => 1).catch((error: unknown) => error);
    await env.clock.advance(4_000);
    leaving.abort("leaving");
    expect(await aborted).toBe("leaving");
    await env.clock.advance(2_000);
    expect(await later).toMatchObject({ code: "LEASE_UNAVAILABLE", waitedMs: 5_000 });
    working.end();
    await first;
  });

  it("waits for a store that does not answer, unless it shall not wait", async () => {
    const { env, records } = await onceWorld();
    const error = new StoreUnavailableError("it is down", { outcome: "none" });
    let isDown = true;
    const { acquire } = records.leases;
    const leases = instead(records.leases, {
      acquire: (...call: Parameters<typeof acquire>) =>
        isDown ? Promise.reject(error) : acquire.apply(records.leases, call),
    });
    const leasehold = await connect(leases, { env });
    const client = onceWith(leasehold, records, {});
    const now = client.once("bill", { waitMs: 0 }, () => 1);
    const refused = expect(now).rejects.toBe(error);
    await env.clock.advance(10_000);
    await refused;
    const later = client.once("bill", {}, () => 1);
    await env.clock.advance(10_000);
    isDown = false;
    await env.clock.advance(60_000);
    expect(await later).toEqual({ ran: true, value: 1 });
    await client.close();
    await leasehold.close();
  });

  it("does not record work that throws: a waiter tries next", async () => {
    const { a, b, view } = await onceWorld();
    const working = step();
    const first = a.once("bill", async () => {
      await working.wait();
      throw new Error("the bank is closed");
    });
    await working.begun;
    const second = b.once("bill", ({ failures }) => `after ${failures}`);
    working.end();
    await expect(first).rejects.toThrow("the bank is closed");
    expect(await second).toEqual({ ran: true, value: "after 1" });
    expect(await view("bill")).toMatchObject({ state: "done", failures: 0 });
  });

  it("waits for the time of the next attempt, within waitMs", async () => {
    const { a, b, env } = await onceWorld();
    const bad = () => Promise.reject(new Error("no"));
    await a.once("bill", { retryDelayMs: 10_000 }, bad).catch(() => {});
    const hasty = b.once("bill", { waitMs: 9_000 }, () => 1).catch((error: Error) => error);
    expect(await hasty).toMatchObject({ code: "LEASE_UNAVAILABLE", holder: "a" });
    let ran = false;
    const patient = b.once("bill", () => (ran = true));
    await env.clock.advance(9_900);
    expect(ran).toBe(false);
    await env.clock.advance(200);
    expect(await patient).toEqual({ ran: true, value: true });
  });

  it("runs again when the lease of the one who worked has ended without a record", async () => {
    const { a, b, env, view } = await onceWorld();
    void a.once("bill", () => new Promise(() => {})).catch(() => {});
    await env.clock.settle();
    await b.revoke("once:bill", { free: "now" });
    expect(await b.once("bill", () => "sent")).toEqual({ ran: true, value: "sent" });
    expect(await view("bill")).toMatchObject({ state: "done", by: "b" });
  });

  it("records nothing of a holder whose lease has passed to another one", async () => {
    const { a, b, view } = await onceWorld();
    const [late, next] = [step(), step()];
    const first = a.once("bill", async () => {
      await late.wait();
      return "late";
    });
    await late.begun;
    await b.revoke("once:bill", { free: "now" });
    const second = b.once("bill", async () => {
      await next.wait();
      return "next";
    });
    await next.begun;
    late.end();
    await expect(first).rejects.toBeInstanceOf(LeaseLostError);
    next.end();
    expect(await second).toEqual({ ran: true, value: "next" });
    expect(await view("bill")).toMatchObject({ value: "next", by: "b" });
  });

  it("asks again when the reply of the record is lost", async () => {
    const { a, env, records, view } = await onceWorld();
    let asked = 0;
    const client = onceWith(a, records, {
      async succeed(request) {
        asked += 1;
        const outcome = await records.succeed(request);
        if (asked > 1) return outcome;
        const error = new LeaseLostError("r", "gone");
        return { status: "failed", applied: "maybe", retryable: true, error };
      },
    });
    const answer = client.once("bill", {}, () => "sent");
    await env.clock.advance(1_000);
    expect(await answer).toEqual({ ran: true, value: "sent" });
    expect(asked).toBe(2);
    expect(await view("bill")).toMatchObject({ value: "sent" });
    await client.close();
  });

  it("asks again when the reply of a failure is lost, and warns of none", async () => {
    const { a, env, records, view } = await onceWorld();
    const warn = vi.spyOn(env.logger, "warn");
    let asked = 0;
    const client = onceWith(a, records, {
      async fail(request) {
        asked += 1;
        const outcome = await records.fail(request);
        if (asked > 1) return outcome;
        const error = new LeaseLostError("r", "gone");
        return { status: "failed", applied: "maybe", retryable: true, error };
      },
    });
    const failing = client.once("bill", {}, () => Promise.reject(new Error("no")));
    const failed = expect(failing).rejects.toThrow("no");
    await env.clock.advance(1_000);
    await failed;
    expect(asked).toBe(2);
    expect(await view("bill")).toMatchObject({ state: "failing", failures: 1 });
    expect(warn).not.toHaveBeenCalled();
    await client.close();
  });

  it("looks again under the lease for what was recorded since its first look", async () => {
    const { a, b, records } = await onceWorld();
    let isFirst = true;
    const client = onceWith(a, records, {
      async get(key) {
        const view = await records.get(key);
        if (isFirst) await b.once("bill", () => "b");
        isFirst = false;
        return view;
      },
    });
    expect(await client.once("bill", {}, () => "a")).toMatchObject({ ran: false, value: "b" });
    await client.close();
  });

  it("keeps the value that it found while it waited, though an earlier look comes back later", async () => {
    const { a, env, records } = await onceWorld();
    const [work, events] = [step(), new EventQueue<WatchEvent>()];
    let answerLate = () => {};
    const { release } = records.leases;
    const leases = instead(records.leases, {
      watch: () => events.read(),
      async release(...call: Parameters<typeof release>) {
        answerLate();
        await env.clock.advance(1);
        return release.apply(records.leases, call);
      },
    });
    const leasehold = await connect(leases, { env, holder: "b" });
    let looks = 0;
    const client = onceWith(leasehold, records, {
      async get(key) {
        looks += 1;
        if (looks !== 3) return records.get(key);
        await new Promise<void>((resolve) => (answerLate = resolve));
        return null;
      },
    });
    const done = a.once("bill", async () => {
      await work.wait();
      return "a";
    });
    await work.begun;
    const answer = client.once("bill", {}, () => "b");
    await vi.waitUntil(() => looks === 2);
    const changed = { type: "changed", namespace: "default", resource: "once:bill" } as const;
    events.push(changed);
    await vi.waitUntil(() => looks === 3);
    work.end();
    await done;
    events.push(changed);
    expect(await answer).toMatchObject({ ran: false, value: "a" });
    events.end();
    await client.close();
    await leasehold.close();
  });

  it("records work whose value cannot be kept, and tells its caller alone", async () => {
    const { a, b } = await onceWorld();
    const large = "x".repeat(70_000);
    for (const [key, value] of [
      ["bigint", 1n],
      ["large", large],
    ] as const) {
      const refused = await a.once(key, () => value).catch((error: Error) => error);
      expect(refused).toMatchObject({
        code: "INVALID_OPTION",
        path: "value",
        message: expect.stringMatching(/; the key counts as done, without a value$/) as string,
      });
      expect(await b.once(key, () => "again")).toMatchObject({ ran: false, value: null, by: "a" });
    }
  });

  it("refuses a transaction where none can hold the record", async () => {
    const { a, view } = await onceWorld();
    const client = { query: async () => ({ rows: [] }) };
    const refused = a.once("bill", (lease) => lease.succeed("sent", { client }));
    await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
    expect(await view("bill")).toMatchObject({ state: "failing", failures: 1 });
  });

  it("refuses wrong arguments by name, before the work", async () => {
    const { a } = await onceWorld();
    const work = () => expect.unreachable();
    for (const [key, options, path] of [
      ["", {}, "key"],
      ["x".repeat(201), {}, "key"],
      ["bill", { keepMs: 0 }, "keepMs"],
      ["bill", { maxAttempts: 0.5 }, "maxAttempts"],
      ["bill", { maxAttempts: 2 ** 31 }, "maxAttempts"],
      ["bill", { retryDelayMs: -1 }, "retryDelayMs"],
      ["bill", { retryDelayMs: 2 ** 31 }, "retryDelayMs"],
      ["bill", { waitMs: -1 }, "waitMs"],
      ["bill", { ttlMs: 1 }, "ttlMs"],
      ["bill", { ttl: 1_000 }, "ttl"],
    ] as const) {
      const refused = a.once(key, options as OnceOptions, work);
      await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION", path });
    }
    await expect(a.once("bill", {}, undefined as never)).rejects.toMatchObject({ path: "work" });
  });

  it("is refused where there are leases only, and the client closes as any other", async () => {
    const { leases } = await openStores("memory:");
    const client = await connect(leases, { env: manualEnv() });
    await expect(client.once("bill", () => 1)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await client.close();
  });

  it("keeps its leases beside its records, where those are in another store", async () => {
    const env = manualEnv();
    const [leases, tasks] = [memory(), memory()];
    await using client = await connect(leases, { env, tasks });
    expect(await client.once("bill", () => 1)).toEqual({ ran: true, value: 1 });
    const [first, second] = await Promise.all([leases.open(env), tasks.open(env)]);
    const key = { namespace: "default", resource: "once:bill" };
    expect(await first.leases.get([key])).toEqual([null]);
    expect((await second.leases.get([key]))[0]?.state).toBe("released");
  });
});
