/**
 * Leases in Consul under faults: what every engine does, what becomes of sessions, and its clusters.
 * @module-tag safety
 */
import { afterAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { AcquireOutcome, LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  type ConsulServer,
  describeConsul,
  startConsulCluster,
} from "../support/engines/consul-engine.js";
import { CONSUL } from "../support/faults/engines.js";
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

async function api<T>(port: number, method: string, path: string, body?: object): Promise<T> {
  const init = { method, ...(body && { body: JSON.stringify(body) }) };
  return (await (await fetch(`http://127.0.0.1:${port}/v1/${path}`, init)).json()) as T;
}

/** Names of the nodes in the catalog. */
async function nodesOf(port: number): Promise<string[]> {
  const nodes = await api<readonly { readonly Node: string }[]>(port, "GET", "catalog/nodes");
  return nodes.map(({ Node }) => Node);
}

/** The session that holds a lock of ours. */
async function sessionOf(port: number, resource: string): Promise<string> {
  const key = `kv/faults/default/${resource}/.lock`;
  const [pair] = await api<[{ Session: string }]>(port, "GET", key);
  return pair.Session;
}

/** Acquires what is free sooner or later. */
async function taken(store: LeaseStore, asked: ReturnType<typeof request>) {
  let outcome: AcquireOutcome | undefined;
  await until(expect, "it is free", async () => {
    outcome = only(await store.acquire([asked]));
    return outcome.status === "acquired";
  });
  if (outcome?.status !== "acquired") throw new Error(outcome?.status);
  return outcome;
}

CONSUL.describe("faults of Consul", () => {
  const shared = sharedServer(CONSUL);
  storeFaults(CONSUL, shared);
  leaseFaults(CONSUL, shared);

  it("an acquire that is applied after its caller has given up is freed by its release", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const { proxy, store: behind } = await openBehind(server, later);
    await acquired(behind, request());
    const asked = request(1_000);
    // The transaction gets there, the answer is held back.
    const granting = behind.acquire([asked], { timeoutMs: 300 });
    proxy.hold("toClient");
    expect(only(await granting)).toMatchObject({ status: "failed", applied: "maybe" });
    await until(expect, "it is applied", async () => (await view(store, asked))?.state === "live");
    proxy.letGo("toClient");
    proxy.heal();
    expect(only(await behind.release([asked]))).toEqual({ status: "released" });
    await acquired(store, rivalOf(asked));
  });

  it("a session that an operator destroys takes its leases with it, and another one works", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const [store, other] = [await openStore(server, later), await openStore(server, later)];
    const asked = request();
    const first = await acquired(store, asked);
    const session = await sessionOf(server.port, asked.resource);
    await api(server.port, "PUT", `session/destroy/${session}`);
    expect(only(await store.renew([asked]))).toEqual({ status: "lost", reason: "gone" });
    const second = await acquired(other, rivalOf(asked));
    expect(second.token).toBeGreaterThan(first.token);
    expect(only(await store.release([asked]))).toEqual({ status: "notHeld" });
    await acquired(store, request());
  });

  it("a renewal for longer does not overwrite another client's revocation", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const [store, other] = [await openStore(server, later), await openStore(server, later)];
    const asked = request();
    await acquired(store, asked);
    const revoked = await other.revoke([{ ...asked, free: "atExpiry" }]);
    expect(only(revoked)).toMatchObject({ status: "revoked" });
    // This client still takes the record for what it was.
    const longer = { ...asked, ttlMs: asked.ttlMs + 1_000 };
    expect(only(await store.renew([longer]))).toEqual({ status: "lost", reason: "revoked" });
  });

  it("a lock that an operator deletes is lost to its holder, not kept by it", async (context) => {
    const server = shared();
    const store = await openStore(server, laterIn(context));
    const asked = request();
    await acquired(store, asked);
    await api(server.port, "DELETE", `kv/faults/default/${asked.resource}/.lock`);
    expect(only(await store.renew([asked]))).toEqual({ status: "lost", reason: "gone" });
  });

  it("only an operator ends the sessions' node, which no agent has and no check; it is made anew", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const [store, other] = [await openStore(server, later), await openStore(server, later)];
    const asked = request();
    const first = await acquired(store, asked);
    const session = await sessionOf(server.port, asked.resource);
    const [{ NodeChecks, Node }] = await api<[{ NodeChecks: unknown[] | null; Node: string }]>(
      server.port,
      "GET",
      `session/info/${session}`,
    );
    expect(NodeChecks ?? []).toEqual([]);
    expect(await api(server.port, "GET", `health/node/${Node}`)).toEqual([]);
    await api(server.port, "PUT", "catalog/deregister", { Node });
    expect(only(await store.renew([asked]))).toEqual({ status: "lost", reason: "gone" });
    const second = await settled(() => other.acquire([rivalOf(asked)]));
    expect(second).toMatchObject({ status: "acquired" });
    expect(second.status === "acquired" && second.token).toBeGreaterThan(first.token);
    await settled(() => store.acquire([request()]));
    expect(await nodesOf(server.port)).toContain(Node);
  });

  it("a client that closes frees at once what it held, and no other client may use its grants", async (context) => {
    const server = shared();
    const store = await openStore(server, laterIn(context));
    const url = `consul://127.0.0.1:${server.port}/faults`;
    const other = await consul({ url }).open(systemEnv, 20_000);
    const asked = request(1_000);
    await acquired(other.leases, { ...asked, ttlMs: 10_000 });
    expect(only(await store.renew([asked]))).toEqual({ status: "lost", reason: "gone" });
    expect(only(await store.release([asked]))).toEqual({ status: "notHeld" });
    expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
    await other.close();
    expect(only(await store.acquire([rivalOf(asked)]))).toMatchObject({ status: "acquired" });
  });

  it("a waiter is notified, through cuts, restarts and the end of its session", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const { proxy, store: behind } = await openBehind(server, later);
    const watching = new LeaseWatching(behind, "default");
    await until(expect, "the first event", () => watching.events.length > 0);
    const faults: readonly (() => Promise<void>)[] = [
      async () => void proxy.reset(),
      async () => {
        await server.kill9();
        await server.start();
      },
    ];
    for (const fault of faults) {
      const asked = request();
      await settled(() => store.acquire([asked]));
      const waiting = { ...rivalOf(asked), queueMs: 60_000 };
      expect(await settled(() => behind.acquire([waiting]))).toMatchObject({ status: "held" });
      await fault();
      await settled(() => store.release([asked]));
      await until(expect, "the notification", () =>
        watching.changed.some(({ resource }) => resource === asked.resource),
      );
    }
    const resyncs = () => watching.events.filter(({ type }) => type === "resync").length;
    const before = resyncs();
    const asked = request();
    await settled(() => behind.acquire([asked]));
    const session = await sessionOf(server.port, asked.resource);
    await api(server.port, "PUT", `session/destroy/${session}`);
    await until(expect, "another resync", () => resyncs() > before);
    await watching.stop();
  });
});

