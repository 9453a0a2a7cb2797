/** leasehold/compat/redlock: what node-redlock 5 documents, on Redis and on PostgreSQL. */
import { Redis } from "ioredis";
// @ts-expect-error: its types cannot be found by those who import it as a module
import NodeRedlockModule from "redlock";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import Redlock, {
  type Client,
  ExecutionError,
  type Lock,
  ResourceLockedError,
  type Settings,
} from "../../packages/leasehold/src/compat/redlock.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";
import { endAll } from "../support/processes/processes.js";

const LONG_MS = 60_000;
const NOW: Partial<Settings> = { retryCount: 0 };

let names = 0;
const fresh = () => `resource-${(names += 1)}`;

/** @param clientOf a new client for a `Redlock`, and its URL */
function behaves(clientOf: () => Client, urlOf: () => string) {
  const opened: Redlock[] = [];
  const open = (settings?: Partial<Settings>) => {
    const redlock = new Redlock([clientOf()], settings);
    opened.push(redlock);
    return redlock;
  };
  let ours: Redlock;
  let theirs: Redlock;
  beforeAll(() => {
    ours = open();
    theirs = open();
  });
  afterAll(() => Promise.all(opened.map((redlock) => redlock.quit())));

  it("has the documented defaults, and keeps what is passed", () => {
    expect(ours.settings).toEqual({
      driftFactor: 0.01,
      retryCount: 10,
      retryDelay: 200,
      retryJitter: 100,
      automaticExtensionThreshold: 500,
    });
    expect(open({ retryCount: 3 }).settings).toMatchObject({ retryCount: 3, retryDelay: 200 });
    expect(ours.clients.size).toBe(1);
  });

  it("acquires, excludes others, and releases", async () => {
    const resource = fresh();
    const before = Date.now();
    const lock = await ours.acquire([resource], LONG_MS);
    expect(lock.resources).toEqual([resource]);
    expect(lock.value).not.toBe("");
    expect(lock.expiration).toBeGreaterThan(before + LONG_MS * 0.98 - 1_000);
    expect(lock.expiration).toBeLessThan(Date.now() + LONG_MS);
    await expect(theirs.acquire([resource], LONG_MS, NOW)).rejects.toThrow(ExecutionError);
    const { attempts } = await lock.release();
    expect(attempts).toHaveLength(1);
    expect(lock.expiration).toBe(0);
    await (await theirs.acquire([resource], LONG_MS, NOW)).release();
  });

  it("excludes a second caller of the same instance", async () => {
    const resource = fresh();
    const lock = await ours.acquire([resource], LONG_MS);
    await expect(ours.acquire([resource], LONG_MS, NOW)).rejects.toThrow(ExecutionError);
    await lock.release();
  });

  it("shows the votes in attempts, and emits the error", async () => {
    const resource = fresh();
    const emitted: Error[] = [];
    const redlock = open();
    redlock.on("error", (error: Error) => emitted.push(error));
    const lock = await ours.acquire([resource], LONG_MS);
    const [won] = await Promise.all(lock.attempts);
    expect(won).toMatchObject({ membershipSize: 1, quorumSize: 1 });
    expect([won?.votesFor.size, won?.votesAgainst.size]).toEqual([1, 0]);
    const error = await refusalOf(redlock.acquire([resource], LONG_MS, NOW));
    const [lost] = await Promise.all(error.attempts);
    expect([...(lost?.votesAgainst.values() ?? [])]).toEqual([expect.any(ResourceLockedError)]);
    expect(emitted).toEqual([expect.any(ResourceLockedError)]);
    await lock.release();
  });

  it("waits for retryCount times retryDelay, then gives up", async () => {
    const resource = fresh();
    const lock = await ours.acquire([resource], LONG_MS);
    const begun = performance.now();
    await refusalOf(theirs.acquire([resource], LONG_MS, { retryCount: 3, retryDelay: 100 }));
    expect(performance.now() - begun).toBeGreaterThanOrEqual(290);
    await lock.release();
  });

  it("gets the lock when it is released while it waits", async () => {
    const resource = fresh();
    const lock = await ours.acquire([resource], LONG_MS);
    let isWaiting = true;
    const waiting = theirs.acquire([resource], LONG_MS, { retryCount: -1 }).finally(() => {
      isWaiting = false;
    });
    await theirs.acquire([fresh()], LONG_MS);
    expect(isWaiting).toBe(true);
    await lock.release();
    await (await waiting).release();
  });

  it("acquires all resources or none", async () => {
    const [a, b, c] = [fresh(), fresh(), fresh()];
    const held = await ours.acquire([b], LONG_MS);
    await refusalOf(theirs.acquire([a, b, c], LONG_MS, NOW));
    const free = await ours.acquire([a, c], LONG_MS, NOW);
    await Promise.all([free.release(), held.release()]);
    const all = await theirs.acquire([c, a, b], LONG_MS, NOW);
    expect(all.resources).toEqual([c, a, b]);
    await refusalOf(ours.acquire([a], LONG_MS, NOW));
    await all.release();
    await (await ours.acquire([a], LONG_MS, NOW)).release();
  });

  it("gives all resources the whole duration, however long it waited for the last", async () => {
    const [a, b] = [fresh(), fresh()];
    const held = await ours.acquire([b], LONG_MS);
    const waiting = theirs.acquire([a, b], 2_000, { retryCount: -1 });
    await expect
      .poll(() =>
        ours.acquire([a], LONG_MS, NOW).then(
          (lock) => lock.release(),
          () => "held",
        ),
      )
      .toBe("held");
    await new Promise((resolve) => setTimeout(resolve, 500));
    const releasedMs = Date.now();
    await held.release();
    const lock = await waiting;
    expect(lock.expiration).toBeGreaterThan(releasedMs + 1_700);
    await lock.release();
  });

  it("ends by itself after the duration", async () => {
    const resource = fresh();
    const lock = await ours.acquire([resource], 300);
    const next = await theirs.acquire([resource], LONG_MS);
    expect(lock.expiration).toBe(0);
    await expect(lock.extend(LONG_MS)).rejects.toThrow(ExecutionError);
    await expect(lock.release()).rejects.toThrow(ExecutionError);
    // A late release leaves the next holder's lock alone.
    await refusalOf(ours.acquire([resource], LONG_MS, NOW));
    await next.release();
  });

  it("extends by another duration, into a lock that replaces the old one", async () => {
    const resource = fresh();
    const before = await ours.acquire([resource], 1_000);
    const beganMs = Date.now();
    const lock = await before.extend(LONG_MS);
    expect(lock.value).toBe(before.value);
    expect(before.expiration).toBe(0);
    expect(lock.expiration).toBeGreaterThan(beganMs + LONG_MS * 0.9);
    await expect(before.extend(LONG_MS)).rejects.toThrow(/has ended/);
    await refusalOf(theirs.acquire([resource], LONG_MS, { retryCount: 6, retryDelay: 200 }));
    expect(lock.expiration).toBeGreaterThan(Date.now());
    await lock.release();
    await (await theirs.acquire([resource], LONG_MS, NOW)).release();
  });

  it("refuses to extend what an operator has revoked", async () => {
    const resource = fresh();
    await using leasehold = await connect(urlOf());
    const lock = await ours.acquire([resource], LONG_MS);
    await leasehold.revoke(resource, { free: "now" });
    const error = await refusalOf(ours.extend(lock, LONG_MS));
    const [stats] = await Promise.all(error.attempts);
    expect([...(stats?.votesAgainst.values() ?? [])]).toMatchObject([{ code: "LEASE_LOST" }]);
    expect(lock.leases.signal.aborted).toBe(true);
  });

  it("using extends the lock for as long as the routine runs, and releases it", async () => {
    const resources = [fresh(), fresh()];
    const settings = { automaticExtensionThreshold: 300 };
    const result = await ours.using(resources, 600, settings, async (signal, lock) => {
      const first = lock.expiration;
      await until(expect, "it is extended twice", () => lock.expiration > first + 500);
      expect([signal.aborted, signal.error]).toEqual([false, undefined]);
      await refusalOf(theirs.acquire(resources, LONG_MS, NOW));
      return "value";
    });
    expect(result).toBe("value");
    await (await theirs.acquire(resources, LONG_MS, NOW)).release();
  });

  it("using aborts the signal of its routine when the lock is lost, and rejects", async () => {
    const resource = fresh();
    const emitted: Error[] = [];
    const redlock = open();
    redlock.on("error", (error: Error) => emitted.push(error));
    await using leasehold = await connect(urlOf());
    const error = await refusalOf(
      redlock.using([resource], 2_000, async (signal) => {
        await leasehold.revoke(resource, { free: "now" });
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        if (signal.error) throw signal.error;
      }),
    );
    expect(error.cause).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
    expect(emitted).toContain(error.cause);
    const late = redlock.using([resource], 2_000, async (signal) => {
      await leasehold.revoke(resource, { free: "now" });
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    await expect(late).rejects.toThrow(/has ended/);
  });

  it("using releases when the routine throws, and rejects with its error", async () => {
    const resource = fresh();
    const failing = ours.using([resource], LONG_MS, NOW, () => Promise.reject(new Error("mine")));
    await expect(failing).rejects.toThrow("mine");
    await (await theirs.acquire([resource], LONG_MS, NOW)).release();
  });

  it("using refuses a duration without room for extensions", async () => {
    const using = ours.using([fresh()], 599, () => Promise.resolve());
    await expect(using).rejects.toThrow(/at least 100 ms more than automaticExtensionThreshold/);
  });

  it("refuses a duration that is not whole milliseconds", async () => {
    const message = /duration must be whole milliseconds/;
    await expect(ours.acquire([fresh()], 1_000.5)).rejects.toThrow(message);
    const lock = await ours.acquire([fresh()], LONG_MS);
    await expect(lock.extend(Number.NaN)).rejects.toThrow(message);
    await lock.release();
  });

  it("gives each resource a fencing token that grows", async () => {
    const [a, b] = [fresh(), fresh()];
    const first = await ours.acquire([a, b], LONG_MS);
    const tokens = first.tokens;
    expect([...tokens.keys()]).toEqual([a, b]);
    expect((await first.extend(LONG_MS)).tokens).toEqual(tokens);
    await first.release();
    const second = await theirs.acquire([a], LONG_MS);
    expect(second.tokens.get(a)).toBeGreaterThan(tokens.get(a) ?? Number.NaN);
    await second.release();
  });

  it("works on a client that connect() returned, and closes it", async () => {
    const leasehold = await connect(urlOf());
    const redlock = new Redlock([leasehold]);
    const resource = fresh();
    const lock = await redlock.acquire([resource], 1_000);
    const beganMs = Date.now();
    expect((await lock.extend(LONG_MS)).expiration).toBeGreaterThan(beganMs + LONG_MS / 2);
    await lock.release();
    await redlock.quit();
    await expect(leasehold.get(resource)).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("quit ends the work of using by its signal, and rejects what comes after", async () => {
    const resource = fresh();
    const redlock = open();
    const working = redlock.using([resource], LONG_MS, async (signal) => {
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
      void redlock.quit();
      await aborted;
      return signal.error;
    });
    expect(await working).toMatchObject({ cause: { code: "CLOSED" } });
    await redlock.quit();
    await (await theirs.acquire([resource], LONG_MS, NOW)).release();
    expect((await refusalOf(redlock.acquire([resource], LONG_MS))).cause).toMatchObject({
      code: "CLOSED",
    });
  });
}

/** What it rejects with. */
async function refusalOf(call: Promise<unknown>): Promise<ExecutionError> {
  const error: unknown = await call.then(
    () => "it did not reject",
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ExecutionError);
  return error as ExecutionError;
}

describeRedis("on Redis, a Redlock", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server.remove();
    await endAll();
  });
  behaves(
    () => new Redis(server.port),
    () => server.url,
  );

  it("quits the ioredis client", async () => {
    const client = new Redis(server.port);
    const redlock = new Redlock([client]);
    await (await redlock.acquire([fresh()], LONG_MS)).release();
    const ended = new Promise((resolve) => client.once("end", resolve));
    await Promise.all([redlock.quit(), redlock.quit()]);
    await ended;
    expect(client.status).toBe("end");
  });

  it("excludes node-redlock while both run, in its format", async () => {
    const NodeRedlock = NodeRedlockModule as new (clients: Redis[], settings: object) => Redlock;
    const client = new Redis(server.port);
    const old = new NodeRedlock([client], NOW);
    const redlock = new Redlock([redis({ client, format: "redlock" })], NOW);
    const resource = fresh();
    const theirs = await old.acquire([resource], LONG_MS);
    await refusalOf(redlock.acquire([resource], LONG_MS));
    await theirs.release();
    const ours: Lock = await (await redlock.acquire([resource], LONG_MS)).extend(LONG_MS);
    expect(() => ours.tokens).toThrow(expect.objectContaining({ code: "NO_TOKEN" }) as Error);
    await expect(old.acquire([resource], LONG_MS)).rejects.toThrow();
    await ours.release();
    await (await old.acquire([resource], LONG_MS)).release();
    await redlock.quit();
    await client.quit();
  });

  it("emits the errors of an unavailable store, and attempts extensions again", async () => {
    const proxy = await openTcpProxy({ port: server.port });
    const redlock = new Redlock([`redis://127.0.0.1:${proxy.port}`], { retryDelay: 50 });
    const emitted: Error[] = [];
    redlock.on("error", (error: Error) => emitted.push(error));
    const lock = await redlock.acquire([fresh()], LONG_MS);
    proxy.refuse();
    const extending = redlock.extend(lock, LONG_MS, { retryCount: -1 });
    await until(expect, "the error is emitted", () => emitted.length > 0);
    expect(emitted[0]).toMatchObject({ code: "STORE_UNAVAILABLE" });
    proxy.heal();
    const extended = await extending;
    expect(extended.attempts.length).toBeGreaterThan(1);
    await extended.release();
    await redlock.quit();
    await proxy.close();
  });
});

describePostgres("on PostgreSQL, a Redlock", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());
  behaves(
    () => database.url,
    () => database.url,
  );
});

describe("the constructor", () => {
  const made: Redis[] = [];
  const client = () => {
    const one = new Redis({ lazyConnect: true });
    made.push(one);
    return one;
  };
  afterEach(() => {
    for (const one of made.splice(0)) one.disconnect();
  });

  it("says why one client is enough, and what to do with several", () => {
    const many = () => new Redlock([client(), client(), client()]);
    expect(many).toThrow(/must have one element, not 3.*fencing tokens.*Pass the client of one/);
    expect(() => new Redlock([])).toThrow(/must have one element/);
    const wrong = [{}] as unknown as Client[];
    expect(() => new Redlock(wrong)).toThrow(/must have an ioredis client, a URL or a source/);
  });

  it("refuses scripts", () => {
    const scripts = { acquireScript: "return 1" } as never;
    expect(() => new Redlock([client()], {}, scripts)).toThrow(/scripts cannot be replaced/);
  });
});
