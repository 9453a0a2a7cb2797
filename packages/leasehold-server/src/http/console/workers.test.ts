/** Workers of more leases than are read, and the tasks ahead of one in a long queue. */
import type { LeaseStore, LeaseView, Page } from "leasehold";
import type { TaskQuery, TaskStore, TaskView } from "leasehold/internal";
import { expect, test } from "vitest";
import { leaseView } from "../../../../../tests/support/worlds/lease-view.js";
import { queuedIn } from "./queued.js";
import type { Claimer } from "./recent-calls.js";
import { withClaims, workersOf } from "./workers.js";

const lease = (resource: string, holder: string) => leaseView(resource, { holder });

test.each([
  [null, null, true],
  ["more", null, false],
  [null, "more", false],
])("workers hold leases and tasks; with the cursors %s and %s: complete %s", async (...args) => {
  const [leasesCursor, tasksCursor, complete] = args;
  const page = (nextCursor: string | null, ...items: LeaseView[]): Promise<Page<LeaseView>> =>
    Promise.resolve({ items, nextCursor });
  const stores = {
    leases: { list: () => page(leasesCursor, lease("r", "b")) } as unknown as LeaseStore,
    tasks: { leases: () => page(tasksCursor, lease("task:1", "a")) } as unknown as TaskStore,
  };
  const found = await workersOf(stores, "n");
  expect(found.complete).toBe(complete);
  const held = found.workers.map(({ holder, holds }) => [holder, [...holds].length]);
  expect(held.toSorted()).toEqual([
    ["a", 1],
    ["b", 1],
  ]);
});

test("a worker has its latest claim, and one that holds nothing is listed too, by name", () => {
  const claim = (holder: string, queue: string, waiting = false): Claimer => ({
    holder,
    queues: [queue],
    kinds: null,
    at: queue,
    waiting,
    abandoned: 0,
  });
  const claimers = [claim("c", "1"), claim("a", "2"), claim("c", "3", true)];
  const workers = [{ holder: "b", lastHeartbeatAt: null, holds: [] }];
  const found = withClaims(workers, claimers);
  expect(found.map(({ holder, claims }) => [holder, claims?.queues[0], claims?.waiting])).toEqual([
    ["a", "2", false],
    ["b", undefined, undefined],
    ["c", "3", true],
  ]);
});

test.each([
  [0, 0, false, 1],
  [200, 200, false, 1],
  [201, 201, false, 2],
  [1_000, 1_000, false, 5],
  [1_001, 1_000, true, 5],
])(
  "of a queue of %i tasks %i are read; more: %s, in %i pages",
  async (count, read, more, pages) => {
    const queries: TaskQuery[] = [];
    const list = async (query: TaskQuery) => {
      queries.push(query);
      const from = Number(query.cursor ?? 0);
      const end = Math.min(count, from + 200);
      const items = Array.from(
        { length: end - from },
        (_, index) => ({ id: `${from + index}`, priority: 0, scheduledAt: "" }) as TaskView,
      );
      return { items, nextCursor: end < count ? `${end}` : null };
    };
    const queued = await queuedIn({ list }, { namespace: "n", queue: "q" });
    expect(new Set(queued.tasks.map(({ id }) => id)).size).toBe(read);
    expect([queued.more, queries.length]).toEqual([more, pages]);
    for (const query of queries) {
      expect(query).toMatchObject({ namespace: "n", queue: "q", states: ["pending"] });
    }
  },
);
