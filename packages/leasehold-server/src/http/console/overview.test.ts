/** The routes that show a tenant as a whole. */

import { type Elector, StoreUnavailableError } from "leasehold";
import { electorOver, shardsOver, singletonOver } from "leasehold/internal";
import { expect, test } from "vitest";
import { openTestConsoleApp as open } from "../../../../../tests/support/browser/console-app.js";
import { openTestApp } from "../../../../../tests/support/server/app.js";

test("counts held leases, and events per second", async () => {
  const { call, grant, get, clock } = await open({ engine: "memory" });
  const [a, b, c] = [grant("r"), grant("r"), grant("free")];
  await call("acquire", { leaseId: a.leaseId, holder: "a", ttlMs: 10_000 });
  await call("acquire", { leaseId: a.leaseId, holder: "a", ttlMs: 10_000 });
  await call("acquire", { leaseId: c.leaseId, holder: "c", ttlMs: 10_000 });
  await call("release", { leaseId: c.leaseId });
  await call("acquire", { leaseId: b.leaseId, holder: "b", ttlMs: 10_000, queueMs: 5_000 });
  await clock.advance(1_000);
  for (let n = 0; n < 3; n += 1) await call("renew", { leaseId: a.leaseId, ttlMs: 10_000 });
  const first = await get("/v1/overview?seconds=2");
  expect(first).toMatchObject({
    instance: { id: expect.stringMatching(/^[0-9a-f]{16}$/), version: "1.2.3", upForMs: 1_000 },
    engine: { name: "memory", leases: { clock: "store", queue: true } },
    health: { ok: true, detail: null },
    leases: { held: 1, ended: 1, complete: true },
    tasks: { pending: 0, running: 0, done: 0, dead: 0, cancelled: 0, expired: 0 },
    contended: { resources: 1, waiting: 1 },
    series: {
      from: "2020-01-01T12:00:00.000Z",
      seconds: 2,
      leases: { acquired: [2, 0], contended: [1, 0], renewed: [0, 3], released: [1, 0] },
      tasks: { pending: [null, 0], running: [null, 0] },
    },
  });
  const renewed = { store: "leases", operation: "renew", calls: 3 };
  expect(first.latency).toContainEqual(expect.objectContaining(renewed));

  // The waiter has stopped polling, and the holder renews too late.
  await clock.advance(61_000);
  await call("renew", { leaseId: a.leaseId, ttlMs: 10_000 });
  expect(await get("/v1/overview?seconds=1")).toMatchObject({
    leases: { held: 0, ended: 2 },
    contended: { resources: 0, waiting: 0 },
    series: { leases: { acquired: [0], lost: { expired: [1] } } },
  });
  expect((await get("/v1/overview?seconds=300")).series.leases.acquired).toHaveLength(300);
  await clock.advance(600_000);
  const { acquired } = (await get("/v1/overview?seconds=300")).series.leases;
  expect(acquired).toEqual(Array(300).fill(0));
});

test("counts task events", async () => {
  const { ask, asked, get, clock } = await open();
  await asked("POST", "/api/tasks", [{ task_data: 1 }, { task_data: 2 }, { task_data: 3 }]);
  const { tasks } = await asked("POST", "/api/tasks/next", { processor: "w", limit: 2 });
  const [done, failed] = tasks.map(({ id, leaseId, fencingToken }: Record<string, unknown>) => ({
    id,
    grant: { leaseId, fencingToken },
  }));
  await asked("PUT", `/api/tasks/${done.id}/heartbeat`, done.grant);
  await asked("PUT", `/api/tasks/${done.id}/complete`, done.grant);
  await asked("PUT", `/api/tasks/${failed.id}/fail`, { ...failed.grant, error: "no" });
  await ask("PUT", `/api/tasks/${failed.id}/complete`, failed.grant);
  await clock.advance(500);
  const { series, tasks: counts } = await get("/v1/overview?seconds=1");
  expect(counts).toEqual({ pending: 2, running: 0, done: 1, dead: 0, cancelled: 0, expired: 0 });
  expect(series.tasks).toEqual({
    enqueued: [3],
    claimed: [2],
    heartbeats: [1],
    completed: [1],
    failed: [1],
    refused: [1],
    expired: [0],
    pending: [2],
    running: [0],
  });
});

