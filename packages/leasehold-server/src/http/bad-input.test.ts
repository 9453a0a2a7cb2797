/** Invalid input always gets a problem that names it, never a 500 or a crash. */
import { BOUNDS, toWireLeaseId } from "leasehold/internal/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Asked, openApp } from "../../../../tests/support/server/app.js";
import { GRANT, GRANT_ID, ID, LEASE_ID } from "../../../../tests/support/server/input-examples.js";
import { TEST_LIMITS } from "../../../../tests/support/server/test-limits.js";

let app: Asked;
beforeAll(async () => {
  // The limits of the routes, which are above that of a server by default.
  app = await openApp({ limits: { ...TEST_LIMITS, bodyBytes: BOUNDS.payloadBodyBytes } });
});
afterAll(() => app.close());

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

const TASK_LEASE_ID = toWireLeaseId("task:1", "0".repeat(48));

/** Method, path, body as sent, and the path of the first invalid field. */
const INVALID: readonly (readonly [string, string, unknown, string])[] = [
  [
    "POST",
    "/v1/leases/acquire",
    [{ leaseId: TASK_LEASE_ID, holder: "a", ttlMs: 1_000 }],
    "0.leaseId",
  ],
  ["POST", "/v1/leases/revoke", [{ resource: "task:1", free: "now" }], "0.resource"],
  ["PUT", "/v1/pauses", { kind: "resource", name: "task:1", reason: "r" }, "name"],
  ["PUT", "/v1/pauses", { kind: "prefix", name: "task:", reason: "r" }, "name"],
  ["POST", "/api/tasks", {}, "task_data"],
  ["POST", "/api/tasks", 3, ""],
  ["POST", "/api/tasks", null, ""],
  ["POST", "/api/tasks", "[]", ""],
  ["POST", "/api/tasks", [{ task_data: 1 }, {}], "1.task_data"],
  ["POST", "/api/tasks", { task_data: 1, taskdata: 1 }, "taskdata"],
  ["POST", "/api/tasks", { task_data: 1, kind: "" }, "kind"],
  ["POST", "/api/tasks", { task_data: 1, kind: 1 }, "kind"],
  ["POST", "/api/tasks", { task_data: 1, kind: "x".repeat(257) }, "kind"],
  ["POST", "/api/tasks", { task_data: 1, kind: "é".repeat(129) }, "kind"],
  ["POST", "/api/tasks", { task_data: 1, queue: "a\0b" }, "queue"],
  ["POST", "/api/tasks", '{"task_data":1,"queue":"\\ud800"}', "queue"],
  ["POST", "/api/tasks", { task_data: 1, priority: 1.5 }, "priority"],
  ["POST", "/api/tasks", { task_data: 1, priority: 32_768 }, "priority"],
  ["POST", "/api/tasks", { task_data: 1, priority: "1" }, "priority"],
  ["POST", "/api/tasks", { task_data: 1, maxAttempts: 0 }, "maxAttempts"],
  ["POST", "/api/tasks", { task_data: 1, backoff: { firstMs: -1 } }, "backoff.firstMs"],
  ["POST", "/api/tasks", { task_data: 1, scheduled_at: "tomorrow" }, "scheduled_at"],
  ["POST", "/api/tasks", { task_data: 1, scheduled_at: "2020-01-01T00:00:00" }, "scheduled_at"],
  ["POST", "/api/tasks", { task_data: 1, scheduled_at: "2020-02-30T00:00:00Z" }, "scheduled_at"],
  ["POST", "/api/tasks", { task_data: 1, scheduled_at: "0000-01-01T00:00:00Z" }, "scheduled_at"],
  ["POST", "/api/tasks", { task_data: 1, scheduled_at: 1 }, "scheduled_at"],
  ["POST", "/api/tasks", { task_data: 1, id: ".." }, "id"],
  ["POST", "/api/tasks", '{"task_data":1,"__proto__":{"kind":"a"}}', "__proto__"],
  ["POST", "/api/tasks", '{"task_data":1,"constructor":1}', "constructor"],
  ["POST", "/api/tasks", '{"task_data":[1e999]}', "task_data.0"],
  ["POST", "/api/tasks", `{"task_data":${deep(BOUNDS.depth + 1)}}`, "task_data.0"],
  ["POST", "/api/tasks", `{"task_data":${deep(500_000)}}`, "task_data.0"],
  ["POST", "/api/tasks", deep(500_000), "0"],
  // JSON.stringify recurses: what is too deep must be refused before its size is taken.
  [
    "PUT",
    `/api/tasks/${ID}/heartbeat`,
    `{"leaseId":"${LEASE_ID}","fencingToken":1,"checkpoint":${deep(20_000)}}`,
    "checkpoint.0",
  ],
  [
    "POST",
    "/v1/once/succeed",
    `{"leaseId":"${toWireLeaseId("once:x", "0".repeat(48))}","token":1,"value":${deep(20_000)}}`,
    "value.0",
  ],
  ["POST", "/api/tasks", `{"task_data":[${Array(10).fill(deep(BOUNDS.depth - 1))}]}`, ""],
  ["POST", "/api/tasks", `[{"task_data":[${Array(10).fill(deep(BOUNDS.depth - 1))}]}]`, ""],
  ["POST", "/v1/leases/get", `[${Array(10).fill(deep(BOUNDS.depth - 1))}]`, ""],
  ["POST", "/api/tasks/next", {}, "processor"],
  ["POST", "/api/tasks/next", { processor: "p", limit: 0 }, "limit"],
  ["POST", "/api/tasks/next", { processor: "p", limit: 101 }, "limit"],
  ["POST", "/api/tasks/next", { processor: "p", waitMs: 30_001 }, "waitMs"],
  ["POST", "/api/tasks/next", { processor: "p", ttlMs: 99 }, "ttlMs"],
  ["POST", "/api/tasks/next", { processor: "p", ttlMs: 2 ** 31 }, "ttlMs"],
  ["POST", "/api/tasks/next", { processor: "p", ttlMs: 1_000.5 }, "ttlMs"],
  ["POST", "/api/tasks/next", '{"processor":"p","ttlMs":1e999}', "ttlMs"],
  ["POST", "/api/tasks/next", { processor: "p", ttlSeconds: 0.01 }, "ttlSeconds"],
  ["POST", "/api/tasks/next", { processor: "p", ttlSeconds: -1 }, "ttlSeconds"],
  ["POST", "/api/tasks/next", { processor: "p", ttlMs: 1_000, ttlSeconds: 1 }, "ttlSeconds"],
  ["POST", "/api/tasks/next", { processor: "p", queues: [] }, "queues"],
  ["POST", "/api/tasks/next", { processor: "p", queues: [""] }, "queues.0"],
  ["POST", "/api/tasks/next", { processor: "p", kinds: "a" }, "kinds"],
  ["POST", "/api/tasks/next", { processor: "p", kinds: [] }, "kinds"],
  ["POST", "/api/tasks/next", { processor: "p", claimId: "1" }, "claimId"],
  ["PUT", `/api/tasks/${ID}/heartbeat`, {}, "leaseId"],
  ["PUT", `/api/tasks/${ID}/heartbeat`, { ...GRANT, ttlMs: 1 }, "ttlMs"],
  ["PUT", `/api/tasks/${ID}/heartbeat`, { ...GRANT, leaseId: "\0" }, "leaseId"],
  ["PUT", `/api/tasks/${ID}/complete`, { ...GRANT, fencingToken: "1" }, "fencingToken"],
  [
    "PUT",
    `/api/tasks/${ID}/heartbeat`,
    { ...GRANT, checkpoint: "x".repeat(64 * 1024) },
    "checkpoint",
  ],
  [
    ...(["PUT", `/api/tasks/${ID}/complete`] as const),
    `{"leaseId":"${GRANT.leaseId}","fencingToken":9007199254740993}`,
    "fencingToken",
  ],
  ["PUT", `/api/tasks/${ID}/complete`, { ...GRANT, output: 1 }, "output"],
  ["PUT", `/api/tasks/${ID}/fail`, GRANT, "error"],
  ["PUT", `/api/tasks/${ID}/fail`, { ...GRANT, error: "", retryInMs: -1 }, "retryInMs"],
  ["PUT", `/api/tasks/${ID}/fail`, { ...GRANT, error: "", retryInMs: 0, final: true }, "retryInMs"],
  ["PUT", `/api/tasks/${ID}/return`, { ...GRANT, error: "" }, "error"],
  ["POST", "/api/tasks/heartbeat", [{ id: ID, ...GRANT, ttlMs: 1 }], "0.ttlMs"],
  ["POST", "/api/tasks/complete", [], ""],
  [
    ...(["POST", "/api/tasks/fail"] as const),
    [{ id: ID, ...GRANT, error: "", retryInMs: 0, final: true }],
    "0.retryInMs",
  ],
  ["POST", "/api/tasks/cancel", [1], "0"],
  ["PUT", "/api/generator/rate", { ratePerSecond: 0 }, "ratePerSecond"],
  ["PUT", "/api/generator/rate", { ratePerSecond: 1_001 }, "ratePerSecond"],
  ["PUT", "/api/generator/rate", {}, "ratePerSecond"],
  ["POST", "/v1/leases/acquire", {}, ""],
  ["POST", "/v1/leases/acquire", [], ""],
  ["POST", "/v1/leases/acquire", Array(1_001).fill(1), ""],
  ["POST", "/v1/leases/acquire", [{ leaseId: LEASE_ID, holder: "h", ttlMs: 99 }], "0.ttlMs"],
  ["POST", "/v1/leases/acquire", [{ leaseId: "x", holder: "h", ttlMs: 999 }], "0.leaseId"],
  ["POST", "/v1/leases/acquire", [{ leaseId: LEASE_ID, holder: "\0", ttlMs: 999 }], "0.holder"],
  ["POST", "/v1/leases/renew", [{ leaseId: `cg==.${"0".repeat(48)}`, ttlMs: 999 }], "0.leaseId"],
  ["POST", "/v1/leases/renew", [{ leaseId: `_w.${"0".repeat(48)}`, ttlMs: 999 }], "0.leaseId"],
  ["POST", "/v1/leases/renew", [{ leaseId: `ch.${"0".repeat(48)}`, ttlMs: 999 }], "0.leaseId"],
  ["POST", "/v1/leases/release", [{ leaseId: toWireLeaseId("", "0".repeat(48)) }], "0.leaseId"],
  ["POST", "/v1/leases/release", [{ leaseId: toWireLeaseId("a\0", "0".repeat(48)) }], "0.leaseId"],
  ["POST", "/v1/leases/revoke", [{ resource: "r", free: "soon" }], "0.free"],
  ["POST", "/v1/leases/get", [""], "0"],
  ["POST", "/v1/leases/collect", { olderThanMs: -1 }, "olderThanMs"],
  ["GET", "/v1/leases?prefix=%00", undefined, "prefix"],
  ["GET", "/v1/leases?cursor=%00", undefined, "cursor"],
  ["GET", "/v1/leases?cursor=zbogus", undefined, "cursor"],
  ["GET", "/v1/leases?renewedOnly=yes", undefined, "renewedOnly"],
  ["GET", "/v1/leases?state=dead", undefined, "state"],
  ["GET", "/v1/leases?limit=0", undefined, "limit"],
  ["GET", "/v1/leases?state=released&heldForMs=1", undefined, "heldForMs"],
  ["GET", "/v1/leases?state=expired&expiringWithinMs=1", undefined, "expiringWithinMs"],
  ["POST", "/v1/locks/acquire", { resource: "r" }, "ownerId"],
  ["POST", "/v1/locks/acquire", { resource: "", ownerId: "o" }, "resource"],
  ["POST", "/v1/locks/acquire", { resource: "r", ownerId: "o", ttlSeconds: 0 }, "ttlSeconds"],
  ["POST", "/v1/locks/acquire", { resource: "r", ownerId: "o", ttl: 60 }, "ttl"],
  ["POST", "/v1/locks/acquire", { resource: "r", ownerId: "o", leaseId: "lease_abc" }, "leaseId"],
  ["POST", `/v1/locks/${LEASE_ID}/renew`, { ttlMs: 99 }, "ttlMs"],
  ["POST", `/v1/locks/${LEASE_ID}/renew`, { ttlMs: 1_000, ttlSeconds: 1 }, "ttlSeconds"],
  ["GET", "/v1/locks?prefix=%00", undefined, "prefix"],
  ["GET", "/v1/locks?cursor=zbogus", undefined, "cursor"],
  ["GET", "/v1/locks?resource=r&prefix=p", undefined, "prefix"],
  ["GET", "/v1/locks?resource=r&cursor=after:r", undefined, "cursor"],
  ["POST", "/api/leases", { resource: "r" }, "holder"],
  ["POST", "/api/leases", { resource: "r", holder: "h", ttlMs: 99 }, "ttlMs"],
  ["PUT", "/api/leases/renew", {}, "resource"],
  ["DELETE", "/api/leases/release", { resource: "r" }, "holder"],
  ["DELETE", `/api/leases/${GRANT_ID}`, { leaseId: "x" }, "leaseId"],
  ["GET", "/api/leases/active?limit=0", undefined, "limit"],
  ["GET", "/api/leases?cursor=x", undefined, "cursor"],
  ["GET", "/api/tasks?limit=201", undefined, "limit"],
  ["GET", "/api/tasks?limit=1e2", undefined, "limit"],
  ["GET", "/api/tasks?limit=1&limit=2", undefined, "limit"],
  ["GET", "/api/tasks?cursor=", undefined, "cursor"],
  ["GET", "/api/tasks?cursor=page2", undefined, "cursor"],
  ["GET", "/api/tasks?state=odd", undefined, "state"],
  ["GET", "/api/tasks?queue=", undefined, "queue"],
  ["GET", "/api/tasks?kind=a%00", undefined, "kind"],
  ["GET", "/api/tasks/pending?state=done", undefined, "state"],
  ["GET", "/api/tasks?__proto__=1", undefined, "__proto__"],
  ["GET", "/api/tasks/leases?cursor=zbogus", undefined, "cursor"],
  ["GET", "/v1/resource?name=r&cursor=zbogus", undefined, "cursor"],
  ["POST", "/api/tasks", { task_data: 1, version: 0 }, "version"],
  ["POST", "/api/tasks/next", { processor: "p", kinds: ["k"], versions: { k: 0 } }, "versions.k"],
  ["PUT", "/v1/schedules/s", {}, "task"],
  ["PUT", "/v1/schedules/s", { task: { kind: "k", data: 1 } }, "cron"],
  ["GET", "/v1/schedules?cursor=zbogus", undefined, "cursor"],
  ["PUT", "/v1/tasks/limits", { scope: "kind", name: "k" }, "running"],
  ["PUT", "/v1/tasks/limits", { scope: "kind", name: "k", running: 0 }, "running"],
  ["DELETE", "/v1/tasks/limits?scope=fleet&name=k", undefined, "scope"],
  ["POST", "/v1/schedules/s/run?taskId=", undefined, "taskId"],
  ["GET", "/v1/locks?limt=5", undefined, "limt"],
  ["POST", "/api/tasks?queue=x", { task_data: 1 }, "queue"],
  ["POST", "/v1/leases/acquire?resource=r", [], "resource"],
  ["PUT", `/api/tasks/${ID}/complete?leaseId=x`, GRANT, "leaseId"],
  ["GET", "/v1/whoami?a=1", undefined, "a"],
  ["GET", "/v1/audit?target=a%00b", undefined, "target"],
  ["GET", "/v1/audit?action=lease.revok", undefined, "action.0"],
  ["GET", "/v1/audit?action=lease.revoke&action=x", undefined, "action.1"],
  ["POST", "/v1/locks/force-unlock", { resource: "r", reason: "  " }, "reason"],
  ["PUT", "/v1/pauses", { kind: "resource", name: "r", reason: "\t\n" }, "reason"],
  ["POST", "/v1/leases/collect", { olderThanMs: 1, reason: " " }, "reason"],
  ["POST", `/api/tasks/${ID}/cancel?reason=%20`, undefined, "reason"],
  ["PUT", "/v1/limits", {}, ""],
  ["PUT", "/v1/limits", { reason: "why" }, ""],
  ["GET", "/openapi.json?version=2", undefined, "version"],
  ["GET", "/v1/events?off=leases", undefined, "off"],
];

