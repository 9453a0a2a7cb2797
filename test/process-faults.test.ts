/**
 * Leases while their holders are stopped and killed, their sessions and their database are, and what
 * goes between them is lost or late. The registers are written to by holders who are late, too: the
 * unfenced one must suffer where a fence is what helps.
 */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newLeaseId, systemRandom } from "../src/env/index.js";
import { until } from "../src/testing/waiting.js";
import {
  Holder,
  holdersForTests,
  LONG_MS,
  later,
  openLeases,
  Site,
  TAKEOVER_MS,
  TTL_MS,
} from "./support/fault-site.js";
import { lockLeases } from "./support/locks.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
  startPostgres,
} from "./support/postgres.js";
import { temporaryFolder } from "./support/processes.js";
import type { TcpProxy } from "./support/tcp-proxy.js";

holdersForTests();

describePostgres("a lease", () => {
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

  it("is known to be lost to a process that was stopped, before anything else", async () => {
    const holder = new Holder(site, { ttlMs: TTL_MS });
    const token = await holder.token();
    const file = join(await temporaryFolder(), "go-on");
    holder.say(`block ${file}`);
    expect(await holder.hears("checked")).toEqual({ checked: true });
    await holder.stop();
    const next = await site.succeed();
    await writeFile(file, "");
    holder.cont();
    // No timer and no answer has come to its event loop since.
    expect(await holder.hears("alive")).toEqual({ alive: false, aborted: true });
    expect(await holder.hears("wrote")).toEqual({ wrote: "STALE_TOKEN" });
    expect(await holder.hears("lost")).toMatchObject({ lost: "LEASE_LOST" });
    await site.expectOnlyUnfencedSuffers(token, next);
    await site.expectHeldBy(next);
  });

  it("is not revived by a process that was stopped between its renewals", async () => {
    const holder = new Holder(site, { ttlMs: TTL_MS, renewIntervalMs: 20 });
    const token = await holder.token();
    await site.renewed();
    await holder.stop();
    const next = await site.succeed();
    holder.cont();
    expect(await holder.hears("lost")).toMatchObject({ lost: "LEASE_LOST" });
    holder.say("write");
    expect(await holder.hears("alive")).toEqual({ alive: false, aborted: true });
    expect(await holder.hears("wrote")).toEqual({ wrote: "STALE_TOKEN" });
    await site.expectOnlyUnfencedSuffers(token, next);
    await next.renew();
    await site.expectHeldBy(next);
  });

  it("of a process that is killed goes to the next one within its ttl", async () => {
    const holder = new Holder(site, { ttlMs: TTL_MS });
    const token = await holder.token();
    await site.renewed();
    await holder.end("SIGKILL");
    const left = await site.view();
    expect(left.token).toBe(token);
    expect(left.remainingMs).toBeLessThanOrEqual(TTL_MS);
    const next = await site.succeed();
    expect(next.token).toBeGreaterThan(token);
    const { grantedAt } = await site.view();
    const waitedMs = Date.parse(grantedAt!) - Date.parse(left.expiresAt!);
    expect(waitedMs).toBeGreaterThanOrEqual(0);
    expect(waitedMs).toBeLessThan(TAKEOVER_MS);
  });

  it("is kept when its session is ended in the middle of a renewal", async () => {
    const lease = await site.leases.acquire(site.resource, {
      ...{ ttlMs: LONG_MS, renewIntervalMs: 50 },
    });
    for (let round = 0; round < 3; round += 1) {
      await site.renewed();
      // The next renewal stands still in its statement.
      const unlock = await lockLeases(site.url);
      const ended = async () => {
        const { rows } = await site.database.query<{ done: boolean }>(
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

  describe("over a network that fails", () => {
    let proxy: TcpProxy;
    let url: string;
    beforeEach(async () => {
      ({ proxy, url } = await site.openProxy());
    });

    it("is one grant when the answer to its acquire is lost", async () => {
      const leases = later(await openLeases(url));
      // Its connections stand from here on.
      await (await leases.acquire(newLeaseId(systemRandom))).release();
      const dropped = proxy.dropNextAnswer();
      const acquiring = leases.acquire(site.resource, { ttlMs: LONG_MS });
      await dropped;
      const { token, grantId } = await site.view();
      expect(await acquiring).toMatchObject({ token, grantId });
      expect(proxy.counts.answersDropped).toBe(1);
      expect(await site.view()).toMatchObject({ token, grantId, renewedAt: null });
    });

    it("is kept when answers to its renewals are lost, and connections are reset", async () => {
      const leases = later(await openLeases(url));
      const lease = await leases.acquire(site.resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
      for (let round = 0; round < 5; round += 1) {
        await proxy.dropNextAnswer();
        proxy.reset();
        await site.renewed();
      }
      expect(lease.checkAlive()).toBe(true);
      await site.expectHeldBy(lease);
      expect(proxy.counts.answersDropped).toBe(5);
    });

    it("is lost when nothing comes through, and not revived by what comes too late", async () => {
      const leases = later(await openLeases(url));
      const lease = await leases.acquire(site.resource, { ttlMs: TTL_MS, renewIntervalMs: 100 });
      await site.renewed();
      const lost = once(lease.signal, "abort");
      proxy.hold("toServer");
      const next = await site.succeed();
      await lost;
      expect(lease.checkAlive()).toBe(false);
      // A renewal was held past the ttl, and reaches the server now.
      expect(proxy.counts.heldBytes.toServer).toBeGreaterThan(0);
      const forwarded = proxy.counts.forwardedBytes.toServer;
      proxy.letGo("toServer");
      await proxy.until(({ forwardedBytes }) => forwardedBytes.toServer > forwarded);
      expect(await site.write(lease.token)).toBe("STALE_TOKEN");
      await site.expectOnlyUnfencedSuffers(lease.token, next);
      await next.renew();
      await site.expectHeldBy(next);
    });
  });
});

describePostgres("a lease in a database that is killed", () => {
  it("is kept if its ttl allows", async () => {
    const server = await startPostgres();
    later({ close: () => server.remove() });
    const site = later(await Site.open(server.url));
    const lease = await site.leases.acquire(site.resource, {
      ...{ ttlMs: LONG_MS, renewIntervalMs: 50 },
    });
    for (let round = 0; round < 2; round += 1) {
      await site.renewed();
      await server.kill9();
      await server.start();
    }
    await site.renewed();
    expect(lease.checkAlive()).toBe(true);
    await site.expectHeldBy(lease);
  });
});
