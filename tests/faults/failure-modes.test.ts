/**
 * The failure modes of distributed locks, one test each, named as the article on a lock service names them:
 * what goes wrong is shown first, then what stands against it. On PostgreSQL, with real processes.
 * @module-tag safety
 */
import { once } from "node:events";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { Lease } from "../../packages/leasehold/src/lease/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import {
  Holder,
  holdersForTests,
  LONG_MS,
  later,
  Site,
  TTL_MS,
} from "../support/faults/fault-site.js";

holdersForTests();

describePostgres("the failure mode", () => {
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

  it("worker pauses past its ttl: it resumes, writes, and is refused", async () => {
    const worker = new Holder(site, { ttlMs: TTL_MS });
    const token = await worker.token();
    await worker.stop();
    const next = await site.succeed();
    worker.cont();
    worker.say("write");
    expect(await worker.reported("alive")).toEqual({ alive: false, aborted: expect.any(Boolean) });
    expect(await worker.reported("wrote")).toEqual({ wrote: "STALE_TOKEN" });
    await site.expectOnlyUnfencedSuffers(token, next);
  });

  it("release deletes someone else's lock: it goes by lease id, and ends nothing of another's", async () => {
    const stores = later(await openPostgres({ url: database.url }, systemEnv));
    const first = await site.leases.acquire(site.resource, { ttlMs: 200, autoRenew: false });
    await once(first.signal, "abort");
    const next = await site.succeed();
    // Late, by the old holder's hand, and past it.
    await first.release();
    const grant = { namespace: "default", resource: site.resource, leaseId: first.leaseId };
    expect(only(await stores.leases.release([grant]))).toEqual({ status: "notHeld" });
    await site.expectHeldBy(next);
    await next.renew();
    expect(next.checkAlive()).toBe(true);
  });

  it("renewal silently fails: the work gets its abort signal before another holder may begin", async () => {
    const { proxy, url } = await site.openProxy();
    const leases = later(await connect(url, { graceMs: 0 }));
    let lastTrustedMs = 0;
    let hasAborted = false;
    const running = leases.run(site.resource, { ttlMs: TTL_MS }, async (lease) => {
      // From here on nothing comes back, and no error reports it.
      proxy.blackhole("toServer");
      proxy.blackhole("toClient");
      const checking = setInterval(() => {
        const nowMs = Date.now();
        if (lease.checkAlive()) lastTrustedMs = nowMs;
      }, 5);
      await once(lease.signal, "abort");
      clearInterval(checking);
      hasAborted = true;
      expect(lease.checkAlive()).toBe(false);
      return "what it says does not count";
    });
    const lost = expect(running).rejects.toMatchObject({ code: "LEASE_LOST", reason: "expired" });
    await until(
      expect,
      "the lease is held",
      async () => (await site.leases.get(site.resource)) !== null,
    );
    const next = await site.succeed();
    const { grantedAt } = await site.view();
    await until(expect, "the signal", () => hasAborted);
    // Store and holder read the same clock here. A busy event loop may fire the signal late, but trusts no longer.
    expect(lastTrustedMs).toBeGreaterThan(0);
    expect(lastTrustedMs).toBeLessThanOrEqual(Date.parse(grantedAt!));
    proxy.reset();
    proxy.heal();
    await lost;
    await site.expectHeldBy(next);
  });

  it("ttl too long: a dead worker's lock stays; an operator ends it, and the fence stands behind", async () => {
    const worker = new Holder(site, { ttlMs: 3_600_000 });
    const token = await worker.token();
    await worker.end("SIGKILL");
    const waiting = await site.leases.tryRun(site.resource, () => "never");
    expect(waiting).toMatchObject({ ran: false, remainingMs: expect.any(Number) });
    if (!waiting.ran) expect(waiting.remainingMs).toBeGreaterThan(3_000_000);
    const revoked = await site.leases.revoke(site.resource, { expectedToken: token, free: "now" });
    expect(revoked).toMatchObject({ status: "revoked", token });
    const next = await site.succeed();
    // Had it been alive after all:
    expect(await site.write(token)).toBe("STALE_TOKEN");
    await site.expectOnlyUnfencedSuffers(token, next);
  });

  it("ttl too short: normal work loses the lock and runs twice; renewed, the same work keeps it", async () => {
    const ttlMs = 300;
    const work = async (autoRenew: boolean) => {
      let runs = 0;
      const second = async () => {
        const again = await site.leases.tryRun(site.resource, () => {
          runs += 1;
        });
        return again.ran;
      };
      const first = site.leases.run(site.resource, { ttlMs, autoRenew }, async (lease) => {
        runs += 1;
        // Longer than the ttl, however slow the machine: until it is lost, or was renewed.
        if (autoRenew) await site.renewed();
        else await once(lease.signal, "abort");
        if (!autoRenew) await until(expect, "the second run", second);
        else expect(await second()).toBe(false);
        return "done";
      });
      return {
        runs: await first.then(
          () => runs,
          () => runs,
        ),
        outcome: first,
      };
    };
    const lost = await work(false);
    expect(lost.runs).toBe(2);
    await expect(lost.outcome).rejects.toMatchObject({ code: "LEASE_LOST" });
    site.nextResource();
    // A machine so slow that even a third of a second is too short shows the same as above: once more.
    await until(expect, "work that keeps its lock", async () => {
      site.nextResource();
      const kept = await work(true);
      return kept.outcome.then(
        () => kept.runs === 1,
        () => false,
      );
    });
    // A renewal that could not come in time is refused before anything is sent.
    const late = { ttlMs, renewIntervalMs: 280 };
    await expect(site.leases.acquire(site.resource, late)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "renewIntervalMs",
    });
  });

  it("lock protects the wrong resource: two names are two locks, for names are compared byte by byte", async () => {
    const overlap = async (one: string, other: string) => {
      const lease = await site.leases.acquire(one, { ttlMs: LONG_MS });
      const both = await site.leases.tryRun(other, () => true);
      await lease.release();
      return both.ran;
    };
    const invoice = `${site.resource}:invoice:7`;
    for (const spelling of [
      `${site.resource}:Invoice:7`,
      `${invoice} `,
      `${site.resource}/invoice/7`,
    ]) {
      expect(await overlap(invoice, spelling)).toBe(true);
    }
    // One function that names it, used by both code paths.
    const nameOf = (id: number) => `${site.resource}:invoice:${id}`;
    expect(await overlap(nameOf(7), nameOf(7))).toBe(false);
    // Guarded by what is written to, not by who locks: the older of two owners is refused all the same.
    const older = await site.leases.acquire(`${invoice}:a`, { ttlMs: LONG_MS });
    const newer = await site.leases.acquire(`${invoice}:b`, { ttlMs: LONG_MS });
    expect(newer.token).toBeGreaterThan(older.token);
    expect(await site.write(newer.token)).toBe("written");
    expect(await site.write(older.token)).toBe("STALE_TOKEN");
    await Promise.all([older.release(), newer.release()]);
  });

  it("no idempotency: a crash after the effect has it done twice under one lock; a key prevents it", async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    later({ close: () => client.end() });
    await client.query("CREATE TABLE charge (job text, key text UNIQUE, token bigint)");
    /** Charges, and crashes the first time, before it has noted that it has. */
    const work = async (job: string, key: string | null) => {
      for (const crashes of [true, false]) {
        await site.leases
          .run(`${site.resource}:${job}`, { ttlMs: LONG_MS }, async (lease) => {
            await client.query(
              "INSERT INTO charge VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING",
              [job, key, lease.token],
            );
            if (crashes) throw new Error("crashed");
          })
          .catch(() => {});
      }
      const { rowCount } = await client.query("SELECT FROM charge WHERE job = $1", [job]);
      return rowCount;
    };
    // The lock has done its part: the two never overlapped.
    expect(await work("without a key", null)).toBe(2);
    expect(await work("with a key", "order-7")).toBe(1);
  });

  it("coordination dependency outage: each caller has chosen to wait, to fail, or to run unprotected", async () => {
    const { proxy, url } = await site.openProxy();
    const warnings: { event?: string }[] = [];
    const warn = (fields: { event?: string }) => warnings.push(fields);
    const quiet = () => {};
    const logger = {
      ...systemEnv.logger,
      trace: quiet,
      debug: quiet,
      info: quiet,
      warn,
      error: quiet,
    };
    const leases = later(await connect(url, { graceMs: 0, logger }));
    const options = { ttlMs: TTL_MS };
    const [waits, runs] = [`${site.resource}:waits`, `${site.resource}:runs`];

    proxy.hold("toServer");
    const waiting = leases.run(waits, options, (lease) => lease.token);
    const failing = leases.run(waits, { ...options, onUnavailable: "fail" }, () => "never");
    await expect(failing).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const unprotected = await leases.run(
      runs,
      { ...options, onUnavailable: "unfenced" },
      (lease) => {
        expect(lease.isFenced).toBe(false);
        expect(() => (lease as unknown as Lease).token).toThrow(
          expect.objectContaining({ code: "NO_TOKEN" }),
        );
        return "done without a lease";
      },
    );
    expect(unprotected).toBe("done without a lease");
    expect(warnings.filter(({ event }) => event === "lease_unfenced")).toHaveLength(1);

    // The held requests arrive, and the client releases whatever they were granted.
    proxy.letGo("toServer");
    expect(await waiting).toBeGreaterThan(0);
    await until(expect, "nothing is held", async () => {
      const views = await Promise.all([waits, runs].map((resource) => site.leases.get(resource)));
      return views.every((view) => view === null || view.state !== "live");
    });
    const next = await site.leases.acquire(runs, { ttlMs: LONG_MS });
    expect(next.token).toBeGreaterThan(0);
    await next.release();
  });
});
