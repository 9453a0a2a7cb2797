/** Redis Cluster: three real nodes, against the suite; slots that move and nodes that are gone. */
import { Cluster } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import type { AcquireRequest } from "../../packages/leasehold/src/lease/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { Keys, slotOf } from "../../packages/leasehold/src/stores/redis/keys.js";
import type { LeaseStores } from "../../packages/leasehold/src/stores/source.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import {
  describeRedis,
  type RedisCluster,
  startRedisCluster,
} from "../support/engines/redis-engine.js";
import { endAll } from "../support/processes/processes.js";

const vitest = { afterAll, beforeAll, describe: describeRedis, expect, it };

exerciseLeaseStore({
  name: "Redis Cluster",
  vitest,
  async open() {
    const cluster = await startRedisCluster();
    const stores = await redis({ url: cluster.url }).open(systemEnv);
    return {
      store: stores.leases,
      async close() {
        await stores.close();
        await cluster.remove();
      },
    };
  },
});

describeRedis("a cluster", () => {
  let cluster: RedisCluster;
  let stores: LeaseStores;
  beforeAll(async () => {
    cluster = await startRedisCluster();
    // One node is enough to find the others.
    stores = await redis({ url: cluster.nodes[1]?.url ?? "" }).open(systemEnv);
  });
  afterAll(async () => {
    await stores.close();
    await cluster.remove();
    await endAll();
  });

  const namespace = "default";
  const request = (resource: string): AcquireRequest => ({
    namespace,
    resource,
    leaseId: newLeaseId(systemRandom),
    holder: "holder",
    ttlMs: 60_000,
  });

  it("has the slots that we reckon", async () => {
    const [node] = cluster.nodes;
    for (const key of ["", "a", "{a}b", "x{a}b", "{}a", "{a", "a}{b}", "é{ü}", "123456789"]) {
      expect(slotOf(key), key).toBe(await node?.ask("cluster", "keyslot", key));
    }
  });

  it("spreads a namespace over nodes", async () => {
    const owners = new Set<number>();
    for (const index of new Keys("").indexes(namespace)) {
      owners.add((await cluster.ownerOf(slotOf(index))).port);
    }
    expect(owners.size).toBe(3);
  });

  it("is followed when a slot moves, during the move too", async () => {
    const asked = request("moving");
    const other = { ...request("moved"), resource: `moved ${newLeaseId(systemRandom)}` };
    expect(only(await stores.leases.acquire([asked]))).toMatchObject({ status: "acquired" });
    const waiter = { ...request("moving"), queueMs: 60_000 };
    expect(only(await stores.leases.acquire([waiter]))).toMatchObject({ ahead: 0 });
    const slot = slotOf(new Keys("").indexOf(asked));
    // Resources in the same slot, without waiters.
    const [beside, unknown] = Array.from({ length: 1_000 }, (_, at) =>
      request(`beside ${at}`),
    ).filter((other) => slotOf(new Keys("").indexOf(other)) === slot) as [
      AcquireRequest,
      AcquireRequest,
    ];
    expect(only(await stores.leases.acquire([beside]))).toMatchObject({ status: "acquired" });
    const from = await cluster.ownerOf(slot);
    const to = cluster.nodes.find(({ port }) => port !== from.port)!;
    const [fromId, toId] = [
      String(await from.ask("cluster", "myid")),
      String(await to.ask("cluster", "myid")),
    ];
    await to.ask("cluster", "setslot", slot, "importing", fromId);
    await from.ask("cluster", "setslot", slot, "migrating", toId);
    for (const key of (await from.ask("cluster", "getkeysinslot", slot, 100)) as string[]) {
      await from.ask("migrate", "127.0.0.1", to.port, key, 0, 5_000);
    }
    // The old node sends each request on (ASK).
    expect(only(await stores.leases.renew([asked]))).toMatchObject({ status: "renewed" });
    // What needs keys that are nowhere is put off.
    const putOff = { status: "failed", applied: "no", retryable: true };
    expect(only(await stores.leases.acquire([unknown]))).toMatchObject(putOff);
    expect(only(await stores.leases.renew([{ ...beside, ttlMs: 60_000 }]))).toMatchObject({
      status: "renewed",
    });
    expect(only(await stores.leases.release([beside]))).toEqual({ status: "released" });
    await to.ask("cluster", "setslot", slot, "node", toId);
    await from.ask("cluster", "setslot", slot, "node", toId);
    // It says where the slot is now (MOVED).
    expect(only(await stores.leases.renew([asked]))).toMatchObject({ status: "renewed" });
    expect(only(await stores.leases.get([asked]))).toMatchObject({ state: "live" });
    expect(only(await stores.leases.release([beside]))).toEqual({ status: "released" });
    expect((await stores.leases.list({ namespace })).items).toHaveLength(2);
    expect(only(await stores.leases.release([asked]))).toEqual({ status: "released" });
    // The line has moved, too.
    const stranger = request("moving");
    expect(only(await stores.leases.acquire([stranger]))).toMatchObject({
      status: "held",
      ahead: 1,
    });
    expect(only(await stores.leases.acquire([waiter]))).toMatchObject({ status: "acquired" });
    expect(only(await stores.leases.acquire([other]))).toMatchObject({ status: "acquired" });
  });

  it("is used with the settings of a client of the user's", async () => {
    const client = new Cluster([{ host: "127.0.0.1", port: cluster.nodes[0]!.port }], {
      keyPrefix: "app:",
    });
    await new Promise((resolve) => client.once("ready", resolve));
    const own = await redis({ client }).open(systemEnv);
    const asked = request("of the client");
    expect(only(await own.leases.acquire([asked]))).toMatchObject({ status: "acquired" });
    expect(only(await stores.leases.get([asked]))).toBe(null);
    const key = new Keys("").record(asked);
    // The client says the prefix itself.
    expect(await client.hget(key, "holder")).toBe("holder");
    await own.close();
    expect(client.status).toBe("ready");
    client.disconnect();
  });

  it("fails what a dead node has, and nothing else", async () => {
    const requests = Array.from({ length: 60 }, (_, index) => request(`spread ${index}`));
    const [dead] = cluster.nodes;
    for (const node of cluster.nodes) {
      await node.ask("config", "set", "cluster-require-full-coverage", "no");
    }
    const owners = await Promise.all(
      requests.map((asked) => cluster.ownerOf(slotOf(new Keys("").indexOf(asked)))),
    );
    await dead!.kill9();
    const outcomes = await stores.leases.acquire(requests, { timeoutMs: 2_000 });
    for (const [index, outcome] of outcomes.entries()) {
      expect(outcome).toMatchObject(
        owners[index] === dead ? { status: "failed", retryable: true } : { status: "acquired" },
      );
    }
    await dead!.start();
  });
});
