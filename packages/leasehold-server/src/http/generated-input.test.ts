/** Generated input never gets a 500. */
import fc from "fast-check";
import { systemEnv } from "leasehold/internal";
import { pglite } from "leasehold/stores/postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPglite } from "../../../../tests/support/engines/pglite.js";
import { type Asked, openApp } from "../../../../tests/support/server/app.js";
import { GRANT, GRANT_ID, ID, LEASE_ID } from "../../../../tests/support/server/input-examples.js";

let app: Asked;
beforeAll(async () => {
  app = await openApp();
});
afterAll(() => app.close());

/** Only the store knows that a lease id was used before. */
const REUSED = /names a grant of the holder .*: choose a new lease id/;

describe("generated requests", () => {
  const LEASE = { leaseId: LEASE_ID };
  /** Valid requests to corrupt. */
  const RIGHT: readonly (readonly [string, string, unknown])[] = [
    ["POST", "/api/tasks", { task_data: 1 }],
    ["POST", "/api/tasks", [{ task_data: 1 }, { task_data: 2, queue: "q" }]],
    ["POST", "/api/tasks/next", { processor: "p" }],
    ["PUT", "/v1/schedules/s", { everyMs: 3_600_000, task: { kind: "k", data: 1 } }],
    ["PUT", `/api/tasks/${ID}/heartbeat`, GRANT],
    ["PUT", `/api/tasks/${ID}/complete`, { ...GRANT, task_output: {} }],
    ["PUT", `/api/tasks/${ID}/fail`, { ...GRANT, error: "" }],
    ["PUT", `/api/tasks/${ID}/return`, GRANT],
    ["POST", `/api/tasks/${ID}/cancel`, undefined],
    ["POST", "/api/tasks/heartbeat", [{ id: ID, ...GRANT }]],
    ["POST", "/api/tasks/complete", [{ id: ID, ...GRANT }]],
    ["POST", "/api/tasks/fail", [{ id: ID, ...GRANT, error: "" }]],
    ["POST", "/api/tasks/return", [{ id: ID, ...GRANT }]],
    ["POST", "/api/tasks/retry", [ID]],
    ["PUT", "/api/generator/rate", { ratePerSecond: 1 }],
    ["POST", "/api/generator/start", undefined],
    ["POST", "/v1/leases/acquire", [{ ...LEASE, holder: "h", ttlMs: 1_000 }]],
    ["POST", "/v1/leases/renew", [{ ...LEASE, ttlMs: 1_000 }]],
    ["POST", "/v1/leases/release", [LEASE]],
    ["POST", "/v1/leases/revoke", [{ resource: "r" }]],
    ["POST", "/v1/leases/get", ["r"]],
    ["POST", "/v1/leases/collect", { olderThanMs: 0 }],
    ["POST", "/v1/locks/acquire", { resource: "r", ownerId: "o" }],
    ["POST", `/v1/locks/${LEASE_ID}/renew`, { ttlSeconds: 1 }],
    ["POST", `/v1/locks/${LEASE_ID}/renew`, undefined],
    ["DELETE", `/v1/locks/${LEASE_ID}`, undefined],
    ["POST", "/api/leases", { resource: "r", holder: "h" }],
    ["PUT", "/api/leases/renew", { resource: "r", holder: "h" }],
    ["DELETE", "/api/leases/release", LEASE],
    ["DELETE", `/api/leases/${GRANT_ID}`, { resource: "r", holder: "h" }],
    ...["/v1/locks", `/v1/locks/${LEASE_ID}`, "/api/leases", `/api/leases/${GRANT_ID}`].map(
      (path) => ["GET", path, undefined] as const,
    ),
    ...["active", "expired", "renewed", "released"].map(
      (name) => ["GET", `/api/leases/${name}`, undefined] as const,
    ),
    ...["/api/tasks", "/api/tasks/dead", "/api/tasks/counts", "/v1/leases", "/readyz"].map(
      (path) => ["GET", path, undefined] as const,
    ),
  ];
  const PATHS = [...new Set(RIGHT.map(([, path]) => path))];
  const KEYS = [
    "task_data",
    "kind",
    "queue",
    "priority",
    "scheduled_at",
    "dedupeKey",
    "id",
    "processor",
    "limit",
    "waitMs",
    "ttlMs",
    "ttlSeconds",
    "queues",
    "kinds",
    "claimId",
    "leaseId",
    "fencingToken",
    "task_output",
    "error",
    "retryInMs",
    "final",
    "progress",
    "ratePerSecond",
    "ownerId",
    "holder",
    "resource",
    "free",
    "expectedToken",
    "metadata",
    "queueMs",
    "olderThanMs",
    "__proto__",
    "constructor",
    "toString",
    "length",
  ];
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.constantFrom("p", ID, LEASE_ID, GRANT.leaseId, "\0", "\ud800", "2020-01-01T00:00:00Z"),
    fc.constantFrom(-1, 0, 1, 1_000, 2 ** 31, 2 ** 53, 1e308, 1.5, null, true, [], {}),
  );
  const spoilt = fc.oneof(
    { weight: 8, arbitrary: fc.dictionary(fc.constantFrom(...KEYS), value, { maxKeys: 2 }) },
    { weight: 1, arbitrary: value },
  );
  /** Merges changes into the body, or replaces it. */
  const spoil = (body: unknown, change: unknown): unknown => {
    if (typeof change !== "object" || change === null || Array.isArray(change)) return change;
    if (Array.isArray(body)) return body.map((item) => spoil(item, change));
    return typeof body === "object" && body !== null ? { ...body, ...change } : body;
  };
  // Waiting for a task is valid, but takes too long for the test.
  const noWait = (text: string) => text.replace(/"waitMs":\d[^,}]*/g, '"waitMs":0');

  /** Sends corrupted requests to an app and returns the statuses. */
  async function spoilAll({ ask }: Asked, numRuns: number): Promise<Set<number>> {
    const statuses = new Set<number>();
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...RIGHT), spoilt, async ([method, path, right], change) => {
        const body = spoil(right, change);
        const text = right === undefined ? undefined : noWait(JSON.stringify(body) ?? "");
        const reply = await ask(method, path, text);
        statuses.add(reply.status);
        const answer = JSON.stringify(reply.body);
        expect(reply.status, answer).toBeLessThan(500);
        for (const outcome of Array.isArray(reply.body) ? reply.body : []) {
          // Null: a resource without a lease.
          if (outcome?.status === "failed") expect(outcome.error.message, answer).toMatch(REUSED);
        }
        if (reply.status >= 400) expect(reply.body.status).toBe(reply.status);
      }),
      { numRuns },
    );
    return statuses;
  }

  test("with known fields and any values never fail the server", async () => {
    const statuses = await spoilAll(app, 1_500);
    // Some requests pass the first check.
    for (const status of [200, 201, 404, 422]) expect(statuses).toContain(status);
  });

  test("never reach the database with values that it cannot store", async () => {
    const db = await openPglite();
    const stores = await pglite({ db }).open(systemEnv);
    const onSql = await openApp(stores);
    try {
      await spoilAll(onSql, 300);
    } finally {
      await onSql.close();
      await stores.close();
      await db.close();
    }
  });

  test("with any bytes, paths and queries never fail the server", async () => {
    const path = fc.oneof(
      fc.webPath(),
      fc.constantFrom(...PATHS).map((path) => path.replace("a", "%61")),
      fc.string({ unit: "binary-ascii" }).map((text) => `/api/tasks/${encodeURI(text)}`),
    );
    const query = fc.oneof(fc.webQueryParameters(), fc.constant("a=%ZZ&%"), fc.constant("=&&="));
    const content = fc.uint8Array({ maxLength: 64 });
    const headers = fc.constantFrom(
      {},
      { "content-type": "application/json" },
      { "leasehold-budget-ms": "1e9" },
    );
    await fc.assert(
      fc.asyncProperty(path, query, content, headers, async (path, query, bytes, headers) => {
        const url = `http://localhost${path}?${query}`;
        const request = new Request(url, { method: "POST", body: bytes.slice().buffer, headers });
        const { status } = await app.app.fetch(request);
        expect(status).toBeLessThan(500);
      }),
      { numRuns: 500 },
    );
  });
});
