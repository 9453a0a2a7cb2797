/** Requests with keys that the server has to read, and does not find. */
import { createApiKey } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { createApp } from "../index.js";

test("guessed keys take no room from requests whose key is known", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  let hangs = false;
  const { keys } = control;
  const find: typeof keys.find = (id) => (hangs ? new Promise(() => {}) : keys.find(id));
  const slow = Object.assign(Object.create(keys) as typeof keys, { find });
  const limits = { inFlight: 3 };
  const app = createApp({
    ...stores,
    control: Object.assign(Object.create(control) as typeof control, { keys: slow }),
    version: "test",
    env,
    limits,
  });
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const order = {
    namespace: "n",
    name: "n",
    role: "viewer",
    prefixes: [""],
    lifetimeMs: null,
  } as const;
  const { text } = await createApiKey(control, env.random, order, { actor: "test", reason: null });
  const ask = (key: string) => {
    const headers = { authorization: `Bearer ${key}` };
    return app.fetch(new Request("http://localhost/v1/leases", { headers }));
  };
  expect((await ask(text)).status).toBe(200);
  hangs = true;
  const guess = (n: number) => ask(`lh_${String(n).padStart(12, "0")}_${"0".repeat(32)}`);
  const guesses = Array.from({ length: 10 }, (_, n) => guess(n));
  expect((await ask(text)).status).toBe(200);
  await env.clock.advance(5_000);
  for (const { status } of await Promise.all(guesses)) expect(status).toBe(503);
});
