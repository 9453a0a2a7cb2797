import { expect, it, vi } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { ROUTE_RULES } from "../../../../tests/support/server/declared-routes.js";
import { TEST_LIMITS } from "../../../../tests/support/server/test-limits.js";

/** An app that refuses all demands, because it serves one that does not end. */
async function openFull(options: { basePath?: string } = {}) {
  const limits = { ...TEST_LIMITS, inFlight: 1 };
  const { app, stores } = await openTestApp({ limits, ...options });
  const reached = new Promise<void>((resolve) => {
    vi.spyOn(stores.leases, "list").mockImplementation(() => {
      resolve();
      return new Promise(() => {});
    });
  });
  void app.fetch(new Request(`http://localhost${options.basePath ?? ""}/v1/leases`));
  await reached;
  return {
    /** Whether it is refused by its head, and whether by the whole request. */
    async refuses(method: string, target: string): Promise<[head: boolean, whole: boolean]> {
      const head = app.refusal?.({ method, url: target, requestId: undefined }) !== null;
      const gone = new AbortController();
      const request = new Request(`http://localhost${target}`, { method, signal: gone.signal });
      const { status, body: stream } = await app.fetch(request);
      await stream?.cancel();
      gone.abort();
      return [head, status === 429];
    },
  };
}

/** A route of the table as a request names it. */
function requestOf(route: string): [method: string, path: string] {
  const [method = "", path = ""] = route.split(" ");
  return [method, path.replaceAll(/\{\w+\}/g, "abc.0123")];
}

it.each([...ROUTE_RULES.keys()])(
  "an overloaded server refuses %s, unless it is urgent",
  async (route) => {
    const { refuses } = await openFull();
    const demands = ROUTE_RULES.get(route)?.urgency === "demands";
    expect(await refuses(...requestOf(route))).toEqual([demands, demands]);
  },
);

it.each([
  ["POST", "/v1/locks#/renew"],
  ["POST", "/v1/leases/acquire#/renew"],
  ["POST", "/v1/locks/acquire?/renew"],
  ["POST", "/v1/locks/acquire?x=/healthz"],
  ["POST", "/v1/locks%23/renew"],
  ["POST", "/v1/locks%3F/renew"],
  ["POST", "/v1/locks%2Fx%2Frenew"],
  ["POST", "/v1/locks//renew"],
  ["POST", "//v1/leases/renew"],
  ["POST", "/v1/leases/renew/"],
  ["POST", "/v1/leases//renew"],
  ["POST", "/v1/leases/renew/../acquire"],
  ["POST", "/v1/leases/renew/%2e%2e/acquire"],
  ["POST", "/nothing/renew"],
  ["GET", "/v1/leases/renew"],
  ["DELETE", "/api/leases"],
  ["POST", "/below/api/tasks/next"],
  ["GET", "/pauses"],
  ["GET", "/v1/pauses"],
])("an overloaded server refuses %s %s, which is no urgent route", async (method, target) => {
  const { refuses } = await openFull();
  expect(await refuses(method, target)).toEqual([true, true]);
});

it.each([
  ["POST", "/v1/leases/%72enew"],
  ["POST", "/v1/leases/x/../renew"],
  ["POST", "/v1/leases/renew?#"],
  ["POST", "/v1/locks/a%2Eb/renew"],
  ["HEAD", "/healthz"],
])("an overloaded server serves %s %s, another spelling of an urgent route", async (...head) => {
  const { refuses } = await openFull();
  expect(await refuses(...head)).toEqual([false, false]);
});

it("knows urgent routes below the base path, and only there", async () => {
  const { refuses } = await openFull({ basePath: "/base" });
  expect(await refuses("POST", "/base/v1/leases/renew")).toEqual([false, false]);
  expect(await refuses("POST", "/base/v1/leases/acquire")).toEqual([true, true]);
  expect(await refuses("POST", "/v1/leases/renew")).toEqual([true, true]);
  expect(await refuses("POST", "/base/base/v1/leases/renew")).toEqual([true, true]);
});
