/** Locks of node-redlock and redis-semaphore, the packages themselves, and ours on the same keys. */
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
// @ts-expect-error: see below
import RedlockModule from "redlock";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import {
  type AnyLease,
  connect,
  type Lease,
  type Leasehold,
  type LeaseholdError,
} from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { type Format, redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { endAll } from "../support/processes/processes.js";

const LONG_MS = 60_000;

/** One lock of the other package. */
interface TheirLock {
  /** Answers whether it has it, without waiting. */
  acquire(ttlMs?: number): Promise<boolean>;
  extend(): Promise<boolean>;
  release(): Promise<void>;
}

interface RedlockLock {
  extend(ttlMs: number): Promise<RedlockLock>;
  release(): Promise<unknown>;
}
type RedlockClass = new (
  clients: Redis[],
  settings: object,
) => { acquire(keys: string[], ttlMs: number): Promise<RedlockLock> };
// Its types cannot be found by those who import it as a module.
const Redlock = RedlockModule as RedlockClass;

const THEIRS: Readonly<Record<Format, (client: Redis, resource: string) => TheirLock>> = {
  redlock(client, resource) {
    const redlock = new Redlock([client], { retryCount: 0 });
    let lock: RedlockLock | undefined;
    return {
      async acquire(ttlMs = LONG_MS) {
        lock = await redlock.acquire([resource], ttlMs).catch(() => undefined);
        return lock !== undefined;
      },
      async extend() {
        const extended = await lock?.extend(LONG_MS).catch(() => undefined);
        lock = extended ?? lock;
        return extended !== undefined;
      },
      release: async () => void (await lock?.release().catch(() => {})),
    };
  },
  "redis-semaphore"(client, resource) {
    let mutex = new Mutex(client, resource, { lockTimeout: LONG_MS });
    return {
      acquire(ttlMs = LONG_MS) {
        // It refreshes by itself; the tests say when.
        mutex = new Mutex(client, resource, {
          lockTimeout: ttlMs,
          refreshInterval: 0,
          acquireAttemptsLimit: 1,
        });
        return mutex.tryAcquire();
      },
      // What its timer does.
      extend: () => (mutex as unknown as { _refresh(): Promise<boolean> })._refresh(),
      release: () => mutex.release(),
    };
  },
};

describeRedis("leases in the format of", () => {
  let server: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.port);
  });
  afterAll(async () => {
    client.disconnect();
    await server.remove();
    await endAll();
  });

  for (const format of ["redlock", "redis-semaphore"] as const) {
    describe(format, () => {
      let leases: Leasehold<AnyLease>;
      beforeAll(async () => {
        leases = await connect(`${server.url}?format=${format}`, {
          graceMs: 0,
          holder: "ours",
          unfenced: true,
        });
      });
      afterAll(() => leases.close());
      let resource = "";
      let theirs: TheirLock;
      const next = () => {
        resource = `billing:${newLeaseId(systemRandom)}`;
        theirs = THEIRS[format](client, resource);
      };
      afterEach(() => theirs.release().catch(() => {}));

      it("keep theirs out, until they are released", async () => {
        next();
        const lease = await leases.acquire(resource, { ttlMs: LONG_MS });
        expect(await theirs.acquire()).toBe(false);
        await lease.renew();
        expect(lease.checkAlive()).toBe(true);
        await lease.release();
        expect(await theirs.acquire()).toBe(true);
      });

      it("are kept out by theirs, until those are released", async () => {
        next();
        expect(await theirs.acquire()).toBe(true);
        expect(await leases.tryAcquire(resource)).toBe(null);
        expect(await theirs.extend()).toBe(true);
        const waiting = leases.acquire(resource, { waitMs: LONG_MS });
        await theirs.release();
        const lease = await waiting;
        expect(await theirs.acquire()).toBe(false);
        expect(await theirs.extend()).toBe(false);
        await lease.renew();
        await lease.release();
      });

      it("are not ended by a late release of the former holder", async () => {
        next();
        const ours = await leases.acquire(resource, { ttlMs: 200, autoRenew: false });
        await until(expect, "theirs gets it", () => theirs.acquire());
        await ours.release();
        // The client does not wait for the release of a lost lease, so another release follows it.
        await (await leases.acquire(`${resource}:other`)).release();
        expect(await theirs.extend()).toBe(true);
      });

      it("end by themselves, and so do theirs", async () => {
        next();
        const ours = await leases.acquire(resource, { ttlMs: 200, autoRenew: false });
        await until(expect, "theirs gets it", () => theirs.acquire(200));
        expect(ours.checkAlive()).toBe(false);
        // A late renewal of ours must not extend theirs.
        await expect(ours.renew()).rejects.toMatchObject({ code: "LEASE_LOST" });
        await until(expect, "ours gets it", async () => {
          const lease = await leases.tryAcquire(resource, { ttlMs: LONG_MS });
          return lease !== null;
        });
        // A late renewal by the other client must not extend ours.
        expect(await theirs.extend()).toBe(false);
        expect((await leases.get(resource))?.remainingMs).toBeGreaterThan(LONG_MS / 2);
      });

      it("and theirs have one winner of many", async () => {
        next();
        const contend = [
          ...Array.from({ length: 8 }, async () => {
            const lease = await leases.tryAcquire(resource, { ttlMs: LONG_MS });
            return lease !== null;
          }),
          ...Array.from({ length: 8 }, () => THEIRS[format](client, resource).acquire()),
        ];
        const won = (await Promise.all(contend)).filter(Boolean);
        expect(won).toHaveLength(1);
      });

      it("and theirs can be looked at and revoked, without telling their secrets", async () => {
        next();
        await theirs.acquire();
        const key = format === "redlock" ? resource : `mutex:${resource}`;
        const value = await client.get(key);
        const view = await leases.get(resource);
        expect(view).toMatchObject({ state: "live", holder: `a client of ${format}` });
        expect(JSON.stringify(view)).not.toContain(value);
        expect(await leases.revoke(resource)).toMatchObject({ status: "revoked" });
        expect(await theirs.extend()).toBe(false);
        expect(await leases.tryAcquire(resource)).toBe(null);
        expect(await leases.get(resource)).toMatchObject({ state: "revoked" });
        expect(await leases.revoke(resource, { free: "now" })).toMatchObject({ freeInMs: 0 });
        const lease = await leases.acquire(resource, { ttlMs: LONG_MS });
        await leases.revoke(resource);
        await expect(lease.renew()).rejects.toMatchObject({
          code: "LEASE_LOST",
          reason: "revoked",
        });
      });

      it("have no token, and say so", async () => {
        next();
        const lease = await leases.acquire(resource, { ttlMs: LONG_MS });
        expect(lease).toMatchObject({ isFenced: false, isExclusive: true });
        const refused = expect.objectContaining({ code: "NO_TOKEN" }) as Error;
        expect(() => (lease as Lease).token).toThrow(refused);
        await expect(connect(`${server.url}?format=${format}`)).rejects.toMatchObject({
          code: "INVALID_OPTION",
          path: "unfenced",
        });
        await expect(leases.revoke(resource, { expectedToken: 1 })).rejects.toMatchObject({
          code: "NO_TOKEN",
        });
        await lease.release();
        const stores = await memory().open(systemEnv);
        const opened = await redis({ client, format }).open(systemEnv);
        const serve = () =>
          createApp({ ...stores, leases: opened.leases, auth: "ifAny", version: "test" });
        expect(serve).toThrow(/without fencing tokens cannot be served/);
        await Promise.all([opened.close(), stores.close()]);
      });

      it("refuse what cannot be kept beside theirs", async () => {
        next();
        const refused = (call: Promise<unknown>) =>
          call.then(
            () => "no error",
            (error: LeaseholdError) => error.message,
          );
        expect(await refused(leases.acquire(resource, { metadata: { a: "b" } }))).toMatch(
          /^metadata/,
        );
        expect(await refused(leases.list())).toMatch(/^format red\S+ keeps no list of locks/);
        const url = `${server.url}?format=${format}`;
        const tenant = await connect(url, { namespace: "tenant", unfenced: true });
        expect(await refused(tenant.acquire(resource))).toMatch(/^namespace must be "default"/);
        await tenant.close();
        await client.hset(format === "redlock" ? resource : `mutex:${resource}`, "a", "b");
        expect(await refused(leases.acquire(resource, { waitMs: 0 }))).toMatch(/WRONGTYPE/);
      });
    });
  }

  it("an unknown format is refused", async () => {
    await expect(connect(`${server.url}?format=shedlock`)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: 'url: ?format must be "redlock" or "redis-semaphore"',
    });
  });
});
