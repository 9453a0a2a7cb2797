import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import {
  describeRedis,
  type RedisServer,
  startRedis,
} from "../../../../../tests/support/engines/redis-engine.js";
import { compile } from "../../../../../tests/support/processes/compile.js";
import { Child, endAll } from "../../../../../tests/support/processes/processes.js";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import type { AcquireRequest, LeaseholdError, LeaseStore } from "../../lease/index.js";
import { only } from "../../testing/calls.js";
import { LeaseWatching } from "../../testing/lease-suite/fixture.js";
import { until } from "../../testing/waiting.js";
import type { LeaseStores } from "../source.js";
import { redis } from "./index.js";
import { Keys } from "./keys.js";

const DAY_MS = 24 * 3_600_000;
const keys = new Keys("");

function request(resource: string, change: Partial<AcquireRequest> = {}): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  return { namespace: "n", resource, leaseId, holder: "h", ttlMs: 60_000, ...change };
}
async function hold(store: LeaseStore, asked: AcquireRequest) {
  const outcome = only(await store.acquire([asked]));
  if (outcome.status !== "acquired") throw new Error(outcome.status);
  return { ...asked, ...outcome };
}
function refusal(source: Parameters<typeof redis>[0]): Promise<LeaseholdError> {
  return redis(source)
    .open(systemEnv)
    .then(
      async (opened) => {
        await opened.close();
        throw new Error("it was not refused");
      },
      (error: LeaseholdError) => error,
    );
}

