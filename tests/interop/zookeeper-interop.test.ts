/**
 * Our leases and the locks of a client of Curator's shape exclude each other, both ways, on the same
 * znodes. The client's steps are those of the recipe; see support/curator-client.ts.
 */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { AcquireRequest, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { CuratorClient } from "../support/engines/curator-client.js";
import {
  describeZooKeeper,
  startZooKeeper,
  type ZooKeeperServer,
} from "../support/engines/zookeeper-engine.js";
import { Opened } from "../support/faults/queue-site.js";
import { endAll } from "../support/processes/processes.js";

describeZooKeeper("a lock of Curator's layout", () => {
  let server: ZooKeeperServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startZooKeeper();
  });
  afterEach(async () => {
    await opened.closeAll();
  });
  afterAll(() => endAll());

  const url = () => `${server.url}/app/locks?sessionTimeoutMs=20000`;
  const openStore = async (): Promise<LeaseStore> =>
    opened.later(await zookeeper({ url: url() }).open(systemEnv, 20_000)).leases;
  const openCurator = async () =>
    opened.later(await CuratorClient.connect(`127.0.0.1:${server.port}`));
  const openLeases = async () => opened.later(await connect(url(), { graceMs: 0 }));
  const requestOf = (resource: string): AcquireRequest => ({
    namespace: "default",
    resource,
    leaseId: newLeaseId(systemRandom),
    holder: "ours",
    ttlMs: 10_000,
  });

  it("that the other client holds is held for us, until it is released", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    const mutex = curator.mutex("/app/locks/theirs");
    await mutex.acquire();
    const request = requestOf("theirs");
    expect(only(await store.acquire([request]))).toEqual({
      status: "held",
      holder: "10.0.0.7",
      grantId: null,
      remainingMs: null,
    });
    // Nothing of ours is left in the queue.
    expect(await curator.children(mutex.basePath)).toEqual([mutex.nodeName]);
    const view = only(await store.get([request]));
    expect(view).toMatchObject({ holder: "10.0.0.7", state: "live" });
    const before = view?.token ?? 0;
    await mutex.release();
    const outcome = only(await store.acquire([request]));
    if (outcome.status !== "acquired") throw new Error(outcome.status);
    expect(outcome.token).toBeGreaterThan(before);
  });

  it("that we hold keeps the other client waiting, by its watch on ours", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    const request = requestOf("ours");
    expect(only(await store.acquire([request]))).toMatchObject({ status: "acquired" });
    const mutex = curator.mutex("/app/locks/ours");
    let has = false;
    const queued = new Promise<void>((resolve) => {
      void mutex.acquire(resolve).then(() => {
        has = true;
      });
    });
    await queued;
    expect(only(await store.renew([request]))).toMatchObject({ status: "renewed" });
    expect(has).toBe(false);
    expect(only(await store.release([request]))).toEqual({ status: "released" });
    await expect.poll(() => has).toBe(true);
    expect(only(await store.acquire([requestOf("ours")]))).toMatchObject({ status: "held" });
    await mutex.release();
  });

  it("goes round among waiters of both kinds, one at a time", async () => {
    const curator = await openCurator();
    const ours = await openLeases();
    let inside = 0;
    const seen: string[] = [];
    const enter = async (who: string) => {
      inside += 1;
      seen.push(who);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(inside).toBe(1);
      inside -= 1;
    };
    const theirs = async () => {
      for (let round = 0; round < 5; round += 1) {
        const mutex = curator.mutex("/app/locks/shared");
        await mutex.acquire();
        await enter("theirs");
        await mutex.release();
        // Its queue would never be empty otherwise, and those who do not queue never served.
        await new Promise((resolve) => setTimeout(resolve, 30));
      }
    };
    const own = async () => {
      for (let round = 0; round < 5; round += 1) {
        await ours.run("shared", { ttlMs: 10_000 }, () => enter("ours"));
      }
    };
    await Promise.all([theirs(), own(), own()]);
    expect(seen.filter((who) => who === "theirs")).toHaveLength(5);
    expect(seen.filter((who) => who === "ours")).toHaveLength(10);
  });

  it("of both kinds wanted at the same moment goes to one of them", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    for (let round = 0; round < 20; round += 1) {
      const mutex = curator.mutex("/app/locks/race");
      const request = requestOf("race");
      const locking = mutex.acquire();
      const outcome = only(await store.acquire([request]));
      if (outcome.status === "acquired") {
        // The other one queues behind us.
        expect(await curator.children(mutex.basePath)).not.toHaveLength(0);
        await store.release([request]);
      } else expect(outcome.status).toBe("held");
      await locking;
      await mutex.release();
    }
  });

  it("that the other client holds can be ended by an operator, now, but not asked to end", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    const mutex = curator.mutex("/app/locks/stuck");
    await mutex.acquire();
    const key = { namespace: "default", resource: "stuck" };
    const [refused] = await store.revoke([{ ...key, free: "atExpiry" }]);
    expect(refused).toMatchObject({ status: "failed", applied: "no", retryable: false });
    if (refused?.status === "failed") expect(refused.error.message).toContain('must be "now"');
    const token = only(await store.get([key]))?.token;
    const revoked = only(await store.revoke([{ ...key, free: "now" }]));
    expect(revoked).toEqual({ status: "revoked", token, freeInMs: 0 });
    expect(only(await store.acquire([requestOf("stuck")]))).toMatchObject({ status: "acquired" });
  });

  it("of another client that dies is ours when its session ends", async () => {
    const store = await openStore();
    const curator = await openCurator();
    const brief = await CuratorClient.connect(`127.0.0.1:${server.port}`, 1_000);
    await brief.mutex("/app/locks/dead").acquire();
    const request = requestOf("dead");
    expect(only(await store.acquire([request]))).toMatchObject({ status: "held" });
    brief.die();
    await expect
      .poll(async () => only(await store.acquire([request])).status, { timeout: 15_000 })
      .toBe("acquired");
    expect(await curator.children("/app/locks/dead")).toHaveLength(1);
  });

  it("of ours that another client deletes is lost to us", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    const request = requestOf("deleted");
    await store.acquire([request]);
    const [node] = await curator.children("/app/locks/deleted");
    await curator.remove(`/app/locks/deleted/${node}`);
    expect(only(await store.renew([request]))).toEqual({ status: "lost", reason: "gone" });
    expect(only(await store.acquire([request]))).toEqual({ status: "ended" });
    expect(only(await store.acquire([requestOf("deleted")]))).toMatchObject({ status: "acquired" });
  });

  it("takes a resource's name for its path, unless no znode may be called so", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    for (const [resource, path] of [
      ["ä 日本", "/app/locks/ä 日本"],
      ["a/b", "/app/locks/a%2Fb"],
      ["50%", "/app/locks/50%25"],
      ["..", "/app/locks/%2E."],
      ["zookeeper", "/app/locks/%7Aookeeper"],
      ["🔑", "/app/locks/%F0%9F%94%91"],
    ] as const) {
      const mutex = curator.mutex(path);
      await mutex.acquire();
      expect(only(await store.acquire([requestOf(resource)])), resource).toMatchObject({
        status: "held",
      });
      await mutex.release();
    }
    // Of another namespace it is another lock.
    const mutex = curator.mutex("/app/locks/apart");
    await mutex.acquire();
    const elsewhere = { ...requestOf("apart"), namespace: "tenant" };
    expect(only(await store.acquire([elsewhere]))).toMatchObject({ status: "acquired" });
    expect(await curator.children("/app/locks/%ns/tenant/apart")).toHaveLength(1);
  });

  it("leaves what belongs to others out of lists, and does not collect it", async () => {
    const [store, curator] = [await openStore(), await openCurator()];
    const mutex = curator.mutex("/app/locks/kept");
    await mutex.acquire();
    await mutex.release();
    const request = requestOf("listed");
    await store.acquire([request]);
    const { items } = await store.list({ namespace: "default" });
    const names = items.map(({ resource }) => resource);
    expect(names).toContain("listed");
    expect(names).not.toContain("kept");
    await store.collect(0);
    await store.collect(0);
    expect(await curator.children("/app/locks")).toContain("kept");
  });
});
