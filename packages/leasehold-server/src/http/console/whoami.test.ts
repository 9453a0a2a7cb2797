/** What a caller learns about itself and the server. */
import { createApiKey, type Role } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";

test("a caller learns its tenant, its rights, and what the server keeps", async () => {
  const env = manualEnv();
  const { ask, stores } = await openTestApp({ auth: "keys", env });
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const who = async (namespace: string, role: Role, own: string[]) => {
    const order = { namespace, name: "k", role, prefixes: own, lifetimeMs: null };
    const by = { actor: "test", reason: null };
    const { key, text } = await createApiKey(control, env.random, order, by);
    const headers = { authorization: `Bearer ${text}` };
    const { body } = await ask("GET", "/v1/whoami", undefined, { headers });
    return { body, identity: { actor: `key:${key.id}`, keyId: key.id } };
  };
  const has = { control: true, history: true, version: "1.2.3" };
  const holder = await who("shop", "holder", ["build/", "task:"]);
  expect(holder.body).toEqual({
    namespace: "shop",
    role: "holder",
    prefixes: ["build/", "task:"],
    ...holder.identity,
    may: ["read", "readTasks", "hold", "work"],
    ...has,
  });
  const operator = await who("blog", "operator", ["site/"]);
  expect(operator.body).toEqual({
    namespace: "blog",
    role: "operator",
    prefixes: ["site/"],
    ...operator.identity,
    may: ["read", "readTasks", "readAll", "operate"],
    ...has,
  });
});

test("without keys and an audit it is anyone, who may do everything", async () => {
  const { ask } = await openTestApp({ control: undefined, history: undefined, namespace: "n" });
  const { body } = await ask("GET", "/v1/whoami");
  expect(body).toMatchObject({
    namespace: "n",
    role: "admin",
    actor: "anyone",
    keyId: null,
    control: false,
    history: false,
  });
});