describeRedis("leases in Redis", () => {
  let server: RedisServer;
  let stores: LeaseStores;
  let store: LeaseStore;
  beforeAll(async () => {
    server = await startRedis();
    stores = await redis({ url: server.url }).open(systemEnv);
    store = stores.leases;
  });
  beforeEach(() => server.ask("flushall"));
  afterAll(async () => {
    await stores.close();
    await server.remove();
    await endAll();
  });

  describe("tokens", () => {
    it("survive FLUSHALL, by the clock", async () => {
      const first = await hold(store, request("r"));
      await server.ask("flushall");
      expect(only(await store.renew([first]))).toEqual({ status: "lost", reason: "gone" });
      const second = await hold(store, request("r"));
      expect(second.token).toBeGreaterThan(first.token);
    });

    it("grow by one while the clock is behind them, and their records are not collected", async () => {
      const first = await hold(store, request("r"));
      const ahead = first.token + 1e12;
      await server.ask("hset", keys.record(first), "token", ahead);
      await store.release([first]);
      await until(expect, "a moment has passed", async () => {
        const [seconds, us] = (await server.ask("time")) as [string, string];
        return Number(seconds) * 1e6 + Number(us) > Date.parse(first.expiresAt ?? "") * 1e3 - 6e7;
      });
      expect(await store.collect(0)).toBe(0);
      expect((await hold(store, request("r"))).token).toBe(ahead + 1);
    });

    it("are exact, however large", async () => {
      await hold(store, request("r"));
      const held = await hold(store, request("s"));
      await server.ask("hset", keys.record(held), "token", 2 ** 53 - 2);
      await store.release([held]);
      expect((await hold(store, request("s"))).token).toBe(2 ** 53 - 1);
    });
  });

  describe("records", () => {
    const leftMs = async (key: string) => Number(await server.ask("pttl", key));
    /** Makes a record older: its times, and what is left of its key. */
    const age = async (record: string, ms: number) => {
      for (const field of ["token", "grantedAt", "expiresAt"]) {
        await server.ask("hincrby", record, field, -1_000 * ms);
      }
      await server.ask("pexpire", record, (await leftMs(record)) - ms);
    };

    it("expire long after their lease, and with them the index", async () => {
      const held = await hold(store, request("r"));
      for (const key of [keys.record(held), keys.indexOf(held)]) {
        expect(await leftMs(key)).toBeGreaterThan(8 * DAY_MS);
        expect(await leftMs(key)).toBeLessThan(10 * DAY_MS);
      }
    });

    it("live as long as they are renewed, in their index too", async () => {
      const held = await hold(store, request("r", { ttlMs: 4 * DAY_MS }));
      await age(keys.record(held), 3 * DAY_MS);
      await server.ask("del", keys.indexOf(held));
      await store.renew([held]);
      for (const key of [keys.record(held), keys.indexOf(held)]) {
        expect(await leftMs(key)).toBeGreaterThan(11 * DAY_MS);
      }
      expect((await store.list({ namespace: "n" })).items).toHaveLength(1);
    });

    it("and their index outlive nine days of renewals, beside those that end", async () => {
      // Resources of one part share an index.
      const part = keys.indexOf(request("r"));
      const names = Array.from({ length: 200 }, (_, at) => `beside ${at}`).filter(
        (resource) => keys.indexOf(request(resource)) === part,
      );
      const kept = await hold(store, request("r", { ttlMs: 2 * DAY_MS }));
      const longest = store.capabilities.ttl.maxMs;
      const long = await hold(store, request(names[0] ?? "", { ttlMs: longest }));
      const ended = await hold(store, request(names[1] ?? ""));
      await store.release([ended]);
      for (let day = 1; day <= 12; day += 1) {
        const brief = await hold(store, request(names[1 + (day % 5)] ?? ""));
        await store.release([brief]);
        await store.renew([kept]);
        const all = (await server.ask("keys", "*")) as string[];
        // Nothing is kept for ever, and no record longer than the name by which lists find it.
        for (const key of all) {
          expect(await leftMs(key), key).toBeGreaterThan(0);
          expect(await leftMs(part), key).toBeGreaterThanOrEqual((await leftMs(key)) - 1_000);
        }
        const { items } = await store.list({ namespace: "n", states: ["live"] });
        const live = [kept.resource, long.resource].sort();
        expect(items.map(({ resource }) => resource)).toEqual(live);
        expect(await leftMs(keys.record(kept))).toBeGreaterThan(8 * DAY_MS);
        // A day passes: whatever is left of a key is a day less.
        await server.ask("pexpire", part, (await leftMs(part)) - DAY_MS);
        for (const key of all) if (key !== part) await age(key, DAY_MS);
      }
      await store.renew([kept]);
      expect(only(await store.get([kept]))).toMatchObject({
        state: "live",
        grantId: grantIdOf(kept.leaseId),
      });
      expect(await leftMs(part)).toBeGreaterThan(longest - 5 * DAY_MS);
    });

    it("are kept until the clock is far past their token", async () => {
      const held = await hold(store, request("r", { ttlMs: 100 }));
      // As a clock leaves it that is set back by 20 days.
      await server.ask("hset", keys.record(held), "token", held.token + 20 * DAY_MS * 1_000);
      await server.ask(
        "pexpire",
        keys.record(held),
        (await leftMs(keys.record(held))) + 20 * DAY_MS,
      );
      await until(expect, "it expires", async () => {
        const [view] = await store.get([held]);
        return view?.state === "expired";
      });
      const next = await hold(store, request("r"));
      expect(await leftMs(keys.record(next))).toBeGreaterThan(27 * DAY_MS);
    });

    it("that expired are in no list, and leave their index", async () => {
      const [gone, here] = [await hold(store, request("gone")), await hold(store, request("here"))];
      await server.ask("del", keys.record(gone));
      const { items } = await store.list({ namespace: "n" });
      expect(items.map(({ resource }) => resource)).toEqual(["here"]);
      expect(await store.collect(0)).toBe(0);
      expect(await server.ask("zscore", keys.indexOf(gone), "gone")).toBe(null);
      expect(await server.ask("zscore", keys.indexOf(here), "here")).toBe("0");
    });
  });

  it("lists thousands in order, page by page, though many in between have ended", async () => {
    const names = Array.from({ length: 3_000 }, (_, at) => `key ${String(at).padStart(4, "0")}`);
    const asked = names.map((name) => request(name));
    await store.acquire(asked);
    await store.release(asked.filter((_, at) => at % 10 !== 0));
    const found: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const query = { namespace: "n", states: ["live"] as const, limit: 70 };
      const page = await store.list(cursor === undefined ? query : { ...query, cursor });
      found.push(...page.items.map(({ resource }) => resource));
      if (page.nextCursor === null) break;
      cursor = page.nextCursor;
    }
    expect(found).toEqual(names.filter((_, at) => at % 10 === 0));
    expect(await store.collect(0)).toBe(2_700);
  });

  it("decides the rest of a batch if another client stored another type under a key", async () => {
    const [bad, good] = [request("bad"), request("good")];
    await server.ask("set", keys.record(bad), "something else");
    expect(await store.acquire([bad, good])).toMatchObject([
      { status: "failed", applied: "no", retryable: false, error: { code: "STORE_MISCONFIGURED" } },
      { status: "acquired" },
    ]);
  });

  it("renews the rest of a batch if another client stored another type under an index", async () => {
    const long = 3 * DAY_MS;
    const [kept, moved] = [request("a"), request("b")];
    expect(keys.indexOf(kept)).not.toBe(keys.indexOf(moved));
    await hold(store, kept);
    await hold(store, moved);
    await server.ask("set", keys.indexOf(moved), "something else");
    expect(await store.renew([kept, { ...moved, ttlMs: long }])).toMatchObject([
      { status: "renewed" },
      { status: "failed", applied: "no", error: { code: "STORE_MISCONFIGURED" } },
    ]);
    expect(await store.get([moved])).toMatchObject([{ ttlMs: 60_000, renewedAt: null }]);
  });

  it("rejects requests, and changes nothing, while the memory is full", async () => {
    const held = await hold(store, request("r"));
    await server.ask("config", "set", "maxmemory", 1);
    try {
      for (const outcome of [
        only(await store.acquire([request("s")])),
        only(await store.renew([held])),
        only(await store.release([held])),
      ]) {
        expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: true });
        expect("error" in outcome && outcome.error.message).toMatch(/OOM/);
      }
    } finally {
      await server.ask("config", "set", "maxmemory", 0);
    }
    expect(only(await store.renew([held]))).toMatchObject({ status: "renewed" });
    expect(await store.get([request("s")])).toEqual([null]);
  });

  it("continues after the server has lost the scripts", async () => {
    await server.ask("script", "flush");
    await hold(store, request("r"));
  });

  describe("notifications", () => {
    it("are sent only if a client waits", async () => {
      const received: string[] = [];
      const listener = new Redis(server.port);
      listener.on("message", (_, message: string) => received.push(message));
      await listener.subscribe(keys.channel("n"));
      const [alone, wanted] = [
        await hold(store, request("alone")),
        await hold(store, request("wanted")),
      ];
      const waiter = request("wanted", { queueMs: 60_000 });
      await store.acquire([request("alone"), waiter]);
      await store.release([alone, wanted]);
      await until(expect, "a notification", () => received.length > 0);
      expect(received).toEqual([`${grantIdOf(waiter.leaseId)} wanted`]);
      listener.disconnect();
    });

    it("continue after the connection was lost, following a resync", async () => {
      const watching = new LeaseWatching(store, "n");
      await until(expect, "it is subscribed", () => watching.events.length === 1);
      expect(await server.ask("client", "kill", "type", "pubsub")).toBe(1);
      await until(expect, "it is subscribed again", () => watching.events.length === 2);
      expect(watching.events).toEqual([{ type: "resync" }, { type: "resync" }]);
      const held = await hold(store, request("r"));
      await store.acquire([request("r", { queueMs: 60_000 })]);
      await store.release([held]);
      await until(expect, "a notification", () => watching.changed.length === 1);
      await watching.stop();
    });
  });

  describe("a client of the user's", () => {
    it("lends its settings and its prefix, and stays as it is", async () => {
      const client = new Redis(server.port, { keyPrefix: "app:" });
      const opened = await redis({ client }).open(systemEnv);
      const held = await hold(opened.leases, request("r"));
      expect(await store.get([held])).toEqual([null]);
      expect(await server.ask("hget", `app:${keys.record(held)}`, "holder")).toBe("h");
      const watching = new LeaseWatching(opened.leases, "n");
      await until(expect, "it is subscribed", () => watching.events.length > 0);
      await opened.leases.acquire([request("r", { queueMs: 60_000 })]);
      await opened.leases.release([held]);
      await until(expect, "a notification", () => watching.changed.length > 0);
      await watching.stop();
      await opened.close();
      expect(await client.ping()).toBe("PONG");
      client.disconnect();
    });
  });

  it("keeps no process alive that has nothing else to do", async () => {
    const program = await compile(
      new URL("../../../../../tests/support/processes/acquire-and-idle-redis.ts", import.meta.url),
    );
    const child = new Child(process.execPath, [program.path, server.url]);
    expect(await child.ended).toMatchObject({ code: 0, stdout: "acquired" });
    await program.remove();
  });

  describe("are refused with one sentence that names the remedy:", () => {
    afterEach(() => server.ask("acl", "deluser", "limited"));

    it.each([
      [
        "redis://[::1",
        /is invalid: a host, a port or an escape is wrong; write redis:\/\/user:password@host:port\/database/,
      ],
      ["redis://user:secret@host:port", /URL is invalid/],
      ["redis://host/name", /URL is invalid/],
    ])("%s", async (url, message) => {
      const error = await refusal({ url });
      expect(error).toMatchObject({ code: "STORE_MISCONFIGURED", retryable: false });
      expect(error.message).toMatch(message);
      expect(error.message).not.toContain("secret");
    });

    it("a parameter that is not known", async () => {
      const error = await refusal({ url: `${server.url}?frmat=redlock` });
      expect(error).toMatchObject({ code: "INVALID_OPTION", path: "url: ?frmat" });
    });

    it("a port without a listener, for now", async () => {
      const error = await refusal({ url: "redis://127.0.0.1:1" });
      expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
      expect(error.message).toMatch(/ECONNREFUSED/);
    });

    it.each(["allkeys-lru", "volatile-ttl"])("maxmemory-policy %s", async (policy) => {
      await server.ask("config", "set", "maxmemory-policy", policy);
      const error = await refusal({ url: server.url });
      await server.ask("config", "set", "maxmemory-policy", "noeviction");
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toMatch(
        new RegExp(
          `^Redis at [\\d.:]+ has maxmemory-policy ${policy}, .*CONFIG SET maxmemory-policy noeviction`,
        ),
      );
    });

    it("a user who is not there", async () => {
      const error = await refusal({ url: `redis://limited:secret@127.0.0.1:${server.port}` });
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toMatch(/WRONGPASS .*; check the user and password of the URL$/);
      expect(JSON.stringify(error)).not.toContain("secret");
    });

    it.each(["", "/", "/2"])("a wrong password before the database %j", async (path) => {
      await server.ask("config", "set", "requirepass", "right");
      const error = await refusal({ url: `redis://:secret@127.0.0.1:${server.port}${path}` });
      await server.ask("config", "set", "requirepass", "");
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toMatch(/WRONGPASS .*; check the user and password of the URL$/);
    });

    it("a server that wants a password", async () => {
      await server.ask("config", "set", "requirepass", "secret");
      const error = await refusal({ url: server.url });
      await server.ask("config", "set", "requirepass", "");
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toMatch(/NOAUTH .*; put the user and the password into the URL/);
    });

    it("a database that is not there", async () => {
      const error = await refusal({ url: `${server.url}/99` });
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toMatch(/out of range.*correct the database's number in the URL/);
    });

    const RIGHTS = ["~leasehold:*", "&leasehold:*", "+info", "+script|load", "+evalsha", "+eval"];
    const MORE = ["+time", "+@hash", "+@sortedset", "+pttl", "+pexpireat", "+del", "+publish"];
    const ALL = [...RIGHTS, ...MORE, "+subscribe", "+unsubscribe", "+ping"];
    const asUser = async (rights: readonly string[]) => {
      await server.ask("acl", "setuser", "limited", "reset", "on", ">secret", ...rights);
      return { url: `redis://limited:secret@127.0.0.1:${server.port}` };
    };

    it.each([
      "~leasehold:*",
      "&leasehold:*",
      "+script|load",
      "+evalsha",
      "+time",
      "+@hash",
      "+@sortedset",
      "+publish",
      "+subscribe",
    ])("a user without %s", async (missing) => {
      const error = await refusal(await asUser(ALL.filter((right) => right !== missing)));
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toContain(missing);
      expect(error.message).toMatch(/grant its user .* by ACL SETUSER$/);
    });

    it("but not a user with just those rights", async () => {
      const opened = await redis(await asUser(ALL)).open(systemEnv);
      const held = await hold(opened.leases, request("r"));
      expect(only(await opened.leases.renew([held]))).toMatchObject({ status: "renewed" });
      expect((await opened.leases.list({ namespace: "n" })).items).toHaveLength(1);
      expect(only(await opened.leases.release([held]))).toEqual({ status: "released" });
      expect(await opened.leases.collect(0)).toBe(1);
      await opened.close();
    });

    it("a read-only replica, and one that becomes one is left", async () => {
      const primary = await startRedis();
      const opened = await redis({ url: primary.url }).open(systemEnv);
      await primary.ask("replicaof", "127.0.0.1", server.port);
      const outcome = only(await opened.leases.acquire([request("r")]));
      expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: true });
      const error = await refusal({ url: primary.url });
      expect(error.code).toBe("STORE_MISCONFIGURED");
      expect(error.message).toMatch(/is a replica: give the address of its primary$/);
      await opened.close();
      await primary.remove();
    });
  });
});

describe("the driver", () => {
  it("is named with the cause where it cannot be loaded", async () => {
    vi.doMock("ioredis", () => {
      throw new Error("its build is broken");
    });
    const error = await refusal({ url: "redis://127.0.0.1" });
    vi.doUnmock("ioredis");
    expect(error).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/^the package ioredis is installed but cannot be loaded: /),
      cause: expect.objectContaining({ cause: new Error("its build is broken") }),
    });
  });
});
