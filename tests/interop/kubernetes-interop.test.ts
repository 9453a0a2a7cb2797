/**
 * The Lease object, shared with client-go: by a client of its shape, and, where KUBECONFIG names a real
 * cluster and CLIENT_GO_LEADER_ELECTION the program of client-go's examples/leader-election, by itself.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { grantIdOf, newLeaseId, systemRandom } from "../../packages/leasehold/src/env/index.js";
import type { AcquireRequest, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { kubernetes } from "../../packages/leasehold/src/stores/kubernetes/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { ClientGo } from "../support/engines/client-go.js";
import {
  type KubernetesEngine,
  REAL_CLUSTER,
  startKubernetes,
} from "../support/engines/kubernetes-engine.js";
import { Child, endAll } from "../support/processes/processes.js";

let engine: KubernetesEngine;
beforeAll(async () => {
  engine = await startKubernetes();
});
afterAll(() => engine.close());

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await endAll();
});

/** A store of its own clock, a resource, and a client of client-go's shape on the same clock. */
async function openWorld(leaseDurationSeconds = 15) {
  const env = manualEnv();
  const resource = `r-${newLeaseId(systemRandom)}`;
  const open = async (of = env): Promise<LeaseStore> => {
    const stores = await kubernetes({ url: engine.url }).open(of);
    closing.push(() => stores.close());
    return stores.leases;
  };
  const ask = engine.ask.bind(engine);
  const clientGo = (identity: string) =>
    new ClientGo(ask, resource, identity, leaseDurationSeconds, () => env.clock.monotonic());
  const request = (holder = "ours", ttlMs = 10_000): AcquireRequest => ({
    namespace: "default",
    resource,
    leaseId: newLeaseId(systemRandom),
    holder,
    ttlMs,
  });
  const read = async () => (await engine.ask("GET", resource)).body;
  return { env, resource, store: await open(), open, clientGo, request, read };
}

const MICRO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

describe("the Lease object", () => {
  it("is written as client-go writes it: acquired, renewed, released, taken over", async () => {
    const { env, store, request, read, resource } = await openWorld();
    const first = request("host-1");
    await store.acquire([first]);
    const acquired = await read();
    expect(acquired).toMatchObject({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: resource },
      spec: {
        holderIdentity: `host-1_${grantIdOf(first.leaseId)}`,
        leaseDurationSeconds: 10,
        leaseTransitions: 0,
        acquireTime: expect.stringMatching(MICRO_TIME),
        renewTime: acquired.spec["acquireTime"],
      },
    });
    expect(JSON.stringify(acquired)).not.toContain(first.leaseId);

    await env.clock.advance(1_234);
    await store.renew([{ ...first, ttlMs: 20_000 }]);
    const renewed = await read();
    expect(renewed.spec).toEqual({
      ...acquired.spec,
      leaseDurationSeconds: 20,
      renewTime: expect.stringMatching(MICRO_TIME),
    });
    expect(renewed.spec["renewTime"]).not.toBe(acquired.spec["renewTime"]);

    await env.clock.advance(1_000);
    await store.release([first]);
    const released = await read();
    expect(released.spec).toMatchObject({
      holderIdentity: "",
      leaseDurationSeconds: 1,
      leaseTransitions: 0,
      acquireTime: released.spec["renewTime"],
    });
    const second = request("host-1");
    await store.acquire([second]);
    const taken = await read();
    expect(taken.spec).toMatchObject({ leaseTransitions: 1, leaseDurationSeconds: 10 });
    expect(taken.spec["holderIdentity"]).not.toBe(acquired.spec["holderIdentity"]);
    expect(taken.metadata.uid).toBe(acquired.metadata.uid);
  });

  it("keeps what others have written on it", async () => {
    const { store, request, read, resource } = await openWorld();
    const metadata = {
      name: resource,
      labels: { app: "web", "leasehold.dev/other": "x" },
      annotations: { "example.com/note": "keep me" },
    };
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata };
    expect((await engine.ask("POST", "", { ...lease, spec: {} })).status).toBe(201);
    const held = request();
    expect(await store.acquire([held])).toMatchObject([{ status: "acquired" }]);
    await store.renew([{ ...held, ttlMs: 10_000 }]);
    await store.release([held]);
    expect(await store.collect(-1)).toBeGreaterThan(0);
    expect((await read()).metadata).toMatchObject({
      labels: metadata.labels,
      annotations: metadata.annotations,
    });
  });

  it("is rounded up to whole seconds, and answered as it is", async () => {
    const { store, request } = await openWorld();
    expect(await store.acquire([request("ours", 2_001)])).toMatchObject([
      { status: "acquired", ttlMs: 3_000, remainingMs: 3_000, expiresAt: null },
    ]);
  });
});

