/**
 * Leases in Kubernetes while connections break, answers are lost, the API server is stopped and killed, and
 * administrators delete objects. With KUBECONFIG set, on a real API server; that one is not killed.
 */
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, newLeaseId, systemEnv, systemRandom } from "../src/env/index.js";
import { connect } from "../src/index.js";
import type { AcquireRequest, LeaseStore } from "../src/lease/index.js";
import { openKubeconfig } from "../src/stores/kubernetes/cluster.js";
import { kubernetes, openCluster } from "../src/stores/kubernetes/index.js";
import { only } from "../src/testing/calls.js";
import { LeaseWatching } from "../src/testing/lease-suite/fixture.js";
import { until as waitUntil } from "../src/testing/waiting.js";
import { compile } from "./support/compile.js";
import {
  type KubernetesEngine,
  ownKubeconfig,
  REAL_CLUSTER,
  startKubernetes,
  writeKubeconfig,
} from "./support/kubernetes-engine.js";
import { describeUnless, freePort } from "./support/postgres.js";
import { Child, endAll, temporaryFolder } from "./support/processes.js";
import { openTcpProxy, type TcpProxy } from "./support/tcp-proxy.js";

/** Of leases that are to run out, and of those that must not while the machine is slow. */
const [TTL_MS, LONG_MS] = [2_000, 60_000];
const until = (what: string, isTrue: () => boolean | Promise<boolean>) =>
  waitUntil(expect, what, isTrue);

let engine: KubernetesEngine;
let holder: Awaited<ReturnType<typeof compile>>;
let server: Awaited<ReturnType<typeof compile>>;
beforeAll(async () => {
  engine = await startKubernetes();
  holder = await compile(new URL("support/kubernetes-holder.ts", import.meta.url));
  server = await compile(new URL("support/kube-api-process.ts", import.meta.url));
});
afterAll(async () => {
  await engine.close();
  await holder.remove();
  await server.remove();
});

const closing: (() => Promise<unknown>)[] = [];
const later = <T extends { close(): Promise<unknown> }>(opened: T): T => {
  closing.unshift(() => opened.close());
  return opened;
};
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await endAll();
});

let resource = "";
beforeEach(() => {
  resource = `r-${newLeaseId(systemRandom)}`;
});
const key = () => ({ namespace: "default", resource });
function requestOf(ttlMs = LONG_MS): AcquireRequest {
  return { ...key(), leaseId: newLeaseId(systemRandom), holder: "holder", ttlMs };
}
async function direct(): Promise<LeaseStore> {
  return later(await kubernetes({ url: engine.url }).open(systemEnv)).leases;
}

/** A store behind a proxy, with something to be done right before a request of its is sent. */
async function proxied() {
  const proxy = later(await openTcpProxy({ port: engine.port }));
  const url = await engine.through(proxy.port);
  const kubeconfig = new URL(url).searchParams.get("kubeconfig") ?? "";
  const cluster = await openKubeconfig(kubeconfig, undefined);
  const next: ((() => void) | null)[] = [];
  const access: typeof cluster.access = (refresh) => {
    next.shift()?.();
    return cluster.access(refresh);
  };
  const stores = later(await openCluster({ ...cluster, access }, engine.namespace, systemEnv));
  return {
    proxy,
    url,
    store: stores.leases,
    beforeRequests: (...acts: typeof next) => next.push(...acts),
  };
}
/** The answer is lost to a request of which the server has taken note. */
const losing = (proxy: TcpProxy) => () => void proxy.dropNextAnswer().catch(() => {});
const maybe = { status: "failed", applied: "maybe", retryable: true };

describe("an answer that is lost after the write", () => {
  it("of an acquire: asked again, also of another store, it is the same grant", async () => {
    const { proxy, store, beforeRequests } = await proxied();
    const request = requestOf();
    // The object is looked for, made, and granted.
    beforeRequests(null, null, losing(proxy));
    expect(await store.acquire([request])).toMatchObject([maybe]);
    expect(proxy.counts.answersDropped).toBe(1);
    const other = await direct();
    const view = only(await other.get([key()]));
    expect(view).toMatchObject({ grantId: grantIdOf(request.leaseId), state: "live" });
    for (const each of [store, other, store]) {
      const [again] = await each.acquire([request]);
      expect(again).toMatchObject({ status: "acquired", token: view?.token });
      if (again?.status === "acquired") expect(again.remainingMs).toBeGreaterThan(LONG_MS / 2);
    }
    expect(await other.acquire([requestOf()])).toMatchObject([{ status: "held" }]);
  });

  it("of a renewal, a release, a revoke: done once, and known when asked again", async () => {
    const { proxy, store, beforeRequests } = await proxied();
    const request = requestOf();
    const [granted] = await store.acquire([request]);
    beforeRequests(losing(proxy));
    expect(await store.renew([request])).toMatchObject([maybe]);
    expect(await store.renew([request])).toMatchObject([{ status: "renewed" }]);
    beforeRequests(losing(proxy));
    expect(await store.release([request])).toMatchObject([maybe]);
    expect(await store.release([request])).toEqual([{ status: "released" }]);
    const second = requestOf();
    const [next] = await store.acquire([second]);
    if (granted?.status !== "acquired" || next?.status !== "acquired") throw new Error("not held");
    expect(next.token).toBeGreaterThan(granted.token);
    beforeRequests(null, losing(proxy));
    expect(await store.revoke([{ ...key(), free: "now" }])).toMatchObject([maybe]);
    expect(await store.get([key()])).toMatchObject([{ state: "revoked", token: next.token }]);
    expect(await store.renew([second])).toEqual([{ status: "lost", reason: "revoked" }]);
    expect(proxy.counts.answersDropped).toBe(3);
  });
});