describe("a problem names the invalid field", () => {
  for (const [method, path, body, field] of INVALID) {
    const shown = (typeof body === "string" ? body : JSON.stringify(body))?.slice(0, 60) ?? "";
    test(`${method} ${path.replace(ID, "{id}")} ${shown}`, async () => {
      const reply = await app.ask(method, path, body);
      expect(reply.body).toMatchObject({ status: 422, code: "INVALID_REQUEST" });
      expect(reply.status).toBe(422);
      expect(reply.body.errors.length).toBeGreaterThan(0);
      const [first] = reply.body.errors;
      // The problem has the whole path of a nested field.
      if (String(body).includes("[[[")) {
        expect(first.path.startsWith(field)).toBe(true);
      } else expect(first.path).toBe(field);
      expect(first.problem).not.toBe("");
    });
  }
});

test("an unknown query parameter is named with those of the route", async () => {
  const problemAt = async (path: string) => {
    const { status, body } = await app.ask("GET", path);
    return [status, ...body.errors];
  };
  const has = "is not a query parameter of this route, whose parameters are seconds";
  expect(await problemAt("/v1/overview?second=1&sec=2&seconds=3")).toEqual([
    422,
    { path: "second", problem: has },
    { path: "sec", problem: has },
  ]);
  const none = "is not a query parameter of this route, which has none";
  expect(await problemAt("/v1/whoami?seconds=1")).toEqual([
    422,
    { path: "seconds", problem: none },
  ]);
});

