/** Commands that read page after page, and how they add the pages up. */
import type { AuditEntry, TaskQuery, TaskView } from "leasehold/internal";
import { expect, test } from "vitest";
import { exportAll } from "./audit.js";
import { allOf } from "./stores.js";
import { matching } from "./task-actions.js";

const range = (count: number) => Array.from({ length: count }, (_, n) => n);

/** Pages of the numbers below `count`, each with the cursor of the next. */
function paged(count: number, most: number) {
  const asked: (string | undefined)[] = [];
  const page = ({ limit = most, cursor }: { limit?: number; cursor?: string }) => {
    asked.push(cursor);
    const from = Number(cursor ?? 0);
    const items = range(count).slice(from, from + Math.min(limit, most));
    const end = from + items.length;
    return { items, nextCursor: end < count ? `${end}` : null };
  };
  return { asked, page };
}

test.each([0, 1, 999, 1_000, 1_001, 2_500])(
  "an export of %i entries has each of them once, and ends with the end of the chain",
  async (count) => {
    const entries = range(count).map((n) => ({ seq: n + 1, hash: `hash ${n + 1}` }) as AuditEntry);
    const lines: object[] = [];
    await exportAll(
      { read: async (after, limit) => entries.filter(({ seq }) => seq > after).slice(0, limit) },
      async (more) => lines.push(...more),
    );
    expect(lines.slice(0, -1)).toEqual(entries);
    const last = entries.at(-1);
    const end = last ?? { seq: 0, hash: "0".repeat(64) };
    expect(lines.at(-1)).toEqual({ end: { seq: end.seq, hash: end.hash } });
  },
);

test("all of several pages are read up to the limit, and no page after it", async () => {
  for (const [count, limit, reads] of [
    [0, 5, 1],
    [250, 1_000, 3],
    [250, 250, 3],
    [1_000, 200, 2],
    [1_000, 150, 2],
  ] as const) {
    const { asked, page } = paged(count, 100);
    expect(await allOf(async (part) => page(part), limit)).toEqual(range(count).slice(0, limit));
    expect(asked).toHaveLength(reads);
  }
});

test.each([
  [0, 0, false],
  [450, 450, false],
  [1_000, 1_000, false],
  [1_001, 1_000, true],
  [5_000, 1_000, true],
])("of %i matching tasks, an action takes %i, and says whether there are more", async (...args) => {
  const [count, taken, more] = args;
  const { page } = paged(count, 200);
  const queries: TaskQuery[] = [];
  const tasks = {
    list: async (query: TaskQuery) => {
      queries.push(query);
      const { items, nextCursor } = page(query);
      return { items: items.map((n) => ({ id: `${n}` }) as TaskView), nextCursor };
    },
  };
  const found = await matching(tasks, "retry", { namespace: "n", queue: "q", kind: "k" });
  expect(found).toEqual({ ids: range(taken).map(String), more });
  // Every page has the filters of the first.
  const filters = {
    namespace: "n",
    queue: "q",
    kind: "k",
    states: ["dead", "cancelled", "expired"],
  };
  for (const query of queries) expect(query).toMatchObject(filters);
});
