/** A server without keys that cannot read any more whether the first one was created. */
import { StoreUnavailableError } from "leasehold";
import { createApiKey } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { createApp } from "../index.js";

async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  let isLost = false;
  const { keys } = control;
  const existed: typeof keys.existed = () =>
    isLost
      ? Promise.reject(new StoreUnavailableError("lost", { outcome: "none" }))
      : keys.existed();
  const losing = Object.assign(Object.create(keys) as typeof keys, { existed });
  const app = createApp({
    ...stores,
    control: Object.assign(Object.create(control) as typeof control, { keys: losing }),
    version: "test",
    auth: "ifAny",
    env,
  });
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const ask = async (method: string, path: string, body?: object) => {
    const init = { method, ...(body && { body: JSON.stringify(body) }) };
    const headers = { "content-type": "application/json" };
    const request = new Request(`http://localhost${path}`, { ...init, headers });
    const response = await app.fetch(request, { remoteAddress: "127.0.0.1" });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const createFirst = () => {
    const wanted = {
      namespace: "n",
      name: "n",
      role: "admin",
      prefixes: [],
      lifetimeMs: null,
    } as const;
    return createApiKey(control, env.random, wanted, { actor: "test", reason: null });
  };
  const lose = (lost: boolean) => {
    isLost = lost;
  };
  return { env, ask, createFirst, lose };
}

test("a keyless server serves nothing new 5 s after it could last read that there is no key", async () => {
  const { env, ask, createFirst, lose } = await open();
  expect((await ask("GET", "/v1/leases")).status).toBe(200);
  lose(true);
  await createFirst();
  await env.clock.advance(4_000);
  expect((await ask("GET", "/v1/leases")).status).toBe(200);
  await env.clock.advance(2_000);
  expect(await ask("GET", "/v1/leases")).toMatchObject({
    status: 503,
    body: { code: "STORE_UNAVAILABLE" },
  });
  expect((await ask("POST", "/v1/keys", { name: "n", role: "admin" })).status).toBe(503);
  lose(false);
  expect((await ask("GET", "/v1/leases")).status).toBe(401);
});

test("it goes on renewing for 10 minutes, and serves again when it reads that there is no key", async () => {
  const { env, ask, lose } = await open();
  const acquired = await ask("POST", "/v1/locks/acquire", {
    resource: "r",
    ownerId: "o",
    ttlSeconds: 3_600,
  });
  const renew = () => ask("POST", `/v1/locks/${acquired.body.leaseId}/renew`);
  lose(true);
  await env.clock.advance(590_000);
  expect((await renew()).status).toBe(200);
  expect((await ask("GET", "/v1/leases")).status).toBe(503);
  await env.clock.advance(20_000);
  expect((await renew()).status).toBe(503);
  lose(false);
  expect((await renew()).status).toBe(200);
  expect((await ask("GET", "/v1/leases")).status).toBe(200);
});
