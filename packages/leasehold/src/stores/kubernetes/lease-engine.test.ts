/** What one client writes, and what others make of it by their own clocks. */
import { afterEach, expect, it } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../tests/support/engines/kube-api.js";
import type { Env } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { until } from "../../testing/waiting.js";
import { openCluster } from "./index.js";
import { nextTokenOf } from "./records.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const KEY = { namespace: "default", resource: "r" };
const request = (leaseId: string, ttlMs = 10_000) => ({ ...KEY, leaseId, holder: leaseId, ttlMs });

async function start() {
  const api = await startKubeApi();
  closing.push(() => api.close());
  const env = manualEnv();
  return {
    api,
    env,
    clock: env.clock,
    open: (before?: () => Promise<void>) => open(api, env, before),
  };
}

/**
 * A client with observations of its own.
 * @param before awaited before each of its requests is sent
 */
async function open(api: KubeApi, env: Env, before: () => Promise<void> = async () => {}) {
  const { Agent } = await import("node:http");
  const agent = new Agent({ keepAlive: true });
  const cluster = {
    server: `http://127.0.0.1:${api.port}`,
    namespace: undefined,
    access: async () => {
      await before();
      return { headers: { authorization: "Bearer admin" }, agent };
    },
    close: () => agent.destroy(),
  };
  const stores = await openCluster(cluster, "leases", env);
  closing.unshift(() => stores.close());
  return stores.leases;
}

it("puts off nothing by repeating a revocation: contenders count from the first one", async () => {
  const { api, clock, open } = await start();
  const [holder, operator, contender] = [await open(), await open(), await open()];
  await holder.acquire([request("mine")]);
  const revoke = () => operator.revoke([{ ...KEY, free: "atExpiry" }]);
  const acquire = () => contender.acquire([request("theirs")]);
  expect(await revoke()).toMatchObject([{ status: "revoked", freeInMs: 10_000 }]);
  expect(await acquire()).toMatchObject([{ status: "held" }]);
  const written = api.read("leases", "r");
  for (let round = 0; round < 25; round += 1) {
    await clock.advance(400);
    const [revoked] = await revoke();
    if (round < 24) expect(revoked).toMatchObject({ freeInMs: 10_000 - 400 * (round + 1) });
  }
  expect(api.read("leases", "r")).toEqual(written);
  expect(await acquire()).toMatchObject([{ status: "acquired" }]);
});

it("trusts a renewal that other clients cannot tell from the last write only as long as that one", async () => {
  const { clock, open } = await start();
  const holder = await open();
  const renew = async () => (await holder.renew([request("mine")]))[0];
  await holder.acquire([request("mine")]);
  await clock.advance(300);
  expect(await renew()).toMatchObject({ status: "renewed", remainingMs: 9_700 });
  await clock.advance(600);
  expect(await renew()).toMatchObject({ status: "renewed", remainingMs: 9_100 });
  // The renew time is in another second.
  await clock.advance(100);
  expect(await renew()).toMatchObject({ status: "renewed", remainingMs: 10_000 });
});

it("writes a new time at each renewal, also within a millisecond", async () => {
  const { api, open } = await start();
  const holder = await open();
  await holder.acquire([request("mine")]);
  const times = new Set([api.read("leases", "r")?.spec["renewTime"]]);
  for (let round = 0; round < 3; round += 1) {
    await holder.renew([request("mine")]);
    times.add(api.read("leases", "r")?.spec["renewTime"]);
  }
  // Another write of the same time would change nothing for those who watch.
  expect(times.size).toBeGreaterThanOrEqual(2);
});

it("lasts no longer than its TTL, whatever fraction of a millisecond the clock shows", async () => {
  const { api, clock, open } = await start();
  const holder = await open();
  // From here on, sums of floating-point numbers have a larger last digit.
  await clock.advance(16_000);
  for (let round = 0; round < 20; round += 1) {
    await clock.advance(0.001);
    await holder.acquire([request(`${round}`, 60_000)]);
    expect(api.read("leases", "r")?.spec["leaseDurationSeconds"]).toBe(60);
    await holder.release([request(`${round}`)]);
  }
});

