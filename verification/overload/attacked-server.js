// A server with two tenants: `node attacked-server.js STORE LIMITS`. Prints its URL and a key of each tenant as JSON,
// and ends with its input.
import { openStores } from "leasehold";
import { createKey, systemEnv } from "leasehold/internal";
import { createApp, listen } from "leasehold-server";

// No part of the package's face: what `leasehold serve` measures itself with.
const { startOpenTelemetry } = await import(
  new URL("../../packages/leasehold-server/dist/cli/open-telemetry.js", import.meta.url).href
);

const [, , store, limits] = process.argv;
const stores = await openStores(store);
const { telemetry, metrics, close } = await startOpenTelemetry();
const env = { ...systemEnv, telemetry };
const by = { actor: "overload", reason: "attack" };
const keyOf = async (namespace, role) => {
  const wanted = { namespace, name: role, role, prefixes: [""], lifetimeMs: null };
  return (await createKey(stores.control, env.random, wanted, by)).text;
};
const keys = {
  healthy: await keyOf("healthy", "holder"),
  attacker: await keyOf("attacker", "admin"),
};
const app = createApp({
  ...stores,
  env,
  auth: "keys",
  metrics,
  limits: JSON.parse(limits),
  version: "overload",
});
const server = await listen({ app, port: 0 });
console.log(JSON.stringify({ url: server.url, ...keys }));
for await (const _ of process.stdin);
await server.close();
await stores.close();
await close();
