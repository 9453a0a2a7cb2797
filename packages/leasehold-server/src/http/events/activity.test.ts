/** The activity of an instance, as /v1/activity streams it. */

import { newLeaseId, systemEnv, systemRandom } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { describe, expect, onTestFinished, test } from "vitest";
import { openTestConsoleApp as open } from "../../../../../tests/support/browser/console-app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { TenantActivity } from "./activity.js";

type Follower = ReturnType<Awaited<ReturnType<typeof open>>["follow"]>;
const NOTHING = {
  other: null,
  operation: null,
  reason: null,
  queue: null,
  kind: null,
  count: 1,
};

/** The received events without their times. */
function received(follower: Follower) {
  return follower.events().map(({ id, at, name, ...event }) => (name === "resync" ? name : event));
}

describe("activity", () => {
  test("of leases is streamed as it happens, without lease ids", async () => {
    const { call, grant, clock, follow } = await open();
    const follower = follow();
    await clock.settle();
    expect(received(follower)).toEqual(["resync"]);

    const [a, b] = [grant("r"), grant("r")];
    const taken = await call("acquire", { leaseId: a.leaseId, holder: "a", ttlMs: 5_000 });
    await call("acquire", { leaseId: b.leaseId, holder: "b", ttlMs: 5_000 });
    await call("renew", { leaseId: a.leaseId, ttlMs: 5_000 });
    await call("renew", { leaseId: a.leaseId, ttlMs: 5_000 });
    await clock.advance(1_000);
    await clock.advance(5_000);
    const next = await call("acquire", { leaseId: b.leaseId, holder: "b", ttlMs: 5_000 });
    await call("renew", { leaseId: a.leaseId, ttlMs: 5_000 });
    await call("release", { leaseId: b.leaseId });
    await call("release", { leaseId: b.leaseId });
    await clock.settle();

    const lease = { ...NOTHING, topic: "lease", resource: "r" };
    const ofA = { ...lease, holder: "a", token: taken.token, grantId: a.grantId };
    const ofB = { ...lease, holder: "b", token: next.token, grantId: b.grantId };
    expect(received(follower)).toEqual([
      "resync",
      { ...ofA, type: "acquired" },
      { ...ofA, type: "contended", holder: "b", token: null, other: "a" },
      {
        ...lease,
        type: "renewed",
        count: 2,
        resource: null,
        holder: null,
        token: null,
        grantId: null,
      },
      { ...ofA, type: "expired", other: "b" },
      { ...ofB, type: "acquired", other: "a" },
      { ...ofA, type: "refused", operation: "renew", reason: "taken" },
      { ...ofB, type: "released" },
    ]);
    for (const { leaseId } of [a, b]) {
      expect(follower.state.text).not.toContain(leaseId.split(".")[1]);
    }
  });

  test("has a release that came too late as a refused one, once", async () => {
    const { call, grant, clock, follow } = await open();
    const [a, b] = [grant("r"), grant("r")];
    const held = await call("acquire", { leaseId: a.leaseId, holder: "a", ttlMs: 5_000 });
    await clock.advance(5_000);
    await call("acquire", { leaseId: b.leaseId, holder: "b", ttlMs: 5_000 });
    const follower = follow();
    await clock.settle();
    for (let times = 0; times < 2; times += 1) await call("release", { leaseId: a.leaseId });
    await clock.settle();
    const { grantId } = a;
    const ofA = { topic: "lease", resource: "r", holder: "a", token: held.token, grantId };
    expect(received(follower)).toEqual([
      "resync",
      { ...NOTHING, ...ofA, type: "refused", operation: "release", reason: "notHeld" },
    ]);
  });

  test("of tasks and pauses is streamed too, filtered by topic", async () => {
    const { asked, ask, clock, follow } = await open();
    const [all, operators] = [follow("?of=task"), follow("?of=operator")];
    await clock.settle();
    await asked("POST", "/api/tasks", { task_data: 1, kind: "mail" });
    const { tasks } = await asked("POST", "/api/tasks/next", { processor: "w" });
    const [{ id, leaseId, fencingToken }] = tasks;
    const error = `lost ${leaseId}`;
    await asked("PUT", `/api/tasks/${id}/fail`, { leaseId, fencingToken, error });
    await ask("PUT", `/api/tasks/${id}/complete`, { leaseId, fencingToken });
    await asked("POST", `/api/tasks/${id}/cancel`);
    await asked("PUT", "/v1/pauses", { kind: "queue", name: "default", reason: "upgrade" });
    await asked("DELETE", "/v1/pauses?kind=queue&name=default");
    await asked("DELETE", "/v1/pauses?kind=queue&name=default");
    await clock.settle();
    const task = { ...NOTHING, topic: "task", resource: `task:${id}`, kind: "mail" };
    const unknown = { holder: null, token: null, grantId: null };
    const held = { holder: "w", token: fencingToken, grantId: null };
    expect(received(all)).toEqual([
      "resync",
      { ...task, ...unknown, type: "enqueued", queue: "default" },
      { ...task, ...held, type: "claimed", queue: "default" },
      { ...task, ...held, type: "failed", reason: "lost [lease]" },
      { ...task, ...held, type: "refused", operation: "complete", reason: "expired" },
      { ...task, ...unknown, type: "cancelled", kind: null },
    ]);
    const pause = { ...NOTHING, ...unknown, topic: "operator", resource: null, holder: "anyone" };
    expect(received(operators)).toEqual([
      "resync",
      { ...pause, type: "paused", other: "queue default", reason: "upgrade" },
      { ...pause, type: "resumed", other: "queue default" },
    ]);
  });

  test("resumes at the client's position, or begins with as many past activities as requested", async () => {
    const { call, grant, clock, follow } = await open();
    const acquire = (resource: string) =>
      call("acquire", { leaseId: grant(resource).leaseId, holder: "a", ttlMs: 5_000 });
    for (const resource of ["one", "two", "three"]) await acquire(resource);
    const names = (follower: Follower) =>
      follower.events().map(({ name, resource }) => (name === "resync" ? name : resource));
    const first = follow("?last=2");
    await clock.settle();
    expect(names(first)).toEqual(["resync", "two", "three"]);
    const lastId = first.events().at(-1)?.id;
    first.leave();
    await acquire("four");
    const again = follow("", lastId);
    const elsewhere = follow("", `${"0".repeat(16)}.1`);
    await clock.settle();
    await acquire("five");
    await clock.settle();
    expect(names(again)).toEqual(["four", "five"]);
    expect(names(elsewhere)).toEqual(["resync", "five"]);
  });

  test("reports a waiter once, and counts each of its attempts", async () => {
    const { call, grant, clock, follow, get } = await open();
    const follower = follow();
    const ask = (leaseId: string, holder: string) =>
      call("acquire", { leaseId, holder, ttlMs: 60_000, queueMs: 5_000 });
    const [a, b] = [grant("r").leaseId, grant("r").leaseId];
    await ask(a, "a");
    for (let n = 0; n < 3; n += 1) await ask(b, "b");
    await clock.settle();
    const contended = () => received(follower).filter(({ type }) => type === "contended");
    expect(contended()).toMatchObject([{ holder: "b", other: "a" }]);
    await clock.advance(5_000);
    await ask(b, "b");
    await clock.settle();
    expect(contended(), "back in the queue").toHaveLength(2);
    const { series } = await get("/v1/overview?seconds=60");
    expect(series.leases.contended.reduce((sum: number, n: number) => sum + n, 0)).toBe(4);
  });

  test("begins with as many visible activities as requested, regardless of hidden ones", async () => {
    const { call, grant, clock, follow, asked } = await open();
    for (const task_data of [1, 2, 3]) await asked("POST", "/api/tasks", { task_data });
    for (let n = 0; n < 20; n += 1) {
      await call("acquire", { leaseId: grant(`r${n}`).leaseId, holder: "a", ttlMs: 5_000 });
    }
    const follower = follow("?of=task&last=2");
    await clock.settle();
    const events = received(follower);
    expect(events.map((event) => event.type ?? event)).toEqual(["resync", "enqueued", "enqueued"]);
    const again = follow("?of=task", follower.events()[0].id);
    await clock.settle();
    expect(received(again), "resumes after the resync").toEqual(events.slice(1));
  });

  test("keeps a silent connection alive while only hidden activities happen", async () => {
    const { call, grant, clock, follow } = await open();
    const follower = follow("?of=operator");
    for (let second = 0; second < 40; second += 1) {
      await call("acquire", { leaseId: grant(`${second}`).leaseId, holder: "a", ttlMs: 5_000 });
      await clock.advance(1_000);
    }
    // The first one is at the beginning.
    expect(follower.state.text.match(/^: alive$/gm)).toHaveLength(3);
  });

  test("contains no part of a lease id where it truncates an error", async () => {
    const { asked, clock, follow } = await open();
    const follower = follow("?of=task");
    const { id } = await asked("POST", "/api/tasks", { task_data: 1 });
    const { tasks } = await asked("POST", "/api/tasks/next", { processor: "w" });
    const [{ leaseId, fencingToken }] = tasks;
    const error = `${`lost ${leaseId} `.padEnd(480, ".")}${leaseId}${"x".repeat(100)}`;
    await asked("PUT", `/api/tasks/${id}/fail`, { leaseId, fencingToken, error });
    await clock.settle();
    const { reason } = follower.events().at(-1) ?? {};
    expect(reason).toBe(`${"lost [lease] ".padEnd(439, ".")}...`);
  });

  test("ends when the server closes, and counts towards the limit of streams", async () => {
    const app = await open({ limits: { streams: 1, shortestTtlMs: 1 } });
    const follower = app.follow();
    await app.clock.settle();
    const { status, body } = await app.ask("GET", "/v1/activity");
    expect([status, body.code]).toEqual([429, "LIMIT_REACHED"]);
    await app.close();
    await app.clock.settle();
    expect(follower.state.ended).toBe(true);
  });

  test("is kept in bounded memory, and counted without readers", async () => {
    const activity = new TenantActivity(systemEnv);
    const event = { requestId: "q", tookMs: 1, ttlMs: 1, holder: "a", token: 1, replaced: null };
    const grantIdOf = (n: number) => `${n}`.padStart(16, "0");
    for (let n = 0; n < 40_000; n += 1) {
      const grant = { resource: `r${n}`, grantId: grantIdOf(n) };
      activity.noteLease({ ...event, ...grant, type: "acquired" });
      activity.noteLease({ ...event, ...grant, type: "lost", reason: "taken" });
    }
    const { recent, figures } = activity;
    expect(figures.sum("lease acquired", 300)).toBe(40_000);
    expect(recent.grant(grantIdOf(0))).toBeUndefined();
    expect(recent.grant(grantIdOf(39_999))).toBeDefined();
    expect(recent.refusals(() => true)).toHaveLength(500);
    // All of ten thousand live leases are kept, in any order of renewal.
    for (let round = 0; round < 3; round += 1) {
      for (let n = 30_000; n < 40_000; n += 1) {
        const grant = { resource: `r${n}`, grantId: grantIdOf(n) };
        activity.noteLease({ ...event, ...grant, type: "renewed" });
      }
    }
    const live = Array.from({ length: 10_000 }, (_, n) => recent.grant(grantIdOf(30_000 + n)));
    expect(live.every((grant) => grant?.renewals === 3)).toBe(true);
    activity.close();
  });
});