test("a probe with a query is answered as one without", async () => {
  for (const path of ["/healthz?verbose", "/readyz?a=1"]) {
    expect((await app.ask("GET", path)).status, path).toBe(200);
  }
});

test("a path without a route and another method say so, whatever the query", async () => {
  expect((await app.ask("GET", "/v1/nothing?a=1")).status).toBe(404);
  expect((await app.ask("PATCH", "/v1/locks?a=1")).status).toBe(405);
});

test("a body that is not JSON is 400", async () => {
  for (const body of ["", "{", "{'a':1}", "undefined", "NaN", '{"a":1}}', "\u0000", "[1,]"]) {
    const { status, body: problem } = await app.ask("POST", "/api/tasks", body);
    expect([body, status, problem.code]).toEqual([body, 400, "MALFORMED_JSON"]);
  }
});

test("brackets in strings are not nesting, and many shallow values are not too many", async () => {
  const text = `\\"${"[{".repeat(50_000)}`;
  for (const data of [text, { [text]: 1 }, Array(40_000).fill([[]])]) {
    expect((await app.ask("POST", "/api/tasks", { task_data: data })).status).toBe(201);
  }
});

/** Programs that read it may go by either. */
const TWICE = "application/json; charset=utf-8; charset=latin1";

test("a body with another content type is 415", async () => {
  for (const type of [
    "application/jsonx",
    "multipart/form-data; boundary=x",
    "text/xml",
    "x",
    TWICE,
  ]) {
    const headers = { "content-type": type };
    const { status, body } = await app.ask("POST", "/api/tasks", { task_data: 1 }, { headers });
    expect([type, status, body.code]).toEqual([type, 415, "UNSUPPORTED_MEDIA_TYPE"]);
  }
});

