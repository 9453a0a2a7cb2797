/** What a tenant may keep in the stores, as an instance counts it, on a manual clock. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { Quotas } from "./quotas.js";

type Query = { states?: readonly string[]; limit?: number; cursor?: string };

interface Contents {
  /** Live leases, and all lease records. */
  live?: number;
  records?: number;
  /** Unfinished tasks, and ended ones. Negative: the store is unavailable. */
  pending?: number;
  done?: number;
  /** How long a page takes. */
  pageMs?: number;
}

/** What is named "known ..." is there. A tenant may have 10,000 records for each that may be live, and is counted in pages. */
function open(contents: Contents, limit: number | null, recordsPer: number | null = null) {
  const logged: object[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const { clock } = env;
  const queries: Query[] = [];
  let counts = 0;
  const leases = {
    async list(query: Query) {
      queries.push(query);
      if (contents.pageMs !== undefined) {
        await new Promise<void>((resolve) => clock.timer(contents.pageMs ?? 0, resolve));
      }
      const all = (query.states ? contents.live : contents.records) ?? 0;
      const at = Number(query.cursor ?? "0");
      const items = Array.from({ length: Math.min(1_000, all - at) });
      return { items, nextCursor: at + 1_000 < all ? `${at + 1_000}` : null };
    },
    get: async (keys: readonly { resource: string }[]) =>
      keys.map(({ resource }) => (resource.startsWith("known") ? { state: "live" } : null)),
  };
  const tasks = {
    async counts() {
      counts += 1;
      const { pending = 0, done = 0 } = contents;
      if (done < 0) throw new Error("unavailable");
      return { pending, running: 0, done, dead: 0, cancelled: 0, expired: 0 };
    },
    list: async ({ ids = [] }: { ids?: readonly string[] }) => ({
      items: ids.filter((id) => id.startsWith("known")),
    }),
  };
  const ports = { leases, tasks } as unknown as ConstructorParameters<typeof Quotas>[1];
  const perOne = { recordsPerLease: recordsPer, recordsPerTask: recordsPer };
  const limits = { leases: limit, tasks: limit, ratePerSecond: null };
  const quotas = new Quotas(env, ports, perOne, { of: async () => limits });
  /** Whether there was room. */
  const reserve = async (
    quota: "leases" | "tasks",
    named: readonly (string | null)[],
    namespace = "n",
  ) => (await quotas.reserve(namespace, quota, named, (read) => read())) === null;
  const reserveUpTo = (wanted: number) =>
    quotas.reserveUpTo("n", "leases", wanted, (read) => read());
  return { clock, logged, limits, queries, counts: () => counts, quotas, reserve, reserveUpTo };
}

/** So many that are not there yet. */
const news = (count: number) => Array.from({ length: count }, () => null);

it("lets a tenant reserve all that remains, and no more, also at the same time", async () => {
  const { reserve, queries } = open({ live: 7, pending: 4 }, 10);
  const taking = [3, 2, 1].map((more) => reserve("leases", news(more)));
  expect(await Promise.all(taking)).toEqual([true, false, false]);
  // The first count is shared.
  expect(queries).toEqual([{ namespace: "n", states: ["live"], limit: 1_000 }]);
  expect(await reserve("tasks", news(7))).toBe(false);
  expect(await reserve("tasks", news(6))).toBe(true);
  expect(await reserve("leases", news(3), "other")).toBe(true);
});

it("reserves for those that are there already, also at the limit", async () => {
  const { reserve } = open({ live: 9, pending: 10 }, 10);
  expect(await reserve("leases", ["known 1", "known 2", "new"])).toBe(true);
  expect(await reserve("leases", ["known 1", "new"])).toBe(false);
  expect(await reserve("tasks", ["known 1", "known 2"])).toBe(true);
  expect(await reserve("tasks", ["known 1", null])).toBe(false);
});

it("reserves a part of what is wanted, and says so where nothing remains", async () => {
  const { reserveUpTo, quotas } = open({ live: 7 }, 10);
  expect([await reserveUpTo(2), await reserveUpTo(2), await reserveUpTo(0)]).toEqual([2, 1, 0]);
  await expect(reserveUpTo(1)).rejects.toMatchObject({ code: "LIMIT_REACHED" });
  quotas.note("leases", "n", { live: -2 });
  const all = (wanted: number) => quotas.tryReserve("n", "leases", wanted, (read) => read());
  expect([await all(3), await all(2), await all(1), await all(0)]).toEqual([
    false,
    true,
    false,
    true,
  ]);
});

it("counts what is live after five seconds, and after half a second before it refuses", async () => {
  const contents = { live: 8 };
  const { clock, reserve, queries } = open(contents, 10);
  await clock.advance(60_000);
  expect(await reserve("leases", news(2))).toBe(true);
  contents.live = 5;
  await clock.advance(499);
  expect([await reserve("leases", news(1)), queries.length]).toEqual([false, 1]);
  await clock.advance(1);
  expect([await reserve("leases", news(1)), queries.length]).toEqual([true, 2]);
  await clock.advance(4_999);
  expect([await reserve("leases", news(1)), queries.length]).toEqual([true, 2]);
  await clock.advance(1);
  expect([await reserve("leases", news(1)), queries.length]).toEqual([true, 3]);
});

it("stops counting at the limit, and lets others go on between the pages", async () => {
  const at = open({ live: 5_000 }, 1_000);
  expect(await at.reserve("leases", news(1))).toBe(false);
  expect(at.queries).toHaveLength(1);
  const above = open({ live: 5_000 }, 1_001);
  let turns = 0;
  const counting = () => {
    turns += 1;
    if (above.queries.length < 2) setImmediate(counting);
  };
  setImmediate(counting);
  expect(await above.reserve("leases", news(1))).toBe(false);
  expect(above.queries.map(({ cursor }) => cursor)).toEqual([undefined, "1000"]);
  expect(turns).toBeGreaterThan(0);
});

it("notes changes once it has counted", async () => {
  const { reserve, quotas } = open({ live: 7 }, 10);
  quotas.note("leases", "n", { live: 1 });
  expect(quotas.counts("leases", "n")).toBe(false);
  expect(await reserve("leases", news(2))).toBe(true);
  expect(quotas.counts("leases", "n")).toBe(true);
  quotas.note("leases", "n", { live: -2 });
  expect([await reserve("leases", news(4)), await reserve("leases", news(3))]).toEqual([
    false,
    true,
  ]);
});

it("asks the store nothing about a tenant without a limit", async () => {
  const { reserve, reserveUpTo, queries, counts } = open({ live: 7 }, null, 1);
  expect(await reserve("leases", news(1_000))).toBe(true);
  expect(await reserve("tasks", news(1_000))).toBe(true);
  expect(await reserveUpTo(5_000)).toBe(5_000);
  expect([queries.length, counts()]).toEqual([0, 0]);
});

it("admits records until the first count of them, and then as many as there is room for", async () => {
  const { clock, reserve, quotas } = open({ records: 9_997 }, 1_000, 1);
  expect(await reserve("leases", ["a", "b"])).toBe(true);
  for (let turn = 0; turn < 30; turn += 1) await clock.settle();
  // 9,997 of 10,000, and the two that were reserved during the count.
  expect(await reserve("leases", ["c", "d"])).toBe(false);
  expect(await reserve("leases", ["c"])).toBe(true);
  expect(await reserve("leases", ["e"])).toBe(false);
  expect(await reserve("leases", ["known 1", "known 2"])).toBe(true);
  expect(await reserve("leases", ["known 1", "e"])).toBe(false);
  quotas.note("leases", "n", { records: -3 });
  expect(await reserve("leases", ["e"])).toBe(true);
});

it("returns what it reserved of what may be live if there is no room for its record", async () => {
  const contents = { live: 0, records: 20_000 };
  const { clock, reserve, reserveUpTo } = open(contents, 10, 1);
  expect(await reserve("leases", ["a"])).toBe(true);
  for (let turn = 0; turn < 20; turn += 1) await clock.settle();
  expect(await reserve("leases", news(9))).toBe(false);
  expect(await reserveUpTo(20)).toBe(9);
});

it.each([
  [5, 100, 10_000],
  [1_000, 100, 100_000],
])(
  "lets a tenant with a limit of %i leases have, with %i records for each, %i",
  async (limit, per, most) => {
    const { clock, reserve } = open({ records: most - 2 }, limit, per);
    expect(await reserve("leases", ["a"])).toBe(true);
    for (let turn = 0; turn < 300; turn += 1) await clock.settle();
    expect([await reserve("leases", ["b"]), await reserve("leases", ["c"])]).toEqual([true, false]);
  },
);

it("counts records again after a minute, or after 10 s if there is no room", async () => {
  const contents = { live: 0, done: 9_998 };
  const { clock, reserve, counts } = open(contents, 10_000, 1);
  const take = async () => {
    const taken = await reserve("tasks", [null]);
    await clock.settle();
    return taken;
  };
  expect([await take(), await take(), await take()]).toEqual([true, true, false]);
  // Each count of records, beside those of what is live.
  const before = counts();
  await clock.advance(9_000);
  contents.done = 9_995;
  expect(await take()).toBe(false);
  await clock.advance(1_000);
  // This one begins the count.
  expect([await take(), await take()]).toEqual([false, true]);
  expect(counts()).toBeGreaterThan(before);
});

it("counts for at most a twentieth of the time, and once at a time", async () => {
  const { clock, reserve, queries } = open({ live: 5, pageMs: 1_000 }, 5);
  const both = [reserve("leases", ["a"]), reserve("leases", ["b"])];
  await clock.advance(1_000);
  expect(await Promise.all(both)).toEqual([false, false]);
  expect(queries).toHaveLength(1);
  await clock.advance(19_999);
  expect([await reserve("leases", ["c"]), queries.length]).toEqual([false, 1]);
  await clock.advance(1);
  const again = reserve("leases", ["d"]);
  await clock.advance(1_000);
  expect([await again, queries.length]).toEqual([false, 2]);
});

it("tries again after a count of records that failed", async () => {
  const contents = { pending: 0, done: 0 };
  const { clock, reserve, counts } = open(contents, 10_000, 1);
  expect(await reserve("tasks", [null])).toBe(true);
  await clock.settle();
  contents.done = -1;
  await clock.advance(60_000);
  await expect(reserve("tasks", [null])).rejects.toThrow("unavailable");
  contents.done = 10_000;
  expect(await reserve("tasks", [null])).toBe(true);
  await clock.settle();
  expect(await reserve("tasks", [null])).toBe(false);
  expect(counts()).toBeGreaterThan(3);
});

it("lets the history have as many grants of a tenant as it may have records, and as many again each hour", async () => {
  const { clock, logged, limits, quotas, reserve } = open({}, 10, 1);
  const taken = (namespace: string, times: number) =>
    Array.from({ length: times }, () => quotas.takeHistory(namespace)).filter(Boolean).length;
  expect(taken("n", 20_000)).toBe(20_000);
  await reserve("leases", ["a"]);
  expect([taken("n", 15_000), taken("other", 15_000)]).toEqual([10_000, 15_000]);
  await clock.advance(360_000);
  expect(logged).toEqual([{ event: "history_left_out", leftOut: 5_000 }]);
  expect(taken("n", 15_000)).toBe(1_000);
  await clock.advance(36_000_000);
  expect(taken("n", 15_000)).toBe(10_000);
  // The limit of tasks says nothing of it, and without one of leases all are taken.
  limits.tasks = 1;
  await reserve("tasks", [null]);
  expect(taken("n", 1)).toBe(0);
  limits.leases = null;
  await reserve("leases", ["b"]);
  expect(taken("n", 15_000)).toBe(15_000);
});
