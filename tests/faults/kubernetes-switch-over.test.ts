/**
 * An API server of Kubernetes that cannot serve while its connections stay open, and whose address already leads to the next
 * one, as behind a load balancer of connections.
 */
import { once } from "node:events";
import { Agent, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { KubernetesApi } from "../../packages/leasehold/src/stores/kubernetes/connection.js";
import { CurrentAccess } from "../../packages/leasehold/src/stores/kubernetes/connection-access.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";

const LIST = { metadata: { resourceVersion: "1" }, items: [] };
const UNAUTHORIZED = { message: "Unauthorized" };

/** Answers every request with what `answer` says at the time, and keeps its connections. */
async function startApi() {
  const api = { port: 0, answer: { status: 200, body: LIST as object } };
  const server = createServer({ keepAliveTimeout: 180_000 }, (_, response) => {
    response.writeHead(api.answer.status, { "content-type": "application/json" });
    response.end(JSON.stringify(api.answer.body));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    await once(server.close(), "close");
  });
  api.port = (server.address() as AddressInfo).port;
  return api;
}

it.each([
  [503, { message: "the server is currently unable to handle the request" }, 1],
  [500, { message: "etcdserver: leader changed" }, 1],
  [502, {}, 1],
  // The credentials are renewed, and the request goes on another connection.
  [401, UNAUTHORIZED, 0],
])("is left after %i %o", async (status, body, failures) => {
  const [old, next] = [await startApi(), await startApi()];
  const proxy = await openTcpProxy({ port: old.port });
  onTestFinished(() => proxy.close());
  const access = new CurrentAccess(
    async () => [],
    (options) => new Agent(options),
  );
  const cluster = {
    server: `http://127.0.0.1:${proxy.port}`,
    namespace: undefined,
    access: (refused?: Parameters<typeof access.get>[0]) => access.get(refused),
    close: () => access.close(),
  };
  const api = new KubernetesApi(cluster, "leases", systemEnv);
  onTestFinished(() => api.close());
  const list = () =>
    api
      .send({ verb: "list", deadlineMs: systemEnv.clock.monotonic() + 60_000 })
      .then(({ status }) => status, String);
  // Two connections, which are kept.
  expect(await Promise.all([list(), list()])).toEqual([200, 200]);
  old.answer = { status, body };
  proxy.redirect(next.port);
  const answers = [await list(), await list(), await list()];
  expect(answers.filter((answer) => answer !== 200).length).toBeLessThanOrEqual(failures);
});
