/** Records on ZooKeeper: of more locks than are read at once, and of grants whose end others must learn from them. */
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { Talk } from "../../packages/leasehold/src/stores/zookeeper/transactions.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { CuratorClient } from "../support/engines/curator-client.js";
import {
  describeZooKeeper,
  startZooKeeper,
  type ZooKeeperServer,
} from "../support/engines/zookeeper-engine.js";
import { LONG_MS, Opened, requestOf } from "../support/faults/queue-site.js";
import { endAll } from "../support/processes/processes.js";

const LONG = { timeoutMs: 60_000 };

describeZooKeeper("records on ZooKeeper", () => {
  let server: ZooKeeperServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startZooKeeper();
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await opened.closeAll();
  });
  afterAll(() => endAll());

  const openStore = async (path: string): Promise<LeaseStore> => {
    const url = `zookeeper://127.0.0.1:${server.port}/${path}?sessionTimeoutMs=120000`;
    return opened.later(await zookeeper({ url }).open(systemEnv, 20_000)).leases;
  };
  const openCurator = async () =>
    opened.later(await CuratorClient.connect(`127.0.0.1:${server.port}`, LONG_MS));

  it("are collected, however many, in each namespace", async () => {
    const store = await openStore("many");
    const requests = ["default", "other"].flatMap((namespace) =>
      Array.from({ length: 203 }, (_, at) => requestOf(`r-${at}`, { namespace })),
    );
    const granted = await store.acquire(requests, LONG);
    expect(granted.filter(({ status }) => status !== "acquired")).toEqual([]);
    await store.release(requests, LONG);
    const ends = (await store.get(requests)).map((view) => Date.parse(view?.expiresAt ?? ""));
    // A grant that ended in this millisecond would be left to the next collection.
    const clock = await openStore("clock");
    await expect
      .poll(async () => {
        const now = requestOf("now");
        await clock.acquire([now]);
        const [view] = await clock.get([now]);
        await clock.release([now]);
        return Date.parse(view?.grantedAt ?? "");
      })
      .toBeGreaterThan(Math.max(...ends));
    expect(await store.collect(0)).toBe(requests.length);
    const curator = await openCurator();
    expect((await curator.children("/many")).toSorted()).toEqual(["%ns", "%sync"]);
  });

  it("say when a grant was released, not when it would have expired", async () => {
    const store = await openStore("ends");
    const [first, next] = [requestOf("first"), requestOf("next")];
    await store.acquire([first]);
    await store.renew([first]);
    await store.release([first]);
    await store.acquire([next]);
    const [ended, later] = await store.get([first, next]);
    const times = [ended?.grantedAt, ended?.renewedAt, ended?.expiresAt, later?.grantedAt];
    expect(times.map(String)).toEqual(times.map(String).toSorted());
    expect(ended?.state).toBe("released");
  });

  it("say of a grant that is revoked at its expiry when it was renewed, not when it was revoked", async () => {
    const store = await openStore("revoked");
    const [renewed, never] = [requestOf("renewed"), requestOf("never")];
    await store.acquire([renewed, never]);
    await store.renew([renewed]);
    const before = await store.get([renewed, never]);
    const free = "atExpiry" as const;
    await store.revoke(
      [renewed, never].map(({ namespace, resource }) => ({ namespace, resource, free })),
    );
    const after = await store.get([renewed, never]);
    expect(after.map((view) => view?.state)).toEqual(["revoked", "revoked"]);
    expect(before[0]?.renewedAt).toMatch(/^\d{4}-/);
    for (const [at, view] of after.entries()) {
      expect(view?.renewedAt).toBe(before[at]?.renewedAt);
      expect(view?.grantedAt).toBe(before[at]?.grantedAt);
    }
    await store.release([renewed, never]);
  });

  it("say why a grant is lost, as they are now and not as its holder has last seen them", async () => {
    const [store, other] = [await openStore("current"), await openStore("current")];
    const [request, next] = [requestOf("r"), requestOf("r")];
    const { namespace, resource } = request;
    await store.acquire([request]);
    await other.revoke([{ namespace, resource, free: "atExpiry" }]);
    expect(only(await store.acquire([request]))).toEqual({ status: "ended" });
    expect(only(await store.renew([request]))).toEqual({ status: "lost", reason: "revoked" });
    await other.revoke([{ namespace, resource, free: "now" }]);
    expect(only(await other.acquire([next]))).toMatchObject({ status: "acquired" });
    expect(only(await store.renew([request]))).toEqual({ status: "lost", reason: "taken" });
  });

  it("are as they were after a grant that a Curator client has forestalled", async () => {
    const store = await openStore("forestalled");
    const earlier = requestOf("r", { holder: "earlier", metadata: "{}" });
    await store.acquire([earlier]);
    await store.release([earlier]);
    const before = await store.get([earlier]);
    const curator = await openCurator();
    const mutex = curator.mutex("/forestalled/r");
    // Between this store's read and its transaction.
    const { commit } = Talk.prototype;
    vi.spyOn(Talk.prototype, "commit").mockImplementationOnce(async function (this: Talk, changes) {
      await mutex.acquire();
      return commit.call(this, changes);
    });
    expect(only(await store.acquire([requestOf("r")]))).toMatchObject({
      status: "held",
      grantId: null,
    });
    expect(await curator.children("/forestalled/r")).toHaveLength(1);
    await mutex.release();
    const after = await store.get([earlier]);
    expect(after).toMatchObject([{ holder: "earlier", state: "released", metadata: "{}" }]);
    expect(after[0]?.token).toBe(before[0]?.token);
  });
});
