/**
 * What a lease does on every engine while its holders and the server are stopped and killed, and what goes
 * between them is lost or late. What holders write is kept in PostgreSQL, behind a fence and without one:
 * the unfenced register must suffer where a fence is what helps.
 */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { newLeaseId, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import type { Leasehold } from "../../../packages/leasehold/src/index.js";
import type { AcquireOptions } from "../../../packages/leasehold/src/lease/index.js";
import { until } from "../../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  describeUnless,
  type FreshDatabase,
  freshDatabase,
} from "../engines/postgres.js";
import { temporaryFolder } from "../processes/processes.js";
import type { FaultyServer, LeaseEngine } from "./engines.js";
import { compileHolder, Holder, LONG_MS, openLeases, Site, TTL_MS } from "./fault-site.js";
import { blackhole, laterIn } from "./server.js";
import { openTcpProxy, type TcpProxy } from "./tcp-proxy.js";

export interface LeaseWorld {
  /** What a test needs, until it ends. */
  open(context: TestContext): Promise<OpenedWorld>;
}
export interface OpenedWorld {
  readonly site: Site;
  /** A process that holds the lease of the site, or waits for it. */
  hold(options: AcquireOptions, port?: number): Promise<Holder>;
  /** A client of leases with this ttl, behind a proxy. */
  openBehind(ttlMs: number): Promise<{ readonly proxy: TcpProxy; readonly leases: Leasehold }>;
  openProxy(): Promise<TcpProxy>;
}

/** @param more tests of this engine alone */
export function leaseFaults(
  engine: LeaseEngine,
  server: () => FaultyServer,
  more: (world: LeaseWorld) => void = () => {},
): void {
  describePostgres("a lease", () => {
    compileHolder();
    let database: FreshDatabase;
    beforeAll(async () => {
      database = await freshDatabase();
    });
    afterAll(() => database?.drop());

    const world: LeaseWorld = {
      async open(context) {
        const later = laterIn(context);
        const { port, url } = server();
        const site = later(
          await Site.open(await url(port, LONG_MS), database.url, engine.takeoverMs),
        );
        const openProxy = async () => later(await openTcpProxy({ port }));
        return {
          site,
          openProxy,
          async hold(options, at = port) {
            const holder = new Holder(site, options, await url(at, options.ttlMs ?? LONG_MS));
            later({ close: () => holder.endGroup() });
            return holder;
          },
          async openBehind(ttlMs) {
            const proxy = await openProxy();
            return { proxy, leases: later(await openLeases(await url(proxy.port, ttlMs))) };
          },
        };
      },
    };

    // Each has a resource and a way to the server of its own, and mostly waits.
    describe.concurrent("whose holder", () => holders(engine, world));
    describe.concurrent("over a network that fails", () => networks(engine, world));
    describeUnless(engine.untouchable, "whose server is killed", () => {
      it("is kept if its ttl allows, and tokens grow", (context) =>
        killed(server(), world, context));
    });
    more(world);
  });
}

function holders({ exactExpiry }: LeaseEngine, world: LeaseWorld): void {
  it("was stopped is known to it to be lost, before anything else", async (context) => {
    const { site, hold } = await world.open(context);
    const holder = await hold({ ttlMs: TTL_MS });
    const token = await holder.token();
    const file = join(await temporaryFolder(), "go-on");
    holder.say(`block ${file}`);
    expect(await holder.reported("checked")).toEqual({ checked: true });
    await holder.stop();
    const next = await site.succeed();
    await writeFile(file, "");
    holder.cont();
    // No timer and no answer has come to its event loop since.
    expect(await holder.reported("alive")).toEqual({ alive: false, aborted: true });
    expect(await holder.reported("wrote")).toEqual({ wrote: "STALE_TOKEN" });
    expect(await holder.reported("lost")).toMatchObject({ lost: "LEASE_LOST" });
    await site.expectOnlyUnfencedSuffers(token, next);
    await site.expectHeldBy(next);
  });

  it("is killed goes to the next one within its ttl", async (context) => {
    const { site, hold } = await world.open(context);
    const holder = await hold({ ttlMs: TTL_MS });
    const token = await holder.token();
    await site.renewed();
    await holder.end("SIGKILL");
    const left = await site.view();
    expect(left.token).toBe(token);
    const next = await site.succeed();
    expect(next.token).toBeGreaterThan(token);
    if (!exactExpiry) return;
    expect(left.remainingMs).toBeLessThanOrEqual(TTL_MS);
    const { grantedAt } = await site.view();
    const waitedMs = Date.parse(grantedAt!) - Date.parse(left.expiresAt!);
    expect(waitedMs).toBeGreaterThanOrEqual(0);
  });
}

