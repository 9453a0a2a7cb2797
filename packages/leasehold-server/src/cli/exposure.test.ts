import type { Stores } from "leasehold";
import { silentLogger } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { accessFor, type Exposure, keysStateOf, logAccess } from "./exposure.js";

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

const LOCAL = { host: "127.0.0.1" };
test.each([
  [LOCAL, "any program on this machine may do everything"],
  [ANYWHERE, "any caller that reaches this address may do everything"],
  [{ ...LOCAL, tlsClientCa: "ca" }, "this machine with a certificate of --tls-client-ca may do"],
  [{ ...ANYWHERE, tlsClientCa: "ca" }, "any caller with a certificate of --tls-client-ca that"],
  [{ ...LOCAL, tlsClientCa: "ca", tlsClientKeys: "list" }, "so no caller has access"],
  [
    { ...LOCAL, tlsClientCa: "ca", tlsClientKeys: "list", tlsClientOptional: true },
    "any program on this machine may do everything",
  ],
])("without a key, the log of a server with %j says who has access", (exposure, expected) => {
  const lines: string[] = [];
  const note = (_: object, message: string) => void lines.push(message);
  logAccess({ ...silentLogger, info: note, warn: note }, exposure, "none", { auth: "ifAny" });
  expect(lines).toEqual([expect.stringContaining(expected)]);
});
