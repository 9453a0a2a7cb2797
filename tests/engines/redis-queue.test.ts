/** Waiters on Redis, each with its own connections: the order in which they are served, and its cost. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { AcquireRequest, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { Keys } from "../../packages/leasehold/src/stores/redis/keys.js";
import type { RedisLeaseStore } from "../../packages/leasehold/src/stores/redis/store.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { LONG_MS, Opened, POLL_AT_LEAST_MS, requestOf } from "../support/faults/queue-site.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { compile } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";

const namespace = "default";
const keys = new Keys("");

describeRedis("waiters on Redis", () => {
  let server: RedisServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startRedis();
  });
  afterEach(async () => {
    await opened.closeAll();
    await endAll(server.process);
    await server.ask("flushall");
  });
  afterAll(async () => {
    await server.remove();
    await endAll();
  });

  const openStore = async (port = server.port): Promise<LeaseStore> =>
    opened.later(await redis({ url: `redis://127.0.0.1:${port}` }).open(systemEnv)).leases;
  const waiterOf = (resource: string, queueMs = LONG_MS) =>
    requestOf(resource, { holder: "w", queueMs });
  const ticketsOf = async (resource: string) => {
    const members = await server.ask("zrange", keys.queue({ namespace, resource }), 0, -1);
    return (members as string[]).filter((member) => /^[0-9a-f]{48}$/.test(member));
  };
  const keysOfLines = async () => {
    const all = (await server.ask("keys", "*")) as string[];
    return all.filter((key) => /\}line:/.test(key));
  };
  /** How often the server has run each command, counting the commands within our scripts. */
  const commands = async () => {
    const stats = String(await server.ask("info", "commandstats"));
    const calls = [...stats.matchAll(/^cmdstat_(\w+):calls=(\d+)/gm)];
    return new Map(calls.map(([, name = "", count]) => [name, Number(count)]));
  };
  const scripts = async () => {
    const calls = await commands();
    return (calls.get("evalsha") ?? 0) + (calls.get("eval") ?? 0);
  };

  /** Clients that wait, who came one after the other; each holds for a moment only. */
  async function line(resource: string, count: number, url = server.url) {
    const served: number[] = [];
    const ends: Promise<unknown>[] = [];
    const before = (await ticketsOf(resource)).length;
    for (let at = 0; at < count; at += 1) {
      const leases = opened.later(await connect(url, { graceMs: 0 }));
      const run = leases.run(resource, { ttlMs: LONG_MS, waitMs: LONG_MS }, () => {
        served.push(at);
      });
      ends.push(run);
      await until(expect, "its ticket", async () => {
        return (await ticketsOf(resource)).length > before + at;
      });
    }
    return { served, ends: Promise.all(ends) };
  }

  it.each([5, 25])("are served first in, first out, each woken alone: %i", async (count) => {
    const resource = `line of ${count}`;
    const holder = await openStore();
    const held = requestOf(resource);
    await holder.acquire([held]);
    const { served, ends } = await line(resource, count);
    await settledDown(scripts);
    const before = await scripts();
    const sinceMs = performance.now();
    await holder.release([held]);
    await ends;
    expect(served).toEqual(Array.from({ length: count }, (_, at) => at));
    // An acquire and a release of each: were all woken each time, there were many more.
    const polls = count * Math.ceil((performance.now() - sinceMs) / POLL_AT_LEAST_MS);
    expect((await scripts()) - before).toBeLessThanOrEqual(2 * count + 1 + polls);
    expect(await keysOfLines()).toEqual([]);
  });

  it("add no cost to an uncontended lease, nor after the last waiter has left", async () => {
    const store = await openStore();
    const brief = waiterOf("quiet", 100);
    const cycle = async () => {
      const before = await commands();
      const held = waiterOf("quiet", 100);
      await store.acquire([held]);
      await store.release([held]);
      const after = await commands();
      const count = (name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
      return count("zrangebyscore") + count("zrank") + count("zrange");
    };
    expect(await cycle()).toBe(0);
    const held = requestOf("quiet");
    await store.acquire([held]);
    await store.acquire([brief]);
    await store.release([held]);
    expect(await cycle()).toBeGreaterThan(0);
    await until(expect, "its ticket is forgotten", async () => (await cycle()) === 0);
    await until(expect, "its keys are, too", async () => (await keysOfLines()).length === 0);
  });

  it("are woken one at a time: the first by a release, the next when the first gives up", async () => {
    const store = await openStore();
    const held = requestOf("woken");
    await store.acquire([held]);
    const waiters = [waiterOf("woken", 100), ...[1, 2, 3].map(() => waiterOf("woken"))];
    await store.acquire(waiters);
    const watching = new LeaseWatching(await openStore(), namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const [dead, first, , last] = waiters.map(({ leaseId }) => leaseId);
    await until(expect, "one is dead", async () => {
      const view = only(await store.acquire([waiters[3] as AcquireRequest]));
      return view.status === "held" && view.ahead === 2;
    });
    expect(await ticketsOf("woken")).not.toContain(dead);
    await store.release(waiters.slice(2, 3));
    await store.release([held]);
    await until(expect, "the release", () => watching.changed.length === 1);
    await store.release(waiters.slice(1, 2));
    await until(expect, "the first has given up", () => watching.changed.length === 2);
    const changed = { type: "changed", namespace, resource: "woken" };
    expect(watching.changed).toEqual([
      { ...changed, wakes: grantIdOf(first!) },
      { ...changed, wakes: grantIdOf(last!) },
    ]);
    expect(await ticketsOf("woken")).toEqual([last]);
    await watching.stop();
  });

  it("are passed over once they have died: a release wakes the first living waiter", async () => {
    const store = await openStore();
    const held = requestOf("left");
    await store.acquire([held]);
    const [dead, next] = [waiterOf("left", 1), waiterOf("left")];
    await store.acquire([dead, next]);
    const watching = new LeaseWatching(await openStore(), namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const ticket = `@${dead.leaseId}`;
    const endsAtUs = Number(
      await server.ask("zscore", keys.queue({ namespace, resource: "left" }), ticket),
    );
    await until(expect, "its end", async () => {
      const [seconds, micros] = (await server.ask("time")) as [string, string];
      return Number(seconds) * 1e6 + Number(micros) > endsAtUs;
    });
    await store.release([held]);
    await until(expect, "the release", () => watching.changed.length === 1);
    expect(watching.changed).toMatchObject([{ wakes: grantIdOf(next.leaseId) }]);
    await watching.stop();
  });

  it("are woken by a holder that would have waited, the first living one, which no newcomer overtakes", async () => {
    const store = await openStore();
    const held = waiterOf("after a waiter");
    await store.acquire([held]);
    const [dead, next] = [waiterOf("after a waiter", 1), waiterOf("after a waiter")];
    await store.acquire([dead]);
    await store.acquire([next]);
    const watching = new LeaseWatching(await openStore(), namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const queue = keys.queue({ namespace, resource: "after a waiter" });
    const endsAtUs = Number(await server.ask("zscore", queue, `@${dead.leaseId}`));
    await until(expect, "the end of the dead one", async () => {
      const [seconds, micros] = (await server.ask("time")) as [string, string];
      return Number(seconds) * 1e6 + Number(micros) > endsAtUs;
    });
    const before = await scripts();
    await store.release([held]);
    expect((await scripts()) - before).toBe(1);
    await until(expect, "the release", () => watching.changed.length === 1);
    expect(watching.changed).toMatchObject([{ wakes: grantIdOf(next.leaseId) }]);
    const newcomer = only(await store.acquire([waiterOf("after a waiter")]));
    expect(newcomer).toMatchObject({ status: "held", grantId: null, ahead: 1 });
    expect(only(await store.acquire([next]))).toMatchObject({ status: "acquired" });
    await watching.stop();
  });

  it("are woken when those before them give up at once, each by another store", async () => {
    const [one, other] = [await openStore(), (await openStore()) as RedisLeaseStore];
    const held = requestOf("at once");
    const waiters = [waiterOf("at once"), waiterOf("at once"), waiterOf("at once")];
    await one.acquire([held]);
    for (const waiter of waiters) await one.acquire([waiter]);
    await one.release([held]);
    const watching = new LeaseWatching(await openStore(), namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const { servers, scripts } = other.calls;
    const run = servers.run.bind(servers);
    servers.run = async (lane, script, ...more) => {
      // The second one was loaded behind the first, which leaves before that is saved.
      if (script === scripts.save) await one.release(waiters.slice(0, 1));
      return run(lane, script, ...more);
    };
    await other.acquire([requestOf("elsewhere")]);
    await other.release(waiters.slice(1, 2));
    const wakes = grantIdOf(waiters[2]?.leaseId ?? "");
    await until(expect, "the third is woken", () =>
      watching.changed.some((event) => "wakes" in event && event.wakes === wakes),
    );
    await watching.stop();
  });

  it("change nothing where another client has overwritten the key of their queue", async () => {
    const store = await openStore();
    const [held, waiter] = [requestOf("overwritten"), waiterOf("overwritten")];
    await server.ask("set", keys.queue(held), "something else");
    const failed = { status: "failed", applied: "no", error: { code: "STORE_MISCONFIGURED" } };
    expect(await store.acquire([held, waiter])).toMatchObject([failed, failed]);
    expect(await store.get([held])).toEqual([null]);
    expect(await store.acquire([held])).toMatchObject([{ status: "acquired" }]);
    expect(await store.acquire([waiter])).toMatchObject([failed]);
    expect(await store.release([held])).toEqual([{ status: "released" }]);
  });

  it("are woken by a revocation that frees the resource", async () => {
    const store = await openStore();
    await store.acquire([requestOf("revoked")]);
    const { served, ends } = await line("revoked", 2);
    await store.revoke([{ namespace, resource: "revoked", free: "now" }]);
    await ends;
    expect(served).toEqual([0, 1]);
  });

  it("are passed over when their process was killed, or is cut off", async () => {
    const holder = await openStore();
    const held = requestOf("killed");
    await holder.acquire([held]);
    const program = await compile(
      new URL("../support/processes/wait-for-lease.ts", import.meta.url),
    );
    opened.onClose(() => program.remove());
    const proxy = opened.later(await openTcpProxy({ port: server.port }));
    const dead = new Child(process.execPath, [program.path, server.url, "killed"]);
    await until(expect, "its ticket", async () => (await ticketsOf("killed")).length === 1);
    const url = `redis://127.0.0.1:${proxy.port}`;
    const cutOff = new Child(process.execPath, [program.path, url, "killed"]);
    await until(expect, "its ticket", async () => (await ticketsOf("killed")).length === 2);
    const { served, ends } = await line("killed", 3);
    await dead.end("SIGKILL");
    for (const connection of proxy.connections) {
      connection.blackhole("toServer");
      connection.blackhole("toClient");
    }
    await holder.release([held]);
    await ends;
    expect(served).toEqual([0, 1, 2]);
    expect([...dead.out, ...cutOff.out]).toEqual([]);
    expect(await keysOfLines()).toEqual([]);
    await cutOff.end("SIGKILL");
  });

  it("are counted, a thousand too, and keep one place each, whatever answers are lost", async () => {
    const proxy = opened.later(await openTcpProxy({ port: server.port }));
    const [holder, behind] = [await openStore(), await openStore(proxy.port)];
    await holder.acquire([requestOf("deep")]);
    const crowd = Array.from({ length: 1_000 }, () => waiterOf("deep"));
    const ahead = async (waiters: readonly AcquireRequest[]) => {
      const outcomes = await behind.acquire(waiters, { timeoutMs: 2_000 });
      return outcomes.map((outcome) => (outcome.status === "held" ? outcome.ahead : outcome));
    };
    const places = crowd.map((_, at) => at);
    expect(await ahead(crowd)).toEqual(places);
    const dropped = proxy.dropNextAnswer();
    const lost = behind.acquire(crowd.slice(0, 1), { timeoutMs: 200 });
    await dropped;
    expect(only(await lost)).toMatchObject({ status: "failed", applied: "maybe" });
    proxy.heal();
    await until(expect, "it is reached again", async () => {
      return typeof (await ahead(crowd.slice(0, 1)))[0] === "number";
    });
    expect(await ahead(crowd.toReversed())).toEqual(places.toReversed());
    expect(await ticketsOf("deep")).toHaveLength(crowd.length);
    const leftMs = Number(await server.ask("pttl", keys.queue({ namespace, resource: "deep" })));
    expect(leftMs).toBeGreaterThan(LONG_MS / 2);
    expect(leftMs).toBeLessThanOrEqual(LONG_MS);
    await holder.release(crowd);
    expect(await keysOfLines()).toEqual([]);
  });

  it("keep their places for their own times when another one joins for a shorter one", async () => {
    const store = await openStore();
    await store.acquire([requestOf("mixed")]);
    await store.acquire([waiterOf("mixed"), waiterOf("mixed", 300)]);
    const leftMs = Number(await server.ask("pttl", keys.queue({ namespace, resource: "mixed" })));
    expect(leftMs).toBeGreaterThan(LONG_MS / 2);
  });

  it("are forgotten all at once when they have died, however many", async () => {
    const store = await openStore();
    await store.acquire([requestOf("died")]);
    await store.acquire(Array.from({ length: 2_500 }, () => waiterOf("died", 1)));
    const last = waiterOf("died");
    expect(only(await store.acquire([last]))).toMatchObject({ status: "held", ahead: 0 });
    expect(await ticketsOf("died")).toEqual([last.leaseId]);
    await store.release([last]);
    expect(await keysOfLines()).toEqual([]);
  });

  it("leave nothing that keeps others out, where only a part of one is left", async () => {
    const store = await openStore();
    const queue = keys.queue({ namespace, resource: "part" });
    const held = requestOf("part");
    await store.acquire([held]);
    await store.acquire([waiterOf("part", 5_000)]);
    const [place = ""] = await ticketsOf("part");
    // Its position is gone, and its expiry stays.
    await server.ask("zremrangebyrank", queue, 0, 1);
    expect(await server.ask("zrange", queue, 0, -1)).toEqual([`@${place}`]);
    await store.release([held]);
    expect(await store.acquire([requestOf("part")])).toMatchObject([{ status: "acquired" }]);
    // It has expired, so the next who looks at the queue removes it.
    await server.ask("zadd", queue, "XX", "1000000000001", `@${place}`);
    const next = waiterOf("part");
    expect(await store.acquire([next])).toMatchObject([{ status: "held", ahead: 0 }]);
    expect(await server.ask("zrank", queue, `@${place}`)).toBe(null);
    expect(await ticketsOf("part")).toEqual([next.leaseId]);
  });

  it("reserve nothing while the clock is set back", async () => {
    const store = await openStore();
    const held = requestOf("back");
    await store.acquire([held]);
    await store.acquire([waiterOf("back")]);
    await store.release([held]);
    expect(await store.acquire([requestOf("back")])).toMatchObject([{ status: "held" }]);
    // As if the release had been an hour from now.
    const [seconds] = (await server.ask("time")) as [string];
    const record = keys.record({ namespace, resource: "back" });
    await server.ask("hset", record, "expiresAt", `${Number(seconds) + 3_600}000000`);
    expect(await store.acquire([requestOf("back")])).toMatchObject([{ status: "acquired" }]);
  });

  it("neither grant nor forget anything while the memory is full", async () => {
    const store = await openStore();
    const held = requestOf("full");
    await store.acquire([held]);
    await store.acquire([waiterOf("full", 1), waiterOf("full")]);
    const before = await ticketsOf("full");
    await server.ask("config", "set", "maxmemory", 1);
    try {
      const refused = { status: "failed", applied: "no", retryable: true };
      expect(only(await store.acquire([waiterOf("full")]))).toMatchObject(refused);
      expect(only(await store.release([held]))).toMatchObject(refused);
    } finally {
      await server.ask("config", "set", "maxmemory", 0);
    }
    expect(await ticketsOf("full")).toEqual(before);
  });

  it("do not damage a grant if another client overwrites the key of their queue", async () => {
    const store = await openStore();
    const [held, first] = [waiterOf("spoilt"), waiterOf("spoilt")];
    await store.acquire([held]);
    await store.acquire([first]);
    await server.ask("set", keys.queue(held), "something else");
    expect(only(await store.release([held]))).toEqual({ status: "released" });
    const failed = { status: "failed", applied: "no", error: { code: "STORE_MISCONFIGURED" } };
    expect(only(await store.acquire([waiterOf("spoilt")]))).toMatchObject(failed);
    expect(await store.get([held])).toMatchObject([{ state: "released" }]);
  });
});

/** Resolves after a gap between requests that is longer than the pauses of new waiters. */
async function settledDown(asked: () => Promise<number>): Promise<void> {
  for (
    let [before, now] = [-1, await asked()];
    before !== now;
    [before, now] = [now, await asked()]
  ) {
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}
