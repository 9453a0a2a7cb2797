/**
 * A server of Leasehold that serves no more while its connections stay open, and whose address already leads to the next
 * one, as behind a load balancer of connections.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import {
  createApp,
  nodeHandler,
  type ServerApp,
} from "../../packages/leasehold-server/src/http/index.js";
import {
  grantOf,
  hold,
  httpWorlds,
  later,
  namespace,
  requestOf,
  TTL_MS,
  until,
} from "../support/faults/http-world.js";
import { openTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.js";
import { TEST_LIMITS } from "../support/server/test-limits.js";

httpWorlds();

let behind: Stores;
let proxy: TcpProxy;
let old: ServerApp;
let nextPort: number;

/** In a host of the program's own, which keeps its connections. */
async function serve() {
  const app = createApp({
    ...behind,
    namespace,
    auth: "none",
    version: "test",
    limits: TEST_LIMITS,
  });
  const host = createServer({ keepAliveTimeout: 180_000 }, nodeHandler(app));
  await once(host.listen(0, "127.0.0.1"), "listening");
  later({
    async close() {
      host.closeAllConnections();
      await Promise.all([once(host.close(), "close"), app.close()]);
    },
  });
  return { app, port: (host.address() as AddressInfo).port };
}

beforeEach(async () => {
  behind = later(await memory().open(systemEnv));
  const [first, next] = [await serve(), await serve()];
  [old, nextPort] = [first.app, next.port];
  proxy = later(await openTcpProxy({ port: first.port }));
});

const url = () => `http://127.0.0.1:${proxy.port}`;
/** From now on the app answers 503. */
function switchOver(): void {
  void old.close();
  proxy.redirect(nextPort);
}

it("is left within a single call of the store", async () => {
  const { leases } = later(await http({ url: url() }).open(systemEnv));
  const kept = requestOf("kept");
  expect(await leases.acquire([kept])).toMatchObject([{ status: "acquired" }]);
  switchOver();
  // It pauses after each refusal.
  const renewed = await leases.renew([kept], { timeoutMs: TTL_MS });
  expect(renewed).toMatchObject([{ status: "renewed" }]);
  expect(await leases.release([grantOf(kept)])).toEqual([{ status: "released" }]);
});

it("is left within a single call of a client, by renewals and tasks too", async () => {
  const leasehold = later(await connect(url(), { namespace }));
  const kept = await leasehold.acquire("kept", { ttlMs: TTL_MS });
  switchOver();
  const lease = await leasehold.acquire("r", { ttlMs: TTL_MS });
  await kept.renew();
  await leasehold.tasks.enqueue(defineTask<number>("k"), 1);
  expect(await behind.tasks.counts(namespace)).toMatchObject({ pending: 1 });
  await Promise.all([kept.release(), lease.release()]);
});

it("is left by a watch, whose stream it has ended", async () => {
  const client = later(await http({ url: url() }).open(systemEnv));
  const watching = new LeaseWatching(client.leases, namespace);
  await until("the first event", () => watching.events.length === 1);
  switchOver();
  await until("a resync", () => watching.events.length === 2);
  const held = await hold({ behind }, "r");
  await behind.leases.acquire([{ ...requestOf("r"), queueMs: TTL_MS }]);
  await behind.leases.release([grantOf(held)]);
  await until("the notification", () => watching.changed.length > 0);
  await watching.stop();
});