it("counts a repeated acquire from its own write, and writes again where another client made it", async () => {
  const { api, clock, open } = await start();
  const [first, second] = [await open(), await open()];
  await clock.advance(60_000);
  await first.acquire([request("mine")]);
  const written = api.read("leases", "r");
  await clock.advance(3_000);
  await first.get([KEY]);
  expect(await first.acquire([request("mine")])).toMatchObject([
    { status: "acquired", remainingMs: 7_000 },
  ]);
  expect(api.read("leases", "r")).toEqual(written);
  // A process that has read the lease id somewhere does not know since when others see the grant.
  expect(await second.acquire([request("mine")])).toMatchObject([
    { status: "acquired", remainingMs: 10_000 },
  ]);
  expect(api.read("leases", "r")).not.toEqual(written);
});

it("refuses nothing by what it remembers: another process may have renewed the grant", async () => {
  const { clock, open } = await start();
  const [first, second] = [await open(), await open()];
  await first.acquire([request("mine")]);
  await clock.advance(8_000);
  expect(await second.renew([request("mine")])).toMatchObject([{ status: "renewed" }]);
  await clock.advance(4_000);
  expect(await first.renew([request("mine")])).toMatchObject([{ status: "renewed" }]);
  await clock.advance(9_000);
  expect(await second.release([request("mine")])).toEqual([{ status: "released" }]);
});

it("keeps what others wrote into the object, through every operation", async () => {
  const { api, clock, open } = await start();
  const store = await open();
  await store.acquire([request("first")]);
  const stored = api.read("leases", "r");
  await put(api, {
    metadata: {
      ...stored?.metadata,
      annotations: { ...stored?.metadata.annotations, "example.com/owner": "team" },
      labels: { ...stored?.metadata.labels, app: "billing" },
      finalizers: ["example.com/keep"],
    },
    spec: { ...stored?.spec, strategy: "OldestEmulationVersion" },
  });
  const check = () => {
    expect(api.read("leases", "r")).toMatchObject({
      metadata: {
        annotations: { "example.com/owner": "team" },
        labels: { app: "billing" },
        finalizers: ["example.com/keep"],
      },
      spec: { strategy: "OldestEmulationVersion" },
    });
  };
  await store.renew([request("first")]);
  check();
  await store.release([request("first")]);
  check();
  await store.acquire([{ ...request("second"), metadata: "private" }]);
  check();
  await store.revoke([{ ...KEY, free: "atExpiry" }]);
  check();
  await store.revoke([{ ...KEY, free: "now" }]);
  check();
  await clock.advance(1_000);
  expect(await store.collect(0)).toBe(1);
  check();
  const { annotations, labels } = api.read("leases", "r")?.metadata ?? {};
  const kept = ["namespace", "resource", "token"].map((name) => `leasehold.dev/${name}`);
  expect(Object.keys(annotations ?? {}).toSorted()).toEqual(["example.com/owner", ...kept]);
  expect(Object.keys(labels ?? {}).toSorted()).toEqual(["app", "leasehold.dev/namespace"]);
});

it("counts the transitions of a lease, and its tokens grow though the server's clock goes back", async () => {
  const { api, open } = await start();
  const store = await open();
  const stored = () => api.read("leases", "r");
  await store.acquire([request("0")]);
  const ahead = Number(stored()?.metadata.annotations?.["leasehold.dev/token"]) + 1e12;
  const annotations = { ...stored()?.metadata.annotations, "leasehold.dev/token": `${ahead}` };
  await put(api, { ...stored(), metadata: { ...stored()?.metadata, annotations } });
  for (let round = 1; round <= 3; round += 1) {
    await store.revoke([{ ...KEY, free: "now" }]);
    expect(await store.acquire([request(`${round}`)])).toMatchObject([{ token: ahead + round }]);
    await store.renew([request(`${round}`)]);
    expect(stored()?.spec["leaseTransitions"]).toBe(round);
  }
});

