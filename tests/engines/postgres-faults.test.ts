/** Leases in PostgreSQL under faults: what every engine does, and sessions that are ended. */
import pg from "pg";
import { expect, it } from "vitest";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { lockLeases } from "../support/engines/locks.js";
import { POSTGRES } from "../support/faults/engines.js";
import { LONG_MS, TTL_MS } from "../support/faults/fault-site.js";
import { leaseFaults } from "../support/faults/lease-suite.js";
import { laterIn, sharedServer } from "../support/faults/server.js";

POSTGRES.describe("faults of PostgreSQL", () => {
  leaseFaults(POSTGRES, sharedServer(POSTGRES), (world) => {
    it("is not revived by a process that was stopped between its renewals", async (context) => {
      const { site, hold } = await world.open(context);
      const holder = await hold({ ttlMs: TTL_MS, renewIntervalMs: 20 });
      const token = await holder.token();
      await site.renewed();
      await holder.stop();
      const next = await site.succeed();
      holder.cont();
      expect(await holder.reported("lost")).toMatchObject({ lost: "LEASE_LOST" });
      holder.say("write");
      expect(await holder.reported("alive")).toEqual({ alive: false, aborted: true });
      expect(await holder.reported("wrote")).toEqual({ wrote: "STALE_TOKEN" });
      await site.expectOnlyUnfencedSuffers(token, next);
      await next.renew();
      await site.expectHeldBy(next);
    });

    it("is kept when its session is ended in the middle of a renewal", async (context) => {
      const { site } = await world.open(context);
      const admin = new pg.Client({ connectionString: site.url });
      await admin.connect();
      laterIn(context)({ close: () => admin.end() });
      const lease = await site.leases.acquire(site.resource, {
        ttlMs: LONG_MS,
        renewIntervalMs: 50,
      });
      for (let round = 0; round < 3; round += 1) {
        await site.renewed();
        // The next renewal waits in its statement.
        const unlock = await lockLeases(site.url);
        const ended = async () => {
          const { rows } = await admin.query<{ done: boolean }>(
            `SELECT pg_terminate_backend(pid) AS done FROM pg_stat_activity
           WHERE datname = current_database() AND state = 'active' AND wait_event_type = 'Lock'`,
          );
          return rows.some(({ done }) => done);
        };
        await until(expect, "a renewal that waits", ended);
        await unlock();
      }
      await site.renewed();
      expect(lease.checkAlive()).toBe(true);
      await site.expectHeldBy(lease);
      await lease.release();
    });
  });
});
