/** When the work of a singleton starts again, and when it does not. */
import { expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { silentLogger } from "../env/index.js";
import { LeaseClient, StoreMisconfiguredError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { markOf } from "./leadership.js";
import { type SingletonOptions, type SingletonWork, singletonOver } from "./singleton.js";

function open(logger = silentLogger) {
  const env = manualEnv({ logger });
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env, holder: "a" }, { close: undefined });
  const make = (work: SingletonWork, options: SingletonOptions = {}) =>
    singletonOver(leases, "job", work, options);
  return { clock: env.clock, store, leases, make };
}
const untilAborted: SingletonWork = (lease) =>
  new Promise((resolve) => lease.signal.addEventListener("abort", () => resolve()));
const closed = expect.objectContaining({ code: "CLOSED" });

it("starts over with a short pause after work that ran for a while", async () => {
  const { clock, make } = open();
  const starts: number[] = [];
  const singleton = make(
    async () => {
      starts.push(clock.monotonic());
      if (starts.length === 5) {
        await new Promise<void>((resolve) => void clock.timer(20_000, resolve));
      }
      throw new Error("broken");
    },
    { restartDelayMs: 1_000, maxRestartDelayMs: 10_000, ttlMs: 60_000 },
  ).start();
  await clock.advance(90_000);
  const pauses = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
  const about = [1_000, 2_000, 4_000, 8_000, 20_000 + 1_000, 2_000, 4_000, 8_000, 10_000, 10_000];
  for (const [index, pause] of pauses.slice(0, about.length).entries()) {
    const expected = about[index]!;
    expect(Math.abs(pause - expected)).toBeLessThanOrEqual(0.1 * expected + 1);
  }
  expect(pauses.length).toBeGreaterThanOrEqual(about.length);
  await singleton.close();
  expect(clock.pendingTimers).toBe(0);
});

it("starts once, however often it is asked to", async () => {
  const { clock, make, leases } = open();
  let starts = 0;
  const singleton = make(async (lease) => {
    starts += 1;
    await untilAborted(lease);
  });
  expect(singleton.start()).toBe(singleton);
  expect(singleton.start()).toBe(singleton);
  await clock.advance(1_000);
  expect(starts).toBe(1);
  expect(markOf((await leases.get("job"))!)).toBe("singleton");
  await singleton.close();
  expect(singleton.lease).toBeUndefined();
});

it("starts again only after its pause, however often it was asked to start", async () => {
  const { clock, make } = open();
  let starts = 0;
  const singleton = make(async () => void (starts += 1), { restartDelayMs: 10_000 });
  singleton.start().start();
  await clock.advance(5_000);
  expect(starts).toBe(1);
  await clock.advance(7_000);
  expect(starts).toBe(2);
  await singleton.close();
});

it("starts again at once after a loss, which is no failure of its work", async () => {
  const errors: string[] = [];
  const error = (_: object, message: string) => void errors.push(message);
  const { clock, make, leases } = open({ ...silentLogger, error });
  const terms: number[] = [];
  const work: SingletonWork = async (lease) => {
    terms.push(lease.token);
    await untilAborted(lease);
    if (lease.token === 2) throw new Error("stopped");
  };
  const singleton = make(work, { ttlMs: 3_000, restartDelayMs: 60_000 }).start();
  for (let loss = 0; loss < 2; loss += 1) {
    await clock.advance(100);
    await leases.revoke("job", { free: "now" });
    await clock.advance(3_000);
  }
  expect(terms).toEqual([1, 2, 3]);
  expect(errors).toEqual([]);
  await singleton.close();
});

it("starts after its pause where the store refused it the lease", async () => {
  const errors: object[] = [];
  const error = (fields: object) => void errors.push(fields);
  const { clock, make, store } = open({ ...silentLogger, error });
  const { acquire } = store;
  const err = new StoreMisconfiguredError("no such table");
  store.acquire = async (requests) =>
    requests.map(() => ({ status: "failed", applied: "no", retryable: false, error: err }));
  const singleton = make(untilAborted).start();
  await clock.advance(500);
  expect(errors).toEqual([{ err, resource: "job" }]);
  store.acquire = acquire;
  await clock.advance(1_000);
  expect(singleton.lease).toBeDefined();
  await singleton.close();
});

it("starts no work once it is closed, even if it has just been granted the lease", async () => {
  for (let turns = 0; turns < 60; turns += 1) {
    const { clock, make, leases, store } = open();
    let startedLate = false;
    let isClosed = false;
    store.faults.acquire = "hold";
    const singleton = make(async (lease) => {
      startedLate = isClosed;
      await untilAborted(lease);
    }).start();
    await clock.settle();
    store.open();
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    isClosed = true;
    const closing = singleton.close();
    await clock.advance(10_000);
    await closing;
    expect(startedLate, `closed after ${turns} turns`).toBe(false);
    expect((await leases.get("job"))?.state).not.toBe("live");
  }
});

it.each<[string, SingletonWork]>([
  ["its work", untilAborted],
  ["its pause", () => Promise.reject(new Error("broken"))],
])("ends with its client at once, also in %s, and warns of nothing", async (_, work) => {
  const warnings: string[] = [];
  const warn = (_fields: object, message: string) => void warnings.push(message);
  const { clock, make, leases } = open({ ...silentLogger, warn });
  const singleton = make(work, { restartDelayMs: 60_000 }).start();
  await clock.advance(100);
  await leases.close();
  await singleton.ended;
  expect(warnings).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

it("does not start after its end or that of its client", async () => {
  const { make, leases } = open();
  const unused = make(untilAborted);
  await unused.close();
  await unused.ended;
  expect(() => unused.start()).toThrow(closed);
  const late = make(untilAborted);
  await leases.close();
  expect(() => late.start()).toThrow(closed);
});

it("stops waiting for the lease when it is closed, and for its pause", async () => {
  const errors: string[] = [];
  const error = (_: object, message: string) => void errors.push(message);
  const { clock, make, leases } = open({ ...silentLogger, error });
  const other = await leases.acquire("job");
  let starts = 0;
  const work: SingletonWork = async () => {
    starts += 1;
    throw new Error("broken");
  };
  const waiting = make(work).start();
  await clock.advance(1_000);
  await waiting.close();
  expect(starts).toBe(0);
  expect(errors).toEqual([]);
  await other.release();
  const pausing = make(work).start();
  await clock.advance(100);
  expect(starts).toBe(1);
  await pausing.close();
  await clock.advance(60_000);
  expect(starts).toBe(1);
  expect(clock.pendingTimers).toBe(0);
});

it("aborts its work with the reason that it was closed", async () => {
  const { clock, make } = open();
  let reason: unknown;
  const singleton = make(async (lease) => {
    await untilAborted(lease);
    reason = lease.signal.reason;
  }).start();
  await clock.advance(100);
  await singleton.close();
  expect(reason).toEqual(closed);
  expect(reason).toHaveProperty("message", expect.stringContaining("this singleton"));
});

it.each<[SingletonOptions, string]>([
  [{ restartDelayMs: 2_000, maxRestartDelayMs: 1_000 }, "maxRestartDelayMs"],
  [{ waitMs: 1 } as never, "waitMs"],
])("refuses the options %j", (options, path) => {
  const { make } = open();
  const refused = expect.objectContaining({ code: "INVALID_OPTION", path });
  expect(() => make(untilAborted, options)).toThrow(refused);
});

it("refuses work that is no function", () => {
  const { make } = open();
  const refused = expect.objectContaining({ code: "INVALID_OPTION", path: "work" });
  expect(() => make("work" as never)).toThrow(refused);
});
