/**
 * Leases in Kubernetes under faults: what every engine does, answers that are lost to one request of several,
 * and administrators who delete objects. With KUBECONFIG set, on a real API server; that one is not killed.
 * @module-tag safety
 */
import { once } from "node:events";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  grantIdOf,
  newLeaseId,
  systemEnv,
  systemRandom,
} from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { AcquireRequest, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { openKubeconfig } from "../../packages/leasehold/src/stores/kubernetes/connection-kubeconfig.js";
import { kubernetes, openCluster } from "../../packages/leasehold/src/stores/kubernetes/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until as waitUntil } from "../../packages/leasehold/src/testing/waiting.js";
import { type KubernetesEngine, startKubernetes } from "../support/engines/kubernetes-engine.js";
import { describeUnless } from "../support/engines/postgres.js";
import { KUBERNETES, MAYBE_APPLIED as maybe } from "../support/faults/engines.js";
import { LONG_MS, TTL_MS } from "../support/faults/fault-site.js";
import { leaseFaults } from "../support/faults/lease-suite.js";
import { type Later, laterIn, openStore, sharedServer } from "../support/faults/server.js";
import { storeFaults } from "../support/faults/store-suite.js";
import { openTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.js";

const until = (what: string, isTrue: () => boolean | Promise<boolean>) =>
  waitUntil(expect, what, isTrue);

let engine: KubernetesEngine;
beforeAll(async () => {
  engine = await startKubernetes();
});
afterAll(() => engine.close());

let resource = "";
beforeEach(() => {
  resource = `r-${newLeaseId(systemRandom)}`;
});
const key = () => ({ namespace: "default", resource });
function requestOf(ttlMs = LONG_MS): AcquireRequest {
  return { ...key(), leaseId: newLeaseId(systemRandom), holder: "holder", ttlMs };
}
async function direct(later: Later): Promise<LeaseStore> {
  return later(await kubernetes({ url: engine.url }).open(systemEnv)).leases;
}

/** A store behind a proxy, with something to be done right before one of its requests is sent. */
async function proxied(later: Later) {
  const proxy = later(await openTcpProxy({ port: engine.port }));
  const url = new URL(await engine.through(proxy.port));
  const kubeconfig = url.searchParams.get("kubeconfig") ?? "";
  const cluster = await openKubeconfig([kubeconfig], undefined, systemEnv.clock);
  const next: ((() => void) | null)[] = [];
  const access: typeof cluster.access = (refused) => {
    next.shift()?.();
    return cluster.access(refused);
  };
  const stores = later(await openCluster({ ...cluster, access }, engine.namespace, systemEnv));
  return {
    proxy,
    store: stores.leases,
    beforeRequests: (...acts: typeof next) => next.push(...acts),
  };
}
/** The answer is lost to a request of which the server has taken note. */
const losing = (proxy: TcpProxy) => () => void proxy.dropNextAnswer().catch(() => {});

describe("an answer that is lost after the write", () => {
  it("of an acquire: asked again, also of another store, it is the same grant", async (context) => {
    const later = laterIn(context);
    const { proxy, store, beforeRequests } = await proxied(later);
    const request = requestOf();
    // The three requests read the object, create it, and write the grant.
    beforeRequests(null, null, losing(proxy));
    expect(await store.acquire([request])).toMatchObject([maybe]);
    expect(proxy.counts.answersDropped).toBe(1);
    const other = await direct(later);
    const view = only(await other.get([key()]));
    expect(view).toMatchObject({ grantId: grantIdOf(request.leaseId), state: "live" });
    for (const each of [store, other, store]) {
      const [again] = await each.acquire([request]);
      expect(again).toMatchObject({ status: "acquired", token: view?.token });
      if (again?.status === "acquired") expect(again.remainingMs).toBeGreaterThan(LONG_MS / 2);
    }
    expect(await other.acquire([requestOf()])).toMatchObject([{ status: "held" }]);
  });

  it("of a renewal, a release, a revoke: done once, and known when asked again", async (context) => {
    const later = laterIn(context);
    const { proxy, store, beforeRequests } = await proxied(later);
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
  it("answers by the time limit when nothing comes through, and knows what was not sent", async (context) => {
    const later = laterIn(context);
    const { proxy, store } = await proxied(later);
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
    const [view] = await (await direct(later)).get([key()]);
    expect(view?.grantId).toBe(grantIdOf(held.leaseId));
    await store.release([held]);
    expect(await store.acquire([requestOf()])).toMatchObject([{ status: "acquired" }]);
  });

  it("costs a watch nothing: it goes on from the last version that it saw", async (context) => {
    const later = laterIn(context);
    const { proxy, store } = await proxied(later);
    const other = await direct(later);
    const watching = new LeaseWatching(store, "default");
    await until("the subscription", () => watching.events.length > 0);
    for (let round = 0; round < 3; round += 1) {
      proxy.reset();
      const held = requestOf();
      await other.acquire([held]);
      await other.release([held]);
      const own = () => watching.changed.filter((event) => event.resource === resource).length;
      await until("the notification", () => own() > round);
    }
    expect(watching.events.filter(({ type }) => type === "resync")).toHaveLength(1);
    await watching.stop();
  });
});

it("a record that is not renewed is aged by a store that has never seen it for its whole duration", async (context) => {
  const later = laterIn(context);
  const request = requestOf(TTL_MS);
  await (await direct(later)).acquire([request]);
  const store = await direct(later);
  const sentMs = systemEnv.clock.monotonic();
  const next = requestOf();
  await until("it is free", async () => only(await store.acquire([next])).status === "acquired");
  expect(systemEnv.clock.monotonic() - sentMs).toBeGreaterThanOrEqual(TTL_MS);
});

describe("an administrator who deletes the object", () => {
  it("ends the grant; tokens grow on, also within a second", async (context) => {
    const later = laterIn(context);
    const store = await direct(later);
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

KUBERNETES.describe("faults of Kubernetes", () => {
  const shared = sharedServer(KUBERNETES);
  storeFaults(KUBERNETES, shared);
  leaseFaults(KUBERNETES, shared);

  describeUnless(KUBERNETES.untouchable, "stopped", () => {
    it("a server that stands still holds no call beyond its limit, and loses nothing", async (context) => {
      const server = shared();
      const store = await openStore(server, laterIn(context));
      const held = requestOf();
      const [granted] = await store.acquire([held]);
      await server.process?.stop();
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
      server.process?.cont();
      expect(await store.renew([held])).toMatchObject([{ status: "renewed" }]);
      expect(await store.acquire([held])).toMatchObject([
        { status: "acquired", token: (granted as { token?: number }).token },
      ]);
    });

    it("a server that stands still past the ttl ends the trust of the holder", async (context) => {
      const server = shared();
      const url = await server.url(server.port, TTL_MS);
      const leases = laterIn(context)(await connect(url, { graceMs: 0 }));
      const lease = await leases.acquire(resource, { ttlMs: TTL_MS });
      const lost = once(lease.signal, "abort");
      await server.process?.stop();
      await lost;
      expect(lease.checkAlive()).toBe(false);
      server.process?.cont();
      const next = await leases.acquire(resource, { ttlMs: LONG_MS });
      expect(next.token).toBeGreaterThan(lease.token);
      await next.release();
    });
  });
});
