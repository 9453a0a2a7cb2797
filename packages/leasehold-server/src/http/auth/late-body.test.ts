/** What happens to a key while the body of its request is still being sent. */
import { once } from "node:events";
import { createConnection } from "node:net";
import { StoreUnavailableError } from "leasehold";
import { createApiKey, newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { createApp, listen } from "../index.js";

async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const app = createApp({ ...stores, version: "test", auth: "keys", env });
  const server = await listen({ app, port: 0, graceMs: 0 });
  onTestFinished(async () => {
    await server.close();
    await stores.close();
  });
  const order = { namespace: "n", role: "admin" as const, prefixes: [""], lifetimeMs: null };
  const by = { actor: "test", reason: null };
  const newKey = (name: string) =>
    createApiKey(control, env.random, { ...order, name }, by).then(({ text }) => text);
  const own = await newKey("own");
  const ask = (method: string, path: string, body?: unknown) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${own}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  /** Sends all of a request but the end of its body. Returns a function that sends that, and returns the answer. */
  const begin = async (key: string, path: string, content: unknown) => {
    const body = JSON.stringify(content);
    const socket = createConnection(server.port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const head = `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
    socket.write(`${head}\r\n\r\n${body.slice(0, -1)}`);
    // Its head has been served by the time that another request, sent later, has been.
    await once(socket, "ready");
    expect((await ask("GET", "/v1/keys")).status).toBe(200);
    return async () => {
      socket.write(body.slice(-1));
      const [answer] = (await once(socket, "data")) as [Buffer];
      return answer.toString();
    };
  };
  return { env, control, newKey, own, ask, begin };
}

test("a key that is revoked before its request's body has arrived does nothing", async () => {
  const { env, newKey, ask, begin } = await open();
  const stolen = await newKey("stolen");
  const end = await begin(stolen, "/v1/keys", { name: "after", role: "admin" });
  const revoked = await ask("DELETE", `/v1/keys/${stolen.split("_")[1]}?reason=stolen`);
  expect(revoked.status).toBe(200);
  await env.clock.advance(1_000);
  expect(await end()).toMatch(/^HTTP\/1.1 401 /);
  const { items } = (await (await ask("GET", "/v1/keys")).json()) as { items: { name: string }[] };
  expect(items.map(({ name }) => name)).not.toContain("after");
});

test("a renewal whose body arrives late is served although the keys cannot be read by then", async () => {
  const { env, control, own, ask, begin } = await open();
  const leaseId = toWireLeaseId("r", newLeaseId(env.random));
  const acquired = await ask("POST", "/v1/leases/acquire", [
    { leaseId, holder: "h", ttlMs: 60_000 },
  ]);
  expect(acquired.status).toBe(200);
  const renewals = [
    await begin(own, "/v1/leases/renew", [{ leaseId, ttlMs: 60_000 }]),
    await begin(own, `/v1/locks/${encodeURIComponent(leaseId)}/renew`, { ttlMs: 60_000 }),
  ];
  const endKeys = await begin(own, "/v1/keys", { name: "after", role: "admin" });
  control.keys.find = () => Promise.reject(new StoreUnavailableError("lost", { outcome: "none" }));
  await env.clock.advance(6_000);
  for (const end of renewals) expect(await end()).toMatch(/^HTTP\/1.1 200 /);
  expect(await endKeys()).toMatch(/^HTTP\/1.1 503 /);
});

test.each(["acquire", "renew", "release"])(
  "nor does a revoked key %s leases, which are served in another way",
  async (operation) => {
    const { env, newKey, ask, begin } = await open();
    const stolen = await newKey("stolen");
    const leaseId = toWireLeaseId("r", newLeaseId(env.random));
    const lease = { leaseId, holder: "h", ttlMs: 60_000 };
    await ask("POST", "/v1/leases/acquire", [lease]);
    const { holder, ttlMs, ...grant } = lease;
    const bodies: Record<string, object> = {
      acquire: { ...lease, leaseId: toWireLeaseId("s", newLeaseId(env.random)) },
      renew: { ...grant, ttlMs },
      release: grant,
    };
    const end = await begin(stolen, `/v1/leases/${operation}`, [bodies[operation]]);
    await ask("DELETE", `/v1/keys/${stolen.split("_")[1]}?reason=stolen`);
    await env.clock.advance(1_000);
    expect(await end()).toMatch(/^HTTP\/1.1 401 /);
    const read = await ask("POST", "/v1/leases/get", ["r", "s"]);
    expect(await read.json()).toMatchObject([{ state: "live", remainingMs: 59_000 }, null]);
  },
);
