/** What the formats for single leases answer to requests that they refuse, or that ask for less. */
import { toWireLeaseId } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { describe, expect, test } from "vitest";
import { openTestApp, type Reply } from "../../../../../tests/support/server/app.js";

const answer = ({ status, body }: Reply) => [status, body.code, body.reason];
const RELEASED = [409, "LEASE_RELEASED", "released"];
const TAKEN = [409, "LEASE_TAKEN", "taken"];
const UNKNOWN = [404, "UNKNOWN_LEASE", undefined];

async function open(options: Parameters<typeof openTestApp>[0] = {}) {
  const env = manualEnv();
  const { ask, app } = await openTestApp({ env, ...options });
  return {
    app,
    ask,
    clock: env.clock,
    lock: async (resource: string, more: object = {}) =>
      (await ask("POST", "/v1/locks/acquire", { resource, ownerId: "me", ...more })).body,
  };
}

describe("a renewal", () => {
  test("after the holder's own release is LEASE_RELEASED, by id and by name", async () => {
    const { ask, lock } = await open();
    const { leaseId } = await lock("a");
    await ask("DELETE", `/v1/locks/${leaseId}`);
    expect(answer(await ask("POST", `/v1/locks/${leaseId}/renew`))).toEqual(RELEASED);

    const names = { resource: "b", holder: "me" };
    await ask("POST", "/api/leases", names);
    await ask("DELETE", "/api/leases/release", names);
    expect(answer(await ask("PUT", "/api/leases/renew", names))).toEqual(RELEASED);
  });

  test("with a shorter TTL than what is left returns a TTL that fits the remaining time", async () => {
    const { ask, lock, clock } = await open();
    const { leaseId } = await lock("a", { ttlSeconds: 30 });
    await clock.advance(1_000);
    const path = `/v1/locks/${leaseId}/renew`;
    const { body } = await ask("POST", path, { ttlSeconds: 20 });
    expect(body).toMatchObject({ ttlMs: 29_000, remainingMs: 29_000 });
    const { body: list } = await ask("GET", "/v1/locks?resource=a");
    expect(list.items[0]).toMatchObject({ ttlMs: 29_000, remainingMs: 29_000 });
    const { body: record } = await ask("PUT", "/api/leases/renew", { leaseId, ttlSeconds: 10 });
    expect(record).toMatchObject({ ttlMs: 29_000, remainingMs: 29_000 });
    // Once less is left, the requested TTL is granted.
    await clock.advance(20_000);
    const { body: later } = await ask("POST", path, { ttlSeconds: 20 });
    expect(later).toMatchObject({ ttlMs: 20_000, remainingMs: 20_000 });
  });
});

test("a lease id with the fencing token of another grant is refused, and with its own accepted", async () => {
  const { ask, lock } = await open();
  const { leaseId, fencingToken } = await lock("a");
  for (const [method, path] of [
    ["PUT", "/api/leases/renew"],
    ["DELETE", "/api/leases/release"],
  ] as const) {
    const wrong = await ask(method, path, { leaseId, fencingToken: fencingToken + 1 });
    expect([404, 409]).toContain(wrong.status);
    expect((await ask(method, path, { leaseId, fencingToken })).status).toBeLessThan(300);
  }
});

