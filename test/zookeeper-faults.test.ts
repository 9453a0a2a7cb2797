/**
 * Leases in ZooKeeper while their holders and its servers are stopped and killed, and what goes
 * between them is lost or late. What holders write is kept in PostgreSQL, behind a fence and without one.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../src/env/index.js";
import type { AcquireRequest, Failed, LeaseStore } from "../src/lease/index.js";
import { zookeeper } from "../src/stores/zookeeper/index.js";
import { only } from "../src/testing/calls.js";
import { LeaseWatching } from "../src/testing/lease-suite/fixture.js";
import { until } from "../src/testing/waiting.js";
import { CuratorClient } from "./support/curator-client.js";
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
import {
  describeZooKeeper,
  startZooKeeper,
  type ZooKeeperServer,
} from "./support/zookeeper-engine.js";

holdersForTests();

/** Of sessions that are not to end, and that allow LONG_MS. */
const LONG_SESSION_MS = 90_000;
/** Of sessions that are to end soon, and that allow TTL_MS. */
const SHORT_SESSION_MS = 2_700;
const CHROOT = "/faults";

const namespace = "default";
function request(ttlMs = LONG_MS): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  const resource = newLeaseId(systemRandom);
  return { namespace, resource, leaseId, holder: "h", ttlMs };
}
async function openStore(
  ports: readonly number[],
  sessionTimeoutMs = LONG_SESSION_MS,
): Promise<LeaseStore> {
  const servers = ports.map((port) => `127.0.0.1:${port}`);
  const source = zookeeper({ servers, chroot: CHROOT, sessionTimeoutMs });
  return later(await source.open(systemEnv, 20_000)).leases;
}
/** The same call, until it is answered. */
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
async function acquired(store: LeaseStore, asked: AcquireRequest) {
  const outcome = only(await store.acquire([asked]));
  if (outcome.status !== "acquired") throw new Error(outcome.status);
  return outcome;
}
const unanswered = { status: "failed", applied: "maybe", retryable: true };
const BRIEF = { timeoutMs: 400 };
const view = async (store: LeaseStore, asked: AcquireRequest) => only(await store.get([asked]));
const blackhole = (proxy: TcpProxy) => {
  proxy.blackhole("toServer");
  proxy.blackhole("toClient");
};

