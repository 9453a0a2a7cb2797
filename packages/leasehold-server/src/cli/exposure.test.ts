import type { Stores } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { accessFor, type Exposure, keysStateOf } from "./exposure.js";

const ANYWHERE = { host: "0.0.0.0" };

const accessOf = async (given: Exposure, stores: Pick<Stores, "control">) =>
  accessFor(given, stores, await keysStateOf(stores));

test("keys cannot be required by a store that keeps none, nor together with their opposite", async () => {
  const stores = await memory().open(manualEnv());
  const without = accessOf({ ...ANYWHERE, requireKeys: true }, {});
  await expect(without).rejects.toThrow(/--control/);
  const both = accessOf({ ...ANYWHERE, requireKeys: true, insecureNoKeys: true }, stores);
  await expect(both).rejects.toThrow(/exclude each other/);
});

test("a bootstrap token is drawn only where keys are required and none was ever created", async () => {
  const stores = await memory().open(manualEnv());
  const required = () => accessOf({ ...ANYWHERE, requireKeys: true }, stores);
  const first = await required();
  expect(first).toEqual({
    auth: "keys",
    bootstrapToken: expect.stringMatching(/^lh_bootstrap_[0-9a-f]{32}$/),
  });
  expect((await required()).bootstrapToken).not.toBe(first.bootstrapToken);
  expect(await accessOf({ host: "127.0.0.1" }, stores)).toEqual({ auth: "ifAny" });
  const rights = { role: "viewer" as const, prefixes: [""], lifetimeMs: 1 };
  const key = { id: "0".repeat(12), namespace: "n", name: "n", digest: "", ...rights };
  await stores.control?.actors.keys.add(key);
  await stores.control?.actors.keys.revoke("n", key.id);
  expect(await required()).toEqual({ auth: "keys" });
});