it("begins tokens at the time of the server, or at the object's creation where the server tells none", () => {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const object = { metadata: { name: "r", resourceVersion: "7", creationTimestamp } };
  const createdMs = Date.parse(creationTimestamp);
  expect(nextTokenOf(object, createdMs + 5)).toBe((createdMs + 5) * 1_000 + 7);
  // A proxy may drop the header. An object that is made anew is younger than what it had granted.
  expect(nextTokenOf(object, null)).toBe(createdMs * 1_000 + 7);
});

it("collects an expired grant by when it expired, not by its last renewal", async () => {
  const { clock, open } = await start();
  const [holder, operator] = [await open(), await open()];
  await holder.acquire([request("mine", 60_000)]);
  expect(await operator.collect(30_000)).toBe(0);
  await clock.advance(60_000 + 29_000);
  expect(await operator.collect(30_000)).toBe(0);
  await clock.advance(1_001);
  expect(await operator.collect(30_000)).toBe(1);
  expect(await operator.get([KEY])).toEqual([null]);
});

it("neither collects nor counts a grant that was replaced after the list", async () => {
  const { clock, open } = await start();
  let requests = 0;
  let beforeWrite = async () => {};
  const holder = await open();
  const collector = await open(async () => {
    requests += 1;
    if (requests === 2) await beforeWrite();
  });
  const collect = () => {
    requests = 0;
    return collector.collect(0);
  };
  await holder.acquire([request("first")]);
  await holder.release([request("first")]);
  await clock.advance(1_000);
  beforeWrite = async () => void (await holder.acquire([request("second")]));
  expect(await collect()).toBe(0);
  expect(await holder.get([KEY])).toMatchObject([{ holder: "second", state: "live" }]);
  beforeWrite = async () => {};
  await holder.release([request("second")]);
  await clock.advance(1_000);
  expect(await collect()).toBe(1);
});

it("collects nothing of a client of another kind that holds the lease, or has held it last", async () => {
  const { api, clock, open } = await start();
  const store = await open();
  await store.acquire([request("mine")]);
  await store.revoke([{ ...KEY, free: "now" }]);
  const stored = api.read("leases", "r");
  const spec = { ...stored?.spec, holderIdentity: "controller_1", leaseDurationSeconds: 15 };
  await put(api, { ...stored, spec });
  const theirs = api.read("leases", "r");
  for (let round = 0; round < 3; round += 1) {
    expect(await store.collect(0)).toBe(0);
    await clock.advance(20_000);
  }
  expect(api.read("leases", "r")).toEqual(theirs);
});

it("shows whose lease was revoked where a client of another kind had taken over from ours", async () => {
  const { api, clock, open } = await start();
  const store = await open();
  const [ours] = await store.acquire([{ ...request("mine"), metadata: "{}" }]);
  await store.release([request("mine")]);
  const stored = api.read("leases", "r");
  const spec = { ...stored?.spec, holderIdentity: "controller_1", leaseDurationSeconds: 15 };
  await put(api, { ...stored, spec });
  const token = ours?.status === "acquired" ? ours.token : 0;
  expect(await store.revoke([{ ...KEY, free: "now" }])).toMatchObject([{ status: "revoked" }]);
  const ended = { holder: "controller_1", state: "revoked", metadata: null, token };
  expect(await store.get([KEY])).toMatchObject([ended]);
  await clock.advance(1);
  const [next] = await store.acquire([request("next")], { returnReplaced: true });
  expect(next).toMatchObject({ status: "acquired", replaced: ended });
  if (next?.status === "acquired") expect(next.token).toBeGreaterThan(token);
});