describe("a client of client-go's shape", () => {
  it("is kept out while we hold, and follows when we release", async () => {
    const { env, store, request, clientGo } = await openWorld();
    const go = clientGo("go");
    const held = request();
    await store.acquire([held]);
    for (let round = 0; round < 5; round += 1) {
      expect(await go.tryAcquireOrRenew()).toBe(false);
      await env.clock.advance(4_000);
      expect(await store.renew([{ ...held, ttlMs: 10_000 }])).toMatchObject([
        { status: "renewed" },
      ]);
    }
    await store.release([held]);
    expect(await go.tryAcquireOrRenew()).toBe(true);
    expect(await store.renew([{ ...held, ttlMs: 10_000 }])).toEqual([
      { status: "lost", reason: "taken" },
    ]);
  });

  it("keeps us out while it leads, and is followed when it releases or stops", async () => {
    const { env, store, request, clientGo, resource } = await openWorld();
    const go = clientGo("go");
    expect(await go.tryAcquireOrRenew()).toBe(true);
    const held = { status: "held", holder: "go", grantId: null };
    for (let round = 0; round < 5; round += 1) {
      expect(await store.acquire([request()])).toMatchObject([held]);
      await env.clock.advance(10_000);
      expect(await go.tryAcquireOrRenew()).toBe(true);
    }
    const [view] = await store.get([{ namespace: "default", resource }]);
    expect(view).toMatchObject({ holder: "go", state: "live", token: 0, ttlMs: 15_000 });
    const { items } = await store.list({ namespace: "default", prefix: resource });
    expect(items).toEqual([view]);
    await go.release();
    const ours = request();
    const [first] = await store.acquire([ours]);
    expect(first).toMatchObject({ status: "acquired" });
    await store.release([ours]);

    expect(await go.tryAcquireOrRenew()).toBe(true);
    expect(await store.acquire([request()])).toMatchObject([{ ...held, remainingMs: 15_000 }]);
    await env.clock.advance(14_999);
    expect(await store.acquire([request()])).toMatchObject([{ ...held, remainingMs: 1 }]);
    await env.clock.advance(1);
    const [second] = await store.acquire([request()]);
    if (first?.status !== "acquired" || second?.status !== "acquired") throw new Error("not ours");
    expect(second.token).toBeGreaterThan(first.token);
    expect(await go.tryAcquireOrRenew()).toBe(false);
    expect(go.isLeader).toBe(false);
  });

  it("that has taken a lease of ours leaves annotations behind, which count for nothing", async () => {
    const { env, store, request, clientGo, resource } = await openWorld();
    const ours = request("ours", 5_000);
    const [granted] = await store.acquire([{ ...ours, metadata: '{"ours":"yes"}' }]);
    const go = clientGo("go");
    expect(await go.tryAcquireOrRenew()).toBe(false);
    await env.clock.advance(5_000);
    expect(await go.tryAcquireOrRenew()).toBe(true);
    expect(await store.renew([{ ...ours, ttlMs: 5_000 }])).toEqual([
      { status: "lost", reason: "taken" },
    ]);
    expect(await store.release([ours])).toEqual([{ status: "notHeld" }]);
    expect(await store.acquire([ours])).toMatchObject([{ status: "held", holder: "go" }]);
    const [view] = await store.get([{ namespace: "default", resource }]);
    expect(view).toMatchObject({ holder: "go", metadata: null });
    await go.release();
    const [next] = await store.acquire([request()]);
    if (granted?.status !== "acquired" || next?.status !== "acquired") throw new Error("not ours");
    expect(next.token).toBeGreaterThan(granted.token);
  });

  it("stops when its lease is revoked, at its expiry as at once", async () => {
    const { env, store, request, clientGo, resource } = await openWorld();
    const key = { namespace: "default", resource };
    const go = clientGo("go");
    expect(await go.tryAcquireOrRenew()).toBe(true);
    await store.get([key]);
    await env.clock.advance(5_000);
    expect(await store.revoke([{ ...key, free: "atExpiry" }])).toMatchObject([
      { status: "revoked", freeInMs: 10_000 },
    ]);
    expect(await go.tryAcquireOrRenew()).toBe(false);
    expect(await store.acquire([request()])).toMatchObject([{ status: "held", holder: "go" }]);
    await env.clock.advance(10_000);
    expect(await store.acquire([request()])).toMatchObject([{ status: "acquired" }]);
    const other = clientGo("other");
    await env.clock.advance(0);
    expect(await other.tryAcquireOrRenew()).toBe(false);
  });

  it("never overlaps with renewals that it cannot see", async () => {
    const { env, store, request, clientGo } = await openWorld();
    // The manual clock begins at a whole second.
    const held = request("ours", 10_000);
    await store.acquire([held]);
    const go = clientGo("go");
    expect(await go.tryAcquireOrRenew()).toBe(false);
    await env.clock.advance(900);
    const renew = { ...held, ttlMs: 10_000 };
    // Within the second: client-go goes on counting from the acquire, so trust does as well.
    expect(await store.renew([renew])).toMatchObject([{ status: "renewed", remainingMs: 9_100 }]);
    expect(await go.tryAcquireOrRenew()).toBe(false);
    await env.clock.advance(9_100);
    expect(await go.tryAcquireOrRenew()).toBe(true);
  });
});