test("counts each kind of event in its own row", async () => {
  const { asked, ask, call, grant, get, clock } = await open();
  const take = async (resource: string, holder: string) => {
    const { leaseId } = grant(resource);
    await call("acquire", { leaseId, holder, ttlMs: 1_000 });
    return leaseId;
  };
  const renew = async (leaseId: string, times: number) => {
    for (let n = 0; n < times; n += 1) await call("renew", { leaseId, ttlMs: 1_000 });
  };
  const [expired, taken] = [await take("expired", "a"), await take("taken", "a")];
  await asked("POST", "/api/tasks", [{ task_data: 1 }, { task_data: 2 }]);
  const claim = { processor: "w", limit: 2 };
  const { tasks } = await asked("POST", "/api/tasks/next", claim);
  await clock.advance(40_000);
  await take("taken", "b");
  const revoked = [];
  for (const resource of ["r1", "r2", "r3"]) {
    revoked.push(await take(resource, "a"));
    await asked("POST", "/v1/leases/revoke", [{ resource, reason: "test", free: "now" }]);
  }
  await renew(expired, 3);
  await renew(taken, 4);
  await renew(revoked[0] ?? "", 5);
  await renew(grant("never").leaseId, 6);
  for (let n = 0; n < 7; n += 1) {
    const { id, leaseId, fencingToken } = tasks[0];
    await ask("PUT", `/api/tasks/${id}/complete`, { leaseId, fencingToken });
  }
  const { series } = await get("/v1/overview?seconds=60");
  const sum = (row: number[]) => row.reduce((all, count) => all + count, 0);
  const sums = (rows: Record<string, number[]>) =>
    Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, sum(row)]));
  const { lost, ...leases } = series.leases;
  expect(sums(leases)).toEqual({
    acquired: 6,
    contended: 0,
    renewed: 0,
    released: 0,
    revoked: 3,
    reclaimed: 1,
  });
  expect(sums(lost)).toEqual({ expired: 3, taken: 4, revoked: 5, gone: 6 });
  const { pending: _pending, running: _running, ...counted } = series.tasks;
  expect(sums(counted)).toEqual({
    enqueued: 2,
    claimed: 2,
    heartbeats: 0,
    completed: 0,
    failed: 0,
    expired: 2,
    refused: 7,
  });
});

test("is returned also while the store is unavailable", async () => {
  const { stores } = await openTestApp();
  const unavailable = () =>
    Promise.reject(new StoreUnavailableError("unavailable", { outcome: "none" }));
  const leases = Object.create(stores.leases, {
    capabilities: { value: stores.leases.capabilities },
    get: { value: unavailable },
    list: { value: unavailable },
    close: { value: async () => {} },
  });
  const tasks = Object.create(stores.tasks, {
    capabilities: { value: stores.tasks.capabilities },
    counts: { value: unavailable },
    reap: { value: async () => [] },
  });
  const { get } = await open({ leases, tasks });
  expect(await get("/v1/overview?seconds=1")).toMatchObject({
    health: { ok: false, detail: expect.stringContaining("unavailable") },
    leases: null,
    tasks: null,
  });
});