describe("a network that breaks", () => {
  it("ends no lease when connections are reset, idle ones and busy ones", async () => {
    const { proxy, url } = await proxied();
    const leases = later(await connect(url, { graceMs: 0 }));
    const lease = await leases.acquire(resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
    const store = await direct();
    const renewedAt = async () => only(await store.get([key()]))?.renewedAt;
    for (let round = 0; round < 5; round += 1) {
      if (round % 2 === 0) proxy.reset();
      else await proxy.dropNextAnswer();
      const before = await renewedAt();
      await until("a renewal", async () => (await renewedAt()) !== before);
    }
    expect(lease.checkAlive()).toBe(true);
    expect(only(await store.get([key()]))).toMatchObject({ token: lease.token, state: "live" });
    await lease.release();
  });

  it("answers by the time limit when nothing comes through, and knows what was not sent", async () => {
    const { proxy, store } = await proxied();
    const held = requestOf();
    await store.acquire([held]);
    proxy.blackhole("toClient");
    const limit = { timeoutMs: 200 };
    expect(await store.acquire([requestOf()], limit)).toMatchObject([
      { status: "failed", applied: "no" },
    ]);
    expect(await store.renew([held], limit)).toMatchObject([maybe]);
    expect(await store.release([held], limit)).toMatchObject([maybe]);
    expect(await store.revoke([{ ...key(), free: "now" }], limit)).toMatchObject([
      { status: "failed", applied: "no" },
    ]);
    proxy.heal();
    proxy.reset();
    // The renewal or the release was on its way, and has been carried out.
    const [view] = await (await direct()).get([key()]);
    expect(view?.grantId).toBe(grantIdOf(held.leaseId));
    await store.release([held]);
    expect(await store.acquire([requestOf()])).toMatchObject([{ status: "acquired" }]);
  });

  it("parts a holder from its successor: trust ends first, and late renewals do nothing", async () => {
    const { proxy, url } = await proxied();
    const leases = later(await connect(url, { graceMs: 0 }));
    const others = later(await connect(engine.url, { graceMs: 0 }));
    const lease = await leases.acquire(resource, { ttlMs: TTL_MS, renewIntervalMs: 300 });
    const lost = once(lease.signal, "abort");
    const taking = others.acquire(resource, { ttlMs: LONG_MS, renewIntervalMs: 100 });
    proxy.hold("toServer");
    const next = await taking;
    expect(lease.checkAlive()).toBe(false);
    await lost;
    expect(next.token).toBeGreaterThan(lease.token);
    expect(proxy.counts.heldBytes.toServer).toBeGreaterThan(0);
    const forwarded = proxy.counts.forwardedBytes.toServer;
    proxy.letGo("toServer");
    await proxy.until(({ forwardedBytes }) => forwardedBytes.toServer > forwarded);
    await next.renew();
    expect(await others.get(resource)).toMatchObject({ token: next.token, state: "live" });
    await next.release();
  });

  it("costs a watch nothing: it goes on from the last version that it saw", async () => {
    const { proxy, store } = await proxied();
    const other = await direct();
    const watching = new LeaseWatching(store, "default");
    await until("the subscription", () => watching.events.length > 0);
    for (let round = 0; round < 3; round += 1) {
      proxy.reset();
      const held = requestOf();
      await other.acquire([held]);
      await other.release([held]);
      const own = () => watching.changed.filter((event) => event.resource === resource).length;
      await until("the hint", () => own() > round);
    }
    expect(watching.events.filter(({ type }) => type === "resync")).toHaveLength(1);
    await watching.stop();
  });
});

describe("a record that nobody renews", () => {
  it("is aged by a store that has never seen it for its whole duration", async () => {
    const request = requestOf(TTL_MS);
    await (await direct()).acquire([request]);
    const store = await direct();
    const sentMs = systemEnv.clock.monotonic();
    const next = requestOf();
    await until("it is free", async () => only(await store.acquire([next])).status === "acquired");
    expect(systemEnv.clock.monotonic() - sentMs).toBeGreaterThanOrEqual(TTL_MS);
  });

  it("of a process that was stopped is taken over, and not revived", async () => {
    const child = new Child(process.execPath, [holder.path, engine.url, resource, String(TTL_MS)]);
    const token = await child.until(({ out }) => out[0]);
    await child.stop();
    const leases = later(await connect(engine.url, { graceMs: 0 }));
    const next = await leases.acquire(resource, { ttlMs: LONG_MS });
    expect(next.token).toBeGreaterThan((JSON.parse(token) as { token: number }).token);
    child.cont();
    child.say("?");
    expect(await child.until(({ out }) => out[1])).toBe('{"alive":false}');
    await next.renew();
    expect(await leases.get(resource)).toMatchObject({ token: next.token, state: "live" });
    await next.release();
  });
});

describe("an administrator who deletes the object", () => {
  it("ends the grant; tokens grow on, also within a second", async () => {
    const store = await direct();
    let last = 0;
    let held = requestOf();
    for (let round = 0; round < 5; round += 1) {
      for (const live of [requestOf(), requestOf()]) {
        await store.revoke([{ ...key(), free: "now" }]);
        const [granted] = await store.acquire([live]);
        if (granted?.status !== "acquired") throw new Error("not acquired");
        expect(granted.token).toBeGreaterThan(last);
        last = granted.token;
        held = live;
      }
      await engine.ask("DELETE", resource);
      expect(await store.renew([held])).toEqual([{ status: "lost", reason: "gone" }]);
      expect(await store.release([held])).toEqual([{ status: "notHeld" }]);
      expect(await store.get([key()])).toEqual([null]);
    }
  });
});

const noControl = REAL_CLUSTER ? "a real cluster is not killed by tests" : null;
describeUnless(noControl, "an API server", () => {
  async function startServer() {
    const [port, folder] = [await freePort(), await temporaryFolder()];
    const journal = join(folder, "journal");
    const start = async () => {
      const child = new Child(process.execPath, [server.path, String(port), journal]);
      await child.until(({ out }) => out.includes("listening"));
      return child;
    };
    const kubeconfig = await writeKubeconfig(ownKubeconfig(port), folder);
    const url = `kubernetes:leases?${new URLSearchParams({ kubeconfig })}`;
    return { start, url, child: await start() };
  }

  it("that is killed and started again keeps leases and tokens", async () => {
    const { start, url, child } = await startServer();
    const leases = later(await connect(url, { graceMs: 0 }));
    const lease = await leases.acquire(resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
    let running = child;
    for (let round = 0; round < 3; round += 1) {
      await running.end("SIGKILL");
      const held = leases.tryAcquire(`${resource}-${round}`, { ttlMs: LONG_MS });
      running = await start();
      await held.then((one) => one?.release()).catch(() => {});
      await lease.renew();
    }
    expect(lease.checkAlive()).toBe(true);
    await lease.release();
    const next = await leases.acquire(resource);
    expect(next.token).toBeGreaterThan(lease.token);
    await next.release();
  });

  it("that stands still holds no call beyond its limit, and loses nothing", async () => {
    const { url, child } = await startServer();
    const store = later(await kubernetes({ url }).open(systemEnv)).leases;
    const held = requestOf();
    const [granted] = await store.acquire([held]);
    await child.stop();
    const limit = { timeoutMs: 200 };
    const answers = await Promise.all([
      store.acquire([{ ...requestOf(), resource: "other" }], limit),
      store.renew([held], limit),
      store.release([{ ...held, leaseId: newLeaseId(systemRandom) }], limit),
    ]);
    expect(answers).toMatchObject([
      [{ status: "failed", applied: "no" }],
      [maybe],
      [{ status: "failed", applied: "no" }],
    ]);
    child.cont();
    expect(await store.renew([held])).toMatchObject([{ status: "renewed" }]);
    expect(await store.acquire([held])).toMatchObject([
      { status: "acquired", token: (granted as { token?: number }).token },
    ]);
  });

  it("that stands still past the ttl ends the trust of the holder", async () => {
    const { url, child } = await startServer();
    const leases = later(await connect(url, { graceMs: 0 }));
    const lease = await leases.acquire(resource, { ttlMs: TTL_MS });
    const lost = once(lease.signal, "abort");
    await child.stop();
    await lost;
    expect(lease.checkAlive()).toBe(false);
    child.cont();
    const next = await leases.acquire(resource, { ttlMs: LONG_MS });
    expect(next.token).toBeGreaterThan(lease.token);
    await next.release();
  });
});
