/** What a server does not take on, as its clients meet it. */
import { connect as connectTcp } from "node:net";
import { afterEach, expect, it } from "vitest";
import type { Env } from "../../packages/leasehold/src/env/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { type AppOptions, listen } from "../../packages/leasehold-server/src/http/index.js";
import { type Asked, expectProblem, openApp } from "../support/server/app.js";

const opened: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
});

async function open(
  options: Pick<AppOptions, "limits" | "auth"> & { env?: Env } = {},
): Promise<Asked> {
  const app = await openApp(options);
  opened.push(() => app.close());
  return app;
}

const lock = (resource: string, more: object = {}) => ({ resource, ownerId: "w", ...more });

it.each([
  ["a resource of 257 bytes", lock("r".repeat(257))],
  ["a holder of 257 bytes", { resource: "r", ownerId: "w".repeat(257) }],
  ["a ttl below a second", lock("r", { ttlMs: 999 })],
  ["a ttl above an hour", lock("r", { ttlMs: 3_600_001 })],
])("refuses %s, naming the field", async (_, body) => {
  const { ask } = await open({ limits: {} });
  const reply = await ask("POST", "/v1/locks/acquire", body);
  expectProblem(reply, 422, "INVALID_REQUEST");
  expect(reply.body.errors[0].path).toMatch(/^(resource|ownerId|ttlMs)$/);
});

it("takes ttls of a second and of an hour", async () => {
  const { ask } = await open({ limits: {} });
  for (const ttlMs of [1_000, 3_600_000]) {
    const reply = await ask("POST", "/v1/locks/acquire", lock(`r${ttlMs}`, { ttlMs }));
    expect(reply.body).toMatchObject({ acquired: true, ttlMs });
  }
});

it("takes metadata of 4 KiB and bodies of 64 KiB, and not a byte more", async () => {
  const { ask } = await open();
  const acquire = (metadata: string) => [
    { leaseId: `cg.${"0".repeat(48)}`, holder: "h", ttlMs: 5_000, metadata },
  ];
  const most = await ask("POST", "/v1/leases/acquire", acquire("m".repeat(4_096)));
  expect(most.body[0].status).toBe("acquired");
  expectProblem(
    await ask("POST", "/v1/leases/acquire", acquire("m".repeat(4_097))),
    422,
    "INVALID_REQUEST",
  );
  const padded = (bytes: number) => {
    const text = JSON.stringify(lock("r"));
    return text + " ".repeat(bytes - text.length);
  };
  expect((await ask("POST", "/v1/locks/acquire", padded(65_536))).status).toBe(200);
  expectProblem(await ask("POST", "/v1/locks/acquire", padded(65_537)), 413, "BODY_TOO_LARGE");
});

it("gives pages of 200 at most", async () => {
  const { ask } = await open();
  expect((await ask("GET", "/v1/locks?limit=200")).status).toBe(200);
  expectProblem(await ask("GET", "/v1/locks?limit=201"), 422, "INVALID_REQUEST");
});

it("lets a tenant have so many leases and tasks, until it gives some up", async () => {
  const { ask } = await open({ limits: { shortestTtlMs: 100, lateMs: null, leases: 2, tasks: 1 } });
  const first = await ask("POST", "/v1/locks/acquire", lock("a"));
  expect((await ask("POST", "/v1/locks/acquire", lock("b"))).status).toBe(200);
  const refused = await ask("POST", "/v1/locks/acquire", lock("c"));
  expectProblem(refused, 429, "LIMIT_REACHED");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  // Who holds may keep, and give up: then there is room.
  expect((await ask("POST", `/v1/locks/${first.body.leaseId}/renew`)).status).toBe(200);
  expect((await ask("DELETE", `/v1/locks/${first.body.leaseId}`)).status).toBe(200);
  expect((await ask("POST", "/v1/locks/acquire", lock("c"))).status).toBe(200);

  expect((await ask("POST", "/api/tasks", { task_data: 1 })).status).toBe(201);
  expectProblem(await ask("POST", "/api/tasks", { task_data: 2 }), 429, "LIMIT_REACHED");
});

