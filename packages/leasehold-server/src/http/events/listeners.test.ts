/** The listeners of an app, which serves many tenants. */
import { createApiKey } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";

test("a listener learns of each event whose tenant it is", async () => {
  const env = manualEnv();
  const heard: (readonly [string, string, string])[] = [];
  const { ask, stores } = await openTestApp({
    auth: "keys",
    env,
    namespace: "own",
    onLeaseEvent: ({ type }, tenant) => void heard.push(["lease", type, tenant]),
    onTaskEvent: ({ type }, tenant) => void heard.push(["task", type, tenant]),
  });
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  for (const namespace of ["shop", "blog"]) {
    const order = { namespace, name: "k", role: "admin" as const, prefixes: [], lifetimeMs: null };
    const by = { actor: "test", reason: null };
    const { text } = await createApiKey(control, env.random, order, by);
    const headers = { authorization: `Bearer ${text}` };
    await ask("POST", "/v1/locks/acquire", { resource: "r", ownerId: "h" }, { headers });
    await ask("POST", "/api/tasks", { task_data: 1 }, { headers });
  }
  expect(heard).toEqual([
    ["lease", "acquired", "shop"],
    ["task", "enqueued", "shop"],
    ["lease", "acquired", "blog"],
    ["task", "enqueued", "blog"],
  ]);
});
