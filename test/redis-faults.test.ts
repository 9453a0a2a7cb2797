/**
 * Leases in Redis while their holders and their server are stopped and killed, and what goes between
 * them is lost or late. What holders write is kept in PostgreSQL, behind a fence and without one.
 */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../src/env/index.js";
import type { AcquireRequest, Failed, LeaseStore } from "../src/lease/index.js";
import { redis } from "../src/stores/redis/index.js";
import { only } from "../src/testing/calls.js";
import { until } from "../src/testing/waiting.js";
import {
  Holder,
  holdersForTests,
  LONG_MS,
  later,
  openLeases,
  Site,
  TAKEOVER_MS,
  TTL_MS,
} from "./support/fault-site.js";
import { describePostgres, type FreshDatabase, freshDatabase } from "./support/postgres.js";
import { temporaryFolder } from "./support/processes.js";
import { describeRedis, type RedisServer, startRedis } from "./support/redis-engine.js";
import { openTcpProxy, type TcpProxy } from "./support/tcp-proxy.js";

holdersForTests();

/** What was answered is on the disk: a killed server loses nothing. */
const DURABLE = { appendonly: "yes", appendfsync: "always" };

const namespace = "default";
function request(): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  const resource = newLeaseId(systemRandom);
  return { namespace, resource, leaseId, holder: "h", ttlMs: LONG_MS };
}
async function openStore(port: number): Promise<LeaseStore> {
  return later(await redis({ url: `redis://127.0.0.1:${port}` }).open(systemEnv)).leases;
}
/** The same call, until the server takes it. */
async function settled<Outcome extends { readonly status: string }>(
  call: () => Promise<readonly Outcome[]>,
): Promise<Exclude<Outcome, Failed>> {
  let outcome: Outcome | undefined;
  await until(expect, "an answer", async () => {
    outcome = only(await call());
    return outcome.status !== "failed";
  });
  return outcome as Exclude<Outcome, Failed>;
}
const unanswered = { status: "failed", applied: "maybe", retryable: true };
const BRIEF = { timeoutMs: 300 };