it("answers a repeated request, and one for a held lease, at the limit as before it", async () => {
  const limits = { shortestTtlMs: 100, lateMs: null, leases: 2, tasks: 1 };
  const { ask } = await open({ limits });
  const leaseId = (resource: string, digit: string) =>
    `${btoa(resource).replaceAll("=", "")}.${digit.repeat(48)}`;
  const chosen = { ttlMs: 60_000, leaseId: leaseId("a", "0") };
  const batch = (resource: string, digit: string) => [
    { leaseId: leaseId(resource, digit), holder: "w", ttlMs: 60_000 },
  ];
  const task = { id: "01890000-0000-7000-8000-000000000000", task_data: 1 };
  const first = await ask("POST", "/v1/locks/acquire", lock("a", chosen));
  const second = await ask("POST", "/v1/leases/acquire", batch("b", "1"));
  expect((await ask("POST", "/api/tasks", task)).status).toBe(201);

  const again = await ask("POST", "/v1/locks/acquire", lock("a", chosen));
  expect(again.body).toMatchObject({ acquired: true, fencingToken: first.body.fencingToken });
  const repeated = await ask("POST", "/v1/leases/acquire", batch("b", "1"));
  expect(repeated.body).toMatchObject([{ status: "acquired", token: second.body[0].token }]);
  const held = await ask("POST", "/v1/leases/acquire", batch("a", "2"));
  expect(held.body).toMatchObject([{ status: "held", holder: "w" }]);
  const taken = await ask("POST", "/api/leases", { resource: "b", holder: "v", ttlMs: 60_000 });
  expectProblem(taken, 409, "LEASE_HELD");
  const enqueued = await ask("POST", "/api/tasks", task);
  expect([enqueued.status, enqueued.body.id]).toEqual([201, task.id]);
  const mixed = [...batch("b", "1"), ...batch("c", "3")];
  expectProblem(await ask("POST", "/v1/leases/acquire", mixed), 429, "LIMIT_REACHED");
  const more = [task, { task_data: 2 }];
  expectProblem(await ask("POST", "/api/tasks", more), 429, "LIMIT_REACHED");

  // None of them uses up room, from the next count on.
  expect((await ask("DELETE", `/v1/locks/${first.body.leaseId}`)).status).toBe(200);
  await expect
    .poll(async () => (await ask("POST", "/v1/locks/acquire", lock("c"))).status, {
      timeout: 10_000,
    })
    .toBe(200);
});

it("lets a retry bring no more tasks to life than a tenant may have", async () => {
  const env = manualEnv();
  const { ask, stores } = await open({ env, limits: { lateMs: null, tasks: 3 } });
  const scheduled_at = new Date(env.clock.wall() + 3_600_000).toISOString();
  const add = async (): Promise<string[]> => {
    const { body } = await ask(
      "POST",
      "/api/tasks",
      [1, 2, 3].map((n) => ({ task_data: n, scheduled_at })),
    );
    return body.map(({ id }: { id: string }) => id);
  };
  const retry = (id = "") => ask("POST", `/api/tasks/${id}/retry`);
  const retryAll = (ids: unknown[]) => ask("POST", "/api/tasks/retry", ids);
  const retryMatching = (more: object = {}) =>
    ask("POST", "/api/tasks/bulk", { operation: "retry", filter: {}, reason: "r", ...more });
  const cancelled = await add();
  await ask("POST", "/api/tasks/cancel", cancelled);
  await env.clock.advance(5_000);
  const live = await add();

  const refused = await retry(cancelled[0]);
  expectProblem(refused, 429, "LIMIT_REACHED");
  expect(refused.body.detail).toContain("at most 3 tasks");
  expectProblem(await retryAll([cancelled[0], live[0]]), 429, "LIMIT_REACHED");
  expectProblem(await retryMatching(), 429, "LIMIT_REACHED");
  // These are live already, or never were.
  expect((await retryMatching({ filter: { states: ["pending"] } })).body.changed).toBe(3);
  expect((await retry(live[0])).status).toBe(200);
  const ok = { status: "ok", state: "pending" };
  expect((await retryAll([live[0], "none"])).body).toEqual([ok, { status: "unknown" }]);
  expect((await stores.tasks.counts("default")).cancelled).toBe(3);

  await ask("POST", `/api/tasks/${live[2]}/cancel`);
  await env.clock.advance(5_000);
  expectProblem(await retryAll(cancelled.slice(0, 2)), 429, "LIMIT_REACHED");
  // What is not retried takes no room.
  expect((await retry("0".repeat(8).concat("-0000-4000-8000-000000000000"))).status).toBe(404);
  const rest = { matched: 4, changed: 1, conflicts: 0, overLimit: 3, more: false };
  expect((await retryMatching()).body).toEqual(rest);
  expect(await stores.tasks.counts("default")).toMatchObject({ pending: 3, cancelled: 3 });
  expectProblem(await retryMatching(), 429, "LIMIT_REACHED");
});

it("lets a tenant have no more leases when it asks for many at once", async () => {
  const { ask } = await open({ limits: { shortestTtlMs: 100, lateMs: null, leases: 3 } });
  await ask("POST", "/v1/locks/acquire", lock("own"));
  // Who is refused a lease that another one holds takes no room.
  for (let n = 0; n < 5; n += 1) await ask("POST", "/v1/locks/acquire", lock("own"));
  const asked = Array.from({ length: 20 }, (_, n) =>
    ask("POST", "/v1/locks/acquire", lock(`at-once-${n}`)),
  );
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(2);
  expect(statuses.filter((status) => status === 429)).toHaveLength(18);
});

