/** A request without a TTL has the usual one, or what the server allows that is nearest. */
import { expect, it } from "vitest";
import { held, openTestApp } from "../../../../tests/support/server/app.js";

it.each([
  [{}, 30_000],
  [{ longestTtlMs: 10_000 }, 10_000],
  [{ shortestTtlMs: 45_000 }, 45_000],
])("with the limits %j", async (limits, ttlMs) => {
  const app = await openTestApp({ limits });
  const { ask } = app;
  const lock = await ask("POST", "/v1/locks/acquire", { resource: "a", ownerId: "ada" });
  expect(lock).toMatchObject({ status: 200, body: { ttlMs } });
  const lease = await ask("POST", "/api/leases", { resource: "b", holder: "ada" });
  expect(lease).toMatchObject({ status: 201, body: { ttlMs } });
  const { id, path, grant } = await held(app);
  expect((await ask("PUT", `${path}/heartbeat`, grant)).status).toBe(202);
  const many = await ask("POST", "/api/tasks/heartbeat", [{ id, ...grant }]);
  expect([many.status, many.body[0].status]).toEqual([200, "renewed"]);
});
