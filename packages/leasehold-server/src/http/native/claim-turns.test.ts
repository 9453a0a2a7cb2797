/** Claims of many queues: how many of a tenant are in the store at once, and what they cost. */
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished, vi } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { Slots } from "../limits/slots.js";

const QUEUES = Array.from({ length: 100 }, (_, at) => `q${at}`);

async function open(ratePerSecond: number) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { tasks } = stores;
  if (!tasks) throw new Error("memory keeps tasks");
  const tenants = openTenants(stores, env, { ratePerSecond });
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const claim = async (key: string, body: object) => {
    const request = new Request("http://x/api/tasks/next", {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ processor: "w", ...body }),
    });
    return (await tenants.app.fetch(request)).status;
  };
  const keyOf = async (namespace: string) => (await tenants.newKey(namespace, "admin")).text;
  return { tasks, claim, keyOf, close: () => tenants.app.close() };
}

it("of one tenant's claims of many queues, one is in the store at a time, and other tenants claim meanwhile", async () => {
  const { tasks, claim, keyOf } = await open(1_000);
  const [own, other] = [await keyOf("a"), await keyOf("b")];
  const inStore = new Map<string, number>();
  const most = new Map<string, number>();
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  vi.spyOn(tasks, "claim").mockImplementation(async ({ namespace }) => {
    const now = (inStore.get(namespace) ?? 0) + 1;
    inStore.set(namespace, now);
    most.set(namespace, Math.max(now, most.get(namespace) ?? 0));
    if (namespace === "a") await released;
    inStore.set(namespace, (inStore.get(namespace) ?? 0) - 1);
    return { status: "claimed", tasks: [] };
  });
  const heavy = { queues: QUEUES, kinds: ["none"] };
  const claims = Array.from({ length: 5 }, () => claim(own, heavy));
  expect(await claim(other, heavy)).toBe(204);
  release();
  expect(await Promise.all(claims)).toEqual([204, 204, 204, 204, 204]);
  expect(Object.fromEntries(most)).toEqual({ a: 1, b: 1 });
});

it("a claim that waits for others when the server closes gets no tasks, and never reaches the store", async () => {
  const { tasks, claim, keyOf, close } = await open(1_000);
  const key = await keyOf("a");
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const inStore = vi.spyOn(tasks, "claim").mockImplementation(async () => {
    await released;
    return { status: "claimed", tasks: [] };
  });
  const arrived = vi.spyOn(Slots.prototype, "begin");
  onTestFinished(() => arrived.mockRestore());
  const claims = Array.from({ length: 3 }, () => claim(key, { queues: QUEUES }));
  await vi.waitUntil(() => arrived.mock.calls.length === 3 && inStore.mock.calls.length > 0);
  const closed = close();
  release();
  expect(await Promise.all(claims)).toEqual([204, 204, 204]);
  await closed;
  expect(inStore).toHaveBeenCalledTimes(1);
});

it("charges a claim for its queues and kinds", async () => {
  const { claim, keyOf } = await open(20);
  const key = await keyOf("a");
  const claims: [queues: number, kinds: number][] = [
    [1, 0],
    [100, 100],
    [1, 0],
  ];
  const statuses: number[] = [];
  for (const [queues, kinds] of claims) {
    const named = kinds === 0 ? {} : { kinds: QUEUES.slice(0, kinds) };
    statuses.push(await claim(key, { queues: QUEUES.slice(0, queues), ...named }));
  }
  expect(statuses).toEqual([204, 204, 429]);
});