async function put(api: KubeApi, lease: object): Promise<void> {
  const url = `http://127.0.0.1:${api.port}/apis/coordination.k8s.io/v1/namespaces/leases/leases/r`;
  const body = JSON.stringify({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", ...lease });
  const headers = { authorization: "Bearer admin" };
  const response = await fetch(url, { method: "PUT", headers, body });
  expect(response.status).toBe(200);
}

it("trusts a renewal that looks like another client's write for no longer than contenders wait", async () => {
  const { clock, open } = await start();
  const [holder, restarted] = [await open(), await open()];
  await holder.acquire([request("mine")]);
  // In the same second: contenders see no change, and count from the grant.
  await clock.advance(400);
  const [renewed] = await restarted.renew([request("mine")]);
  expect(renewed).toMatchObject({ status: "renewed", remainingMs: 9_000 });
});

it("renews and releases without a read, and reads before it acquires", async () => {
  const { api, clock, open } = await start();
  const store = await open();
  const sent = async (work: () => Promise<unknown>) => {
    const before = api.requests.length;
    await work();
    return api.requests.slice(before).map((one) => one.split(" ")[0]);
  };
  // The token needs the revision of the object.
  expect(await sent(() => store.acquire([request("mine")]))).toEqual(["GET", "POST", "PUT"]);
  expect(await sent(() => store.renew([request("mine"), request("mine")]))).toEqual(["PUT"]);
  expect(await sent(() => store.acquire([request("theirs")]))).toEqual(["GET"]);
  await clock.advance(10_000);
  // Another contender has probably replaced the grant that has expired.
  expect(await sent(() => store.acquire([request("theirs")]))).toEqual(["GET", "PUT"]);
  expect(await sent(() => store.release([request("theirs")]))).toEqual(["PUT"]);
});

it("writes no renewal of a grant that has expired since it was decided", async () => {
  const { clock, open } = await start();
  let before = async () => {};
  const holder = await open(() => before());
  // One more than are written at a time.
  const held = Array.from({ length: 33 }, (_, at) => ({
    ...request("mine", 2_000),
    resource: `r${at}`,
  }));
  for (const outcome of await holder.acquire(held)) expect(outcome.status).toBe("acquired");
  before = async () => {
    before = async () => {};
    await clock.advance(2_000);
  };
  const outcomes = await holder.renew(held);
  expect(outcomes.at(-1)).toEqual({ status: "lost", reason: "expired" });
  // They were sent in time, and are trusted from then on.
  expect(outcomes.filter(({ status }) => status === "renewed")).toHaveLength(32);
});

it("fails a key alone whose read gets no response", async () => {
  const { api, clock, open } = await start();
  let before = async () => {};
  const store = await open(() => before());
  before = () => {
    before = async () => {};
    return new Promise(() => {});
  };
  const acquiring = store.acquire(
    ["silent", "other"].map((name) => ({ ...request(name), resource: name })),
  );
  await until(
    expect,
    "the response to the other read",
    () => api.requests.some((one) => one.endsWith("/other")) && clock.pendingTimers === 1,
  );
  await clock.advance(2_500);
  expect(await acquiring).toMatchObject([
    { status: "failed", applied: "no", retryable: true },
    { status: "acquired" },
  ]);
});

it("names the holder of another client's lease, and no grant id, which it has none of", async () => {
  const { api, open } = await start();
  const store = await open();
  await store.acquire([request("mine")]);
  const held = { status: "held", holder: "mine", grantId: expect.stringMatching(/./) };
  expect(await store.acquire([request("theirs")])).toMatchObject([held]);
  const stored = api.read("leases", "r");
  await put(api, { ...stored, spec: { ...stored?.spec, holderIdentity: "controller_1" } });
  const foreign = { status: "held", holder: "controller_1", grantId: null, remainingMs: 10_000 };
  expect(await store.acquire([request("theirs")])).toEqual([foreign]);
});

it("says when the resource is free as contenders count: from the write of the revocation, in whole seconds", async () => {
  const { clock, open } = await start();
  const store = await open();
  await store.acquire([request("mine")]);
  await clock.advance(300);
  const revocation = { ...KEY, free: "atExpiry" as const };
  expect(await store.revoke([revocation])).toMatchObject([{ status: "revoked", freeInMs: 10_000 }]);
});
