/** What an instance records of a tenant, and of which tenants. */
import type { TaskEvent } from "leasehold/internal";
import type { Activity } from "leasehold/internal/wire";
import { type ManualClock, manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import type { LeaseEvent } from "../lease-calls.js";
import { Activities, TenantActivity } from "./activity.js";
import { UNRESTRICTED } from "./event-stream.js";

const TOPICS = ["lease", "task", "operator"] as const;
const CAUSE = { requestId: "q", tookMs: 1, resource: "r" };
const GRANT = { ...CAUSE, grantId: "0".repeat(16), token: 1 };
const RENEWED: LeaseEvent = { ...GRANT, type: "renewed", ttlMs: 1_000 };
const GRANTEE = { id: "t", token: 1, kind: "k", holder: "w", attempt: 1 };
const BEATEN: TaskEvent = { ...GRANTEE, type: "renewed", remainingMs: 1_000 };

/** Reads in the background until the stream ends. */
function follow(tenant: TenantActivity) {
  const followers = { topics: TOPICS, last: 0, lastEventId: undefined, listener: UNRESTRICTED };
  const reader = tenant.stream(followers).getReader();
  const state = { text: "", ended: false };
  void (async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      state.text += new TextDecoder().decode(value as Uint8Array);
    }
    state.ended = true;
  })();
  const activities = () =>
    [...state.text.matchAll(/^event: activity\ndata: (.*)$/gm)].map(
      ([, data = ""]): Activity => JSON.parse(data),
    );
  return { state, activities, leave: () => reader.cancel() };
}

/** Wakes the streams, which happens once per turn of the event loop. */
async function settle(clock: ManualClock): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  await clock.settle();
}

test("renewals are one activity for each second with any, of leases and of tasks", async () => {
  const env = manualEnv();
  const tenant = new TenantActivity(env);
  const follower = follow(tenant);
  const renewals = () =>
    follower.activities().map(({ topic, type, count }) => [topic, type, count]);
  for (const [leases, tasks] of [
    [3, 2],
    [1, 0],
    [0, 4],
  ] as const) {
    for (let n = 0; n < leases; n += 1) tenant.noteLease(RENEWED);
    for (let n = 0; n < tasks; n += 1) tenant.noteTask(BEATEN);
    await env.clock.advance(1_000);
    await settle(env.clock);
  }
  await env.clock.advance(10_000);
  expect(renewals()).toEqual([
    ["lease", "renewed", 3],
    ["task", "renewed", 2],
    ["lease", "renewed", 1],
    ["task", "renewed", 4],
  ]);
  tenant.noteLease(RENEWED);
  tenant.close();
  tenant.noteLease(RENEWED);
  await settle(env.clock);
  expect(follower.state.ended).toBe(true);
  expect(env.clock.pendingTimers).toBe(0);
});

test("streams are woken by each activity, however many came before", async () => {
  const env = manualEnv();
  const tenant = new TenantActivity(env);
  const follower = follow(tenant);
  await settle(env.clock);
  for (let round = 1; round <= 5; round += 1) {
    tenant.noteTask({ type: "cancelled", id: "t", state: "cancelled" });
    await settle(env.clock);
    expect(follower.activities()).toHaveLength(round);
  }
  await follower.leave();
  expect(tenant.streams).toBe(0);
});

test("counts what was done, not what was repeated", () => {
  const tenant = new TenantActivity(manualEnv());
  const enqueued = { type: "enqueued", id: "t", kind: "k", queue: "q" } as const;
  for (const duplicate of [false, true]) tenant.noteTask({ ...enqueued, duplicate });
  for (const repeated of [false, true, true]) {
    tenant.noteTask({ ...GRANTEE, type: "completed", repeated });
  }
  for (let times = 0; times < 2; times += 1) {
    tenant.noteLease({ ...GRANT, type: "acquired", holder: "h", ttlMs: 1, replaced: null });
  }
  const replaced = { holder: "a", grantId: "a".repeat(16), token: 2 };
  for (const [index, state] of ["expired", "released", "revoked"].entries()) {
    const grant = { ...GRANT, grantId: `${index + 1}`.repeat(16) };
    const was = { ...replaced, state: state as "expired" };
    tenant.noteLease({ ...grant, type: "acquired", holder: "h", ttlMs: 1, replaced: was });
  }
  const { figures } = tenant;
  expect(figures.sum("task enqueued", 1)).toBe(1);
  expect(figures.sum("task completed", 1)).toBe(1);
  expect(figures.sum("lease acquired", 1)).toBe(4);
  expect(figures.sum("lease reclaimed", 1)).toBe(1);
});

