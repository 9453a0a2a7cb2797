/**
 * Leases in etcd while their holders and its members are stopped and killed, and what goes between
 * them is lost or late. What holders write is kept in PostgreSQL, behind a fence and without one.
 */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../src/env/index.js";
import type { AcquireRequest, Failed, LeaseStore } from "../src/lease/index.js";
import { etcd } from "../src/stores/etcd/index.js";
import { only } from "../src/testing/calls.js";
import { LeaseWatching } from "../src/testing/lease-suite/fixture.js";
import { until } from "../src/testing/waiting.js";
import {
  describeEtcd,
  type EtcdServer,
  startEtcd,
  startEtcdCluster,
} from "./support/etcd-engine.js";
import {
  Holder,
  holdersForTests,
  LONG_MS,
  later,
  openLeases,
  Site,
  TTL_MS,
} from "./support/fault-site.js";
import { describePostgres, type FreshDatabase, freshDatabase } from "./support/postgres.js";
import { temporaryFolder } from "./support/processes.js";
import { openTcpProxy, type TcpProxy } from "./support/tcp-proxy.js";

holdersForTests();

const namespace = "default";
function request(): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  const resource = newLeaseId(systemRandom);
  return { namespace, resource, leaseId, holder: "h", ttlMs: LONG_MS };
}
async function openStore(...ports: number[]): Promise<LeaseStore> {
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
  return later(await etcd({ url: `etcd://${hosts}` }).open(systemEnv, 20_000)).leases;
}
/** The same call, until etcd takes it. */
async function settled<Outcome extends { readonly status: string }>(
  call: () => Promise<(Outcome | Failed)[]>,
): Promise<Outcome> {
  let outcome: Outcome | Failed | undefined;
  await until(expect, "an answer", async () => {
    outcome = only(await call());
    return outcome.status !== "failed";
  });
  return outcome as Outcome;
}
const unanswered = { status: "failed", applied: "maybe", retryable: true };
const BRIEF = { timeoutMs: 400 };

