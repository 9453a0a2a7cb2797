/** The lean scripts decide what is simple, and leave the rest to the general ones. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import {
  describeRedis,
  type RedisServer,
  startRedis,
} from "../../../../../tests/support/engines/redis-engine.js";
import { endAll } from "../../../../../tests/support/processes/processes.js";
import { newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import type { AcquireRequest, LeaseStore } from "../../lease/index.js";
import { redis } from "./index.js";
import { Keys } from "./keys.js";

const keys = new Keys("");

function request(resource: string, change: Partial<AcquireRequest> = {}): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  return { namespace: "n", resource, leaseId, holder: "h", ttlMs: 60_000, ...change };
}

describeRedis("lean scripts on Redis", () => {
  let server: RedisServer;
  let store: LeaseStore;
  let close: () => Promise<void>;
  beforeAll(async () => {
    server = await startRedis();
    ({ leases: store, close } = await redis({ url: server.url }).open(systemEnv));
  });
  beforeEach(() => server.ask("flushall"));
  afterAll(async () => {
    await close();
    await server.remove();
    await endAll();
  });

  /** How many scripts the server runs meanwhile. */
  const scriptsIn = async (work: () => Promise<unknown>): Promise<number> => {
    const calls = async () => {
      const stats = String(await server.ask("info", "commandstats"));
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const before = await calls();
    await work();
    return (await calls()) - before;
  };

  it("decide acquires of free resources and releases of held ones by one script", async () => {
    const names = Array.from({ length: 100 }, (_, at) => `r${at}`);
    for (const round of ["new", "again"]) {
      const batch = names.map((name) => request(name, { metadata: round }));
      const acquiring = async () => {
        const outcomes = await store.acquire(batch);
        for (const outcome of outcomes) expect(outcome.status, round).toBe("acquired");
      };
      expect(await scriptsIn(acquiring), round).toBe(1);
      const views = await store.get(batch);
      for (const view of views) {
        expect(view).toMatchObject({ state: "live", holder: "h", ttlMs: 60_000, metadata: round });
      }
      const releasing = async () => {
        const outcomes = await store.release(batch);
        for (const outcome of outcomes) expect(outcome.status, round).toBe("released");
      };
      expect(await scriptsIn(releasing), round).toBe(1);
    }
    expect((await store.list({ namespace: "n", limit: 200 })).items).toHaveLength(100);
  });

  it("leave to the general scripts what is held, repeated, ended, waited for or unreadable", async () => {
    const [held, repeated, ended, waited, reserved] = [
      request("held"),
      request("repeated"),
      request("ended"),
      request("waited"),
      request("reserved"),
    ];
    await store.acquire([held, repeated, ended, waited, reserved]);
    const waiters = ["waited", "reserved"].map((name) => request(name, { queueMs: 30_000 }));
    await store.acquire(waiters);
    await store.release([ended, reserved]);
    await server.ask("set", keys.record(request("unreadable")), "another type");
    await server.ask("set", keys.indexOf(request("no index")), "another type");
    const batch = [
      request("free"),
      request("held"),
      repeated,
      ended,
      request("reserved"),
      request("unreadable"),
      request("no index"),
      request("free"),
    ];
    const others = batch.filter((one) => keys.indexOf(one) !== keys.indexOf(request("no index")));
    expect(await store.acquire(others)).toMatchObject(
      others.map((one, at) => {
        if (one === repeated) return { status: "acquired" };
        if (one === ended) return { status: "ended" };
        if (one.resource === "unreadable") return { status: "failed", applied: "no" };
        return { status: at === 0 ? "acquired" : "held" };
      }),
    );
    expect(await store.acquire([request("no index")])).toMatchObject([{ status: "failed" }]);
    // Of the releases, that of the waited resource wakes its waiter.
    expect(await store.release([held, ended, waited, request("held")])).toEqual(
      ["released", "released", "released", "notHeld"].map((status) => ({ status })),
    );
    expect(await store.acquire([request("waited")])).toMatchObject([{ status: "held" }]);
    expect(await store.acquire(waiters)).toMatchObject([
      { status: "acquired" },
      { status: "acquired" },
    ]);
  });

  it("never grant a token that is not larger than the last one", async () => {
    const first = request("r");
    await store.acquire([first]);
    await store.release([first]);
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    await server.ask("hset", keys.record(first), "token", ahead);
    expect(await store.acquire([request("r")])).toMatchObject([
      { status: "acquired", token: ahead + 1 },
    ]);
  });
});
