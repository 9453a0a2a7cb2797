/**
 * Leases in ZooKeeper under faults: what every engine does, and what becomes of sessions.
 * @module-tag safety
 */
import { expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { AcquireOutcome, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { CuratorClient } from "../support/engines/curator-client.js";
import { CHROOT, MAYBE_APPLIED, ZOOKEEPER } from "../support/faults/engines.js";
import { TTL_MS } from "../support/faults/fault-site.js";
import { leaseFaults } from "../support/faults/lease-suite.js";
import {
  acquired,
  BRIEF,
  blackhole,
  type Later,
  laterIn,
  openBehind,
  openStore,
  request,
  rivalOf,
  settled,
  sharedServer,
  view,
} from "../support/faults/server.js";
import { storeFaults } from "../support/faults/store-suite.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";

async function openSession(
  later: Later,
  port: number,
  sessionTimeoutMs: number,
): Promise<LeaseStore> {
  const source = zookeeper({ servers: [`127.0.0.1:${port}`], chroot: CHROOT, sessionTimeoutMs });
  return later(await source.open(systemEnv, 20_000)).leases;
}

ZOOKEEPER.describe("faults of ZooKeeper", () => {
  const shared = sharedServer(ZOOKEEPER);
  storeFaults(ZOOKEEPER, shared);
  leaseFaults(ZOOKEEPER, shared, (world) => {
    it("is trusted by one of two at a time, while the network between them and the server fails", async (context) => {
      const { site, hold, openProxy } = await world.open(context);
      const proxy = await openProxy();
      const holder = await hold({ ttlMs: TTL_MS }, proxy.port);
      const token = await holder.token();
      holder.say("watch");
      await site.renewed();
      blackhole(proxy);
      const next = await site.succeed();
      const takenMs = Date.now();
      expect(next.token).toBeGreaterThan(token);
      const { lost, lastTrustedMs } = await holder.reported("lost");
      expect(lost).toBe("LEASE_LOST");
      expect(lastTrustedMs).toBeLessThan(takenMs);
      await site.expectHeldBy(next);
    });
  });

  it("a grant whose answer is lost ends after its ttl", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const { proxy, store: behind } = await openBehind(server, later);
    await behind.acquire([request()]);
    const asked = request(1_000);
    // The transaction gets there, the answer is held back: so is everything after it.
    const granting = behind.acquire([asked], { timeoutMs: 300 });
    proxy.delay("toClient", 200);
    expect(only(await granting)).toMatchObject({ status: "failed" });
    proxy.heal();
    const next = rivalOf(asked);
    await until(expect, "it is free", async () => {
      return only(await store.acquire([next])).status === "acquired";
    });
    const curator = later(await CuratorClient.connect(`127.0.0.1:${server.port}`));
    expect(await curator.children(`${CHROOT}/${asked.resource}`)).toHaveLength(1);
  });

  it("a silent session ends with what it held, which its client learns on reconnecting", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const proxy = later(await openTcpProxy({ port: server.port }));
    const behind = await openSession(later, proxy.port, 1_000);
    const asked = request(700);
    const first = await acquired(behind, asked);
    blackhole(proxy);
    expect(only(await behind.renew([asked], { timeoutMs: 100 }))).toMatchObject(MAYBE_APPLIED);
    const next = rivalOf(asked);
    let second: AcquireOutcome | undefined;
    await until(expect, "it is free", async () => {
      second = only(await store.acquire([next]));
      return second.status === "acquired";
    });
    if (second?.status !== "acquired") throw new Error(second?.status);
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

  it("a client that closes frees at once what it held", async (context) => {
    const server = shared();
    const store = await openStore(server, laterIn(context));
    const source = zookeeper({ servers: [`127.0.0.1:${server.port}`], chroot: CHROOT });
    const other = await source.open(systemEnv, 20_000);
    const asked = request(1_000);
    await acquired(other.leases, asked);
    // Bound to its client: no other one has it, though it knows the lease id.
    expect(only(await store.renew([asked]))).toEqual({ status: "lost", reason: "gone" });
    expect(only(await store.release([asked]))).toEqual({ status: "notHeld" });
    expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
    await other.close();
    expect(only(await store.acquire([rivalOf(asked)]))).toMatchObject({
      status: "acquired",
    });
  });

  it("a waiter is notified, through cuts", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const { proxy, store: behind } = await openBehind(server, later);
    const watching = new LeaseWatching(behind, "default");
    await until(expect, "the first event", () => watching.events.length > 0);
    const asked = request();
    await acquired(store, asked);
    const waiting = { ...rivalOf(asked), queueMs: 60_000 };
    const wait = async () =>
      expect(await settled(() => behind.acquire([waiting]))).toMatchObject({ status: "held" });
    await wait();
    proxy.reset();
    await until(expect, "a second resync", () => watching.events.length > 1);
    await wait();
    await store.release([asked]);
    await until(expect, "the notification", () => watching.changed.length > 0);
    expect(watching.changed[0]?.resource).toBe(asked.resource);
    await watching.stop();
  });
});
