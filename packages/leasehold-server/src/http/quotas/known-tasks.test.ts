import type { TaskQuery, TaskStore } from "leasehold/internal";
import { expect, it } from "vitest";
import { countAbsent, knownTasks } from "./known-tasks.js";

const idOf = (n: number) => `ffffffff-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
const idsOf = (from: number, end: number) =>
  Array.from({ length: end - from }, (_, at) => idOf(from + at));

/** A store of the tasks below a number. */
function storeOf(known: number) {
  const queries: TaskQuery[] = [];
  const exist = new Set(idsOf(0, known));
  const list = async (query: TaskQuery) => {
    queries.push(query);
    const items = query.ids?.filter((id) => exist.has(id)).map((id) => ({ id })) ?? [];
    return { items: items.slice(0, query.limit), nextCursor: null };
  };
  return { queries, store: { list } as unknown as Pick<TaskStore, "list"> };
}

it("finds each task once, in pages of lists, which have no large payloads", async () => {
  const { queries, store } = storeOf(350);
  const ids = idsOf(0, 401);
  const found: [number, number][] = [];
  for await (const page of knownTasks(store, "n", [...ids, idOf(10)])) {
    found.push([page.asked, page.found.length]);
  }
  expect(found).toEqual([
    [200, 200],
    [200, 150],
    [1, 0],
  ]);
  expect(queries.map(({ namespace, limit }) => [namespace, limit])).toEqual([
    ["n", 200],
    ["n", 200],
    ["n", 1],
  ]);
});

it("counts the ids of no task, and stops when there are too many", async () => {
  const { queries, store } = storeOf(350);
  expect(await countAbsent(store, "n", idsOf(0, 401), 51)).toBe(51);
  expect(queries).toHaveLength(3);
  expect(await countAbsent(store, "n", idsOf(0, 1_000), 49)).toBe(50);
  expect(queries).toHaveLength(5);
  expect(await countAbsent(store, "n", [], 0)).toBe(0);
});