const AFTER_LOSSES: readonly [string, (proxy: TcpProxy) => void][] = [
  ["", () => {}],
  [", and its connection is reset", (proxy) => void proxy.reset()],
];

function networks({ acquiresAtOnce }: LeaseEngine, world: LeaseWorld): void {
  it.for(acquiresAtOnce ? AFTER_LOSSES : [])(
    "is one grant when the answer to its acquire is lost%s",
    async ([, after], context) => {
      const { site, openBehind } = await world.open(context);
      const { proxy, leases } = await openBehind(LONG_MS);
      // Its connections stand from here on.
      await (await leases.acquire(newLeaseId(systemRandom))).release();
      const dropped = proxy.dropNextAnswer();
      const acquiring = leases.acquire(site.resource, { ttlMs: LONG_MS });
      await dropped;
      const { token, grantId } = await site.view();
      after(proxy);
      expect(await acquiring).toMatchObject({ token, grantId });
      expect(proxy.counts.answersDropped).toBe(1);
      expect(await site.view()).toMatchObject({ token, grantId, renewedAt: null });
    },
  );

  it("is kept when answers to its renewals are lost, and connections are reset", async (context) => {
    const { site, openBehind } = await world.open(context);
    const { proxy, leases } = await openBehind(LONG_MS);
    const lease = await leases.acquire(site.resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
    proxy.reset();
    await site.renewed();
    for (let round = 0; round < 5; round += 1) {
      await proxy.dropNextAnswer();
      proxy.reset();
      await site.renewed();
    }
    expect(lease.checkAlive()).toBe(true);
    await site.expectHeldBy(lease);
    expect(proxy.counts.answersDropped).toBe(5);
    await lease.release();
  });

  it("is lost when nothing comes through, and not revived by what comes too late", async (context) => {
    const { site, openBehind } = await world.open(context);
    const { proxy, leases } = await openBehind(TTL_MS);
    const lease = await leases.acquire(site.resource, { ttlMs: TTL_MS, renewIntervalMs: 100 });
    await site.renewed();
    const lost = once(lease.signal, "abort");
    proxy.hold("toServer");
    const next = await site.succeed();
    await lost;
    expect(lease.checkAlive()).toBe(false);
    // A renewal was held past the ttl, and reaches the server now.
    expect(proxy.counts.heldBytes.toServer).toBeGreaterThan(0);
    const { broken, forwardedBytes } = proxy.counts;
    const forwarded = forwardedBytes.toServer;
    proxy.letGo("toServer");
    // The held bytes are on their way, unless the client has reset the connection, as it may when it gives up a request.
    expect(forwardedBytes.toServer > forwarded || broken > 0).toBe(true);
    expect(await site.write(lease.token)).toBe("STALE_TOKEN");
    await site.expectOnlyUnfencedSuffers(lease.token, next);
    await next.renew();
    await site.expectHeldBy(next);
  });

  it("is one side's of a partition, though both go on renewing", async (context) => {
    const { site, openBehind } = await world.open(context);
    const { proxy, leases: cutOff } = await openBehind(TTL_MS);
    const old = await cutOff.acquire(site.resource, { ttlMs: TTL_MS, renewIntervalMs: 100 });
    await site.renewed();
    const lost = once(old.signal, "abort");
    blackhole(proxy);
    const next = await site.succeed();
    await lost;
    expect([old.checkAlive(), next.checkAlive()]).toEqual([false, true]);
    proxy.reset();
    proxy.heal();
    await expect(old.renew()).rejects.toMatchObject({ code: "LEASE_LOST" });
    // Connected again, it sees who holds the lease.
    expect(await cutOff.tryRun(site.resource, {}, () => {})).toMatchObject({ ran: false });
    await next.renew();
    await site.expectHeldBy(next);
    expect(next.token).toBeGreaterThan(old.token);
  });
}

async function killed(
  server: FaultyServer,
  world: LeaseWorld,
  context: TestContext,
): Promise<void> {
  const { site } = await world.open(context);
  const lease = await site.leases.acquire(site.resource, { ttlMs: LONG_MS, renewIntervalMs: 50 });
  for (let round = 0; round < 2; round += 1) {
    await site.renewed();
    await server.kill9();
    // Asked of a dead server: it comes to an end, one way or the other.
    const meanwhile = site.leases.tryAcquire(newLeaseId(systemRandom), { ttlMs: LONG_MS });
    await server.start();
    await meanwhile.then((one) => one?.release()).catch(() => {});
    await until(expect, "the server answers", () => site.view().then(Boolean, () => false));
  }
  await site.renewed();
  expect(lease.checkAlive()).toBe(true);
  await site.expectHeldBy(lease);
  await lease.release();
  const next = await site.leases.acquire(site.resource);
  expect(next.token).toBeGreaterThan(lease.token);
  await next.release();
}
