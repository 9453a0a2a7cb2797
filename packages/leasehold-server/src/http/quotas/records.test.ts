import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { Quotas } from "./quotas.js";
import { mostRecords, Records } from "./records.js";

type Query = { states?: readonly string[]; limit?: number; cursor?: string };

/** Records over a store of this many lease records and tasks, whose pages take `pageMs`. */
function recordsOver(contents: { leases: number; tasks: number; pageMs?: number }) {
  const clock = manualClock();
  const queries: Query[] = [];
  let counts = 0;
  const leases = {
    async list(query: Query) {
      queries.push(query);
      if (contents.pageMs !== undefined) {
        await new Promise<void>((resolve) => clock.timer(contents.pageMs ?? 0, resolve));
      }
      const at = Number(query.cursor ?? "0");
      const items = Array.from({ length: Math.min(1_000, contents.leases - at) });
      return { items, nextCursor: at + 1_000 < contents.leases ? `${at + 1_000}` : null };
    },
    get: async (keys: readonly { resource: string }[]) =>
      keys.map(({ resource }) => (resource.startsWith("known") ? {} : null)),
  };
  const tasks = {
    async counts() {
      counts += 1;
      if (contents.tasks < 0) throw new Error("unavailable");
      return { pending: 0, running: 0, done: contents.tasks, dead: 0, cancelled: 0, expired: 0 };
    },
    list: async ({ ids = [] }: { ids?: readonly string[] }) => ({
      items: ids.filter((id) => id.startsWith("known")),
    }),
  };
  const ports = [leases, tasks] as unknown as [
    ConstructorParameters<typeof Records>[1],
    ConstructorParameters<typeof Records>[2],
  ];
  return { clock, queries, counts: () => counts, records: new Records(clock, ...ports) };
}

it.each([
  [null, 100, null],
  [5, null, null],
  [5, 100, 10_000],
  [1_000, 100, 100_000],
])("allows for a limit of %s, with %s for each, %s records", (limit, perOne, most) => {
  expect(mostRecords(limit, perOne)).toBe(most);
});

it("admits all until the first count, and then as many as there is room for", async () => {
  const { clock, records } = recordsOver({ leases: 7, tasks: 0 });
  expect(await records.take("leases", "n", ["a", "b"], 10)).toBe(true);
  await clock.settle();
  // 7 and the two that were reserved during the count.
  expect(await records.take("leases", "n", ["c", "d"], 10)).toBe(false);
  expect(await records.take("leases", "n", ["c"], 10)).toBe(true);
  expect(await records.take("leases", "n", ["e"], 10)).toBe(false);
  expect(await records.take("leases", "n", ["known 1", "known 2"], 10)).toBe(true);
  expect(await records.take("leases", "n", ["known 1", "e"], 10)).toBe(false);
  records.note("leases", "n", -3);
  expect(await records.take("leases", "n", ["e"], 10)).toBe(true);
  // Another tenant has room of its own.
  expect(await records.take("leases", "other", ["e"], 10)).toBe(true);
});

it("counts records in all states, and no further than the limit", async () => {
  const { clock, records, queries } = recordsOver({ leases: 5_000, tasks: 0 });
  await records.take("leases", "n", ["a"], 2_000);
  await clock.settle();
  await clock.settle();
  expect(queries).toEqual([
    { namespace: "n", limit: 1_000 },
    { namespace: "n", limit: 1_000, cursor: "1000" },
  ]);
});

it("counts again after a minute, or after 10 s if there is no room", async () => {
  const contents = { leases: 8, tasks: 0 };
  const { clock, records, queries } = recordsOver(contents);
  const take = async (name: string) => {
    const taken = await records.take("leases", "n", [name], 10);
    await clock.settle();
    return taken;
  };
  expect([await take("a"), await take("b"), await take("c")]).toEqual([true, true, false]);
  await clock.advance(9_999);
  contents.leases = 5;
  expect([await take("d"), queries.length]).toEqual([false, 1]);
  await clock.advance(1);
  // This one begins the count.
  expect([await take("e"), await take("e"), queries.length]).toEqual([false, true, 2]);
  await clock.advance(59_999);
  expect([await take("f"), queries.length]).toEqual([true, 2]);
  await clock.advance(1);
  expect([await take("g"), queries.length]).toEqual([true, 3]);
});

it("counts for at most a twentieth of the time, and once at a time", async () => {
  const { clock, records, queries } = recordsOver({ leases: 10, tasks: 0, pageMs: 10_000 });
  const take = () => records.take("leases", "n", ["a"], 5);
  expect([await take(), await take()]).toEqual([true, true]);
  expect(queries).toHaveLength(1);
  await clock.advance(10_000);
  await clock.advance(199_999);
  expect([await take(), queries.length]).toEqual([false, 1]);
  await clock.advance(1);
  expect([await take(), queries.length]).toEqual([false, 2]);
});

it("counts tasks in all states, and tries again after a count that failed", async () => {
  const contents = { leases: 0, tasks: -1 };
  const { clock, records, counts } = recordsOver(contents);
  const take = async (ids: readonly (string | null)[]) => {
    const taken = await records.take("tasks", "n", ids, 10);
    await clock.settle();
    return taken;
  };
  expect(await take([null])).toBe(true);
  contents.tasks = 9;
  expect([await take([null]), counts()]).toEqual([true, 2]);
  expect(await take([null])).toBe(false);
  expect(await take(["known 1", "known 2"])).toBe(true);
  expect(await take(["known 1", "new"])).toBe(false);
  expect(await take(["known 1", null])).toBe(false);
});

it("lets others go on between the pages that it counts", async () => {
  const pagesAt: number[] = [];
  let turn = 0;
  const list = async ({ cursor = "0" }: Query) => {
    pagesAt.push(turn);
    const at = Number(cursor) + 1;
    return { items: [{}], nextCursor: at < 5 ? `${at}` : null };
  };
  const ports = [{ list }, {}] as unknown as [
    ConstructorParameters<typeof Records>[1],
    ConstructorParameters<typeof Records>[2],
  ];
  const clock = manualClock();
  const count = async (begin: () => Promise<unknown>) => {
    pagesAt.length = 0;
    turn = 0;
    await Promise.all([
      begin(),
      (async () => {
        for (; turn < 20; turn += 1) await clock.settle();
      })(),
    ]);
    expect(pagesAt).toHaveLength(5);
    expect(new Set(pagesAt).size).toBe(5);
  };
  await count(() => new Records(clock, ...ports).take("leases", "n", ["a"], 10));
  await count(() => new Quotas(clock, ...ports).remaining("leases", "n", 10));
});
