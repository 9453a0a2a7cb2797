import { toWireGrantId } from "leasehold/internal/wire";
import { type ManualClock, manualEnv } from "leasehold/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Asked, openApp } from "../../../../../tests/support/server/app.js";

let app: Asked;
let clock: ManualClock;
beforeEach(async () => {
  const env = manualEnv();
  clock = env.clock;
  app = await openApp({ env });
});
afterEach(() => app.close());

const post = async (resource: string, holder = "me", more: object = {}) =>
  (await app.ask("POST", "/api/leases", { resource, holder, ...more })).body;
const act = (method: "PUT" | "DELETE", path: string, resource: string, holder = "me") =>
  app.ask(method, `/api/leases/${path}`, { resource, holder });
const get = async (path: string) => (await app.ask("GET", `/api/leases${path}`)).body;
const list = async (path: string) =>
  (await get(path)).items.map(({ resource, state }: { resource: string; state: string }) => [
    resource,
    state,
  ]);

/** A resource in each state, each with an earlier grant in another state; a running and a done task. */
async function fill(): Promise<{ running: string; done: string }> {
  await post("a");
  await act("DELETE", "release", "a");
  await post("a", "me", { ttlSeconds: 1 });
  await post("b", "me", { ttlSeconds: 1 });
  await clock.advance(1_000);
  await post("b");
  await act("PUT", "renew", "b");
  await post("c", "other");
  await act("DELETE", "release", "c", "other");
  const enqueue = async (kind: string) => {
    const { body } = await app.ask("POST", "/api/tasks", { task_data: 1, kind });
    return body.id as string;
  };
  const next = async (kind: string) => {
    const body = { processor: "worker", kinds: [kind], ttlSeconds: 10 };
    const answer = await app.ask("POST", "/api/tasks/next", body);
    return answer.body.tasks[0];
  };
  const done = await enqueue("done");
  const { leaseId, fencingToken } = await next("done");
  await app.ask("PUT", `/api/tasks/${done}/complete`, { leaseId, fencingToken });
  const running = await enqueue("running");
  await next("running");
  return { running, done };
}

test("leases are listed by state: on resources, on tasks, then replaced ones", async () => {
  const { running, done } = await fill();
  expect(await list("/active")).toEqual([
    ["b", "live"],
    [`task:${running}`, "live"],
  ]);
  expect(await list("/expired")).toEqual([
    ["a", "expired"],
    ["b", "expired"],
  ]);
  expect(await list("/released")).toEqual([
    ["c", "released"],
    [`task:${done}`, "released"],
    ["a", "released"],
  ]);
  expect(await list("/renewed")).toEqual([["b", "live"]]);
  expect((await list("")).sort()).toEqual(
    [
      ["a", "expired"],
      ["a", "released"],
      ["b", "live"],
      ["b", "expired"],
      ["c", "released"],
      [`task:${running}`, "live"],
      [`task:${done}`, "released"],
    ].sort(),
  );
});

test("each lease is listed once, with any page size", async () => {
  await fill();
  const whole = await get("");
  for (const limit of [1, 2, 3]) {
    const seen: string[] = [];
    let cursor = "";
    for (let pages = 0; pages < 20; pages++) {
      const page = await get(`?limit=${limit}${cursor}`);
      expect(page.items.length).toBeLessThanOrEqual(limit);
      seen.push(...page.items.map(({ id }: { id: string }) => id));
      if (page.nextCursor === null) break;
      cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
    }
    expect(seen).toEqual(whole.items.map(({ id }: { id: string }) => id));
  }
  for (const cursor of ["x", "WzksbnVsbF0", "bnVsbA", "%F0%9F%94%91"]) {
    const { status, body } = await app.ask("GET", `/api/leases?cursor=${cursor}`);
    expect([status, body.errors?.[0].path]).toEqual([422, "cursor"]);
  }
});

test("the overview lists workers, their heartbeats and what they hold", async () => {
  const { running } = await fill();
  await clock.advance(2_000);
  await act("PUT", "renew", "b");
  const { workers, workersComplete, history, items } = await get("");
  const [b] = items.filter(({ state }: { state: string }) => state === "live");
  expect(workers).toEqual([
    { holder: "me", lastHeartbeatAt: b.renewed_at, holds: ["b"] },
    { holder: "worker", lastHeartbeatAt: expect.any(String), holds: [`task:${running}`] },
  ]);
  expect([workersComplete, history]).toEqual([true, true]);
});

test("a lease is found by its id: live, ended, replaced, or on a task", async () => {
  await fill();
  const { items } = await get("");
  for (const item of items) expect(await get(`/${item.id}`)).toEqual(item);
  const unknown = toWireGrantId("a", "0".repeat(16));
  for (const id of [unknown, "1", "task:1", toWireGrantId("task:1", "0".repeat(16))]) {
    expect(await app.ask("GET", `/api/leases/${encodeURIComponent(id)}`)).toMatchObject({
      status: 404,
      body: { code: "UNKNOWN_LEASE" },
    });
  }
});

test("without a history, lists of ended leases are refused and the others are incomplete", async () => {
  await app.close();
  const env = manualEnv();
  clock = env.clock;
  app = await openApp({ env, history: undefined });
  await fill();
  for (const path of ["/expired", "/released", `/${toWireGrantId("a", "0".repeat(16))}`]) {
    expect(await app.ask("GET", `/api/leases${path}`)).toMatchObject({
      status: 501,
      body: { code: "NO_HISTORY" },
    });
  }
  expect(await get("")).toMatchObject({ history: false });
  expect(await list("/active")).toHaveLength(2);
});

test("no list contains a secret", async () => {
  const { leaseId } = await post("secret", "me", {
    leaseId: `c2VjcmV0.${"f".repeat(16)}${"0123456789abcdef".repeat(2)}`,
  });
  await act("PUT", "renew", "secret");
  const texts = await Promise.all(["", "/active", "/renewed"].map(get));
  expect(leaseId).toContain("0123456789abcdef");
  expect(JSON.stringify(texts)).not.toContain("0123456789abcdef");
});
