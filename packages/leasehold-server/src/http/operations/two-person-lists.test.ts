/** Requests of revocations among many others, and of clients that have gone. */
import { createKey } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { directLeases } from "../../../../../tests/support/worlds/direct-leases.js";

async function open() {
  const env = manualEnv();
  const twoPersonRevoke = { prefixes: ["pay/"] };
  const { ask, stores } = await openTestApp({ auth: "keys", env, twoPersonRevoke });
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const order = { namespace: "default", name: "k", role: "operator" as const, prefixes: [] };
  const by = { actor: "cli:test", reason: null };
  const { text } = await createKey(control, env.random, { ...order, lifetimeMs: null }, by);
  const headers = { authorization: `Bearer ${text}` };
  const acquire = directLeases(stores.leases, env, "default");
  const revoke = async (resources: readonly string[], signal?: AbortSignal) => {
    const requests = resources.map((resource) => ({ resource, reason: "stuck" }));
    const init = { headers, ...(signal && { signal }) };
    return (await ask("POST", "/v1/leases/revoke", requests, init)).body;
  };
  const waiting = async () => {
    const { body } = await ask("GET", "/v1/revocations", undefined, { headers });
    return body.items.map(({ resource }: { resource: string }) => resource);
  };
  /** Whether a lease on it needs two operators, as the page of the resource says. */
  const needsTwo = async (name: string) =>
    (await ask("GET", `/v1/resource?name=${name}`, undefined, { headers })).body.twoPersonRevoke;
  return { env, control, acquire, revoke, waiting, needsTwo };
}

test("a request waits although a hundred later ones have ended", async () => {
  const { env, control, acquire, revoke, waiting } = await open();
  await acquire("pay/a", { holder: "h", ttlMs: 600_000 });
  expect(await revoke(["pay/a"])).toMatchObject([{ status: "requested" }]);
  // About grants that are over.
  const confirmBefore = new Date(env.clock.wall() + 3_600_000).toISOString();
  const details = JSON.stringify({
    token: 1,
    grantId: "0".repeat(16),
    holder: "h",
    free: "atExpiry",
    confirmBefore,
  });
  const about = { namespace: "default", actor: "oidc:ann", target: "pay/b", reason: "r" };
  const entry = { ...about, action: "lease.requestRevoke", phase: "done" as const, details };
  await control.audit.append(Array.from({ length: 101 }, () => entry));
  expect(await waiting()).toEqual(["pay/a"]);
  // So a repeated request is this one.
  const before = await control.audit.head();
  expect(await revoke(["pay/a"])).toMatchObject([{ status: "requested" }]);
  expect(await control.audit.head()).toEqual(before);
});

test("no request is recorded after its client has disconnected", async () => {
  const { control, acquire, revoke, waiting } = await open();
  for (const name of ["a", "b"]) await acquire(`pay/${name}`, { holder: "h", ttlMs: 600_000 });
  const client = new AbortController();
  const { append } = control.audit;
  control.audit.append = async (...entries) => {
    const written = await append.apply(control.audit, entries);
    client.abort();
    return written;
  };
  expect(await revoke(["pay/a", "pay/b"], client.signal)).toMatchObject([
    { status: "requested" },
    { status: "failed", applied: "no" },
  ]);
  expect(await waiting()).toEqual(["pay/a"]);
});

test("a resource says whether its own leases need two operators", async () => {
  const { needsTwo } = await open();
  expect([await needsTwo("pay/a"), await needsTwo("build/a")]).toEqual([true, false]);
});