describeZooKeeper("a server", () => {
  let server: ZooKeeperServer;
  let store: LeaseStore;
  beforeEach(async () => {
    server = await startZooKeeper();
    later({ close: () => server.remove() });
    store = await openStore([server.port]);
  });
  const openProxy = async () => later(await openTcpProxy({ port: server.port }));

  const ENDS: Readonly<Record<string, () => Promise<void>>> = {
    "that stands still for a while": async () => server.process?.cont(),
    "that is killed and comes back": async () => {
      await server.kill9();
      await server.start();
    },
  };
  describe.each(Object.entries(ENDS))("%s", (_, goOn) => {
    it("in the middle of acquire, renewal and release does each once", async () => {
      const asked = request();
      await server.process?.stop();
      // Its looking went unanswered: nothing was changed.
      expect(only(await store.acquire([asked], BRIEF))).toMatchObject({ status: "failed" });
      await goOn();
      const first = await settled(() => store.acquire([asked], BRIEF));
      if (first.status !== "acquired") throw new Error(first.status);
      const found = await view(store, asked);
      expect(found).toMatchObject({ state: "live", grantId: grantIdOf(asked.leaseId) });
      expect(first.token).toBe(found?.token);

      await server.process?.stop();
      expect(only(await store.renew([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      const renewed = await settled(() => store.renew([asked], BRIEF));
      expect(renewed).toMatchObject({ status: "renewed", token: first.token });

      await server.process?.stop();
      expect(only(await store.release([asked], BRIEF))).toMatchObject(unanswered);
      await goOn();
      expect(await settled(() => store.release([asked], BRIEF))).toEqual({ status: "released" });
      const next = { ...request(), resource: asked.resource };
      const second = await acquired(store, next);
      expect(second.token).toBeGreaterThan(first.token);
      // The first one's acquire, late.
      expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
    });
  });

  it("whose answers are lost has acted once, and is asked again what it has done", async () => {
    const proxy = await openProxy();
    const behind = await openStore([proxy.port]);
    const asked = request();
    const calls: readonly [() => Promise<readonly { readonly status: string }[]>, string][] = [
      [() => behind.acquire([asked]), "acquired"],
      [() => behind.renew([asked]), "renewed"],
      [() => behind.release([asked]), "released"],
    ];
    for (const [call, status] of calls) {
      // Each of the answers that the call needs, in its turn.
      for (let answers = 0; answers < 2; answers += 1) {
        const dropped = proxy.dropNextAnswer();
        const outcomes = call();
        await dropped;
        expect(only(await outcomes)).toMatchObject({ status });
      }
    }
    expect(await view(store, asked)).toMatchObject({ state: "released" });
  });

  it("that has granted what nobody heard of frees it after its ttl", async () => {
    const proxy = await openProxy();
    const behind = await openStore([proxy.port]);
    await behind.acquire([request()]);
    const asked = request(1_000);
    // The transaction gets there, the answer is held back: so is everything after it.
    const granting = behind.acquire([asked], { timeoutMs: 300 });
    proxy.delay("toClient", 200);
    expect(only(await granting)).toMatchObject({ status: "failed" });
    proxy.heal();
    const next = { ...request(), resource: asked.resource };
    expect(
      await until(expect, "it is free", async () => {
        const { status } = only(await store.acquire([next]));
        return status === "acquired";
      }),
    ).toBe(undefined);
    const curator = later(await CuratorClient.connect(`127.0.0.1:${server.port}`));
    expect(await curator.children(`${CHROOT}/${asked.resource}`)).toHaveLength(1);
  });

  it("that cannot be reached has done nothing, and is not asked later", async () => {
    const proxy = await openProxy();
    const behind = await openStore([proxy.port]);
    await server.kill9();
    const asked = request();
    // Until the connection is known to be gone, nobody can say.
    await until(expect, "a failure that changes nothing", async () => {
      const outcome = only(await behind.acquire([asked], BRIEF));
      return outcome.status === "failed" && outcome.applied === "no";
    });
    await server.start();
    await settled(() => behind.acquire([request()], BRIEF));
    // This one lost its connection to the server as well.
    await settled(() => store.acquire([request()]));
    expect(await view(store, asked)).toBe(null);
  });

  it("that has fallen silent is left for a new connection, which has what the old one had", async () => {
    const proxy = await openProxy();
    const behind = await openStore([proxy.port], 3_000);
    const asked = request(2_000);
    const { token } = await acquired(behind, asked);
    for (const connection of proxy.connections) {
      connection.blackhole("toServer");
      connection.blackhole("toClient");
    }
    expect(await settled(() => behind.renew([asked], BRIEF))).toMatchObject({
      ...{ status: "renewed", token },
    });
  });

  it("ends what a silent session held, and that is found out on coming back", async () => {
    const proxy = await openProxy();
    const behind = await openStore([proxy.port], 1_000);
    const asked = request(700);
    const first = await acquired(behind, asked);
    blackhole(proxy);
    expect(only(await behind.renew([asked], { timeoutMs: 100 }))).toMatchObject(unanswered);
    const next = { ...request(), resource: asked.resource };
    const second = await settled(async () => {
      const outcomes = await store.acquire([next]);
      // Held is no answer here: it ends.
      return outcomes
        .filter(({ status }) => status !== "held")
        .concat(FAILED)
        .slice(0, 1);
    });
    if (second.status !== "acquired") throw new Error(second.status);
    expect(second.token).toBeGreaterThan(first.token);
    expect(only(await behind.renew([asked], { timeoutMs: 100 }))).toMatchObject({
      status: "failed",
    });
    proxy.heal();
    proxy.reset();
    expect(await settled(() => behind.renew([asked], BRIEF))).toMatchObject({ status: "lost" });
    expect(await settled(() => behind.release([asked], BRIEF))).toEqual({ status: "notHeld" });
    // Another session works.
    await acquired(behind, request(700));
    expect(await view(store, asked)).toMatchObject({ token: second.token, state: "live" });
  });

  it("frees at once what a client held that closes", async () => {
    const source = zookeeper({ servers: [`127.0.0.1:${server.port}`], chroot: CHROOT });
    const other = await source.open(systemEnv, 20_000);
    const asked = request(1_000);
    await acquired(other.leases, asked);
    // Bound to its client: nobody else has it, whatever they know.
    expect(only(await store.renew([asked]))).toEqual({ status: "lost", reason: "gone" });
    expect(only(await store.release([asked]))).toEqual({ status: "notHeld" });
    expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
    await other.close();
    expect(only(await store.acquire([{ ...request(), resource: asked.resource }]))).toMatchObject({
      status: "acquired",
    });
  });

  it("tells those who wait, through cuts", async () => {
    const proxy = await openProxy();
    const behind = await openStore([proxy.port]);
    const watching = new LeaseWatching(behind, namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const asked = request();
    await acquired(store, asked);
    const waiting = { ...request(), resource: asked.resource, queueMs: 60_000 };
    const wait = async () =>
      expect(await settled(() => behind.acquire([waiting]))).toMatchObject({ status: "held" });
    await wait();
    proxy.reset();
    await until(expect, "a second resync", () => watching.events.length > 1);
    await wait();
    await store.release([asked]);
    await until(expect, "the hint", () => watching.changed.length > 0);
    expect(watching.changed[0]?.resource).toBe(asked.resource);
    await watching.stop();
  });
});

const FAILED: Failed = {
  ...{ status: "failed", applied: "no", retryable: true, error: new Error("held") as never },
};

describeZooKeeper("a lease in ZooKeeper", () => {
  describePostgres("that protects what PostgreSQL keeps", () => {
    let server: ZooKeeperServer;
    let database: FreshDatabase;
    let site: Site;
    beforeAll(async () => {
      database = await freshDatabase();
    });
    const urlOf = (sessionTimeoutMs: number, port = server.port) =>
      `zookeeper://127.0.0.1:${port}${CHROOT}?sessionTimeoutMs=${sessionTimeoutMs}`;
    beforeEach(async () => {
      server = await startZooKeeper();
      later({ close: () => server.remove() });
      site = await Site.open(urlOf(LONG_SESSION_MS), database.url);
    });
    // Before the server is ended: what is held is released.
    afterEach(() => site.close());
    afterAll(() => database.drop());

    it("is known to be lost to a process that was stopped, before anything else", async () => {
      const holder = new Holder(site, { ttlMs: TTL_MS }, urlOf(SHORT_SESSION_MS));
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

    it("of a process that is killed goes to the next one when its session ends", async () => {
      const holder = new Holder(site, { ttlMs: TTL_MS }, urlOf(SHORT_SESSION_MS));
      const token = await holder.token();
      await site.renewed();
      await holder.end("SIGKILL");
      const next = await site.succeed();
      expect(next.token).toBeGreaterThan(token);
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

    it("is trusted by one of two at a time, while the network between them and the server fails", async () => {
      const proxy = later(await openTcpProxy({ port: server.port }));
      const holder = new Holder(site, { ttlMs: TTL_MS }, urlOf(SHORT_SESSION_MS, proxy.port));
      const token = await holder.token();
      holder.say("watch");
      await site.renewed();
      blackhole(proxy);
      const next = await site.succeed();
      const takenMs = Date.now();
      expect(next.token).toBeGreaterThan(token);
      const { lost, lastTrustedMs } = await holder.hears("lost");
      expect(lost).toBe("LEASE_LOST");
      expect(lastTrustedMs).toBeLessThan(takenMs);
      await site.expectHeldBy(next);
    });

    it("is kept when answers to its renewals are lost, and connections are reset", async () => {
      const { proxy, url } = await site.openProxy();
      const leases = later(await openLeases(url));
      const lease = await leases.acquire(site.resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
      for (let round = 0; round < 5; round += 1) {
        await proxy.dropNextAnswer();
        proxy.reset();
        await site.renewed();
      }
      expect(lease.checkAlive()).toBe(true);
      await site.expectHeldBy(lease);
    });
  });
});