test("shows a tenant nothing of others, and a holder only resources below its prefixes", async () => {
  const env = systemEnv;
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, env);
  onTestFinished(() => app.close());
  onTestFinished(() => stores.close());
  const key = async (tenant: string, prefixes?: string[]) =>
    (await newKey(tenant, prefixes ? "holder" : "admin", prefixes ? { prefixes } : {})).text;
  const [ours, others] = [await key("a"), await key("b")];
  const narrow = await key("b", ["own/"]);
  const send = async (who: string, method: string, path: string, body?: unknown) => {
    const { status, text } = await ask(who, { method, path, ...(body ? { body } : {}) });
    expect(status, `${path}: ${text}`).toBeLessThan(300);
    return text;
  };
  const late = async (who: string, resource: string, holder: string) => {
    const leaseId = toWireLeaseId(resource, newLeaseId(systemRandom));
    const metadata = JSON.stringify({ leasehold: "elector" });
    const grant = { leaseId, holder, ttlMs: 60_000, metadata };
    await send(who, "POST", "/v1/leases/acquire", [grant]);
    const revoke = { resource, free: "now", reason: "test" };
    await send(who, "POST", "/v1/leases/revoke", [revoke]);
    await send(who, "POST", "/v1/leases/renew", [{ leaseId, ttlMs: 60_000 }]);
  };
  await late(ours, "own/1", "ours");
  await send(ours, "POST", "/api/tasks", { task_data: 1, kind: "ours" });
  await send(ours, "POST", "/api/tasks/next", { processor: "ours" });
  await late(others, "own/1", "others");
  await late(others, "other/1", "others");

  for (const path of [
    "/v1/elections",
    "/v1/workers",
    "/v1/refusals",
    "/v1/resource?name=own/1",
    "/v1/overview?seconds=60",
  ]) {
    const text = await send(others, "GET", path);
    expect(text, path).not.toContain("ours");
    if (!path.includes("overview")) expect(await send(ours, "GET", path)).toContain("ours");
  }
  const { series } = JSON.parse(await send(others, "GET", "/v1/overview?seconds=60"));
  expect(series.leases.acquired.reduce((sum: number, count: number) => sum + count, 0)).toBe(2);
  expect(series.tasks.claimed.every((count: number) => count === 0)).toBe(true);

  const past = async (who: string) => {
    const headers = { authorization: `Bearer ${who}` };
    const url = "http://localhost/v1/activity?last=1000";
    const { body } = await app.fetch(new Request(url, { headers }));
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    const { value } = await reader.read();
    await reader.cancel();
    return new TextDecoder().decode(value);
  };
  const [all, some] = [await past(others), await past(narrow)];
  expect(all).not.toContain("ours");
  expect(all).toContain("other/1");
  expect(some).toContain("own/1");
  expect(some).not.toContain("other/1");
  expect((await ask(narrow, { method: "GET", path: "/v1/refusals" })).status).toBe(403);
});