describeEtcd("a server", () => {
  let server: EtcdServer;
  let store: LeaseStore;
  beforeEach(async () => {
    server = await startEtcd();
    later({ close: () => server.remove() });
    store = await openStore(server.port);
  });
  const view = async (asked: AcquireRequest) => only(await store.get([asked]));
  /** With an engine lease at hand, so that only the transaction is to be sent. */
  const warm = async () => void (await store.acquire([request()]));

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
      await warm();
      await server.process?.stop();
      expect(only(await store.acquire([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      const outcome = await settled(() => store.acquire([asked], BRIEF));
      expect(outcome.status).toBe("acquired");
      const found = await view(asked);
      expect(found).toMatchObject({ state: "live", grantId: grantIdOf(asked.leaseId) });
      expect(outcome).toMatchObject({ token: found?.token });
    });

    it("in the middle of a renewal and of a release does each once", async () => {
      const asked = request();
      const first = only(await store.acquire([asked]));
      if (first.status !== "acquired") throw new Error(first.status);
      await server.process?.stop();
      expect(only(await store.renew([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      const renewed = await settled(() => store.renew([asked], BRIEF));
      expect(renewed).toMatchObject({ status: "renewed", token: first.token });

      await server.process?.stop();
      expect(only(await store.release([asked], BRIEF))).toMatchObject({ status: "failed" });
      await goOn();
      expect(await settled(() => store.release([asked], BRIEF))).toEqual({ status: "released" });
      const next = { ...request(), resource: asked.resource };
      const second = await settled(() => store.acquire([next], BRIEF));
      if (second.status !== "acquired") throw new Error(second.status);
      expect(second.token).toBeGreaterThan(first.token);
      // The first one's acquire, late.
      expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
    });
  });

  it("whose answer is lost has acted once", async () => {
    const proxy = later(await openTcpProxy({ port: server.port }));
    const behind = await openStore(proxy.port);
    await behind.acquire([request()]);
    const asked = request();
    let dropped = proxy.dropNextAnswer();
    expect(only(await behind.acquire([asked]))).toMatchObject(unanswered);
    await dropped;
    const granted = await view(asked);
    expect(only(await behind.acquire([asked]))).toMatchObject({ token: granted?.token });

    // These are repeated, within their time, because twice is the same as once.
    dropped = proxy.dropNextAnswer();
    expect(only(await behind.renew([asked]))).toMatchObject({
      ...{ status: "renewed", token: granted?.token },
    });
    await dropped;
    dropped = proxy.dropNextAnswer();
    expect(only(await behind.release([asked]))).toEqual({ status: "released" });
    await dropped;
    expect(await view(asked)).toMatchObject({ state: "released", token: granted?.token });

    // This is not: the next grant could be the one that it ends.
    const other = { ...request(), resource: asked.resource };
    await behind.acquire([other]);
    dropped = proxy.dropNextAnswer();
    const revoke = { namespace, resource: asked.resource, free: "now" } as const;
    const outcomes = [only(await behind.revoke([revoke]))];
    await dropped;
    // The answer that was lost may be that of the reading before it, which is repeated.
    const { status } = outcomes[0] ?? {};
    expect(["revoked", "failed"]).toContain(status);
  });

  it("that cannot be reached has done nothing, and is not asked later", async () => {
    await server.kill9();
    const asked = request();
    expect(only(await store.acquire([asked], BRIEF))).toMatchObject({
      ...{ status: "failed", applied: "no", retryable: true },
    });
    await server.start();
    await settled(() => store.acquire([request()], BRIEF));
    expect(await view(asked)).toBe(null);
  });

  it("tells those who watch, through cuts and restarts", async () => {
    const proxy = later(await openTcpProxy({ port: server.port }));
    const watching = new LeaseWatching(await openStore(proxy.port), namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const told = async (asked: AcquireRequest) =>
      until(expect, "the hint", () =>
        watching.changed.some(({ resource }) => resource === asked.resource),
      );
    const [before, meanwhile, after] = [request(), request(), request()];
    await store.acquire([before, meanwhile, after]);
    await store.release([before]);
    await told(before);
    // Nothing comes through while this ends, and its end is told all the same.
    proxy.hold("toServer");
    proxy.reset();
    await store.release([meanwhile]);
    proxy.letGo("toServer");
    await told(meanwhile);
    expect(watching.events.filter(({ type }) => type === "resync")).toHaveLength(1);
    await server.kill9();
    await server.start();
    await settled(() => store.release([after], BRIEF));
    await told(after);
    await watching.stop();
  });

  it("whose history was cut off meanwhile says so to those who watch", async () => {
    const proxy = later(await openTcpProxy({ port: server.port }));
    const watching = new LeaseWatching(await openStore(proxy.port), namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    proxy.hold("toServer");
    proxy.reset();
    const asked = request();
    await store.acquire([asked]);
    await store.release([asked]);
    const { token } = (await view(asked)) ?? { token: 0 };
    await server.ask("compact", String(token + 1));
    proxy.letGo("toServer");
    await until(expect, "a second resync", () => {
      return watching.events.filter(({ type }) => type === "resync").length > 1;
    });
    await watching.stop();
  });
});

describeEtcd("a cluster", () => {
  let members: EtcdServer[];
  let store: LeaseStore;
  beforeEach(async () => {
    members = await startEtcdCluster(3);
    for (const member of members) later({ close: () => member.remove() });
    const first = await leader();
    // The one that is asked first leads.
    const others = members.filter((member) => member !== first);
    store = await openStore(first.port, ...others.map(({ port }) => port));
  });
  const leader = async (): Promise<EtcdServer> => {
    for (const member of members) {
      const text = await member.ask("endpoint", "status", "--write-out=json");
      const [{ Status }] = JSON.parse(text) as [
        { Status: { header: { member_id: number }; leader: number } },
      ];
      if (Status.header.member_id === Status.leader) return member;
    }
    throw new Error("there is no leader");
  };

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "whose leader gets %s goes on, with its grants and growing tokens",
    async (signal) => {
      const asked = request();
      const first = only(await store.acquire([asked]));
      if (first.status !== "acquired") throw new Error(first.status);
      const led = await leader();
      if (signal === "SIGKILL") await led.kill9();
      else await led.process?.stop();
      const renewed = await settled(() => store.renew([asked]));
      expect(renewed).toMatchObject({ status: "renewed", token: first.token });
      expect(only(await store.release([asked]))).toEqual({ status: "released" });
      const next = { ...request(), resource: asked.resource };
      const second = await settled(() => store.acquire([next]));
      if (second.status !== "acquired") throw new Error(second.status);
      expect(second.token).toBeGreaterThan(first.token);
      led.process?.cont();
    },
  );

  it("whose leader has lost the others confirms no renewal", async () => {
    const led = await leader();
    const alone = await openStore(led.port);
    const asked = request();
    await alone.acquire([asked]);
    const { lease } = await ownKey(led, asked.resource);
    const others = members.filter((member) => member !== led);
    for (const { process } of others) await process?.stop();
    // A renewal in etcd's own way is answered by the leader alone, until it notices.
    const kept = await led.ask("lease", "keep-alive", "--once", lease).catch(() => "noticed");
    expect(kept).toMatch(/keepalived|noticed/);
    expect(only(await alone.renew([asked], BRIEF))).toMatchObject({ status: "failed" });
    for (const { process } of others) process?.cont();
    expect(await settled(() => alone.renew([asked]))).toMatchObject({ status: "renewed" });
  });

  async function ownKey(member: EtcdServer, resource: string): Promise<{ lease: string }> {
    const text = await member.ask("get", "--prefix", `${resource}/`, "--write-out=fields");
    const lease = /"Lease" : (\d+)/.exec(text)?.[1] ?? "0";
    return { lease: BigInt(lease).toString(16) };
  }
});

describeEtcd("a lease in etcd", () => {
  describePostgres("that protects what PostgreSQL keeps", () => {
    let server: EtcdServer;
    let database: FreshDatabase;
    let site: Site;
    beforeAll(async () => {
      database = await freshDatabase();
    });
    beforeEach(async () => {
      server = await startEtcd();
      later({ close: () => server.remove() });
      site = await Site.open(server.url, database.url);
    });
    // Before the server is ended: what is held is released.
    afterEach(() => site.close());
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

    it("is kept when its server is killed, if its ttl allows", async () => {
      const lease = await site.leases.acquire(site.resource, {
        ...{ ttlMs: LONG_MS, renewIntervalMs: 50 },
      });
      await site.renewed();
      await server.kill9();
      await server.start();
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
        await lease.release();
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
        expect(await cutOff.tryRun(site.resource, {}, () => {})).toMatchObject({ ran: false });
        await next.renew();
        await site.expectHeldBy(next);
        expect(next.token).toBeGreaterThan(old.token);
      });
    });
  });
});
