/** Routes that read more the more a tenant keeps: they take turns, and other tenants do not wait for them. */
import { nextTurn, type TaskStore } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/tenants.js";
import { TEST_LIMITS } from "../../../../../tests/support/test-limits.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";
import { createApp } from "../index.js";

/** The counts of tenant `a` take until they are let go. */
async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env);
  const [a, b] = [await tenants.newKey("a", "admin"), await tenants.newKey("b", "admin")];
  let letGo = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const { tasks } = stores;
  let counting = 0;
  const counts: TaskStore["counts"] = async (namespace) => {
    if (namespace === "a") {
      counting += 1;
      await held;
    }
    return tasks.counts(namespace);
  };
  const slow = new Proxy(tasks, {
    get(target, name) {
      if (name === "counts") return counts;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const app = createApp({
    ...stores,
    tasks: slow,
    env,
    auth: "keys",
    limits: TEST_LIMITS,
    version: "1",
  });
  onTestFinished(async () => {
    letGo();
    await app.close();
    await tenants.app.close();
    await stores.close();
  });
  const ask = async ({ text }: { readonly text: string }, path: string) =>
    app.fetch(new Request(`http://x${path}`, { headers: { authorization: `Bearer ${text}` } }));
  /** Until requests that take turns of the event loop have begun. */
  const settle = async () => {
    for (let turn = 0; turn < 5; turn += 1) {
      await env.clock.settle();
      await nextTurn();
    }
  };
  return { env, a, b, ask, letGo, settle, counting: () => counting };
}

const SCANS = [
  "/api/tasks/counts",
  "/api/tasks",
  "/api/tasks/pending",
  "/api/tasks/leases",
  "/v1/leases",
  "/v1/locks",
  "/api/leases",
  "/api/leases/active",
  "/v1/workers",
  "/v1/audit",
  "/v1/once",
];

it.each(SCANS)(
  "%s waits while its tenant's turns are taken, and another tenant's does not",
  async (path) => {
    const { env, a, b, ask, letGo } = await open();
    // One turn each: the second one asked before the first was answered, and is not the same question.
    const slow = [ask(a, "/api/tasks/counts")];
    await env.clock.settle();
    slow.push(ask(a, "/api/tasks/counts"));
    await env.clock.settle();
    expect((await ask(b, path)).status).toBe(200);
    let answered = false;
    const waiting = ask(a, path).then(({ status }) => {
      answered = true;
      return status;
    });
    await env.clock.settle();
    expect(answered).toBe(false);
    letGo();
    expect(await waiting).toBe(200);
    for (const { status } of await Promise.all(slow)) expect(status).toBe(200);
  },
);

it("refuses what does not get its turn in time, and never asks the store for it", async () => {
  const { env, a, ask, letGo, settle, counting } = await open();
  // Two have a turn, and the others wait together with one question.
  const slow = Array.from({ length: 10 }, () => ask(a, "/api/tasks/counts"));
  await settle();
  expect(counting()).toBe(2);
  const late = ask(a, "/v1/leases");
  await settle();
  await env.clock.advance(5_000);
  const refused = await late;
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
  expect(await refused.json()).toMatchObject({ code: "TOO_MANY_REQUESTS" });
  letGo();
  const statuses = (await Promise.all(slow)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(2);
  expect(counting()).toBe(2);
});
