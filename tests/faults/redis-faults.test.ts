/**
 * Leases in Redis under faults: what every engine does, and what ioredis by itself would not.
 * @module-tag safety
 */
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { MAYBE_APPLIED, REDIS } from "../support/faults/engines.js";
import { leaseFaults } from "../support/faults/lease-suite.js";
import {
  BRIEF,
  laterIn,
  openStore,
  request,
  settled,
  sharedServer,
  view,
} from "../support/faults/server.js";
import { storeFaults } from "../support/faults/store-suite.js";

REDIS.describe("faults of Redis", () => {
  const shared = sharedServer(REDIS);
  storeFaults(REDIS, shared);
  leaseFaults(REDIS, shared);

  it("a server that is killed and comes back is not sent what its caller has given up", async (context) => {
    const server = shared();
    const later = laterIn(context);
    const store = await openStore(server, later);
    const careless = new Redis(server.port, { retryStrategy: () => 20 });
    careless.on("error", () => {});
    later({ close: async () => careless.disconnect() });
    await careless.ping();
    const [asked, next] = [request(), request()];
    await server.process?.stop();
    const acquiring = store.acquire([asked], BRIEF);
    const setting = careless.set("replayed", "yes");
    expect(only(await acquiring)).toMatchObject(MAYBE_APPLIED);
    // Requests that the killed process has not read are lost.
    await server.kill9();
    await server.start();
    await settled(() => store.acquire([next], BRIEF));
    // By default, ioredis sends it again; it would send ours, too.
    await setting;
    expect(await careless.get("replayed")).toBe("yes");
    expect(await view(store, asked)).toBe(null);
    expect(await view(store, next)).toMatchObject({ state: "live" });
  });
});