describeRedis("a server", () => {
  let server: RedisServer;
  let store: LeaseStore;
  beforeEach(async () => {
    server = await startRedis(DURABLE);
    later({ close: () => server.remove() });
    store = await openStore(server.port);
  });
  const view = async (asked: AcquireRequest) => only(await store.get([asked]));

  it("that is killed and comes back is not sent what its caller has given up", async () => {
    const careless = new Redis(server.port, { retryStrategy: () => 20 });
    careless.on("error", () => {});
    later({ close: async () => careless.disconnect() });
    await careless.ping();
    const [asked, next] = [request(), request()];
    await server.process?.stop();
    const acquiring = store.acquire([asked], BRIEF);
    const setting = careless.set("replayed", "yes");
    expect(only(await acquiring)).toMatchObject(unanswered);
    // What was on its way is lost with the process.
    await server.kill9();
    await server.start();
    await settled(() => store.acquire([next], BRIEF));
    // ioredis as it is by default sends it again; so it would ours.
    await setting;
    expect(await server.ask("get", "replayed")).toBe("yes");
    expect(await view(asked)).toBe(null);
    expect(await view(next)).toMatchObject({ state: "live" });
  });

  const ENDS: Readonly<Record<string, () => Promise<void>>> = {
    "that stands still for a while": async () => server.process?.cont(),
    "that is killed and comes back": async () => {
      await server.kill9();
      await server.start();
    },
  };
  describe.each(Object.entries(ENDS))("%s", (_, goOn) => {
    it("in the middle of an acquire makes one grant", async () => {
      const asked = request();
      await server.process?.stop();
      expect(only(await store.acquire([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      const outcome = await settled(() => store.acquire([asked], BRIEF));
      expect(outcome.status).toBe("acquired");
      const found = await view(asked);
      expect(found).toMatchObject({ state: "live", grantId: grantIdOf(asked.leaseId) });
      expect(outcome).toMatchObject({ token: found?.token });
    });

    it("in the middle of a renewal keeps the grant", async () => {
      const asked = request();
      const first = only(await store.acquire([asked]));
      await server.process?.stop();
      expect(only(await store.renew([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      const renewed = await settled(() => store.renew([asked], BRIEF));
      expect(renewed).toMatchObject({ status: "renewed", token: "token" in first && first.token });
    });

    it("in the middle of a release frees when it is told again", async () => {
      const asked = request();
      const first = only(await store.acquire([asked]));
      await server.process?.stop();
      expect(only(await store.release([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      expect(await settled(() => store.release([asked], BRIEF))).toEqual({ status: "released" });
      const next = { ...request(), resource: asked.resource };
      const second = only(await store.acquire([next]));
      if (first.status !== "acquired" || second.status !== "acquired") throw new Error("granted");
      expect(second.token).toBeGreaterThan(first.token);
      // The first one's acquire, late.
      expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
    });
  });

  it("whose answer is lost has acted once", async () => {
    const proxy = later(await openTcpProxy({ port: server.port }));
    const behind = await openStore(proxy.port);
    const asked = request();
    const calls: readonly [() => Promise<readonly { readonly status: string }[]>, string][] = [
      [() => behind.acquire([asked], BRIEF), "acquired"],
      [() => behind.renew([asked], BRIEF), "renewed"],
      [() => behind.release([asked], BRIEF), "released"],
    ];
    for (const [call, status] of calls) {
      const dropped = proxy.dropNextAnswer();
      expect(only(await call())).toMatchObject(unanswered);
      await dropped;
      proxy.heal();
      expect(await settled(call)).toMatchObject({ status });
    }
    expect(await view(asked)).toMatchObject({ state: "released" });
  });

  it("that cannot be reached is not asked later", async () => {
    const proxy = later(await openTcpProxy({ port: server.port }));
    const behind = await openStore(proxy.port);
    await server.kill9();
    const asked = request();
    // Until the connections are known to be gone, nobody can say.
    await until(expect, "a failure that changes nothing", async () => {
      const outcome = only(await behind.acquire([asked], BRIEF));
      return outcome.status === "failed" && outcome.applied === "no";
    });
    await server.start();
    await settled(() => behind.acquire([request()], BRIEF));
    expect(await view(asked)).toBe(null);
  });

  it("is found again by a connection that a cut network has silenced", async () => {
    const proxy = later(await openTcpProxy({ port: server.port }));
    const behind = await openStore(proxy.port);
    await behind.acquire([request()]);
    for (const connection of proxy.connections) {
      connection.blackhole("toServer");
      connection.blackhole("toClient");
    }
    const asked = request();
    // The old connection is given up after a while; a new one comes through.
    expect(await settled(() => behind.acquire([asked], BRIEF))).toMatchObject({
      status: "acquired",
    });
  });
});

describeRedis("a lease in Redis", () => {
  describePostgres("that protects what PostgreSQL keeps", () => {
    let server: RedisServer;
    let database: FreshDatabase;
    let site: Site;
    beforeAll(async () => {
      database = await freshDatabase();
    });
    beforeEach(async () => {
      server = await startRedis(DURABLE);
      later({ close: () => server.remove() });
      site = later(await Site.open(server.url, database.url));
    });
    afterAll(() => database.drop());

    it("is known to be lost to a process that was stopped, before anything else", async () => {
      const holder = new Holder(site, { ttlMs: TTL_MS });
      const token = await holder.token();
      const file = join(await temporaryFolder(), "go-on");
      holder.say(`block ${file}`);
      expect(await holder.hears("checked")).toEqual({ checked: true });
      await holder.stop();
      const next = await site.succeed();
      await writeFile(file, "");
      holder.cont();
      expect(await holder.hears("alive")).toEqual({ alive: false, aborted: true });
      expect(await holder.hears("wrote")).toEqual({ wrote: "STALE_TOKEN" });
      await site.expectOnlyUnfencedSuffers(token, next);
      await site.expectHeldBy(next);
    });

    it("of a process that is killed goes to the next one within its ttl", async () => {
      const holder = new Holder(site, { ttlMs: TTL_MS });
      const token = await holder.token();
      await site.renewed();
      await holder.end("SIGKILL");
      const left = await site.view();
      expect(left.token).toBe(token);
      const next = await site.succeed();
      expect(next.token).toBeGreaterThan(token);
      const { grantedAt } = await site.view();
      const waitedMs = Date.parse(grantedAt!) - Date.parse(left.expiresAt!);
      expect(waitedMs).toBeGreaterThanOrEqual(0);
      expect(waitedMs).toBeLessThan(TAKEOVER_MS);
    });

    it("is kept when its server is killed, if its ttl allows", async () => {
      const lease = await site.leases.acquire(site.resource, {
        ...{ ttlMs: LONG_MS, renewIntervalMs: 50 },
      });
      for (let round = 0; round < 2; round += 1) {
        await site.renewed();
        await server.kill9();
        await server.start();
      }
      await until(expect, "the server answers", () => site.view().then(Boolean, () => false));
      await site.renewed();
      expect(lease.checkAlive()).toBe(true);
      await site.expectHeldBy(lease);
    });

    describe("over a network that fails", () => {
      let proxy: TcpProxy;
      let url: string;
      beforeEach(async () => {
        ({ proxy, url } = await site.openProxy());
      });

      it("is one grant when the answer to its acquire is lost", async () => {
        const leases = later(await openLeases(url));
        // Its connections stand from here on.
        await (await leases.acquire(newLeaseId(systemRandom))).release();
        const dropped = proxy.dropNextAnswer();
        const acquiring = leases.acquire(site.resource, { ttlMs: LONG_MS });
        await dropped;
        const { token, grantId } = await site.view();
        // The connection that the answer would have come over.
        proxy.reset();
        expect(await acquiring).toMatchObject({ token, grantId });
        expect(await site.view()).toMatchObject({ token, grantId, renewedAt: null });
      });

      it("is kept when answers to its renewals are lost, and connections are reset", async () => {
        const leases = later(await openLeases(url));
        const lease = await leases.acquire(site.resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
        for (let round = 0; round < 5; round += 1) {
          await proxy.dropNextAnswer();
          proxy.reset();
          await site.renewed();
        }
        expect(lease.checkAlive()).toBe(true);
        await site.expectHeldBy(lease);
        expect(proxy.counts.answersDropped).toBe(5);
      });

      it("is lost when nothing comes through, and not revived by what comes too late", async () => {
        const leases = later(await openLeases(url));
        const lease = await leases.acquire(site.resource, { ttlMs: TTL_MS, renewIntervalMs: 100 });
        await site.renewed();
        const lost = once(lease.signal, "abort");
        proxy.hold("toServer");
        const next = await site.succeed();
        await lost;
        expect(lease.checkAlive()).toBe(false);
        proxy.letGo("toServer");
        expect(await site.write(lease.token)).toBe("STALE_TOKEN");
        await site.expectOnlyUnfencedSuffers(lease.token, next);
        await next.renew();
        await site.expectHeldBy(next);
      });

      it("is one side's of a partition, though both go on renewing", async () => {
        const cutOff = later(await openLeases(url));
        const old = await cutOff.acquire(site.resource, { ttlMs: TTL_MS, renewIntervalMs: 100 });
        await site.renewed();
        const lost = once(old.signal, "abort");
        proxy.blackhole("toServer");
        proxy.blackhole("toClient");
        const next = await site.succeed();
        await lost;
        expect([old.checkAlive(), next.checkAlive()]).toEqual([false, true]);
        proxy.reset();
        proxy.heal();
        await expect(old.renew()).rejects.toMatchObject({ code: "LEASE_LOST" });
        // Back again it is told who has it.
        const waiting = cutOff.tryRun(site.resource, {}, () => {});
        expect(await waiting).toMatchObject({ ran: false });
        await next.renew();
        await site.expectHeldBy(next);
        expect(next.token).toBeGreaterThan(old.token);
      });
    });
  });
});
