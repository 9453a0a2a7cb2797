/**
 * Leases in etcd under faults: what every engine does, what its watches do, and its clusters.
 * @module-tag safety
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { AcquireRequest } from "../../packages/leasehold/src/lease/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describeEtcd,
  type EtcdServer,
  etcdctl,
  startEtcdCluster,
} from "../support/engines/etcd-engine.js";
import { ETCD } from "../support/faults/engines.js";
import { leaseFaults } from "../support/faults/lease-suite.js";
import {
  acquired,
  BRIEF,
  type Later,
  laterIn,
  openBehind,
  openStore,
  request,
  rivalOf,
  settled,
  sharedServer,
  view,
} from "../support/faults/server.js";
import { storeFaults } from "../support/faults/store-suite.js";
import { endAll } from "../support/processes/processes.js";

ETCD.describe("etcd faults", () => {
  const shared = sharedServer(ETCD);
  storeFaults(ETCD, shared);
  leaseFaults(ETCD, shared);

  it("a revoke whose answer is lost is not repeated", async (context) => {
    const { proxy, store } = await openBehind(shared(), laterIn(context));
    const asked = request();
    await acquired(store, asked);
    const dropped = proxy.dropNextAnswer();
    // Sent again, it could end the next grant.
    const revoke = { namespace: "default", resource: asked.resource, free: "now" } as const;
    const { status } = only(await store.revoke([revoke]));
    await dropped;
    // The answer that was lost may be that of the read before it, which is repeated.
    expect(["revoked", "failed"]).toContain(status);
  });

  it("a watch sees every release, through cuts and restarts", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const { proxy, store: behind } = await openBehind(server, later);
    const watching = new LeaseWatching(behind, "default");
    await until(expect, "the first event", () => watching.events.length > 0);
    const seen = async (asked: AcquireRequest) =>
      until(expect, "the notification", () =>
        watching.changed.some(({ resource }) => resource === asked.resource),
      );
    const [before, meanwhile, after] = [request(), request(), request()];
    await store.acquire([before, meanwhile, after]);
    await store.release([before]);
    await seen(before);
    // Nothing comes through while this one ends, and the watch sees its end all the same.
    proxy.hold("toServer");
    proxy.reset();
    await store.release([meanwhile]);
    proxy.letGo("toServer");
    await seen(meanwhile);
    expect(watching.events.filter(({ type }) => type === "resync")).toHaveLength(1);
    await server.kill9();
    await server.start();
    await settled(() => store.release([after], BRIEF));
    await seen(after);
    await watching.stop();
  });

  it("a watch whose history was compacted meanwhile resyncs", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const { proxy, store: behind } = await openBehind(server, later);
    const watching = new LeaseWatching(behind, "default");
    await until(expect, "the first event", () => watching.events.length > 0);
    proxy.hold("toServer");
    proxy.reset();
    const asked = request();
    await store.acquire([asked]);
    await store.release([asked]);
    const { token } = (await view(store, asked)) ?? { token: 0 };
    expect((await etcdctl(server.port, "compact", String(token + 1)).ended).code).toBe(0);
    proxy.letGo("toServer");
    await until(expect, "a second resync", () => {
      return watching.events.filter(({ type }) => type === "resync").length > 1;
    });
    await watching.stop();
  });
});

describeEtcd("a cluster", () => {
  let members: EtcdServer[];
  beforeEach(async () => {
    members = await startEtcdCluster(3);
  });
  afterEach(() => endAll());
  const open = async (later: Later, ports: readonly number[]) => {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
    return later(await etcd({ url: `etcd://${hosts}` }).open(systemEnv, 20_000)).leases;
  };
  const leader = async (): Promise<EtcdServer> => {
    for (const member of members) {
      const text = await member.ask("endpoint", "status", "--write-out=json");
      const [{ Status }] = JSON.parse(text) as [
        { Status: { header: { member_id: number }; leader: number } },
      ];
      if (Status.header.member_id === Status.leader) return member;
    }
    throw new Error("there is no leader");
  };

  it.for(["SIGKILL", "SIGSTOP"] as const)(
    "whose leader gets %s goes on, with its grants and growing tokens",
    async (signal, context) => {
      const led = await leader();
      // The one that is asked first leads.
      const others = members.filter((member) => member !== led);
      const store = await open(
        laterIn(context),
        [led, ...others].map(({ port }) => port),
      );
      const asked = request();
      const first = await acquired(store, asked);
      if (signal === "SIGKILL") await led.kill9();
      else await led.process?.stop();
      const renewed = await settled(() => store.renew([asked]));
      expect(renewed).toMatchObject({ status: "renewed", token: first.token });
      expect(only(await store.release([asked]))).toEqual({ status: "released" });
      const second = await settled(() => store.acquire([rivalOf(asked)]));
      if (second.status !== "acquired") throw new Error(second.status);
      expect(second.token).toBeGreaterThan(first.token);
      led.process?.cont();
    },
  );

  it("whose leader has lost the others confirms no renewal", async (context) => {
    const led = await leader();
    const alone = await open(laterIn(context), [led.port]);
    const asked = request();
    await alone.acquire([asked]);
    const { lease } = await ownKey(led, asked.resource);
    const others = members.filter((member) => member !== led);
    for (const { process } of others) await process?.stop();
    // A renewal in etcd's own way is answered by the leader alone, until it notices.
    const kept = await led.ask("lease", "keep-alive", "--once", lease).catch(() => "noticed");
    expect(kept).toMatch(/keepalived|noticed/);
    expect(only(await alone.renew([asked], BRIEF))).toMatchObject({ status: "failed" });
    for (const { process } of others) process?.cont();
    expect(await settled(() => alone.renew([asked]))).toMatchObject({ status: "renewed" });
  });

  async function ownKey(member: EtcdServer, resource: string): Promise<{ lease: string }> {
    const text = await member.ask("get", "--prefix", `${resource}/`, "--write-out=fields");
    const lease = /"Lease" : (\d+)/.exec(text)?.[1] ?? "0";
    return { lease: BigInt(lease).toString(16) };
  }
});