test("JSON may have a charset", async () => {
  const headers = { "content-type": "application/json; charset=utf-8" };
  const reply = await app.ask("POST", "/api/tasks", '{"task_data":1}', { headers });
  expect(reply.status).toBe(201);
  expect((await app.ask("GET", `/api/tasks/${reply.body.id}`)).body.task_data).toBe(1);
});

test("task data is returned as it was sent, unusual keys included", async () => {
  const text = '{"__proto__":{"x":1},"constructor":null,"":[],"\\u0000":"\\ud800"}';
  const { body } = await app.ask("POST", "/api/tasks", `{"task_data":${text}}`);
  const { body: task } = await app.ask("GET", `/api/tasks/${body.id}`);
  expect(JSON.stringify(task.task_data)).toBe(text);
  expect(({} as { x?: number }).x).toBe(undefined);
});

test("the body limit is exact to the byte, with and without a declared length", async () => {
  const limits = [
    ["PUT", "/api/generator/rate", BOUNDS.bodyBytes],
    ["POST", "/api/tasks/next", BOUNDS.bodyBytes],
    ["POST", "/v1/leases/release", BOUNDS.batchBodyBytes],
    ["POST", "/api/tasks/cancel", BOUNDS.bodyBytes],
    ["PUT", `/api/tasks/${ID}/return`, BOUNDS.bodyBytes],
    ["POST", "/api/tasks/return", BOUNDS.batchBodyBytes],
    ["POST", "/api/tasks", BOUNDS.payloadBodyBytes],
    ["PUT", `/api/tasks/${ID}/complete`, BOUNDS.payloadBodyBytes],
  ] as const;
  for (const [method, path, bytes] of limits) {
    for (const [length, within] of [
      [bytes, true],
      [bytes + 1, false],
    ] as const) {
      const body = `"${"x".repeat(length - 2)}"`;
      for (const headers of [{}, { "content-length": `${length}` }]) {
        const reply = await app.ask(method, path, body, { headers });
        expect([path, length, reply.status]).toEqual([path, length, within ? 422 : 413]);
        if (!within) expect(reply.body.code).toBe("BODY_TOO_LARGE");
      }
    }
  }
});

