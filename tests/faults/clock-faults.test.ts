/**
 * The clock of a lease's holder or database runs slow or fast, or is set. The tests read the machine's
 * own clock, which all processes share, to check that trust ends before the next grant. A lease whose
 * `driftRatio` is too small must overlap with the next one, and the fence must refuse its writes.
 * @module-tag safety
 */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import {
  describePostgres,
  describeUnless,
  type FreshDatabase,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import {
  Holder,
  holdersForTests,
  LONG_MS,
  later,
  Site,
  TTL_MS,
} from "../support/faults/fault-site.js";
import { missingClocks, REAL_STEP_MS, realMs } from "../support/processes/fake-clock.js";

holdersForTests();

interface Rates {
  /** Of the holder's clock; default: the machine's clock. */
  readonly rate?: number;
  /** Of the database's clock, when it runs at one; default 1. */
  readonly storeRate?: number;
  readonly driftRatio: number;
}

/**
 * Cuts a holder that renews off from the database, and lets the next one have the lease.
 * @returns grantedMs when that was, at the latest, on the scale of realMs()
 */
async function cutOff(site: Site, { rate, storeRate = 1, driftRatio }: Rates) {
  const { proxy, url } = await site.openProxy();
  const options = { ttlMs: TTL_MS, renewIntervalMs: TTL_MS / 5, driftRatio };
  const holder = new Holder(site, options, url, rate === undefined ? {} : { clock: { rate } });
  const token = await holder.token();
  holder.say("watch");
  await site.renewed();
  await site.renewed();
  proxy.blackhole("toServer");
  proxy.blackhole("toClient");
  const next = await site.succeed();
  const { rows } = await site.database.query<{ age: number }>(
    `SELECT extract(epoch FROM clock_timestamp() - granted_at)::float8 * 1000 AS age
     FROM leasehold.lease WHERE resource = $1`,
    [site.resource],
  );
  // At the latest: this clock is read after the one that tells the age.
  const grantedMs = realMs() + REAL_STEP_MS - rows[0]!.age / storeRate;
  return { holder, token, next, grantedMs };
}

describePostgres("a lease", () => {
  describeUnless(missingClocks(), "whose holder has a clock of its own", () => {
    let database: FreshDatabase;
    let site: Site;
    beforeAll(async () => {
      database = await freshDatabase();
      site = await Site.open(database.url);
    });
    afterAll(async () => {
      await site.close();
      await database.drop();
    });
    beforeEach(() => site.nextResource());

    it.each([0.9, 1.1])("ends for it before the next grant, at %f", async (rate) => {
      const { holder, token, next, grantedMs } = await cutOff(site, { rate, driftRatio: 0.2 });
      expect((await holder.reported("lost")).lastTrustedMs).toBeLessThanOrEqual(grantedMs);
      expect(next.token).toBeGreaterThan(token);
    });

    it("ends too late if that clock drifts more than driftRatio, and the fence helps", async () => {
      const cut = await cutOff(site, { rate: 0.5, driftRatio: 0.01 });
      const { holder, token, next, grantedMs } = cut;
      holder.say("write");
      expect(await holder.reported("alive")).toEqual({ alive: true, aborted: false });
      expect(await holder.reported("wrote")).toEqual({ wrote: "STALE_TOKEN" });
      await site.expectOnlyUnfencedSuffers(token, next);
      expect((await holder.reported("lost")).lastTrustedMs).toBeGreaterThan(grantedMs);
    });
  });

  describeUnless(missingClocks(), "whose database has a clock of its own", () => {
    let server: PostgresServer;
    beforeAll(async () => {
      server = await startPostgres();
    });
    afterAll(() => server.remove());
    const restart = async (...clock: Parameters<PostgresServer["start"]>): Promise<Site> => {
      await server.stop();
      await server.start(...clock);
      return later(await Site.open(server.url));
    };

    it.each([0.9, 1.1])("ends for its holder before the next grant, at %f", async (storeRate) => {
      const site = await restart({ rate: storeRate });
      const { holder, token, next, grantedMs } = await cutOff(site, { storeRate, driftRatio: 0.2 });
      expect((await holder.reported("lost")).lastTrustedMs).toBeLessThanOrEqual(grantedMs);
      expect(next.token).toBeGreaterThan(token);
    });

    it("ends early when that is set forward, and the fence helps", async () => {
      const before = await restart();
      const lease = await before.leases.acquire(before.resource, {
        ttlMs: LONG_MS,
        autoRenew: false,
      });
      const site = await restart({ offsetMs: 3_600_000 });
      site.resource = before.resource;
      const next = await site.succeed();
      // It cannot know.
      expect(lease.checkAlive()).toBe(true);
      expect(await site.write(lease.token)).toBe("STALE_TOKEN");
      await site.expectOnlyUnfencedSuffers(lease.token, next);
      await expect(lease.renew()).rejects.toMatchObject({ code: "LEASE_LOST" });
      expect(lease.checkAlive()).toBe(false);
      await site.expectHeldBy(next);

      await next.release();
      const after = await restart();
      after.resource = before.resource;
      // The database's clock was set back. The released resource is free, and tokens still grow.
      expect((await after.succeed()).token).toBeGreaterThan(next.token);
    });
  });
});
