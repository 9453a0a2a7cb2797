/**
 * Clients of several servers on one store, of which one dies, hangs or drains. The tests read the effect from the store
 * behind the servers.
 */
import { beforeEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import {
  createApp,
  type Listening,
  listen,
} from "../../packages/leasehold-server/src/http/index.js";
import { type FaultProxy, lost, openFaultProxy } from "../support/faults/fault-proxy.js";
import {
  claimRequest,
  grantOf,
  hold,
  httpWorlds,
  later,
  namespace,
  newTask,
  requestOf,
  TTL_MS,
  taskGrantOf,
  until,
  viewOf,
} from "../support/faults/http-world.js";
import { openTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.js";
import { TEST_LIMITS } from "../support/server/test-limits.js";

httpWorlds();

let behind: Stores;
let servers: readonly [Listening, Listening];
beforeEach(async () => {
  behind = later(await memory().open(systemEnv));
  const open = async () => {
    const app = createApp({
      ...behind,
      namespace,
      auth: "none",
      version: "test",
      limits: TEST_LIMITS,
    });
    return later(await listen({ app, port: 0, graceMs: 60_000 }));
  };
  servers = [await open(), await open()];
});

const urlOf = (...ports: number[]) =>
  `http://${ports.map((port) => `127.0.0.1:${port}`).join(",")}/`;
/** Both servers, each behind a proxy of connections. */
async function behindTcp(): Promise<{ url: string; proxies: readonly [TcpProxy, TcpProxy] }> {
  const [one, two] = servers;
  const proxies = [
    later(await openTcpProxy({ port: one.port })),
    later(await openTcpProxy({ port: two.port })),
  ] as const;
  return { url: urlOf(...proxies.map(({ port }) => port)), proxies };
}
/** Both servers, the first behind a proxy of requests. */
async function behindFaults(): Promise<{ url: string; first: FaultProxy; client: Stores }> {
  const [one, two] = servers;
  const first = later(await openFaultProxy(one.port));
  const url = urlOf(Number(new URL(first.url).port), two.port);
  return { url, first, client: later(await http({ url }).open(systemEnv)) };
}
const isRenewed = async (resource: string, before: string | null) =>
  (await viewOf({ behind }, resource)).renewedAt !== before;

it("a dead one is skipped when the store opens, and later", async () => {
  const { url, proxies } = await behindTcp();
  proxies[0].refuse();
  const client = later(await http({ url }).open(systemEnv));
  const request = requestOf("r");
  expect(await client.leases.acquire([request])).toMatchObject([{ status: "acquired" }]);
  expect(await viewOf({ behind })).toMatchObject({ state: "live" });
});

it("one that dies while leases are held loses none of them", async () => {
  const { url, proxies } = await behindTcp();
  const leasehold = later(await connect(url, { namespace }));
  const leases = await Promise.all(
    ["a", "b", "c"].map((name) => leasehold.acquire(name, { ttlMs: TTL_MS })),
  );
  const { connections } = proxies[1].counts;
  expect(proxies[0].refuse()).toBeGreaterThan(0);
  await Promise.all(leases.map((lease) => lease.renew()));
  expect(leases.map((lease) => lease.checkAlive())).toEqual([true, true, true]);
  expect(proxies[1].counts.connections).toBeGreaterThan(connections);
  const { items } = await behind.leases.list({ namespace });
  expect(items.map(({ token, state }) => [token, state])).toEqual(
    leases.map(({ token }) => [token, "live"]),
  );
  for (const lease of leases) await lease.release();
});

it("one that hangs loses no lease: renewals go on at the other within trust", async () => {
  const { url, proxies } = await behindTcp();
  const leasehold = later(await connect(url, { namespace }));
  const lease = await leasehold.acquire("r", { ttlMs: 9_000 });
  const before = (await viewOf({ behind })).renewedAt;
  proxies[0].blackhole("toServer");
  proxies[0].blackhole("toClient");
  await until("a renewal at the other", () => isRenewed("r", before));
  expect(lease.checkAlive()).toBe(true);
  expect((await viewOf({ behind })).token).toBe(lease.token);
  await lease.release();
});

it("a request whose answer is lost after it was carried out is repeated at the other, and done once", async () => {
  const { first, client } = await behindFaults();
  const request = requestOf("r");
  first.next(lost);
  const acquired = only(await client.leases.acquire([request]));
  expect(acquired).toMatchObject({ status: "acquired", token: (await viewOf({ behind })).token });
  // The first is asked again when the second fails, so each of these is made to begin there.
  const atFirst = async <T>(call: (client: Stores) => Promise<T>) => {
    const { first, client } = await behindFaults();
    first.next(lost);
    const seen = first.seen.length;
    const outcome = await call(client);
    expect(first.seen.length).toBe(seen + 1);
    return outcome;
  };
  const renewal = { ...grantOf(request), ttlMs: TTL_MS };
  expect(await atFirst(({ leases }) => leases.renew([renewal]))).toMatchObject([
    { status: "renewed" },
  ]);
  expect(await atFirst(({ leases }) => leases.release([grantOf(request)]))).toEqual([
    { status: "released" },
  ]);

  const tasks = [newTask(), newTask()];
  expect(await atFirst((client) => client.tasks.enqueue(tasks))).toHaveLength(2);
  expect(await behind.tasks.counts(namespace)).toMatchObject({ pending: 2 });
  const asking = claimRequest();
  const claimed = await atFirst((client) => client.tasks.claim({ ...asking, limit: 1 }));
  if (claimed.status !== "claimed") throw claimed.error;
  expect(await behind.tasks.counts(namespace)).toMatchObject({ pending: 1, running: 1 });
  const report = { ...taskGrantOf(only(claimed.tasks)), output: "done" };
  expect(await atFirst((client) => client.tasks.complete([report]))).toMatchObject([
    { status: "completed" },
  ]);
  expect(await behind.tasks.counts(namespace)).toMatchObject({ done: 1, pending: 1 });
});

it("work that is done once is done once though the answer to its success is lost", async () => {
  const { first, url } = await behindFaults();
  const leasehold = later(await connect(url, { namespace }));
  let runs = 0;
  const done = await leasehold.once("bill", async () => {
    runs += 1;
    first.next(lost);
    return runs;
  });
  expect(done).toEqual({ ran: true, value: 1 });
  const again = await leasehold.once("bill", async () => 2);
  expect([again, runs]).toMatchObject([{ ran: false, value: 1 }, 1]);
});

it("a watch goes on at the other, and reads again", async () => {
  const { url, proxies } = await behindTcp();
  const client = later(await http({ url }).open(systemEnv));
  const watching = new LeaseWatching(client.leases, namespace);
  await until("the first event", () => watching.events.length === 1);
  proxies[0].refuse();
  await until("a resync", () => watching.events.length === 2);
  const held = await hold({ behind }, "r");
  await behind.leases.acquire([{ ...requestOf("r"), queueMs: 60_000 }]);
  await behind.leases.release([grantOf(held)]);
  await until("the notification", () => watching.changed.length > 0);
  expect(watching.events.slice(0, 2)).toEqual([{ type: "resync" }, { type: "resync" }]);
  await watching.stop();
});

it("one that drains hands its clients over: a waiter is granted, and a worker goes on", async () => {
  const url = urlOf(...servers.map(({ port }) => port));
  const held = await hold({ behind }, "r");
  const leasehold = later(await connect(url, { namespace }));
  const waiting = leasehold.acquire("r", { ttlMs: TTL_MS });
  const done: number[] = [];
  const kind = defineTask<number>("k");
  const worker = leasehold.tasks.work([kind.handle((data) => void done.push(data))]);
  await leasehold.tasks.enqueue(kind, 1);
  await until("the first task", () => done.length === 1);
  await servers[0].close();
  await leasehold.tasks.enqueue(kind, 2);
  await until("the second task", () => done.length === 2);
  await behind.leases.release([grantOf(held)]);
  const lease = await waiting;
  expect(lease.token).toBeGreaterThan(held.token);
  await lease.release();
  await worker.close();
});
