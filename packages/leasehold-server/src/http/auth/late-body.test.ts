/** A key that ends while the body of its request is still being sent. */
import { once } from "node:events";
import { createConnection } from "node:net";
import { createKey } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { createApp, listen } from "../index.js";

test("a key that is revoked before its request's body has arrived does nothing", async () => {
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
    createKey(control, env.random, { ...order, name }, by).then(({ text }) => text);
  const [stolen, own] = [await newKey("stolen"), await newKey("own")];
  const ask = (method: string, path: string) =>
    fetch(`${server.url}${path}`, { method, headers: { authorization: `Bearer ${own}` } });

  const body = JSON.stringify({ name: "after", role: "admin" });
  const socket = createConnection(server.port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const head = `POST /v1/keys HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${stolen}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
  socket.write(`${head}\r\n\r\n${body.slice(0, -1)}`);
  // Its head has been served by the time that another request, sent later, has been.
  await once(socket, "ready");
  expect((await ask("GET", "/v1/keys")).status).toBe(200);
  const revoked = await ask("DELETE", `/v1/keys/${stolen.split("_")[1]}?reason=stolen`);
  expect(revoked.status).toBe(200);
  await env.clock.advance(1_000);
  socket.write(body.slice(-1));
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1.1 401 /);
  const { items } = (await (await ask("GET", "/v1/keys")).json()) as { items: { name: string }[] };
  expect(items.map(({ name }) => name)).not.toContain("after");
});