it("lets a tenant pause so many things, and those again", async () => {
  const { ask, stores } = await open();
  const { pauses } = stores.control?.actors ?? {};
  if (!pauses) throw new Error("no control");
  for (let n = 0; n < 1_000; n += 1) {
    const pause = { namespace: "default", kind: "prefix", name: `p-${n}/` } as const;
    await pauses.set({ ...pause, actor: "a", reason: "test" });
  }
  const pause = (name: string) =>
    ask("PUT", "/v1/pauses", { kind: "prefix", name, reason: "one more" });
  expectProblem(await pause("another/"), 429, "LIMIT_REACHED");
  expect((await pause("p-7/")).status).toBe(200);
  expect((await ask("DELETE", "/v1/pauses?kind=prefix&name=p-7%2F")).status).toBe(200);
  expect((await pause("another/")).status).toBe(200);
});

it("lets a tenant have a thousand keys, until it revokes some", async () => {
  const { ask, stores } = await open({ auth: "none" });
  const { keys } = stores.control?.actors ?? {};
  if (!keys) throw new Error("no control");
  const role = "viewer";
  const own = { namespace: "default", name: "n", role, prefixes: [], lifetimeMs: null } as const;
  const ids = Array.from({ length: 1_000 }, (_, n) => n.toString(16).padStart(12, "0"));
  for (const id of ids) await keys.add({ ...own, id, digest: "0".repeat(64) });
  const make = () => ask("POST", "/v1/keys", { name: "n", role });
  const refused = await make();
  expectProblem(refused, 429, "LIMIT_REACHED");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  const rotate = (overlapMs: number) => ask("POST", `/v1/keys/${ids[7]}/rotate`, { overlapMs });
  expectProblem(await rotate(1), 429, "LIMIT_REACHED");
  expect((await rotate(0)).status).toBe(201);
  expect((await ask("DELETE", `/v1/keys/${ids[8]}`)).status).toBe(200);
  expect((await make()).status).toBe(201);

  const listed: string[] = [];
  let cursor = "";
  do {
    const { body } = await ask("GET", `/v1/keys?limit=200${cursor}`);
    listed.push(...body.items.map(({ id }: { id: string }) => id));
    cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`;
  } while (cursor !== "");
  expect(listed).toHaveLength(1_002);
  expect(listed.slice(2)).toEqual(ids.toReversed());
  expectProblem(await ask("GET", "/v1/keys?limit=201"), 422, "INVALID_REQUEST");
  expectProblem(await ask("GET", "/v1/keys?cursor=x"), 422, "INVALID_REQUEST");
});

it("lets so many claims of a tenant wait at once", async () => {
  const { ask } = await open({ limits: { shortestTtlMs: 100, lateMs: null, waiters: 1 } });
  const gone = new AbortController();
  const next = { processor: "w", waitMs: 30_000 };
  const waiting = ask("POST", "/api/tasks/next", next, { signal: gone.signal });
  expectProblem(await ask("POST", "/api/tasks/next", next), 429, "LIMIT_REACHED");
  // A waiter that has gone makes room.
  gone.abort();
  await waiting;
  expect((await ask("POST", "/api/tasks/next", { ...next, waitMs: 0 })).status).toBe(204);
});

it("refuses demands above what it can have under way, and serves who keeps a lease", async () => {
  const app = await open({ limits: { shortestTtlMs: 100, lateMs: null, inFlight: 1 } });
  const { ask, stores } = app;
  const { body } = await ask("POST", "/v1/locks/acquire", lock("kept"));
  const list = stores.leases.list.bind(stores.leases);
  const asked = new Promise<() => void>((onAsked) => {
    stores.leases.list = async (query) => {
      await new Promise<void>((resolve) => onAsked(resolve));
      return list(query);
    };
  });
  const listing = ask("GET", "/v1/leases");
  const answer = await asked;
  const refused = await ask("POST", "/v1/locks/acquire", lock("more"));
  expectProblem(refused, 429, "OVERLOADED");
  expect(refused.headers.get("retry-after")).toBe("1");
  expect((await ask("POST", `/v1/locks/${body.leaseId}/renew`)).status).toBe(200);
  expect((await ask("DELETE", `/v1/locks/${body.leaseId}`)).status).toBe(200);
  answer();
  expect((await listing).status).toBe(200);
  expect((await ask("POST", "/v1/locks/acquire", lock("more"))).status).toBe(200);
});

it("cuts off clients that send their request byte by byte, and refuses more connections than it may have", async () => {
  const asked = await open();
  const server = await listen({ app: asked.app, port: 0, maxConnections: 2, graceMs: 0 });
  opened.unshift(() => server.close());
  const dial = () => connectTcp(server.port, "127.0.0.1");
  const closed = (socket: ReturnType<typeof dial>) =>
    new Promise<void>((resolve) => {
      socket.on("error", () => {}).once("close", () => resolve());
    });
  const [one, two] = [dial(), dial()];
  await Promise.all([one, two].map((each) => new Promise((done) => each.once("connect", done))));
  await closed(dial());
  // The head never ends: 10 s later the server does.
  const cut = closed(one);
  one.write("GET /healthz HTTP/1.1\r\nHost: a\r\n");
  const dripping = setInterval(() => one.write("x"), 500);
  await cut;
  clearInterval(dripping);
  two.destroy();
}, 30_000);
