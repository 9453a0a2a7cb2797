/**
 * A server on engines whose answers do not show how old a grant is: a repeated acquire of the same holder is granted,
 * and one of another holder is refused.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { describeConsul, startConsul } from "../support/engines/consul-engine.js";
import { describeEtcd, startEtcd } from "../support/engines/etcd-engine.js";
import { describeZooKeeper, startZooKeeper } from "../support/engines/zookeeper-engine.js";
import { endAll } from "../support/processes/processes.js";
import { openApp } from "../support/server/app.js";

function refusesOthers(start: () => Promise<LeaseStore>): void {
  let leases: LeaseStore;
  beforeAll(async () => {
    leases = await start();
  });
  afterAll(async () => {
    await leases.close();
    await endAll();
  });

  it("refuses the lease id of another holder's grant at once", async () => {
    const { app, ask } = await openApp({ leases });
    const leaseId = toWireLeaseId("r", newLeaseId(systemEnv.random));
    const acquire = (ownerId: string) =>
      ask("POST", "/v1/locks/acquire", { resource: "r", ownerId, leaseId, ttlMs: 10_000 });
    const granted = await acquire("alice");
    expect(granted).toMatchObject({ status: 200, body: { acquired: true, ownerId: "alice" } });
    const { fencingToken } = granted.body;
    expect(await acquire("alice")).toMatchObject({ status: 200, body: { fencingToken } });
    const refused = await acquire("bob");
    expect([refused.status, refused.body.errors]).toEqual([
      422,
      [{ path: "leaseId", problem: expect.stringContaining('the holder "alice"') }],
    ]);
    await app.close();
  });
}

describeEtcd("a server on etcd", () => {
  refusesOthers(async () => {
    const { url } = await startEtcd();
    return (await etcd({ url }).open(systemEnv)).leases;
  });
});

describeZooKeeper("a server on ZooKeeper", () => {
  refusesOthers(async () => {
    const { port } = await startZooKeeper();
    const url = `zookeeper://127.0.0.1:${port}/q?sessionTimeoutMs=30000`;
    return (await zookeeper({ url }).open(systemEnv)).leases;
  });
});

describeConsul("a server on Consul", () => {
  refusesOthers(async () => {
    const { url } = await startConsul();
    return (await consul({ url: `${url}/q?sessionTtlMs=60000` }).open(systemEnv)).leases;
  });
});