const program = process.env["CLIENT_GO_LEADER_ELECTION"];
const isThere = REAL_CLUSTER !== undefined && program !== undefined;
/** A real cluster is nothing that a test can bring with it: skipped without one, in CI too. */
const why =
  "needs KUBECONFIG and CLIENT_GO_LEADER_ELECTION, the program of client-go's examples/leader-election";
describe.skipIf(!isThere)(`client-go itself${isThere ? "" : ` (skipped, ${why})`}`, () => {
  const start = (resource: string, id: string) =>
    new Child(program ?? "", [
      "-v",
      "4",
      "-kubeconfig",
      REAL_CLUSTER ?? "",
      "-id",
      id,
      "-lease-lock-name",
      resource,
      "-lease-lock-namespace",
      engine.namespace,
    ]);
  const leads = (child: Child, id: string) =>
    child.until(
      ({ err }) =>
        err.some(
          (line) => line.includes(`became leader`) || line.includes(`successfully acquired`),
        ) && id,
    );

  it("waits for us, leads when we release, and hands over when it stops", async () => {
    const { store, request, resource, read } = await openWorld();
    const held = request();
    await store.acquire([held]);
    const go = start(resource, "go-1");
    await go.until(({ err }) => err.some((line) => line.includes("has not yet expired")));
    expect(await store.renew([{ ...held, ttlMs: 10_000 }])).toMatchObject([{ status: "renewed" }]);
    await store.release([held]);
    await leads(go, "go-1");
    expect(await store.acquire([request()])).toMatchObject([{ status: "held", holder: "go-1" }]);
    const { metadata, spec } = await read();
    expect(spec["leaseTransitions"]).toBe(1);
    expect(metadata.annotations?.["leasehold.dev/ended"]).toBe("released");
    // Its release fails where it comes in the middle of a renewal.
    await until(expect, "its first renewal", async () => {
      const { spec: now } = await read();
      return now["renewTime"] !== now["acquireTime"];
    });
    await go.end("SIGTERM");
    const [ours] = await store.acquire([request()]);
    expect(ours).toMatchObject({ status: "acquired" });
    expect((await read()).spec["leaseTransitions"]).toBe(2);
  });
});
