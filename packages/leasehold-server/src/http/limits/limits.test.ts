import { manualClock, manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { Quotas } from "../quotas/quotas.js";
import { Admission } from "./admission.js";
import { DEFAULT_LIMITS, Rates, resolveLimits, servedTtl, TenantsLimits } from "./limits.js";

const RANGE = { minMs: 1, maxMs: 2 ** 31, stepMs: 1 };

it("accepts TTLs of one second to one hour, within the store's limits", () => {
  const limits = resolveLimits();
  expect(servedTtl(RANGE, limits)).toEqual({ minMs: 1_000, maxMs: 3_600_000, stepMs: 1 });
  const coarse = { minMs: 4_000_000, maxMs: 9_000_000, stepMs: 1_000 };
  expect(servedTtl(coarse, limits)).toEqual({ minMs: 4_000_000, maxMs: 4_000_000, stepMs: 1_000 });
});

it.each<[limits: object, path: string]>([
  [{ inFlight: 0 }, "limits.inFlight"],
  [{ ratePerSecond: 1.5 }, "limits.ratePerSecond"],
  // As `--limits inFlight=none` sets it: no limit would refuse every request.
  [{ inFlight: null }, "limits.inFlight"],
  [{ lease: 1 }, "lease"],
  [{ shortestTtlMs: 5_000, longestTtlMs: 10 }, "limits.longestTtlMs"],
  [{ longestTtlMs: 10 }, "limits.longestTtlMs"],
  [{ shortestTtlMs: 3_600_001 }, "limits.longestTtlMs"],
])("refuses %o, naming it", (limits, path) => {
  expect(() => resolveLimits(limits)).toThrow(expect.objectContaining({ path }));
});

it("allows a burst of one second's worth, then the rate", async () => {
  const clock = manualClock();
  const rates = new Rates(clock);
  const taken = (who: string) => {
    let count = 0;
    while (rates.take(who, 10) === 0) count += 1;
    return count;
  };
  expect(taken("a")).toBe(10);
  expect(taken("b")).toBe(10);
  expect(rates.take("a", 10)).toBe(100);
  await clock.advance(250);
  expect(taken("a")).toBe(2);
  await clock.advance(60_000);
  expect(taken("a")).toBe(10);
  rates.forget();
  expect(taken("a")).toBe(0);
});

it("allows one request every two seconds if that is the rate", async () => {
  const clock = manualClock();
  const rates = new Rates(clock);
  expect(rates.take("a", 0.5)).toBe(0);
  expect(rates.take("a", 0.5)).toBe(2_000);
  await clock.advance(2_000);
  expect(rates.take("a", 0.5)).toBe(0);
});

it.each([0.1, 0.3, 0.5, 1, 2.5])(
  "allows %s requests a second in the long run too, to a client that waits as long as asked",
  async (ratePerSecond) => {
    const clock = manualClock();
    const rates = new Rates(clock);
    let taken = 0;
    while (clock.monotonic() < 1_000_000) {
      const waitMs = rates.take("patient", ratePerSecond);
      if (waitMs === 0) taken += 1;
      await clock.advance(waitMs);
      // As the server does now and then.
      if (taken % 10 === 0) rates.forget();
    }
    const burst = Math.max(1, ratePerSecond);
    expect(taken).toBeGreaterThanOrEqual(1_000 * ratePerSecond - 2);
    expect(taken).toBeLessThanOrEqual(1_000 * ratePerSecond + burst);
  },
);

it("remembers a slow client for as long as it must wait", async () => {
  const clock = manualClock();
  const rates = new Rates(clock);
  expect(rates.take("slow", 0.01)).toBe(0);
  await clock.advance(60_000);
  rates.forget();
  expect(rates.take("slow", 0.01)).toBe(40_000);
  // A bucket that was empty at a higher rate is not full because a lower one now applies.
  expect(rates.take("slowed", 10)).toBe(0);
  expect(rates.take("slowed", 0.01)).toBe(0);
  await clock.advance(1_000);
  rates.forget();
  expect(rates.take("slowed", 0.01)).toBe(99_000);
});

it("reads a tenant's limits again after five seconds, and keeps the known ones while reads fail", async () => {
  const clock = manualClock();
  let leases: number | null | Error = 7;
  const read = async () => {
    if (leases instanceof Error) throw leases;
    return { leases, tasks: null, ratePerSecond: null };
  };
  const control = { limits: { read } } as unknown as ConstructorParameters<typeof TenantsLimits>[1];
  const limits = new TenantsLimits({ ...DEFAULT_LIMITS, tasks: 5 }, control, clock);
  const own = { leases: 7, tasks: 5, ratePerSecond: 1_000 };
  expect(await limits.of("a")).toEqual(own);
  leases = 8;
  expect(await limits.of("a")).toEqual(own);
  await clock.advance(5_000);
  expect(await limits.of("a")).toEqual({ ...own, leases: 8 });
  leases = new Error("unavailable");
  await clock.advance(5_000);
  expect(await limits.of("a")).toEqual({ ...own, leases: 8 });
});

it("gives every tenant the server's limits where no store keeps others", async () => {
  const limits = new TenantsLimits({ ...DEFAULT_LIMITS, leases: 3 }, undefined, manualClock());
  expect(await limits.of("a")).toEqual({ leases: 3, tasks: null, ratePerSecond: 1_000 });
});

it("applies each of a tenant's own limits before the server's", async () => {
  const none = { leases: null, tasks: null, ratePerSecond: null };
  const kept: Readonly<Record<string, object>> = {
    a: { ...none, leases: 1 },
    b: { ...none, tasks: 2 },
    c: { ...none, ratePerSecond: 3 },
  };
  const read = async (namespace: string) => kept[namespace] ?? none;
  const control = { limits: { read } } as unknown as ConstructorParameters<typeof TenantsLimits>[1];
  const server = { leases: 70, tasks: 80, ratePerSecond: 90 };
  const limits = new TenantsLimits({ ...DEFAULT_LIMITS, ...server }, control, manualClock());
  const all = await Promise.all(["a", "b", "c", "d"].map((namespace) => limits.of(namespace)));
  expect(all).toEqual([
    { ...server, leases: 1 },
    { ...server, tasks: 2 },
    { ...server, ratePerSecond: 3 },
    server,
  ]);
});

it("does not wait long for a store that hangs, and uses its late answer", async () => {
  const clock = manualClock();
  const answers: ((leases: number) => void)[] = [];
  const read = () =>
    new Promise<object>((resolve) => {
      answers.push((leases) => resolve({ leases, tasks: null, ratePerSecond: null }));
    });
  const control = { limits: { read } } as unknown as ConstructorParameters<typeof TenantsLimits>[1];
  const limits = new TenantsLimits(DEFAULT_LIMITS, control, clock);
  const first = limits.of("a");
  answers[0]?.(7);
  expect(await first).toMatchObject({ leases: 7 });
  await clock.advance(5_000);
  const second = limits.of("a");
  await clock.advance(250);
  expect(await second).toMatchObject({ leases: 7 });
  // A second call does not wait for the same read.
  expect(await limits.of("a")).toMatchObject({ leases: 7 });
  answers[1]?.(8);
  await clock.advance(0);
  expect(await limits.of("a")).toMatchObject({ leases: 8 });
});

it("counts a tenant's leases periodically, and adds changes in between", async () => {
  const clock = manualClock();
  let live = 1_500;
  const list = async ({ cursor = "0" }: { cursor?: string }) => {
    const at = Number(cursor);
    const items = Array.from({ length: Math.min(1_000, live - at) });
    return { items, nextCursor: at + 1_000 < live ? `${at + 1_000}` : null };
  };
  const leases = { list } as unknown as ConstructorParameters<typeof Quotas>[1];
  const tasks = {
    counts: async () => ({ pending: 2, running: 3 }),
  } as unknown as ConstructorParameters<typeof Quotas>[2];
  const quotas = new Quotas(clock, leases, tasks);
  expect(await quotas.remaining("leases", "a", 2_000)).toBe(500);
  quotas.note("leases", "a", 499);
  expect(await quotas.remaining("leases", "a", 2_000)).toBe(1);
  expect(await quotas.take("leases", "a", news(2), 2_000)).toBe(false);
  // Much has ended: the count is repeated before a refusal.
  live = 10;
  await clock.advance(500);
  expect(await quotas.take("leases", "a", news(2), 2_000)).toBe(true);
  await clock.advance(5_000);
  expect(await quotas.remaining("leases", "a", 2_000)).toBe(1_990);
  expect(await quotas.remaining("tasks", "a", 5)).toBe(0);
});

/** So many that are not there yet. */
const news = (count: number) => Array.from({ length: count }, () => null);

/** Quotas over stores of this many live leases and unfinished tasks. */
function quotasOver(contents: { live: number; pending: number }) {
  const clock = manualClock();
  const queries: { states?: readonly string[]; cursor?: string }[] = [];
  const list = async (query: { states?: readonly string[]; cursor?: string }) => {
    queries.push(query);
    const at = Number(query.cursor ?? "0");
    const items = Array.from({ length: Math.min(1_000, contents.live - at) });
    return { items, nextCursor: at + 1_000 < contents.live ? `${at + 1_000}` : null };
  };
  const counts = async () => ({ pending: contents.pending, running: 0 });
  const [leases, tasks] = [{ list }, { counts }] as unknown as [
    ConstructorParameters<typeof Quotas>[1],
    ConstructorParameters<typeof Quotas>[2],
  ];
  return { clock, queries, quotas: new Quotas(clock, leases, tasks) };
}

it("lets a tenant reserve all that remains, and no more, also at the same time", async () => {
  const { quotas, queries } = quotasOver({ live: 7, pending: 4 });
  const taking = [3, 2, 1].map((more) => quotas.take("leases", "a", news(more), 10));
  expect(await Promise.all(taking)).toEqual([true, false, false]);
  // The first count is shared; only then it is repeated before the refusals.
  expect(queries.length).toBeLessThanOrEqual(2);
  for (const { states } of queries) expect(states).toEqual(["live"]);
  expect(await quotas.take("tasks", "a", news(1), 4)).toBe(false);
  expect(await quotas.take("tasks", "a", news(1), 5)).toBe(true);
  expect(await quotas.take("leases", "b", news(3), 10)).toBe(true);
});

it("notes no change of what it has not counted", async () => {
  const { quotas } = quotasOver({ live: 7, pending: 0 });
  quotas.note("leases", "a", 1);
  expect(await quotas.remaining("leases", "a", 10)).toBe(3);
});

it("counts anew by the age of a count, whenever that was made", async () => {
  const contents = { live: 1, pending: 0 };
  const { quotas, clock } = quotasOver(contents);
  await clock.advance(60_000);
  expect(await quotas.remaining("leases", "a", 10)).toBe(9);
  contents.live = 2;
  await clock.advance(4_999);
  expect(await quotas.remaining("leases", "a", 10)).toBe(9);
  await clock.advance(1);
  expect(await quotas.remaining("leases", "a", 10)).toBe(8);
});

it("stops counting at the limit", async () => {
  const { quotas, queries } = quotasOver({ live: 5_000, pending: 0 });
  expect(await quotas.remaining("leases", "a", 1_000)).toBe(0);
  expect(queries).toHaveLength(1);
  expect(await quotas.remaining("leases", "b", 1_001)).toBe(-999);
  expect(queries.map(({ cursor }) => cursor)).toEqual([undefined, undefined, "1000"]);
});

it("admits demands up to the limit, and the next one when one has ended", () => {
  const admission = new Admission(manualEnv(), { inFlight: 2, lateMs: null });
  const leave = admission.enter();
  expect(admission.enter()).not.toBeNull();
  expect(admission.enter()).toBeNull();
  leave?.();
  expect(admission.enter()).not.toBeNull();
  admission.close();
});

it("adapts the limit to as many demands as do not queue", async () => {
  const env = manualEnv();
  const admission = new Admission(env, { inFlight: 1_000, lateMs: 250 });
  const fill = () => {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(); leave; leave = admission.enter()) leaving.push(leave);
    return leaving;
  };
  const round = async (ms: number) => {
    const leaving = fill();
    await env.clock.advance(ms);
    for (const leave of leaving) leave();
    return leaving.length;
  };
  expect([await round(10), await round(10)]).toEqual([256, 257]);
  // Each demand waits for all others.
  const rooms = [await round(1_010), await round(360), await round(260)];
  expect(rooms).toEqual([258, 64, 46]);
  for (let rounds = 0; rounds < 20; rounds += 1) await round(1_000);
  expect(await round(1_000)).toBe(32);
  // A distant store takes long for every demand.
  for (let rounds = 0; rounds < 2_000; rounds += 1) await round(400);
  expect(await round(400)).toBeGreaterThan(500);
  admission.close();
}, 60_000);

