/** Reports of a holder that repeat, or come after its grant has ended. */
import { expect, test } from "vitest";
import { held, openTestApp } from "../../../../../tests/support/app.js";

test("after a failure or a return, a report is refused because the grant has ended", async () => {
  const app = await openTestApp();
  for (const report of ["fail", "return"]) {
    const { path, grant } = await held(app);
    const { leaseId, fencingToken } = grant;
    const own = { leaseId, fencingToken };
    const error = report === "fail" ? { error: "no" } : {};
    expect((await app.ask("PUT", `${path}/${report}`, { ...own, ...error })).status).toBe(202);
    const { status, body } = await app.ask("PUT", `${path}/heartbeat`, { ...own, ttlMs: 1_000 });
    expect({ status, body }).toMatchObject({
      status: 409,
      body: {
        code: "LEASE_EXPIRED",
        detail:
          "this grant has ended: it expired, or its holder or an operator ended it; abandon the work",
      },
    });
    await app.ask("POST", `${path}/cancel`);
  }
});

test("another failure of the same grant is answered as the first, and says that it repeats", async () => {
  const app = await openTestApp();
  const { id, path, grant } = await held(app);
  const { leaseId, fencingToken } = grant;
  const report = { leaseId, fencingToken, error: "first", retryInMs: 3_600_000 };
  const recorded = { id, state: "pending", retryInMs: expect.any(Number) };
  const first = await app.ask("PUT", `${path}/fail`, report);
  expect(first).toMatchObject({ status: 202, body: { ...recorded, repeated: false } });
  const other = { leaseId, fencingToken, error: "second", final: true };
  const second = await app.ask("PUT", `${path}/fail`, other);
  expect(second).toMatchObject({ status: 202, body: { ...recorded, repeated: true } });
  const { body } = await app.ask("POST", "/api/tasks/fail", [{ id, ...other }]);
  expect(body).toMatchObject([{ status: "recorded", repeated: true, state: "pending" }]);
  expect((await app.ask("GET", path)).body).toMatchObject({ error: "first", failures: 1 });
});

test("another return of the same grant says that it repeats", async () => {
  const app = await openTestApp();
  const { id, path, grant } = await held(app);
  const { leaseId, fencingToken } = grant;
  for (const repeated of [false, true]) {
    const { status, body } = await app.ask("PUT", `${path}/return`, { leaseId, fencingToken });
    expect({ status, body }).toEqual({ status: 202, body: { id, state: "pending", repeated } });
  }
  const { body } = await app.ask("POST", "/api/tasks/return", [{ id, leaseId, fencingToken }]);
  expect(body).toEqual([{ status: "returned", repeated: true }]);
});
