import { BUDGET_HEADER } from "leasehold/internal/wire";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { TEST_LIMITS } from "../../../../tests/support/server/test-limits.js";
import { listen } from "./index.js";

test.each([
  [200, "GET", "/healthz", undefined],
  [200, "GET", "/openapi.json", undefined],
  [200, "GET", "/v1/locks", undefined],
  [200, "POST", "/v1/locks/acquire", { resource: "r", ownerId: "o" }],
  [201, "POST", "/v1/keys", { name: "n", role: "admin" }],
  [204, "POST", "/api/tasks/next", { processor: "p" }],
  [404, "GET", "/nothing", undefined],
  [405, "PATCH", "/v1/keys", undefined],
  [422, "POST", "/v1/keys", {}],
  [501, "GET", "/metrics", undefined],
])(
  "an answer of the API with %i is stored nowhere, and read as its type alone",
  async (...args) => {
    const [expected, method, path, body] = args;
    const { ask } = await openTestApp();
    const { status, headers } = await ask(method, path, body);
    expect(status).toBe(expected);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  },
);

test("so is a stream, which keeps its own rules", async () => {
  const { app } = await openTestApp();
  const gone = new AbortController();
  const stream = new Request("http://localhost/v1/events", { signal: gone.signal });
  const { headers, body } = await app.fetch(stream);
  await body?.cancel();
  expect(headers.get("cache-control")).toBe("no-store, no-transform");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
});

test("so is a refusal before the app", async () => {
  const { stores, app, ask } = await openTestApp({ limits: { ...TEST_LIMITS, inFlight: 1 } });
  const asked = vi.spyOn(stores.tasks, "enqueue").mockReturnValue(new Promise(() => {}));
  const server = await listen({ app, port: 0 });
  onTestFinished(() => server.close());
  void ask("POST", "/api/tasks", { task_data: 1 });
  await vi.waitUntil(() => asked.mock.calls.length === 1);
  // An overloaded server keeps a caller waiting for half of its budget, and for 2 s at most.
  const headers = { [BUDGET_HEADER]: "2" };
  const refused = await fetch(`${server.url}/v1/locks`, { headers });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("cache-control")).toBe("no-store");
  expect(refused.headers.get("x-content-type-options")).toBe("nosniff");
});