test("lists leaders, vacancies and the members of shards", async () => {
  const { get, client, clock } = await open();
  const [one, two] = [client("one"), client("two")];
  const leaving = new AbortController();
  const lead = (elector: Elector, signal: AbortSignal) =>
    elector.lead(
      ({ signal: over }) =>
        new Promise((resolve) => over.addEventListener("abort", () => resolve())),
      { signal },
    );
  const first = lead(electorOver(one, "leader", { ttlMs: 3_000 }), leaving.signal);
  await clock.settle();
  const gone = new AbortController();
  const second = lead(electorOver(two, "leader", { ttlMs: 3_000 }), gone.signal);
  await clock.settle();
  const singleton = singletonOver(one, "janitor", async ({ signal }) => {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  }).start();
  const shards = shardsOver(two, "part", {
    count: 3,
    work: untilStopped,
    pollIntervalMs: 100,
  }).start();
  await one.acquire("lock", { metadata: { leasehold: "nothing of ours" } });
  for (let n = 0; n < 5; n += 1) await clock.advance(300);

  expect(await get("/v1/elections")).toMatchObject({
    items: [
      { name: "janitor", kind: "singleton", leader: "one", state: "live" },
      {
        name: "leader",
        kind: "elector",
        leader: "one",
        terms: [{ holder: "one", vacantMs: null }],
      },
    ],
    shards: [
      {
        name: "part",
        coordinator: "two",
        members: [{ member: "two", holder: "two" }],
        shards: [0, 1, 2].map((shard) => ({ shard, holder: "two" })),
      },
    ],
    complete: true,
    history: true,
  });

  leaving.abort();
  await first;
  await clock.advance(1_000);
  gone.abort();
  await second;
  await singleton.close();
  await shards.close();
  await clock.advance(3_000);
  const { items } = await get("/v1/elections");
  expect(items).toMatchObject([
    { name: "janitor", leader: null, state: "released", endedAt: expect.any(String) },
    { name: "leader", leader: null, state: "released" },
  ]);
});

async function untilStopped(_: number, { signal }: { signal: AbortSignal }): Promise<void> {
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
}

test("lists earlier terms and the vacancies between them", async () => {
  const { call, grant, get, clock } = await open();
  const metadata = JSON.stringify({ leasehold: "elector" });
  const take = async (holder: string) => {
    const { leaseId } = grant("leader");
    await call("acquire", { leaseId, holder, ttlMs: 5_000, metadata });
    return leaseId;
  };
  await take("one");
  await clock.advance(6_500);
  const second = await take("two");
  await clock.advance(1_000);
  await call("release", { leaseId: second });
  await clock.advance(250);
  await take("three");
  const { items } = await get("/v1/elections");
  expect(items).toMatchObject([
    {
      leader: "three",
      token: 3,
      terms: [
        { holder: "three", token: 3, state: "live", endedAt: null, vacantMs: 250 },
        { holder: "two", token: 2, state: "released", vacantMs: 1_500 },
        { holder: "one", token: 1, state: "expired", vacantMs: null },
      ],
    },
  ]);
});

test("lists workers with their claims, and the caller's identity", async () => {
  const { asked, get, call, grant } = await open();
  await asked("POST", "/api/tasks", { task_data: 1, kind: "resize", queue: "images" });
  await asked("POST", "/api/tasks/next", { processor: "busy", queues: ["images"] });
  await asked("POST", "/api/tasks/next", { processor: "idle", kinds: ["mail"] });
  await call("acquire", { leaseId: grant("r").leaseId, holder: "locker", ttlMs: 10_000 });
  const at = "2020-01-01T12:00:00.000Z";
  const { items, complete } = await get("/v1/workers");
  expect(complete).toBe(true);
  expect(items).toEqual([
    {
      holder: "busy",
      lastHeartbeatAt: at,
      holds: [expect.stringMatching(/^task:/)],
      claims: { queues: ["images"], kinds: null, at, waiting: false, abandoned: 0 },
    },
    {
      holder: "idle",
      lastHeartbeatAt: null,
      holds: [],
      claims: { queues: ["default"], kinds: ["mail"], at, waiting: false, abandoned: 0 },
    },
    { holder: "locker", lastHeartbeatAt: at, holds: ["r"], claims: null },
  ]);
  expect(await get("/v1/whoami")).toEqual({
    namespace: "default",
    role: "admin",
    prefixes: [],
    actor: "anyone",
    keyId: null,
    may: ["read", "readTasks", "readAll", "hold", "work", "operate", "administer"],
    control: true,
    history: true,
    version: "1.2.3",
  });
});
