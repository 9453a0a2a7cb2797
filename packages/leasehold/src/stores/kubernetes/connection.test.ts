/** The stream of a watch, from a server that the test plays. */
import { once } from "node:events";
import { Agent, createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { manualEnv } from "../../testing/index.js";
import { KubernetesApi } from "./connection.js";

it("drops a watch that is silent for too long, and no other", async () => {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const agent = new Agent();
  const env = manualEnv();
  const cluster = {
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    namespace: undefined,
    access: async () => ({ headers: {}, agent }),
    close: () => agent.destroy(),
  };
  const api = new KubernetesApi(cluster, "leases", env);
  onTestFinished(async () => {
    api.close();
    server.closeAllConnections();
    await once(server.close(), "close");
  });
  const requested = once(server, "request");
  const opening = api.watch({}, 75_000, new AbortController().signal);
  const [, response] = (await requested) as [unknown, ServerResponse];
  response.flushHeaders();
  const events = (await opening)?.[Symbol.asyncIterator]();
  // Each lasts most of the limit, and all of them several times as long.
  for (let round = 1; round <= 5; round += 1) {
    const event = { type: "MODIFIED", object: { metadata: { name: `日本-${round}` } } };
    response.write(`${JSON.stringify(event)}\n`);
    expect(await events?.next()).toEqual({ done: false, value: event });
    await env.clock.advance(74_999);
  }
  await env.clock.advance(1);
  expect(await events?.next()).toEqual({ done: true, value: undefined });
  expect(env.clock.pendingTimers).toBe(0);
});
