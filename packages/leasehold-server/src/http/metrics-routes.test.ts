/** GET /metrics: who reads, and who sees which names. */
import { StoreUnavailableError } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { openApp } from "../../../../tests/support/server/app.js";
import { openTenants } from "../../../../tests/support/server/tenants.js";

test("requests during a read share it, and each later one reads anew, also after a failure", async () => {
  const state = { reads: 0, fails: false, waits: Promise.resolve() };
  const { app, close } = await openApp({
    metrics: async () => {
      state.reads += 1;
      const { reads, fails } = state;
      await state.waits;
      if (fails) throw new Error("no metrics");
      return `reads_total ${reads}\n`;
    },
  });
  onTestFinished(() => close());
  const scrape = async () => {
    const response = await app.fetch(new Request("http://localhost/metrics"));
    return [response.status, response.status === 200 ? await response.text() : ""];
  };
  let answer = () => {};
  state.waits = new Promise<void>((resolve) => (answer = resolve));
  const shared = [scrape(), scrape()];
  while (state.reads === 0) await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  answer();
  expect(await Promise.all(shared)).toEqual([
    [200, "reads_total 1\n"],
    [200, "reads_total 1\n"],
  ]);
  state.fails = true;
  for (const reads of [2, 3]) {
    expect((await scrape())[0]).toBe(500);
    expect(state.reads).toBe(reads);
  }
  state.fails = false;
  expect(await scrape()).toEqual([200, "reads_total 4\n"]);
});

test("names are for callers of the server's own tenant that may list all resources", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, env);
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const scrape = async (...given: Parameters<typeof newKey>) => {
    const { text: key } = await newKey(...given);
    return (await ask(key, { method: "GET", path: "/metrics" })).text;
  };
  const all =
    'a_total{prefix="names"} 1\nb_total{of="c",prefix="names"} 2\na_total{prefix=""} 3\nc 4\n';
  const without = 'a_total{prefix=""} 3\nc 4\n';
  expect(await scrape("default", "admin")).toBe(all);
  expect(await scrape("default", "holder", { prefixes: ["own/"] })).toBe(without);
  expect(await scrape("other", "admin")).toBe(without);
});

test("a key that was read before reads the metrics for 10 minutes of an outage, but not the leases", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  let isLost = false;
  const { keys } = control;
  const find: typeof keys.find = (id) =>
    isLost ? Promise.reject(new StoreUnavailableError("lost", { outcome: "none" })) : keys.find(id);
  const losing = Object.assign(Object.create(keys) as typeof keys, { find });
  const lost = Object.assign(Object.create(control) as typeof control, { keys: losing });
  const { app, ask, newKey } = openTenants({ ...stores, control: lost }, env);
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const { text: key } = await newKey("default", "viewer");
  const get = async (path: string) => (await ask(key, { method: "GET", path })).status;
  expect(await get("/metrics")).toBe(200);
  isLost = true;
  await env.clock.advance(590_000);
  expect(await get("/metrics")).toBe(200);
  expect(await get("/v1/leases")).toBe(503);
  await env.clock.advance(20_000);
  expect(await get("/metrics")).toBe(503);
});