test("an unknown method of a path is 405 with the allowed methods", async () => {
  for (const [method, path, allow] of [
    ["DELETE", "/api/tasks", "GET, POST"],
    ["PATCH", `/api/tasks/${ID}`, "GET, DELETE"],
    ["GET", "/api/tasks/next", "POST"],
    ["POST", `/api/tasks/${ID}/heartbeat`, "PUT"],
    ["PUT", "/api/tasks/heartbeat", "POST"],
    ["GET", `/api/tasks/${ID}/cancel`, "POST"],
    ["POST", "/api/tasks/processed", "GET"],
    ["GET", "/api/generator/start", "POST"],
    ["GET", "/v1/leases/acquire", "POST"],
    ["GET", "/v1/locks/acquire", "POST"],
    ["PUT", `/v1/locks/${LEASE_ID}`, "GET, DELETE"],
    ["PUT", `/v1/locks/${LEASE_ID}/renew`, "POST"],
    ["POST", "/v1/locks", "GET"],
    ["PUT", "/api/leases", "GET, POST"],
    ["POST", "/api/leases/renew", "PUT"],
    ["POST", "/api/leases/active", "GET"],
    ["PUT", `/api/leases/${GRANT_ID}`, "GET, DELETE"],
    ["OPTIONS", "/api/generator", "GET"],
    ["BREW", "/healthz", "GET"],
  ] as const) {
    const { status, body, headers } = await app.ask(method, path);
    expect([path, status, body.code]).toEqual([path, 405, "METHOD_NOT_ALLOWED"]);
    expect(headers.get("allow")).toBe(allow);
  }
});

