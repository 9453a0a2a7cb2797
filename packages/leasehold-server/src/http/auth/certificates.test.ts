/** Callers by the certificates of their connections: what ends them, and outages of the store of keys. */
import { StoreUnavailableError } from "leasehold";
import { createApiKey, newLeaseId, revokeApiKey } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { instead } from "../../../../../tests/support/worlds/instead.js";
import { type AppOptions, type ClientCertificates, createApp } from "../index.js";

const BY = { actor: "cli:test", reason: null };

interface Connecting {
  /** Of the certificate; null: the connection has none. */
  readonly validForMs?: number | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A server that assigns a holder's key to each certificate. */
async function open(
  certificates: Omit<ClientCertificates, "keyOf"> = {},
  options: Partial<AppOptions> = {},
) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const state = { isLost: false, isGone: false };
  const find: typeof control.keys.find = async (id) => {
    if (state.isLost) throw new StoreUnavailableError("lost", { outcome: "none" });
    return state.isGone ? null : control.keys.find(id);
  };
  const order = { namespace: "a", name: "k", role: "holder" as const, prefixes: [""] };
  const { key, text } = await createApiKey(control, env.random, { ...order, lifetimeMs: null }, BY);
  const app = createApp({
    ...stores,
    env,
    version: "test",
    auth: "keys",
    control: instead(control, { keys: instead(control.keys, { find }) }),
    clientCertificates: { ...certificates, keyOf: () => key.id },
    ...options,
  });
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const ask = async (
    path: string,
    body?: unknown,
    { validForMs = 3_600_000, headers = {} }: Connecting = {},
  ) => {
    const request = new Request(`http://localhost${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const validToMs = env.clock.wall() + (validForMs ?? 0);
    const certificate = validForMs === null ? undefined : { identities: [], validToMs };
    const response = await app.fetch(request, { certificate });
    return { status: response.status, body: (await response.json()) as { detail?: string } };
  };
  return { env, state, control, app, ask, key, authorization: `Bearer ${text}` };
}

test("a holder keeps its leases through an outage of the keys, and acquires none", async () => {
  const { env, state, ask } = await open();
  const leaseId = toWireLeaseId("r", newLeaseId(env.random));
  const acquire = () => ask("/v1/leases/acquire", [{ leaseId, holder: "h", ttlMs: 900_000 }]);
  const renew = () => ask("/v1/leases/renew", [{ leaseId, ttlMs: 900_000 }]);
  expect((await acquire()).status).toBe(200);
  state.isLost = true;
  await env.clock.advance(590_000);
  expect((await renew()).body).toMatchObject([{ status: "renewed" }]);
  expect((await acquire()).status).toBe(503);
  await env.clock.advance(10_000);
  expect((await renew()).status).toBe(503);
});

test("a certificate ends at the end of its validity, whatever else the request has", async () => {
  const { ask, authorization } = await open({ required: false });
  const statusOf = async (more: Parameters<typeof ask>[2]) =>
    (await ask("/v1/whoami", undefined, more)).status;
  expect(await statusOf({ validForMs: 1 })).toBe(200);
  for (const validForMs of [0, -1]) {
    expect(await statusOf({ validForMs })).toBe(401);
    expect(await statusOf({ validForMs, headers: { authorization } })).toBe(401);
  }
  expect(await statusOf({ validForMs: null, headers: { authorization } })).toBe(200);
  expect(await statusOf({ validForMs: null })).toBe(401);
});

test("a certificate that no key is assigned to is refused, with a key in the request, too", async () => {
  const { ask, authorization } = await open({}, { clientCertificates: { keyOf: () => null } });
  for (const headers of [{}, { authorization }]) {
    const { status, body } = await ask("/v1/whoami", undefined, { headers });
    expect([status, body.detail]).toEqual([
      401,
      "no API key is assigned to this client certificate",
    ]);
  }
});

test("a certificate whose key is revoked is refused, and the audit names the key", async () => {
  const { control, env, app, ask, key } = await open({}, { auditDenials: true });
  expect((await ask("/v1/whoami")).body).toMatchObject({ actor: `key:${key.id}`, namespace: "a" });
  await revokeApiKey(control, { namespace: "a", id: key.id }, BY);
  await env.clock.advance(5_000);
  const refused = await ask("/v1/whoami");
  expect([refused.status, refused.body.detail]).toEqual([401, "this key was revoked"]);
  await app.close();
  const { items } = await control.audit.list({ namespace: "a", actions: ["access.deny"] });
  expect(items).toMatchObject([{ actor: `key:${key.id}`, target: "GET /v1/whoami" }]);
});

test("a key that is gone is not accepted again in an outage", async () => {
  const { env, state, ask } = await open();
  const renew = async () => {
    const leaseId = toWireLeaseId("r", newLeaseId(env.random));
    return (await ask("/v1/leases/renew", [{ leaseId, ttlMs: 5_000 }])).status;
  };
  expect(await renew()).toBe(200);
  state.isGone = true;
  await env.clock.advance(5_000);
  expect(await renew()).toBe(401);
  state.isLost = true;
  await env.clock.advance(6_000);
  expect(await renew()).toBe(503);
});