it("raises the limit again for a store that has become slower than its fastest answer", async () => {
  const env = manualEnv();
  const admission = new Admission(env, { inFlight: 64, lateMs: 250 });
  const round = async (ms: number) => {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(); leave; leave = admission.enter()) leaving.push(leave);
    await env.clock.advance(ms);
    for (const leave of leaving) leave();
    return leaving.length;
  };
  const rooms = [await round(0), await round(400), await round(400), await round(400)];
  expect(rooms).toEqual([64, 64, 40, 32]);
  for (let rounds = 0; rounds < 400; rounds += 1) await round(400);
  expect(await round(400)).toBe(64);
  admission.close();
});

it("admits no demands while the event loop is late, and admits them again when it is on time", async () => {
  const { clock, logger } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission({ clock: late, logger }, { inFlight: 1_000, lateMs: 250 });
  expect(admission.enter()).not.toBeNull();
  // Each sample is a second late.
  for (let samples = 0; samples < 10; samples += 1) {
    lateMs += 1_000;
    await clock.advance(50);
  }
  expect(admission.enter()).toBeNull();
  await clock.advance(2_000);
  expect(admission.enter()).not.toBeNull();
  admission.close();
});

it("raises the limit by one at a time for a distant store, and never above the maximum", async () => {
  const env = manualEnv();
  const admission = new Admission(env, { inFlight: 258, lateMs: 250 });
  const rooms: number[] = [];
  for (let rounds = 0; rounds < 5; rounds += 1) {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(); leave; leave = admission.enter()) leaving.push(leave);
    rooms.push(leaving.length);
    await env.clock.advance(400);
    for (const leave of leaving) leave();
  }
  // Two of its demands found the limit reached: the last one of each round.
  expect(rooms).toEqual([256, 257, 258, 258, 258]);
  admission.close();
  expect(env.clock.pendingTimers).toBe(0);
});