describeConsul("a cluster of Consul", () => {
  afterAll(() => endAll());
  const open = async (later: Later, some: readonly ConsulServer[]) => {
    const hosts = some.map(({ port }) => `127.0.0.1:${port}`).join(",");
    const url = `consul://${hosts}/faults?sessionTtlMs=90000`;
    return later(await consul({ url }).open(systemEnv, 20_000)).leases;
  };
  /** Three servers until the test ends: the leader, and the others. */
  const start = async (later: Later) => {
    const servers = await startConsulCluster(3);
    for (const { remove } of servers) later({ close: remove });
    for (const led of servers) {
      if (await led.isLeader()) return { led, others: servers.filter((server) => server !== led) };
    }
    throw new Error("there is no leader");
  };

  it.for(["SIGKILL", "SIGSTOP"] as const)(
    "whose leader gets %s goes on, with its grants and growing tokens",
    async (signal, context) => {
      const later = laterIn(context);
      const { led, others } = await start(later);
      // The one that is asked first leads.
      const store = await open(later, [led, ...others]);
      const asked = request(30_000);
      const first = await acquired(store, asked);
      if (signal === "SIGKILL") await led.kill9();
      else await led.process?.stop();
      const renewed = await settled(() => store.renew([asked]));
      expect(renewed).toMatchObject({ status: "renewed", token: first.token });
      expect(await settled(() => store.release([asked]))).toEqual({ status: "released" });
      const second = await settled(() => store.acquire([rivalOf(asked)]));
      if (second.status !== "acquired") throw new Error(second.status);
      expect(second.token).toBeGreaterThan(first.token);
      led.process?.cont();
    },
  );

  it("whose leader has lost the others confirms no renewal, and no grant", async (context) => {
    const later = laterIn(context);
    const { led, others } = await start(later);
    const alone = await open(later, [led]);
    const asked = request(30_000);
    await acquired(alone, asked);
    for (const { process } of others) await process?.stop();
    expect(only(await alone.renew([asked], BRIEF))).toMatchObject({ status: "failed" });
    expect(only(await alone.acquire([request()], BRIEF))).toMatchObject({ status: "failed" });
    for (const { process } of others) process?.cont();
    expect(await settled(() => alone.renew([asked]))).toMatchObject({ status: "renewed" });
  });

  // Both wait for most of their time, on clusters of their own.
  it.concurrent("removes a dead server from the catalog, and no session of ours with it", async (context) => {
    const later = laterIn(context);
    const { led, others } = await start(later);
    const store = await open(later, [led, ...others]);
    const rival = await open(later, others);
    const asked = request(30_000);
    const first = await acquired(store, asked);
    await led.kill9();
    await until(expect, "the catalog lacks the server", async () => {
      await settled(() => store.renew([asked]));
      const [{ port }] = others as [ConsulServer];
      return (await nodesOf(port).catch(() => [led.name])).every((name) => name !== led.name);
    });
    const renewed = await settled(() => store.renew([asked]));
    expect(renewed).toMatchObject({ status: "renewed", token: first.token });
    const refused = await settled(() => rival.acquire([rivalOf(asked)]));
    expect(refused).toMatchObject({ status: "held", holder: asked.holder });
  });

  it.concurrent("frees what a dead client held after its session, also under a new leader", async (context) => {
    const later = laterIn(context);
    const { led, others } = await start(later);
    const store = await open(later, others);
    // This client cannot renew any more when its only agent is dead.
    const url = `consul://127.0.0.1:${led.port}/faults?sessionTtlMs=10000`;
    const dead = later(await consul({ url }).open(systemEnv, 20_000)).leases;
    const asked = request(5_000);
    const first = await acquired(dead, asked);
    await led.kill9();
    expect(await settled(() => store.acquire([rivalOf(asked)]))).toMatchObject({ status: "held" });
    const second = await taken(store, { ...rivalOf(asked), ttlMs: 30_000 });
    expect(second.token).toBeGreaterThan(first.token);
  });
});