test("each kind of event has its own figure", () => {
  const tenant = new TenantActivity(manualEnv());
  const noteLease = (event: object) => tenant.noteLease({ ...GRANT, ...event } as LeaseEvent);
  const noteTask = (event: object) => tenant.noteTask({ ...GRANTEE, ...event } as TaskEvent);
  const held = { type: "held", holder: "b", asked: "1".repeat(16), heldBy: "a", ahead: 0 };
  const leases: [string, object][] = [
    ["lease contended", { ...held, queueMs: null }],
    ["lease renewed", { type: "renewed" }],
    ["lease released", { type: "released" }],
    ["lease revoked", { type: "revoked", free: "now" }],
    ["lost expired", { type: "lost", reason: "expired" }],
    ["lost revoked", { type: "lost", reason: "revoked" }],
    ["lost taken", { type: "lost", reason: "taken" }],
    ["lost gone", { type: "lost", reason: "gone" }],
  ];
  const tasks: [string, object][] = [
    ["task claimed", { type: "claimed", queue: "q", previousHolder: null }],
    ["task renewed", { type: "renewed" }],
    ["task failed", { type: "failed", state: "dead", error: "e" }],
    ["task expired", { type: "expired", state: "pending" }],
    ["task refused", { type: "refused", operation: "complete", reason: "taken" }],
  ];
  const all = [...leases, ...tasks];
  for (const [index, [, event]] of all.entries()) {
    const note = index < leases.length ? noteLease : noteTask;
    for (let times = 0; times <= index; times += 1) note(event);
  }
  const sums = all.map(([name]) => [name, tenant.figures.sum(name as "task claimed", 1)]);
  // A repeated release is none.
  const expected = all.map(([name], index) => [name, name === "lease released" ? 3 : index + 1]);
  expect(sums).toEqual(expected);
  tenant.close();
});

test("a refused holder of a task is listed with what it asked, and a dead task is distinguished", async () => {
  const env = manualEnv();
  const tenant = new TenantActivity(env);
  const follower = follow(tenant);
  await settle(env.clock);
  tenant.noteTask({ ...GRANTEE, type: "refused", operation: "complete", reason: "taken" });
  tenant.noteTask({ ...GRANTEE, type: "expired", state: "dead" });
  tenant.noteTask({ ...GRANTEE, type: "expired", state: "pending" });
  tenant.noteTask({ ...GRANTEE, type: "completed", repeated: true });
  tenant.noteTask({ type: "enqueued", id: "t", kind: "k", queue: "q", duplicate: true });
  tenant.noteTask({ ...GRANTEE, type: "claimed", queue: "q", remainingMs: 1, previousHolder: "v" });
  await settle(env.clock);
  const [refusal, ...others] = tenant.recent.refusals(() => true);
  expect(others).toEqual([]);
  expect(refusal).toEqual({
    at: new Date(env.clock.wall()).toISOString(),
    topic: "task",
    operation: "complete",
    reason: "taken",
    resource: "task:t",
    holder: "w",
    token: 1,
    grantId: null,
  });
  const seen = follower.activities().map(({ type, reason, other }) => [type, reason, other]);
  expect(seen).toEqual([
    ["refused", "taken", null],
    ["expired", "dead", null],
    ["expired", null, null],
    ["completed", "repeated", null],
    ["enqueued", "duplicate", null],
    ["claimed", null, "v"],
  ]);
  tenant.close();
});

test("of many tenants, the ones with streams and the latest used are kept", async () => {
  const env = manualEnv();
  const activities = new Activities(env);
  const used = async (name: string) => {
    await env.clock.advance(1);
    return activities.of(name);
  };
  const followed = await used("followed");
  const follower = follow(followed);
  const busy = await used("busy");
  const idle = await used("idle");
  idle.noteLease(RENEWED);
  await settle(env.clock);
  for (let n = 0; n < 200; n += 1) {
    await used(`tenant-${n}`);
    expect(await used("busy")).toBe(busy);
  }
  expect(activities.of("followed")).toBe(followed);
  expect(follower.state.ended).toBe(false);
  expect(activities.of("idle")).not.toBe(idle);
  await follower.leave();
  // The dropped one has no timer left.
  activities.close();
  expect(env.clock.pendingTimers).toBe(0);
});
