/** Those who wait on ZooKeeper, each with a session of its own: in what order they are served, and what that costs. */
import { connect as connectTcp } from "node:net";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { Lease, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { CuratorClient } from "../support/engines/curator-client.js";
import {
  describeZooKeeper,
  startZooKeeper,
  type ZooKeeperServer,
} from "../support/engines/zookeeper-engine.js";
import { LONG_MS, Opened, POLL_AT_LEAST_MS, requestOf } from "../support/faults/queue-site.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { compile } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";

const namespace = "default";

describeZooKeeper("waiters on ZooKeeper", () => {
  let server: ZooKeeperServer;
  let curator: CuratorClient;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startZooKeeper();
    curator = await CuratorClient.connect(`127.0.0.1:${server.port}`, LONG_MS);
  });
  afterEach(async () => {
    await opened.closeAll();
  });
  afterAll(async () => {
    await curator.close();
    await endAll();
  });

  const url = (port = server.port) => `zookeeper://127.0.0.1:${port}/q?sessionTimeoutMs=120000`;
  const openStore = async (at = url()): Promise<LeaseStore> =>
    opened.later(await zookeeper({ url: at }).open(systemEnv, 20_000)).leases;
  const waiterOf = (resource: string, holder = "w") =>
    requestOf(resource, { holder, queueMs: LONG_MS });
  const ticketsOf = (resource: string) =>
    curator.children(`/q/%queue/default/${resource}`).catch(() => []);

  /** Clients that wait, who came one after the other; each holds for a moment only. */
  async function line(resource: string, count: number) {
    const served: number[] = [];
    const asked = { count: 0 };
    const ends: Promise<unknown>[] = [];
    for (let at = 0; at < count; at += 1) {
      const before = (await ticketsOf(resource)).length;
      const leases = opened.later(await connect(counted(await openStore(), asked), { graceMs: 0 }));
      const serve = async (lease: Lease) => {
        served.push(at);
        await lease.release();
      };
      ends.push(leases.acquire(resource, { ttlMs: LONG_MS, waitMs: LONG_MS }).then(serve));
      await until(expect, "its ticket", async () => (await ticketsOf(resource)).length > before);
    }
    return { served, asked, ends: Promise.all(ends) };
  }

  /** Serves a line that stands behind one holder. @returns requests to the store, and to the server */
  async function handOver(resource: string, count: number) {
    const store = await openStore();
    const held = requestOf(resource);
    await store.acquire([held]);
    const { served, asked, ends } = await line(resource, count);
    // Their second looks, which come soon after the first ones, are over.
    await settledDown(asked);
    const before = { asked: asked.count, packets: await packets(server.port) };
    const sinceMs = performance.now();
    await store.release([held]);
    await ends;
    const polls = count * Math.floor((performance.now() - sinceMs) / POLL_AT_LEAST_MS);
    return {
      served,
      polls,
      asked: asked.count - before.asked,
      packets: (await packets(server.port)) - before.packets,
    };
  }

  it("are served first in, first out, each woken once", async () => {
    const few = await handOver("few", 4);
    const many = await handOver("many", 24);
    for (const { served, asked, polls } of [few, many]) {
      expect(served).toEqual(served.map((_, at) => at));
      // One each, and the few that were late with their second look.
      expect(asked - polls).toBeLessThan(2 * served.length);
    }
    // What a release costs does not grow with the number of those who wait.
    if (few.polls + many.polls === 0) {
      const perRelease = { few: few.packets / few.served.length, many: many.packets / 24 };
      expect(perRelease.many).toBeLessThan(2 * perRelease.few);
    }
    expect(await ticketsOf("many")).toEqual([]);
  });

  it("are passed over when their process was killed, while its session lasts", async () => {
    const store = await openStore();
    const held = requestOf("killed");
    await store.acquire([held]);
    const program = await compile(
      new URL("../support/processes/wait-for-lease.ts", import.meta.url),
    );
    opened.onClose(() => program.remove());
    const child = new Child(process.execPath, [program.path, url(), "killed"]);
    await until(expect, "its ticket", async () => (await ticketsOf("killed")).length === 1);
    const { served, ends } = await line("killed", 1);
    await child.end("SIGKILL");
    expect(await ticketsOf("killed")).toHaveLength(2);
    await store.release([held]);
    await ends;
    expect(served).toEqual([0]);
    expect(child.out).toEqual([]);
    expect(await ticketsOf("killed")).toEqual([]);
  });

  it("are woken when the waiter ahead ends its session, and not before", async () => {
    const [holder, first, second] = [await openStore(), await openStore(), await openStore()];
    const watching = new LeaseWatching(second, namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    const held = requestOf("ended");
    const waiter = waiterOf("ended");
    await holder.acquire([held]);
    expect(only(await first.acquire([waiterOf("ended", "first")]))).toMatchObject({ ahead: 0 });
    expect(only(await second.acquire([waiter]))).toMatchObject({ ahead: 1 });
    await holder.release([held]);
    // A write through the other session, and back: its events would have come before.
    expect(only(await second.release([requestOf("ended")]))).toMatchObject({ status: "notHeld" });
    expect(watching.changed).toEqual([]);
    await first.close();
    await until(expect, "the notification", () => watching.changed.length > 0);
    expect(watching.changed[0]).toMatchObject({ wakes: grantIdOf(waiter.leaseId) });
    expect(only(await second.acquire([waiter]))).toMatchObject({ status: "acquired" });
    await watching.stop();
  });

  it("have what a session's end has freed kept for them, too", async () => {
    const [holder, first, other] = [await openStore(), await openStore(), await openStore()];
    const waiter = waiterOf("gone", "first");
    await holder.acquire([requestOf("gone")]);
    await first.acquire([waiter]);
    await holder.close();
    const sinceMs = performance.now();
    const early = only(await other.acquire([requestOf("gone")]));
    // Slower than that, it may have been free for all.
    if (performance.now() - sinceMs < 400) {
      expect(early).toMatchObject({ status: "held", holder: "first", grantId: null, ahead: 1 });
    }
    expect(only(await first.acquire([waiter]))).toMatchObject({ status: "acquired" });
  });

  it("lose their reservation to a newcomer if they do not poll", async () => {
    const [holder, first, other] = [await openStore(), await openStore(), await openStore()];
    await holder.acquire([requestOf("idle")]);
    await first.acquire([waiterOf("idle")]);
    await holder.close();
    const newcomer = requestOf("idle");
    await until(expect, "it is free for all", async () => {
      return only(await other.acquire([newcomer])).status === "acquired";
    });
  });

  it("leave one ticket each, whatever answers are lost", async () => {
    const proxy = opened.later(await openTcpProxy({ port: server.port }));
    const behind = await openStore(url(proxy.port));
    const held = requestOf("lost");
    await (await openStore()).acquire([held]);
    const waiter = waiterOf("lost");
    for (let answers = 0; answers < 4; answers += 1) {
      const dropped = proxy.dropNextAnswer();
      const outcomes = behind.acquire([waiter]);
      await dropped;
      expect(only(await outcomes)).toMatchObject({ status: "held", ahead: 0 });
      expect(await ticketsOf("lost")).toHaveLength(1);
    }
    await behind.release([waiter]);
    expect(await ticketsOf("lost")).toEqual([]);
  });

  it("leave nothing behind when all has been collected", async () => {
    const store = await openStore(`zookeeper://127.0.0.1:${server.port}/empty`);
    const held = requestOf("r");
    const waiter = waiterOf("r");
    await store.acquire([held, waiter]);
    await store.collect(0);
    expect(await curator.children("/empty/%queue/default/r")).toHaveLength(1);
    await store.release([waiter]);
    await store.collect(0);
    expect(await curator.children("/empty/%queue")).toEqual([]);
    expect(only(await store.acquire([waiterOf("r")]))).toMatchObject({ status: "held", ahead: 0 });
  });
});

/** The store, with the number of requests for a lease that it gets. */
function counted(store: LeaseStore, asked: { count: number }): LeaseStore {
  const acquire: LeaseStore["acquire"] = (requests, options) => {
    asked.count += requests.length;
    return store.acquire(requests, options);
  };
  return new Proxy(store, {
    get(target, name) {
      if (name === "acquire") return acquire;
      const found: unknown = Reflect.get(target, name, target);
      return typeof found === "function" ? found.bind(target) : found;
    },
  });
}

/** Resolves after a gap between requests that is longer than the pauses of new waiters. */
async function settledDown(asked: { readonly count: number }): Promise<void> {
  for (let before = -1; before !== asked.count; ) {
    before = asked.count;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}

/** What the server has received since it started, by the four letters `srvr`. */
function packets(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = "";
    const socket = connectTcp(port, "127.0.0.1", () => socket.write("srvr"));
    socket.on("data", (chunk) => {
      said += chunk.toString();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(Number(/^Received: (\d+)/m.exec(said)?.[1])));
  });
}
