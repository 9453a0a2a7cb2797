// A server with two tenants: `node attacked-server.js OPTIONS`, which are JSON. The attacker has so many pending `tasks`
// with `taskBytes` of data each. The instances share this process, and each has connections of its own to the store.
// Prints their URLs, a key of each tenant and one of a viewer as JSON, and ends with its input.
import { randomUUID } from "node:crypto";
import { openStores } from "leasehold";
import { createApiKey, systemEnv } from "leasehold/internal";
import { createApp, listen } from "leasehold-server";
import { takeProtectionOut, UNPROTECTED_CONNECTIONS, UNPROTECTED_LIMITS } from "./unprotected.js";

// No part of the package's face: what `leasehold serve` measures itself with.
const { startOpenTelemetry } = await import(
  new URL("../../packages/leasehold-server/dist/cli/open-telemetry.js", import.meta.url).href
);

const { store, control, limits, tasks, taskBytes, instances, unprotected } = JSON.parse(
  process.argv[2],
);
if (unprotected) takeProtectionOut();
const stores = await openStores(store, control ? { control } : {});
const { telemetry, metrics, close } = await startOpenTelemetry();
const env = { ...systemEnv, telemetry };
const by = { actor: "overload", reason: "attack" };
const keyOf = async (namespace, role) => {
  const wanted = { namespace, name: role, role, prefixes: [""], lifetimeMs: null };
  return (await createApiKey(stores.control, env.random, wanted, by)).text;
};
const keys = {
  healthy: await keyOf("healthy", "holder"),
  attacker: await keyOf("attacker", "admin"),
  viewer: await keyOf("attacker", "viewer"),
};
const taskOf = () => ({
  namespace: "attacker",
  id: randomUUID(),
  kind: "large",
  queue: "default",
  priority: 0,
  data: "x".repeat(taskBytes),
  scheduledAt: null,
  dedupeKey: null,
  maxAttempts: 3,
  crashLimit: 3,
  backoff: { firstMs: 1_000, longestMs: 60_000, factor: 2, jitter: 0.5 },
});
// As many as have some 4 MB at once.
const most = Math.max(1, Math.min(1_000, Math.floor(4_000_000 / taskBytes)));
for (let left = tasks; left > 0; left -= most) {
  await stores.tasks.enqueue(Array.from({ length: Math.min(most, left) }, taskOf));
}
const serve = async (own) => {
  const app = createApp({
    ...own,
    env,
    auth: "keys",
    metrics,
    limits: { ...limits, ...(unprotected && UNPROTECTED_LIMITS) },
    version: "overload",
  });
  const server = await listen({ app, port: 0, ...(unprotected && UNPROTECTED_CONNECTIONS) });
  const end = async () => {
    await server.close();
    await own.close();
  };
  return { url: server.url, end };
};
const served = [await serve(stores)];
while (served.length < instances) served.push(await serve(await openStores(store)));
console.log(JSON.stringify({ urls: served.map(({ url }) => url), ...keys }));
for await (const _ of process.stdin);
await Promise.all(served.map(({ end }) => end()));
await close();
