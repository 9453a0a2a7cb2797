/** When the work of a singleton starts again, and when it does not. */
import { expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faulty-store.js";
import { LeaseClient } from "../core/index.js";
import { manualEnv } from "../testing/index.js";
import { markOf } from "./leadership.js";
import { type SingletonOptions, type SingletonWork, singletonOver } from "./singleton.js";

function open() {
  const env = manualEnv();
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
  const { clock, make, leases } = open();
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
