/** Operators that may act on some resources and queues alone. */
import { expect, it, test } from "vitest";
import { expectProblem, openTestApp, type Reply } from "../../../../../tests/support/server/app.js";
import { ROUTE_RULES } from "../../../../../tests/support/server/declared-routes.js";
import { createApiKey } from "../../../../leasehold/src/control/index.js";
import { systemEnv } from "../../../../leasehold/src/env/index.js";

async function open(limits: { prefixes?: string[]; queues?: string[] } = {}) {
  const opened = await openTestApp({ auth: "keys" });
  const { control } = opened.stores;
  if (!control) throw new Error("memory keeps keys");
  const newKey = async (role: "admin" | "operator", of: typeof limits) => {
    const order = { namespace: "default", name: role, role, lifetimeMs: null, prefixes: [], ...of };
    const { text } = await createApiKey(control, systemEnv.random, order, {
      actor: "test",
      reason: null,
    });
    return (method: string, path: string, body?: unknown): Promise<Reply> =>
      opened.ask(method, path, body, { headers: { authorization: `Bearer ${text}` } });
  };
  return { admin: await newKey("admin", {}), operator: await newKey("operator", limits) };
}

const reason = "because";
const LIMITS = { prefixes: ["shop/"], queues: ["mails"] };

test("resources outside of its prefixes are refused, in a batch too", async () => {
  const { admin, operator } = await open(LIMITS);
  for (const resource of ["shop/a", "shop/b", "blog/a"]) {
    await admin("POST", "/v1/locks/acquire", { resource, ownerId: "h" });
  }
  const revoke = (...resources: string[]) =>
    operator(
      "POST",
      "/v1/leases/revoke",
      resources.map((resource) => ({ resource, reason })),
    );
  const refused = await revoke("shop/a", "blog/a");
  expectProblem(refused, 403, "FORBIDDEN");
  expect(refused.body.detail).toBe(
    'not resources that begin with "blog/a": this operator\'s key is limited to resources that begin with "shop/" and the queues "mails"',
  );
  expect((await revoke("shop/a")).body).toMatchObject([{ status: "revoked" }]);
  const unlock = (resource: string) =>
    operator("POST", "/v1/locks/force-unlock", { resource, reason, actorId: "me" });
  expect((await unlock("blog/a")).status).toBe(403);
  expect((await unlock("shop/b")).status).toBe(200);
  // It reads as every operator does.
  expect((await operator("GET", "/v1/locks?prefix=blog/")).body.items).toHaveLength(1);
});

test("pauses of other resources, of wider prefixes and of other queues are refused", async () => {
  const { operator } = await open(LIMITS);
  for (const [kind, name, status] of [
    ["resource", "shop/a", 200],
    ["resource", "blog/a", 403],
    ["prefix", "shop/", 200],
    ["prefix", "shop/eu/", 200],
    ["prefix", "sho", 403],
    ["queue", "mails", 200],
    ["queue", "mails2", 403],
  ] as const) {
    const put = await operator("PUT", "/v1/pauses", { kind, name, reason });
    expect(put.status, `${kind} ${name}`).toBe(status);
    const query = new URLSearchParams({ kind, name, reason });
    expect((await operator("DELETE", `/v1/pauses?${query}`)).status).toBe(status);
  }
});

test("tasks of other queues are refused, by id, in a batch and by a filter", async () => {
  const { admin, operator } = await open(LIMITS);
  const add = async (queue: string) =>
    (await admin("POST", "/api/tasks", { task_data: {}, queue })).body.id as string;
  const [own, second, other] = [await add("mails"), await add("mails"), await add("reports")];
  expect((await operator("POST", `/api/tasks/${other}/cancel`)).status).toBe(403);
  expect((await operator("POST", "/api/tasks/cancel", [own, other])).status).toBe(403);
  expect((await operator("DELETE", `/api/tasks/${other}`)).status).toBe(403);
  expect((await operator("POST", `/api/tasks/${own}/cancel?reason=x`)).status).toBe(200);
  expect((await operator("POST", "/api/tasks/none/cancel?reason=x")).status).toBe(404);
  const bulk = (filter: object) =>
    operator("POST", "/api/tasks/bulk", { operation: "cancel", filter, reason });
  expect((await bulk({})).status).toBe(403);
  expect((await bulk({ queue: "reports" })).status).toBe(403);
  expect((await bulk({ queue: "mails" })).body).toMatchObject({ changed: 1 });
  expect((await admin("GET", `/api/tasks/${second}`)).body.state).toBe("cancelled");
  expect((await admin("GET", `/api/tasks/${other}`)).body.state).toBe("pending");
});

const CHECKED = [
  "POST /v1/leases/revoke",
  "POST /v1/locks/force-unlock",
  "PUT /v1/pauses",
  "DELETE /v1/pauses",
];
const others = [...ROUTE_RULES]
  .filter(([route, { need }]) => need === "operate" && !CHECKED.includes(route))
  .map(([route]) => route)
  .filter((route) => !route.includes(" /api/tasks/"));
it.each(others)("%s concerns the whole tenant, and is refused", async (route) => {
  const { operator } = await open(LIMITS);
  const [method = "", path = ""] = route.split(" ");
  const body = method === "GET" || method === "DELETE" ? undefined : {};
  const refused = await operator(method, path.replaceAll(/\{(\w+)\}/g, "1"), body);
  expectProblem(refused, 403, "FORBIDDEN");
  expect(refused.body.detail).toContain("an action that concerns the whole tenant");
});

test("prefixes alone allow no queue, queues alone no resource, and neither is no limit", async () => {
  const pause = { reason, name: "a" };
  const ofPrefixes = await open({ prefixes: [""] });
  const ofQueues = await open({ queues: ["a"] });
  const free = await open();
  const statuses = async ({ operator }: typeof free) => [
    (await operator("PUT", "/v1/pauses", { ...pause, kind: "resource" })).status,
    (await operator("PUT", "/v1/pauses", { ...pause, kind: "queue" })).status,
    (await operator("GET", "/v1/audit")).status,
  ];
  expect(await statuses(ofPrefixes)).toEqual([200, 403, 403]);
  expect(await statuses(ofQueues)).toEqual([403, 200, 403]);
  expect(await statuses(free)).toEqual([200, 200, 200]);
});

test("the limits of a key are given when it is created", async () => {
  const { admin } = await open();
  const create = (key: object) => admin("POST", "/v1/keys", { name: "n", ...key });
  const made = await create({ role: "operator", ...LIMITS });
  expect([made.status, made.body]).toEqual([201, expect.objectContaining(LIMITS)]);
  expect((await create({ role: "operator" })).status).toBe(201);
  expectProblem(await create({ role: "viewer", queues: ["a"] }), 422, "INVALID_REQUEST");
  expectProblem(await create({ role: "viewer", prefixes: ["a"] }), 422, "INVALID_REQUEST");
});
