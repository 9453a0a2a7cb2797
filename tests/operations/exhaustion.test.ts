/** What one caller can use up, and what the others still get. */
import { expect, it, onTestFinished } from "vitest";
import { createApiKey, type Role } from "../../packages/leasehold/src/control/index.js";
import { systemRandom } from "../../packages/leasehold/src/env/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import type { AppOptions } from "../../packages/leasehold-server/src/http/index.js";
import { expectProblem, openTestApp } from "../support/server/app.js";

async function open(limits: AppOptions["limits"]) {
  const env = manualEnv();
  const opened = await openTestApp({ env, auth: "keys", limits: { lateMs: null, ...limits } });
  const { control } = opened.stores;
  if (!control) throw new Error("memory keeps keys");
  const newKey = async (role: Role) => {
    const order = {
      namespace: "n",
      name: role,
      role,
      prefixes: role === "holder" ? [""] : [],
      lifetimeMs: null,
    };
    const { text } = await createApiKey(control, systemRandom, order, {
      actor: "test",
      reason: null,
    });
    const headers = { authorization: `Bearer ${text}` };
    return {
      headers,
      ask: (method: string, path: string, body?: unknown) =>
        opened.ask(method, path, body, { headers }),
    };
  };
  return { ...opened, newKey, clock: env.clock };
}

it("lets workers claim while a viewer has streams open", async () => {
  const { app, newKey } = await open({ waiters: 2 });
  const [viewer, worker] = [await newKey("viewer"), await newKey("holder")];
  for (const path of ["/v1/activity", "/v1/events?of=leases"]) {
    const { headers } = viewer;
    const { status, body } = await app.fetch(new Request(`http://localhost${path}`, { headers }));
    expect(status).toBe(200);
    const reader = body?.getReader();
    onTestFinished(() => reader?.cancel());
    // It counts from its first read.
    await reader?.read();
  }
  expect((await worker.ask("POST", "/api/tasks/next", { processor: "w" })).status).toBe(204);
});

it("bounds the records of a tenant that leases ever new names", async () => {
  const { stores, clock, newKey } = await open({ leases: 100, ratePerSecond: null });
  const { ask } = await newKey("holder");
  const lease = (name: string) => {
    const resource = Buffer.from(name).toString("base64url");
    return { leaseId: `${resource}.${"0".repeat(48)}`, holder: "w", ttlMs: 60_000 };
  };
  const acquire = (names: readonly string[]) => ask("POST", "/v1/leases/acquire", names.map(lease));
  const release = (names: readonly string[]) =>
    ask(
      "POST",
      "/v1/leases/release",
      names.map((name) => ({ leaseId: lease(name).leaseId })),
    );
  const named = (round: number) => Array.from({ length: 100 }, (_, n) => `${round}/${n}`);
  let rounds = 0;
  let answer = await acquire(named(rounds));
  while (answer.status === 200 && rounds < 110) {
    await release(named(rounds));
    await clock.advance(100);
    rounds += 1;
    answer = await acquire(named(rounds));
  }
  expect(rounds).toBe(100);
  expectProblem(answer, 429, "LIMIT_REACHED");
  expect(answer.body.detail).toContain("use the names of resources again");
  expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  // A name that has a record needs no room.
  const again = await ask("POST", "/v1/locks/acquire", { resource: "7/7", ownerId: "v" });
  expect(again.body.acquired).toBe(true);
  const mixed = { resource: "new", ownerId: "v" };
  expectProblem(await ask("POST", "/v1/locks/acquire", mixed), 429, "LIMIT_REACHED");
  // Refused requests used up no quota of live leases.
  expect((await acquire(named(3).slice(1))).status).toBe(200);

  await clock.advance(120_000);
  await stores.leases.collect(1);
  // This one begins a count.
  await acquire(named(200));
  await clock.settle();
  expect((await acquire(named(201))).status).toBe(200);
});

it("bounds the tasks of a tenant, ended ones included, if the operator says so", async () => {
  const { stores, clock, newKey } = await open({ tasks: 500, recordsPerTask: 1 });
  const { ask } = await newKey("admin");
  const enqueue = (count: number) =>
    ask(
      "POST",
      "/api/tasks",
      Array.from({ length: count }, () => ({ task_data: 1 })),
    );
  let cancelled: string[] = [];
  let total = 0;
  let answer = await enqueue(500);
  while (answer.status === 201 && total < 12_000) {
    cancelled = answer.body.map(({ id }: { id: string }) => id);
    total += cancelled.length;
    await stores.tasks.cancel(cancelled.map((id) => ({ namespace: "n", id })));
    await clock.advance(500);
    answer = await enqueue(500);
  }
  expect(total).toBe(10_000);
  expectProblem(answer, 429, "LIMIT_REACHED");
  expect(answer.body.detail).toContain("delete ended ones");
  // A task that exists needs no room.
  const repeated = { id: cancelled[0], task_data: 1 };
  expect((await ask("POST", "/api/tasks", repeated)).status).toBe(201);
  const reason = { reason: "too many" };
  expect((await ask("POST", `/api/tasks/delete?reason=${reason.reason}`, cancelled)).status).toBe(
    200,
  );
  await clock.advance(10_000);
  await enqueue(1);
  await clock.settle();
  expect((await enqueue(1)).status).toBe(201);
});

it("bounds the history of a tenant that leases one name again and again", async () => {
  const { stores, clock, newKey } = await open({ leases: 100, ratePerSecond: null });
  const { ask } = await newKey("holder");
  const acquire = Array.from({ length: 100 }, (_, n) => ({
    leaseId: `${Buffer.from(`r${n}`).toString("base64url")}.`,
    holder: "w",
    ttlMs: 60_000,
  }));
  const { history } = stores;
  if (!history) throw new Error("memory keeps a history");
  for (let round = 0; round < 110; round += 1) {
    const digits = `${round}`.padStart(16, "0").padEnd(48, "0");
    const grants = acquire.map((one) => ({ ...one, leaseId: one.leaseId + digits }));
    expect((await ask("POST", "/v1/leases/acquire", grants)).status).toBe(200);
    const ids = grants.map(({ leaseId }) => ({ leaseId }));
    expect((await ask("POST", "/v1/leases/release", ids)).status).toBe(200);
    await clock.settle();
  }
  await clock.advance(1_000);
  let kept = 0;
  let cursor: string | null = null;
  do {
    const after: { cursor?: string } = cursor === null ? {} : { cursor };
    const page = await history.list({ namespace: "n", limit: 1_000, ...after });
    kept += page.items.length;
    cursor = page.nextCursor;
  } while (cursor !== null);
  expect(kept).toBe(10_000);
});
