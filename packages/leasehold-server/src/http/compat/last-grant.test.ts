/** Requests about a grant that is not, or no longer, the last one of its resource. */
import { newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { directLeases } from "../../../../../tests/support/worlds/direct-leases.js";

async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const app = await openTestApp({ env, ...stores });
  const lock = async (resource: string, more: object = {}) => {
    const body = { resource, ownerId: "h", ttlMs: 1_000, ...more };
    const answer = await app.ask("POST", "/v1/locks/acquire", body);
    expect(answer.body.acquired).toBe(true);
    return answer.body.leaseId as string;
  };
  const lockOf = (leaseId: string) => `/v1/locks/${encodeURIComponent(leaseId)}`;
  return { ...app, env, stores, lock, lockOf };
}

test("a lock is shown under its own lease id only", async () => {
  const { env, ask, lock, lockOf } = await open();
  const first = await lock("r");
  await env.clock.advance(1_000);
  const second = await lock("r");
  expectProblem(await ask("GET", lockOf(first)), 404, "UNKNOWN_LEASE");
  expect((await ask("GET", lockOf(second))).body).toMatchObject({ fencingToken: 2 });
});

test("a renewal under an id that was never granted is unknown, also after another's release", async () => {
  const { env, ask, lock, lockOf } = await open();
  const held = await lock("r");
  expect((await ask("DELETE", lockOf(held))).body).toEqual({ released: true });
  expectProblem(await ask("POST", `${lockOf(held)}/renew`), 409, "LEASE_RELEASED");
  const other = toWireLeaseId("r", newLeaseId(env.random));
  expectProblem(await ask("POST", `${lockOf(other)}/renew`), 404, "UNKNOWN_LEASE");
});

test.each([
  ["expired", "LEASE_EXPIRED"],
  ["revoked", "LEASE_REVOKED"],
])("a release of a lease that was %s is refused with that reason", async (how, code) => {
  const { env, ask, lock } = await open();
  const leaseId = await lock("r");
  if (how === "expired") await env.clock.advance(1_000);
  else await ask("POST", "/v1/leases/revoke", [{ resource: "r", free: "now", reason: "test" }]);
  expectProblem(await ask("DELETE", "/api/leases/release", { leaseId }), 409, code);
});

test("a release is answered with its own grant, although the resource has a new one already", async () => {
  const { env, ask, lock, stores } = await open();
  const leaseId = await lock("r", { ttlMs: 60_000 });
  const acquire = directLeases(stores.leases, env, "default");
  const { release } = stores.leases;
  stores.leases.release = async (...given) => {
    const outcome = await release.apply(stores.leases, given);
    await acquire("r", { holder: "next" });
    return outcome;
  };
  const { status, body } = await ask("DELETE", "/api/leases/release", { leaseId });
  expect(status).toBe(200);
  const ended = { state: "released", remainingMs: 0 };
  expect(body).toMatchObject({ holder: "h", fencingToken: 1, ...ended });
});

test("an acquire is not answered with the grant of another that followed at once", async () => {
  const { env, ask, stores } = await open();
  const { acquire } = stores.leases;
  const acquireNext = directLeases(stores.leases, env, "default");
  stores.leases.acquire = async (...given) => {
    stores.leases.acquire = acquire;
    const outcome = await acquire.apply(stores.leases, given);
    await env.clock.advance(1_000);
    await acquireNext("r", { holder: "next" });
    return outcome;
  };
  const body = { resource: "r", holder: "h", ttlSeconds: 1 };
  expectProblem(await ask("POST", "/api/leases", body), 409, "LEASE_TAKEN");
});
