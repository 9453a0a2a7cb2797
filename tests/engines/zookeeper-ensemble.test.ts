/** Leases in an ensemble whose servers lag, are cut off and stand still. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import type {
  AcquireRequest,
  Failed,
  LeaseStore,
} from "../../packages/leasehold/src/lease/index.js";
import { zookeeper } from "../../packages/leasehold/src/stores/zookeeper/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describeZooKeeper,
  startEnsemble,
  type ZooKeeperServer,
} from "../support/engines/zookeeper-engine.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";

const namespace = "default";
function request(ttlMs = 5_000): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  const resource = newLeaseId(systemRandom);
  return { namespace, resource, leaseId, holder: "h", ttlMs };
}
const closing: (() => Promise<unknown>)[] = [];
function later<T extends { close(): Promise<unknown> }>(opened: T): T {
  closing.unshift(() => opened.close());
  return opened;
}
async function openStore(...ports: number[]): Promise<LeaseStore> {
  const servers = ports.map((port) => `127.0.0.1:${port}`);
  const source = zookeeper({ servers, chroot: "/ensemble", sessionTimeoutMs: 7_500 });
  return later(await source.open(systemEnv, 20_000)).leases;
}
/** The same call, until it is answered. */
async function settled<Outcome extends { readonly status: string }>(
  call: () => Promise<readonly Outcome[]>,
): Promise<Exclude<Outcome, Failed>> {
  let outcome: Outcome | undefined;
  await until(expect, "an answer", async () => {
    outcome = only(await call());
    return outcome.status !== "failed";
  });
  return outcome as Exclude<Outcome, Failed>;
}
async function acquired(store: LeaseStore, asked: AcquireRequest) {
  const outcome = await settled(() => store.acquire([asked]));
  if (outcome.status !== "acquired") throw new Error(outcome.status);
  return outcome;
}
const view = async (store: LeaseStore, asked: AcquireRequest) => only(await store.get([asked]));

describeZooKeeper("an ensemble", () => {
  let servers: readonly ZooKeeperServer[];
  beforeAll(async () => {
    servers = await startEnsemble(3);
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });
  afterAll(() => endAll());
  const byMode = async (mode: string): Promise<ZooKeeperServer> => {
    for (const server of servers) if ((await server.mode()) === mode) return server;
    throw new Error(`there is no ${mode}`);
  };
  const allServe = () =>
    until(expect, "all serve", async () => {
      const modes = await Promise.all(servers.map((server) => server.mode()));
      return !modes.includes("");
    });

  it("is consistent, whichever server is asked", async () => {
    const stores = await Promise.all(servers.map(({ port }) => openStore(port)));
    const resource = newLeaseId(systemRandom);
    let last = 0;
    for (let round = 0; round < 30; round += 1) {
      const store = stores[round % stores.length]!;
      const asked = { ...request(), resource };
      // What has been answered by one server is known to all: a follower catches up first.
      const { token } = await acquired(store, asked);
      expect(token).toBeGreaterThan(last);
      last = token;
      for (const other of stores) {
        if (other === store) continue;
        expect(await view(other, asked)).toMatchObject({ state: "live", token });
        expect(only(await other.acquire([{ ...request(), resource }]))).toMatchObject({
          status: "held",
        });
      }
      expect(only(await store.release([asked]))).toEqual({ status: "released" });
    }
  });

  it("confirms no renewal by a server that has lost the others, though that answers reads", async () => {
    const follower = await byMode("follower");
    const asked = request();
    const store = await openStore(follower.port);
    await acquired(store, asked);
    const others = servers.filter((server) => server !== follower);
    for (const { process } of others) await process?.stop();
    expect(only(await store.renew([asked], { timeoutMs: 300 }))).toMatchObject({
      status: "failed",
      applied: "maybe",
    });
    for (const { process } of others) process?.cont();
    const renewed = await settled(() => store.renew([asked], { timeoutMs: 2_000 }));
    // Long enough for the session to end, on a slow machine.
    expect(["renewed", "lost"]).toContain(renewed.status);
    await allServe();
  });

  it.each(["follower", "leader"])(
    "whose %s stands still goes on by another server, with its grants and growing tokens",
    async (mode) => {
      const chosen = await byMode(mode);
      const proxies = await Promise.all(
        servers.map(async ({ port }) => later(await openTcpProxy({ port }))),
      );
      const others = proxies.filter((_, at) => servers[at] !== chosen);
      // The session begins on the chosen one: no other can be reached.
      for (const proxy of others) proxy.blackhole("toServer");
      const store = await openStore(...proxies.map(({ port }) => port));
      for (const proxy of others) {
        proxy.heal();
        proxy.reset();
      }
      const asked = request();
      const first = await acquired(store, asked);
      await chosen.process?.stop();
      const renewed = await settled(() => store.renew([asked], { timeoutMs: 2_000 }));
      expect(renewed).toMatchObject({ status: "renewed", token: first.token });
      expect(await settled(() => store.release([asked]))).toEqual({ status: "released" });
      const second = await acquired(store, { ...request(), resource: asked.resource });
      expect(second.token).toBeGreaterThan(first.token);
      chosen.process?.cont();
      await allServe();
    },
  );
});
