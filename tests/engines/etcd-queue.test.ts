/** Those who wait on etcd, each by connections of its own: in what order they are served, and what that costs. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { fromBase64, toBase64 } from "../../packages/leasehold/src/env/base64.js";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { AcquireRequest, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { below } from "../../packages/leasehold/src/stores/etcd/keys.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { describeEtcd, type EtcdServer, startEtcd } from "../support/engines/etcd-engine.js";
import { LONG_MS, Opened, POLL_AT_LEAST_MS, requestOf } from "../support/faults/queue-site.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { compile } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";

const namespace = "default";

describeEtcd("waiters on etcd", () => {
  let server: EtcdServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startEtcd();
  }, 30_000);
  afterEach(async () => {
    await opened.closeAll();
    await endAll(server.process);
  });
  afterAll(async () => {
    await server.remove();
    await endAll();
  });

  const openStore = async (port = server.port): Promise<LeaseStore> =>
    opened.later(await etcd({ url: `etcd://127.0.0.1:${port}` }).open(systemEnv, 20_000)).leases;
  const waiterOf = (resource: string, holder = "w") =>
    requestOf(resource, { holder, queueMs: LONG_MS });
  const keysBelow = async (folder: string): Promise<string[]> => {
    const body = { key: toBase64(folder), range_end: toBase64(below(folder).end), keys_only: true };
    const answer = await fetch(`http://127.0.0.1:${server.port}/v3/kv/range`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    const { kvs = [] } = (await answer.json()) as { kvs?: { key: string }[] };
    return kvs.map(({ key }) => fromBase64(key));
  };
  const ticketsOf = (resource: string) => keysBelow(`%leasehold/queue/default/${resource}/`);

  /** How many transactions etcd has been sent: engine leases and watches are none. */
  const transactions = async (): Promise<number> => {
    const metrics = await (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text();
    const count = /^grpc_server_started_total\{.*grpc_method="Txn".*\} (\S+)$/m.exec(metrics)?.[1];
    return Number(count);
  };
  /** Waits for a gap between requests that is longer than the pauses of new waiters, and returns their number. */
  const settledDown = async (): Promise<number> => {
    for (let before = -1; ; ) {
      const count = await transactions();
      if (count === before) return count;
      before = count;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  };

  /** Clients that wait, who came one after the other; each holds for a moment only. */
  async function line(resource: string, count: number) {
    const served: number[] = [];
    const ends: Promise<unknown>[] = [];
    const before = (await ticketsOf(resource)).length;
    for (let at = 0; at < count; at += 1) {
      const leases = opened.later(await connect(server.url));
      const run = leases.run(resource, { ttlMs: LONG_MS, waitMs: LONG_MS }, () => {
        served.push(at);
      });
      ends.push(run);
      await until(expect, "its ticket", async () => {
        return (await ticketsOf(resource)).length > before + at;
      });
    }
    const all = Promise.all(ends);
    // A test that fails does not wait for them.
    all.catch(() => {});
    return { served, ends: all };
  }

  it("are served first in, first out, each woken alone", async () => {
    const count = 12;
    const holder = await openStore();
    const held = requestOf("many");
    await holder.acquire([held]);
    const { served, ends } = await line("many", count);
    const before = await settledDown();
    const sinceMs = performance.now();
    await holder.release([held]);
    await ends;
    expect(served).toEqual(served.map((_, at) => at));
    // A look, the grant, and a release that finds who waits: were all woken each time, there were many more.
    const polls = count * Math.ceil((performance.now() - sinceMs) / POLL_AT_LEAST_MS);
    expect((await transactions()) - before).toBeLessThanOrEqual(4 * count + 2 * polls);
    expect(await ticketsOf("many")).toEqual([]);
    expect(await keysBelow("%leasehold/bell/many/")).toEqual([]);
  });

  it("are woken one at a time by a release, and all together by an expiry", async () => {
    const [holder, first, second] = [await openStore(), await openStore(), await openStore()];
    const waiters = [waiterOf("woken"), waiterOf("woken")] as const;
    const watching = new LeaseWatching(second, namespace);
    await until(expect, "the first event", () => watching.events.length > 0);
    await holder.acquire([requestOf("woken", { ttlMs: 1_000 })]);
    expect(only(await first.acquire([waiters[0]]))).toMatchObject({ ahead: 0 });
    expect(only(await second.acquire([waiters[1]]))).toMatchObject({ ahead: 1 });
    const changed = { type: "changed", namespace, resource: "woken" };
    await until(expect, "the end of the engine lease", () => watching.changed.length > 0);
    expect(watching.changed).toEqual([changed]);
    expect(only(await first.acquire([waiters[0]]))).toMatchObject({ status: "acquired" });
    await first.release([waiters[0]]);
    const wakes = grantIdOf(waiters[1].leaseId);
    await until(expect, "the release", () => watching.changed.some((one) => one.wakes === wakes));
    // The first waiter's bell went with its ticket. That notification wakes no waiter, so it is harmless.
    const gone = { ...changed, wakes: grantIdOf(waiters[0].leaseId) };
    expect(watching.changed).toEqual([changed, gone, { ...changed, wakes }]);
    expect(only(await second.acquire([waiters[1]]))).toMatchObject({ status: "acquired" });
    await watching.stop();
  });

  it("are passed over when their process was killed", async () => {
    const holder = await openStore();
    const held = requestOf("killed");
    await holder.acquire([held]);
    const program = await compile(
      new URL("../support/processes/wait-for-lease.ts", import.meta.url),
    );
    opened.onClose(() => program.remove());
    const child = new Child(process.execPath, [program.path, server.url, "killed"]);
    await until(expect, "its ticket", async () => (await ticketsOf("killed")).length === 1);
    const [dead] = await ticketsOf("killed");
    const { served, ends } = await line("killed", 2);
    await child.end("SIGKILL");
    await holder.release([held]);
    await ends;
    expect(served).toEqual([0, 1]);
    expect(child.out).toEqual([]);
    expect(await ticketsOf("killed")).not.toContain(dead);
  });

  it("are counted, however many, and keep one place each, whatever answers are lost", async () => {
    const proxy = opened.later(await openTcpProxy({ port: server.port }));
    const [holder, behind] = [await openStore(), await openStore(proxy.port)];
    await holder.acquire([requestOf("deep")]);
    const crowd = Array.from({ length: 30 }, () => waiterOf("deep"));
    const ahead = async (waiters: readonly AcquireRequest[]) => {
      const outcomes = await behind.acquire(waiters);
      return outcomes.map((outcome) => (outcome.status === "held" ? outcome.ahead : outcome));
    };
    const places = crowd.map((_, at) => at);
    expect(await ahead(crowd)).toEqual(places);
    // Engine leases that may be taken again are too old by then.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    const [, , third] = crowd as [AcquireRequest, AcquireRequest, AcquireRequest];
    for (let answers = 0; answers < 3; answers += 1) {
      const dropped = proxy.dropNextAnswer();
      const again = ahead([third]);
      await dropped;
      expect(await again).toEqual([2]);
    }
    expect(await ahead(crowd.toReversed())).toEqual(places.toReversed());
    expect(await ticketsOf("deep")).toHaveLength(crowd.length);
    await behind.release(crowd);
    expect(await ticketsOf("deep")).toEqual([]);
    expect(await keysBelow("%leasehold/bell/deep/")).toEqual([]);
  });

  it("and callers that do not wait are answered in one batch, each about its own resource", async () => {
    const [holder, stranger] = [await openStore(), await openStore()];
    const names = Array.from({ length: 40 }, (_, at) => `batch-${at}`);
    const held = names.map((name, at) => requestOf(name, { holder: `h${at}` }));
    await holder.acquire(held);
    const requests = names.map((name) => requestOf(name));
    const expected = names.map((_, at) => {
      const ahead = at % 3 ? { ahead: 0 } : {};
      return { status: "held", holder: `h${at}`, ...ahead };
    });
    // First it knows of none of them. Then those that wait ask for a longer time, which is another request to etcd.
    for (const queueMs of [5_000, LONG_MS]) {
      const batch = requests.map((request, at) => (at % 3 ? { ...request, queueMs } : request));
      const free = requestOf(`batch-free-${queueMs}`);
      const outcomes = await stranger.acquire([...batch, free]);
      expect(outcomes).toMatchObject([...expected, { status: "acquired" }]);
    }
    for (const [at, name] of names.entries()) {
      expect(await ticketsOf(name), name).toHaveLength(at % 3 ? 1 : 0);
    }
    await holder.release(held);
  });

  it("come after those who wait in etcd's own way", async () => {
    const holder = await openStore();
    const held = requestOf("mixed");
    await holder.acquire([held]);
    const { served, ends } = await line("mixed", 1);
    // Its own 10 s are too short for a busy machine.
    const lock = server.etcdctl("lock", "--ttl=60", "mixed");
    await until(expect, "it waits in its queue", async () => {
      return (await keysBelow("mixed/")).length === 2;
    });
    await holder.release([held]);
    await lock.until(({ out }) => out[0]);
    expect(served).toEqual([]);
    await lock.end("SIGINT");
    await ends;
    expect(served).toEqual([0]);
  });
});