it("admits as many demands as the maximum says where no delay is too long", () => {
  const admission = new Admission(manualEnv(), { inFlight: 300, lateMs: null });
  let admitted = 0;
  while (admission.enter()) admitted += 1;
  expect(admitted).toBe(300);
  admission.close();
});

it("takes a single pause of the event loop for no overload", async () => {
  const { clock, logger } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission({ clock: late, logger }, { inFlight: 1_000, lateMs: 250 });
  admission.enter();
  lateMs = 1_000;
  await clock.advance(50);
  expect(admission.isFull).toBe(false);
  admission.close();
});

it("takes an event loop that is on time for no late one", async () => {
  const env = manualEnv();
  const admission = new Admission(env, { inFlight: 1_000, lateMs: 60 });
  admission.enter();
  await env.clock.advance(10_000);
  expect(admission.isFull).toBe(false);
  admission.close();
  expect(env.clock.pendingTimers).toBe(0);
  // Nothing to stop.
  new Admission(env, { inFlight: 1, lateMs: null }).close();
});

it("samples a late event loop until it is on time, also with no demand in flight", async () => {
  const { clock, logger } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission({ clock: late, logger }, { inFlight: 1_000, lateMs: 250 });
  const leave = admission.enter();
  for (let samples = 0; samples < 10; samples += 1) {
    lateMs += 1_000;
    await clock.advance(50);
  }
  leave?.();
  expect(admission.isFull).toBe(true);
  await clock.advance(5_000);
  expect(admission.isFull).toBe(false);
  expect(clock.pendingTimers).toBe(0);
});

it("logs refusals at most every ten seconds, with their number", async () => {
  const logged: object[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const admission = new Admission(env, { inFlight: 1, lateMs: null });
  const leave = admission.enter();
  await env.clock.advance(3_000);
  for (let times = 0; times < 5; times += 1) admission.refuse();
  await env.clock.advance(9_999);
  admission.refuse();
  const line = { event: "overloaded", inFlight: 1, lateMs: 0 };
  expect(logged).toEqual([{ ...line, refused: 1 }]);
  await env.clock.advance(1);
  leave?.();
  admission.refuse();
  expect(logged[1]).toEqual({ ...line, inFlight: 0, refused: 6 });
  admission.close();
});