describe("LEASE_TAKEN", () => {
  test("is for former holders: a caller that never held the lease gets UNKNOWN_LEASE", async () => {
    const { ask, lock } = await open();
    await lock("a");
    const made = toWireLeaseId("a", "0".repeat(48));
    expect(answer(await ask("POST", `/v1/locks/${made}/renew`))).toEqual(UNKNOWN);
    for (const named of [
      { leaseId: made },
      { resource: "a", holder: "mallory" },
      { resource: "a", holder: "me", fencingToken: 77 },
    ]) {
      expect(answer(await ask("PUT", "/api/leases/renew", named))).toEqual(UNKNOWN);
      expect(answer(await ask("DELETE", "/api/leases/release", named))).toEqual(UNKNOWN);
    }
  });

  test("is for former holders also on a server that keeps no history", async () => {
    const { ask, lock, clock } = await open({ history: undefined });
    const { leaseId } = await lock("a");
    await clock.advance(30_000);
    await lock("a", { ownerId: "you" });
    expect(answer(await ask("POST", `/v1/locks/${leaseId}/renew`))).toEqual(TAKEN);
    const made = toWireLeaseId("a", "0".repeat(48));
    expect(answer(await ask("POST", `/v1/locks/${made}/renew`))).toEqual(UNKNOWN);
  });

  test("is for former holders that another server's history names", async () => {
    const first = await openTestApp({ env: manualEnv() });
    const names = { resource: "a", holder: "me" };
    const { body } = await first.ask("POST", "/api/leases", names);
    await first.ask("DELETE", "/api/leases/release", names);
    await first.ask("POST", "/api/leases", { ...names, holder: "you" });
    await first.app.close();
    const second = await open(first.stores);
    const late = await second.ask("PUT", "/api/leases/renew", { leaseId: body.leaseId });
    expect(answer(late)).toEqual(TAKEN);
    expect(answer(await second.ask("PUT", "/api/leases/renew", names))).toEqual(TAKEN);
    const never = await second.ask("PUT", "/api/leases/renew", { ...names, holder: "mallory" });
    expect(answer(never)).toEqual(UNKNOWN);
  });

  test("is for former holders of a task", async () => {
    const { ask } = await open();
    const { id } = (await ask("POST", "/api/tasks", { task_data: 1 })).body;
    const claimed = (await ask("POST", "/api/tasks/next", { processor: "w" })).body.tasks[0];
    const { leaseId, fencingToken } = claimed;
    for (const operation of ["heartbeat", "complete", "return"]) {
      const path = `/api/tasks/${id}/${operation}`;
      const made = { leaseId: "0".repeat(48), fencingToken };
      expect(answer(await ask("PUT", path, made))).toEqual(UNKNOWN);
      const later = { leaseId, fencingToken: fencingToken + 1 };
      expect(answer(await ask("PUT", path, later))).toEqual(UNKNOWN);
    }
    await ask("PUT", `/api/tasks/${id}/return`, { leaseId, fencingToken });
    await ask("POST", "/api/tasks/next", { processor: "w2" });
    const late = await ask("PUT", `/api/tasks/${id}/heartbeat`, { leaseId, fencingToken });
    expect(answer(late)).toEqual(TAKEN);
  });
});

test("a TTL out of range is reported under the name and in the unit of the request", async () => {
  const { ask, lock } = await open({ limits: { shortestTtlMs: 1_000 } });
  const problems = async (reply: Promise<Reply>) => {
    const { status, body } = await reply;
    expect(status).toBe(422);
    return body.errors;
  };
  const seconds = [{ path: "ttlSeconds", problem: "must be from 1 to 3600, not 0.2" }];
  const body = { resource: "a", ownerId: "me", ttlSeconds: 0.2 };
  expect(await problems(ask("POST", "/v1/locks/acquire", body))).toEqual(seconds);
  const { ownerId: holder, ...named } = body;
  expect(await problems(ask("POST", "/api/leases", { ...named, holder }))).toEqual(seconds);
  const { leaseId } = await lock("a");
  const short = { ttlSeconds: 0.2 };
  expect(await problems(ask("POST", `/v1/locks/${leaseId}/renew`, short))).toEqual(seconds);
  expect(await problems(ask("PUT", "/api/leases/renew", { leaseId, ...short }))).toEqual(seconds);
  const next = { processor: "w", ...short };
  expect(await problems(ask("POST", "/api/tasks/next", next))).toEqual(seconds);
  const beat = { leaseId: "0".repeat(48), fencingToken: 1, ...short };
  const id = "01890000-0000-7000-8000-000000000000";
  expect(await problems(ask("PUT", `/api/tasks/${id}/heartbeat`, beat))).toEqual(seconds);
  expect(await problems(ask("POST", "/api/tasks/heartbeat", [{ id, ...beat }]))).toEqual([
    { ...seconds[0], path: "0.ttlSeconds" },
  ]);
  expect(await problems(ask("POST", "/v1/locks/acquire", { ...body, ttlSeconds: 0.0001 }))).toEqual(
    [{ path: "ttlSeconds", problem: expect.stringContaining("must be from 1 to 3600") }],
  );
});

test("a misspelled route is 404, another method of an id's route 405", async () => {
  const { ask, lock } = await open();
  const { leaseId } = await lock("a");
  const code = async (method: string, path: string) => {
    const { status, body } = await ask(method, path);
    return [status, body.code];
  };
  for (const [method, path] of [
    ["POST", "/v1/locks/aquire"],
    ["GET", "/v1/locks/aquire/renew"],
    ["PUT", "/api/leases/renw"],
    ["POST", "/api/tasks/nxt"],
    ["GET", "/api/tasks/nxt/cancel"],
    ["POST", "/v1/keys/rotate"],
  ] as const) {
    expect([path, ...(await code(method, path))]).toEqual([path, 404, "UNKNOWN_ROUTE"]);
  }
  const task = "01890000-0000-7000-8000-000000000000";
  for (const [method, path] of [
    ["POST", `/v1/locks/${leaseId}`],
    ["GET", `/v1/locks/${leaseId}/renew`],
    ["PUT", `/api/leases/${leaseId}`],
    ["POST", `/api/tasks/${task}`],
    ["POST", "/v1/keys/0123456789ab"],
  ] as const) {
    expect([path, ...(await code(method, path))]).toEqual([path, 405, "METHOD_NOT_ALLOWED"]);
  }
});
