import { expect, it, vi } from "vitest";
import type { Env } from "../env/index.js";
import { HeldLease } from "../lease/held-lease.js";
import {
  InvalidOptionError,
  LeaseLostError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../lease/index.js";
import { memory } from "../stores/memory/index.js";
import Redlock, { ExecutionError, type Settings } from "./redlock.js";

const MISSPELT = { retryCuont: 3 } as Partial<Settings>;
const REFUSED = {
  code: "INVALID_OPTION",
  path: "retryCuont",
  message: expect.stringContaining("retryCount"),
};

it("refuses a setting that does not exist, and names those that do", async () => {
  expect(() => new Redlock(["memory:"], MISSPELT)).toThrow(expect.objectContaining(REFUSED));
  const redlock = new Redlock(["memory:"]);
  await expect(redlock.acquire(["a"], 1_000, MISSPELT)).rejects.toMatchObject(REFUSED);
  const using = redlock.using(["a"], 1_000, MISSPELT, async () => "ran");
  await expect(using).rejects.toMatchObject(REFUSED);
  const lock = await redlock.acquire(["a"], 1_000, { retryCount: 0 });
  await expect(redlock.extend(lock, 1_000, MISSPELT)).rejects.toMatchObject(REFUSED);
  await expect(redlock.release(lock, MISSPELT)).rejects.toMatchObject(REFUSED);
  await redlock.release(lock);
  await redlock.quit();
});

it.each<[keyof Settings, number, string]>([
  ["retryDelay", -1, "must be from 0"],
  ["retryDelay", Number.NaN, "must be a number"],
  ["retryCount", Number.NaN, "must be a number"],
  ["retryCount", -2, "must be from -1"],
  ["retryCount", -0.5, "must be -1, which waits for ever, or from 0"],
  ["retryJitter", Number.POSITIVE_INFINITY, "must be from 0"],
  ["driftFactor", 1, "must be from 0 to 0.5"],
  ["automaticExtensionThreshold", Number.NaN, "must be a number"],
])("names the setting %s that is %d, of its own and of a call", async (path, value, problem) => {
  const settings = { [path]: value };
  const message = expect.stringContaining(`${path} ${problem}`) as string;
  const refused = expect.objectContaining({ code: "INVALID_OPTION", path, message }) as unknown;
  expect(() => new Redlock(["memory:"], settings)).toThrow(refused);
  const redlock = new Redlock(["memory:"]);
  await expect(redlock.acquire(["a"], 1_000, settings)).rejects.toEqual(refused);
  const using = redlock.using(["a"], 1_000, settings, async () => "ran");
  await expect(using).rejects.toEqual(refused);
  await redlock.quit();
});

it.each([
  ["a generator function", function* () {}],
  ["an async generator function", async function* () {}],
])("refuses %s as a routine: its call would run nothing", async (_, generator) => {
  const redlock = new Redlock(["memory:"]);
  const routine = generator as never;
  const refused = { code: "INVALID_OPTION", path: "routine" };
  await expect(redlock.using(["a"], 1_000, routine)).rejects.toMatchObject(refused);
  await expect(redlock.using(["a"], 1_000, {}, routine)).rejects.toMatchObject(refused);
  await redlock.quit();
});

it("waits for ever by an endless retryCount, whatever the delay", async () => {
  const client = fakeClient();
  const redlock = new Redlock([client], { retryCount: Number.POSITIVE_INFINITY, retryDelay: 0 });
  await redlock.acquire(["a"], 1_000);
  expect(client.asked).toMatchObject([{ waitMs: Number.POSITIVE_INFINITY }]);
});

it("leaves no lock behind if the renewal after an acquire of several resources fails", async () => {
  const redlock = new Redlock(["memory:"]);
  const error = new InvalidOptionError("ttlMs", "cannot be renewed");
  const renew = vi.spyOn(HeldLease.prototype, "renew").mockRejectedValue(error);
  await expect(redlock.acquire(["a", "b"], 10_000)).rejects.toBe(error);
  renew.mockRestore();
  const lock = await redlock.acquire(["b", "a"], 10_000, { retryCount: 0 });
  await redlock.release(lock);
  await redlock.quit();
});

it("takes the default of a setting that is no number, of its own and of a call", async () => {
  const client = fakeClient();
  const wrong = { retryDelay: "5", driftFactor: undefined, retryCount: null } as object;
  const redlock = new Redlock([client], { ...wrong, retryJitter: 7 });
  const defaults = { retryDelay: 200, driftFactor: 0.01, retryCount: 10 };
  expect(redlock.settings).toMatchObject({ ...defaults, retryJitter: 7 });
  await redlock.acquire(["a"], 1_000, wrong);
  expect(client.asked).toMatchObject([{ waitMs: 2_000, driftRatio: 0.01 }]);
});

it("shows a routine at its beginning that its lock is lost already", async () => {
  const client = fakeClient();
  const { acquireAll } = client;
  const lost = new LeaseLostError("a", "expired");
  client.acquireAll = async (...args) => {
    const group = await acquireAll(...args);
    client.ending.abort(lost);
    return group;
  };
  const errors: Error[] = [];
  const redlock = new Redlock([client]);
  redlock.on("error", (error) => errors.push(error));
  const seen = await redlock.using(["a"], 1_000, async ({ aborted, error }) => ({
    aborted,
    error,
  }));
  expect(seen).toMatchObject({ aborted: true, error: { name: "ExecutionError", cause: lost } });
  expect(errors).toEqual([lost]);
});

/** A client whose leases are what the test makes of them. */
function fakeClient() {
  const leftMs = new Map<string, number>();
  const renewed: [resource: string, ttlMs: number][] = [];
  const client = {
    /** Of the lock that was acquired last. */
    ending: new AbortController(),
    leftMs,
    renewed,
    renew: async () => {},
    acquired: async () => {},
    isAlive: true,
    asked: [] as object[],
    releases: 0,
    closes: 0,
    async acquireAll(resources: readonly string[], options: object) {
      client.asked.push({ resources: [...resources], ...options });
      await client.acquired();
      client.ending = new AbortController();
      return {
        leases: resources.map((resource, index) => ({
          resource,
          token: 7 + index,
          leaseId: `id-${resource}`,
          remainingMs: () => leftMs.get(resource) ?? 5_000,
          renew: async ({ ttlMs }: { ttlMs: number }) => {
            await client.renew();
            renewed.push([resource, ttlMs]);
          },
        })),
        signal: client.ending.signal,
        checkAlive: () => client.isAlive,
        release: async () => void (client.releases += 1),
      };
    },
    close: async () => void (client.closes += 1),
  };
  return client;
}
const QUICK = { retryDelay: 1, retryJitter: 0 };
const unavailable = () => new StoreUnavailableError("it is down", { outcome: "none" });
const failing = (times: number, made: () => Error = unavailable) => {
  let calls = 0;
  return async () => {
    calls += 1;
    if (calls <= times) throw made();
  };
};

it("sends an extension again retryCount times, and shows each attempt", async () => {
  for (const [fails, retryCount] of [
    [2, 2],
    [3, 2],
    [1, 0],
    [5, -1],
  ] as const) {
    const client = fakeClient();
    const redlock = new Redlock([client], { ...QUICK, retryCount });
    const errors: Error[] = [];
    redlock.on("error", (error) => errors.push(error));
    const lock = await redlock.acquire(["a"], 1_000);
    client.renew = failing(fails);
    const extended = await redlock.extend(lock, 2_000).catch((error: unknown) => error);
    const isEnough = retryCount === -1 || fails <= retryCount;
    const { attempts } = extended as ExecutionError;
    expect(attempts).toHaveLength(isEnough ? fails + 1 : retryCount + 1);
    const votes = (await Promise.all(attempts)).map(({ votesFor }) => votesFor.size);
    expect(votes).toEqual(attempts.map((_, at) => (isEnough && at === fails ? 1 : 0)));
    expect(extended instanceof ExecutionError).toBe(!isEnough);
    expect(errors).toHaveLength(isEnough ? fails : retryCount + 1);
    expect(client.renewed).toEqual(isEnough ? [["a", 2_000]] : []);
  }
});

it("emits an error once, however often it is met", async () => {
  const client = fakeClient();
  const redlock = new Redlock([client], { ...QUICK, retryCount: 5 });
  const errors: Error[] = [];
  redlock.on("error", (error) => errors.push(error));
  const lock = await redlock.acquire(["a"], 1_000);
  const error = unavailable();
  client.renew = failing(3, () => error);
  expect((await redlock.extend(lock, 1_000)).attempts).toHaveLength(4);
  expect(errors).toEqual([error]);
});

it("sends no extension again for a lock that has ended, nor what another attempt cannot change", async () => {
  const client = fakeClient();
  const redlock = new Redlock([client], QUICK);
  const lock = await redlock.acquire(["a"], 1_000);
  client.renew = async () => {
    client.isAlive = false;
    throw unavailable();
  };
  await expect(redlock.extend(lock, 1_000)).rejects.toMatchObject({ attempts: { length: 1 } });
  client.renew = failing(9, () => new InvalidOptionError("ttlMs", "is wrong"));
  await expect(redlock.extend(lock, 1_000)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  client.acquired = failing(9);
  // The client has waited and tried again already.
  await expect(redlock.acquire(["b"], 1_000)).rejects.toMatchObject({ attempts: { length: 1 } });
  expect(client.asked).toHaveLength(2);
});

it("waits and renews as its settings and those of one call say", async () => {
  const client = fakeClient();
  const redlock = new Redlock([client], { retryCount: 3, retryDelay: 50, driftFactor: 0.2 });
  await redlock.acquire(["a"], 900);
  await redlock.acquire(["a"], 900, { retryCount: -1, driftFactor: 0.1 });
  await redlock.acquire(["a"], 900, { retryCount: 0 });
  await redlock.using(["a"], 900, async () => {});
  await redlock.using(["a"], 900, { automaticExtensionThreshold: 700 }, async () => {});
  const common = { resources: ["a"], ttlMs: 900, driftRatio: 0.2, autoRenew: false };
  expect(client.asked).toEqual([
    { ...common, waitMs: 150 },
    { ...common, waitMs: Number.POSITIVE_INFINITY, driftRatio: 0.1 },
    { ...common, waitMs: 0 },
    { ...common, waitMs: 150, autoRenew: true, renewIntervalMs: 300 },
    { ...common, waitMs: 150, autoRenew: true, renewIntervalMs: 200 },
  ]);
  expect(client.renewed).toEqual([]);
  await redlock.acquire(["a", "b"], 900);
  expect(client.renewed).toEqual([
    ["a", 900],
    ["b", 900],
  ]);
});

it("trusts a lock of several resources as long as the first of them, and no longer once replaced", async () => {
  const client = fakeClient();
  const redlock = new Redlock([client]);
  const lock = await redlock.acquire(["a", "b"], 10_000);
  expect(lock.value).toBe("id-a,id-b");
  expect([...lock.tokens]).toEqual([
    ["a", 7],
    ["b", 8],
  ]);
  client.leftMs.set("a", 60_000).set("b", 2_000);
  const leftMs = lock.expiration - Date.now();
  expect(leftMs).toBeLessThanOrEqual(2_000);
  const longer = await lock.extend(10_000);
  expect(lock.expiration).toBe(0);
  expect(longer.expiration).toBeGreaterThan(0);
  client.leftMs.set("b", 0);
  expect(longer.expiration).toBe(0);
  await expect(redlock.extend(longer, 10_000)).rejects.toBeInstanceOf(ExecutionError);
});

it("says why the lock of a routine was lost, once, and passes on what the routine throws", async () => {
  const client = fakeClient();
  const redlock = new Redlock([client]);
  const errors: Error[] = [];
  redlock.on("error", (error) => errors.push(error));
  const reason = new LeaseLostError("a", "revoked");
  const thrown = new Error("of the routine");
  const using = redlock.using(["a"], 1_000, async (signal) => {
    expect(signal.error).toBeUndefined();
    client.isAlive = false;
    client.ending.abort(reason);
    expect(signal.error).toMatchObject({ name: "ExecutionError", cause: reason });
    throw thrown;
  });
  await expect(using).rejects.toBe(thrown);
  expect(errors).toEqual([reason]);
  expect(client.releases).toBe(1);
});

it("opens its client again after an attempt that failed, and closes it once", async () => {
  let opens = 0;
  const closed = vi.fn(async () => {});
  const source = {
    async open(env: Env) {
      opens += 1;
      if (opens === 1) throw new StoreMisconfiguredError("not yet");
      const stores = await memory().open(env);
      return { ...stores, close: closed };
    },
  };
  const redlock = new Redlock([source]);
  await expect(redlock.acquire(["a"], 1_000)).rejects.toMatchObject({
    code: "STORE_MISCONFIGURED",
  });
  const lock = await redlock.acquire(["a"], 1_000);
  await redlock.acquire(["b"], 1_000);
  expect(opens).toBe(2);
  await lock.release();
  await Promise.all([redlock.quit(), redlock.quit()]);
  expect(closed).toHaveBeenCalledTimes(1);
  await expect(redlock.acquire(["a"], 1_000)).rejects.toMatchObject({ name: "ExecutionError" });
});