test.each([
  ["POST", `/api/tasks/${ID}/cancel?reason=`, "reason", "must not be blank"],
  ["GET", "/v1/locks?prefix=a&prefix=b", "prefix", "is given more than once"],
  ["GET", "/api/tasks?limit=1&limit=2", "limit", "is given more than once"],
  [
    "GET",
    `/api/tasks?${`id=${ID}&`.repeat(201)}`,
    "id",
    "Too big: expected array to have <=200 items",
  ],
  ["GET", "/v1/events?of=leases&of=tasks", "of", "is given more than once"],
  ["GET", "/v1/leases?renewedOnly=true&renewedOnly=true", "renewedOnly", "is given more than once"],
])("%s %s has one problem, in words for the caller", async (method, path, field, problem) => {
  const { body } = await app.ask(method, path);
  expect(body.errors).toEqual([{ path: field, problem }]);
});

test("names at most 20 invalid fields, and says how many there are", async () => {
  const unknown = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`k${index}`, 1]));
  const refused = await app.ask("POST", "/api/tasks/next", { processor: "p", ...unknown });
  expect(refused.body.errors).toHaveLength(20);
  expect(refused.body.errors[19]).toEqual({ path: "k19", problem: "is not a known field" });
  expect(refused.body.detail).toBe(
    "k0: is not a known field (errors has 20 of 3000 invalid fields)",
  );
  const few = Object.fromEntries(Object.entries(unknown).slice(0, 20));
  const all = await app.ask("POST", "/api/tasks/next", { processor: "p", ...few });
  expect(all.body.errors).toHaveLength(20);
  expect(all.body.detail).toBe("k0: is not a known field");
});

test("cuts the name of an unknown field that is very long", async () => {
  const refused = await app.ask("POST", "/api/tasks/next", { ["x".repeat(60_000)]: 1 });
  const paths = refused.body.errors.map(({ path }: { path: string }) => path);
  expect(paths).toContain(`${"x".repeat(256)}…`);
});
