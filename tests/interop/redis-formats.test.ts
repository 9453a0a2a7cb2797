/** Each answer of the scripts that keep a lease as one string under one key, for a batch that has all cases. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { grantIdOf, systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { LONG_MS, requestOf } from "../support/faults/queue-site.js";

const FORMATS = ["redlock", "redis-semaphore"] as const;
const namespace = "default";

describeRedis("the store in the format of", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.remove());
  beforeEach(() => server.ask("flushall"));

  describe.each(FORMATS)("%s", (format) => {
    let store: LeaseStore;
    let close: () => Promise<void>;
    beforeAll(async () => {
      const opened = await redis({ url: server.url, format }).open(systemEnv);
      store = opened.leases;
      close = () => opened.close();
    });
    afterAll(() => close());

    const keyOf = (resource: string) => (format === "redlock" ? resource : `mutex:${resource}`);
    const leftMs = async (key: string) => Number(await server.ask("pttl", key));

    it("answers a repeated acquire with what is left of its grant, and none that was revoked", async () => {
      const [live, revoked, taken] = ["live", "revoked", "taken"].map((name) => requestOf(name));
      await store.acquire([live!, revoked!, taken!]);
      await store.revoke([{ namespace, resource: "revoked", free: "atExpiry" }]);
      const other = requestOf("taken");
      const outcomes = await store.acquire([live!, revoked!, other]);
      expect(outcomes).toMatchObject([
        { status: "acquired" },
        { status: "ended" },
        { status: "held", holder: taken!.holder, grantId: grantIdOf(taken!.leaseId) },
      ]);
      const { remainingMs } = outcomes[0] as { remainingMs: number };
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
    });

    it("renews what its holder has, and never for less", async () => {
      const key = keyOf("live");
      const [live, revoked, taken, gone] = ["live", "revoked", "taken", "gone"].map((name) =>
        requestOf(name),
      );
      await store.acquire([live!, revoked!, requestOf("taken")]);
      await store.revoke([{ namespace, resource: "revoked", free: "atExpiry" }]);
      const renew = (ttlMs: number) =>
        store.renew([live!, revoked!, taken!, gone!].map((one) => ({ ...one, ttlMs })));
      const lost = ["revoked", "taken", "gone"].map((reason) => ({ status: "lost", reason }));
      expect(await renew(1_000)).toMatchObject([{ status: "renewed" }, ...lost]);
      expect(await leftMs(key)).toBeGreaterThan(LONG_MS / 2);
      expect(await renew(2 * LONG_MS)).toMatchObject([{ status: "renewed" }, ...lost]);
      expect(await leftMs(key)).toBeGreaterThan(LONG_MS);
    });

    it("releases what its holder has, and nothing else", async () => {
      const [live, taken, gone] = ["live", "taken", "gone"].map((name) => requestOf(name));
      await store.acquire([live!, requestOf("taken")]);
      expect(await store.release([live!, taken!, gone!])).toEqual([
        { status: "released" },
        { status: "notHeld" },
        { status: "notHeld" },
      ]);
      const views = await store.get(
        ["live", "taken", "gone"].map((resource) => ({ namespace, resource })),
      );
      expect(views.map((view) => view?.state ?? null)).toEqual([null, "live", null]);
    });

    it("revokes at once, at the expiry, or what never expires at once only", async () => {
      const endless = keyOf("endless");
      await store.acquire(["now", "later", "endless"].map((name) => requestOf(name)));
      await server.ask("persist", endless);
      const revoke = (resource: string, free: "now" | "atExpiry") => ({
        namespace,
        resource,
        free,
      });
      const outcomes = await store.revoke([
        revoke("now", "now"),
        revoke("later", "atExpiry"),
        revoke("endless", "atExpiry"),
        revoke("gone", "now"),
      ]);
      expect(outcomes).toMatchObject([
        { status: "revoked", freeInMs: 0 },
        { status: "revoked" },
        { status: "failed", error: { message: expect.stringContaining("has no expiry") } },
        { status: "notHeld" },
      ]);
      expect(await store.revoke([revoke("endless", "now")])).toMatchObject([{ status: "revoked" }]);
      expect(await server.ask("exists", endless)).toBe(0);
    });

    it("fails for a key of another type alone", async () => {
      const key = keyOf("odd");
      await server.ask("rpush", key, "x");
      expect(await store.acquire([requestOf("odd"), requestOf("even")])).toMatchObject([
        { status: "failed", error: { message: expect.stringContaining("WRONGTYPE") } },
        { status: "acquired" },
      ]);
    });
  });
});
