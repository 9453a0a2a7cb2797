/** How much of what a namespace has is looked at: a tenant chooses how many kinds and tasks there are. */
import { afterEach, expect, it, vi } from "vitest";
import type { TaskRecord } from "../../tasks/record.js";
import { manualEnv, seededRandom } from "../../testing/index.js";
import { TaskIndex } from "./task-index.js";
import { MemoryTaskState } from "./task-state.js";
import { MemoryTaskStore } from "./tasks.js";

afterEach(() => vi.restoreAllMocks());

/** Not in the order of the numbers. */
const idOf = (number: number) => `${`${number}`.split("").toReversed().join("")}/${number}`;

function pending(number: number, fields: Partial<TaskRecord> = {}): TaskRecord {
  return {
    namespace: "n",
    id: idOf(number),
    seq: number,
    kind: "k",
    queue: "q",
    priority: 0,
    dedupeKey: null,
    version: 1,
    maxAttempts: 3,
    crashLimit: 3,
    backoff: { firstMs: 1_000, longestMs: 1_000, factor: 2, jitter: 0.5 },
    data: "1",
    state: "pending",
    output: "null",
    checkpoint: "null",
    error: null,
    failures: 0,
    crashes: 0,
    postponed: 0,
    startByAtMs: null,
    createdAtMs: 0,
    scheduledAtMs: 0,
    finishedAtMs: null,
    deleteAtMs: null,
    last: null,
    earlier: [],
    ...fields,
  };
}

function storeOf(records: readonly TaskRecord[]) {
  const state = new MemoryTaskState(manualEnv());
  for (const record of records) state.namespace("n").tasks.put(record);
  return new MemoryTaskStore(state);
}

const claim = {
  namespace: "n",
  claimId: "c",
  holder: "h",
  queues: ["other", "q", "q"],
  kinds: null,
  ttlMs: 1_000,
  limit: 20,
};

it.each([
  ["kinds", (number: number) => ({ kind: `k${number}` }), null],
  ["kinds, of which some are claimed", (number: number) => ({ kind: `k${number}` }), 50],
  ["queues", (number: number) => ({ queue: number < 50 ? "q" : `q${number}` }), null],
] as const)("claims from among many %s without looking at all of them", async (_, of, asked) => {
  let reads = 0;
  const records = Array.from({ length: 5_000 }, (_, number) =>
    Object.defineProperty(pending(number, of(number)), "scheduledAtMs", {
      enumerable: true,
      get() {
        reads += 1;
        return 0;
      },
    }),
  );
  const store = storeOf(records);
  reads = 0;
  const kinds = asked && Array.from({ length: asked }, (_, number) => `k${number}`);
  const outcome = await store.claim({ ...claim, kinds });
  const tasks = outcome.status === "claimed" ? outcome.tasks : [];
  expect(tasks.map(({ id }) => id)).toEqual(Array.from({ length: 20 }, (_, n) => idOf(n)));
  expect(reads).toBeLessThan(5_000);
});

it("gives tasks of all queues and kinds in the order of priority, scheduledAt and number", () => {
  const random = seededRandom(3);
  const below = (most: number) => Math.floor(random.float() * most);
  const records = Array.from({ length: 2_000 }, (_, number) =>
    pending(number, {
      queue: `q${below(4)}`,
      kind: `k${below(5)}`,
      priority: below(7) - 3,
      scheduledAtMs: below(20),
    }),
  );
  for (const kinds of [null, ["k1", "k3", "k3", "none"]]) {
    const tasks = new TaskIndex();
    for (const record of records) tasks.put(record);
    const expected = records
      .filter(({ queue, kind }) => queue !== "q0" && (!kinds || kinds.includes(kind)))
      .filter(({ scheduledAtMs }) => scheduledAtMs <= 12)
      .sort((a, b) => a.priority - b.priority || a.scheduledAtMs - b.scheduledAtMs);
    const found: TaskRecord[] = [];
    for (const record of tasks.due(["q3", "q1", "q2", "q1"], { kinds }, 12)) {
      found.push(record);
      tasks.put({ ...record, state: "running" });
    }
    expect(found.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
    expect(tasks.running()).toHaveLength(expected.length);
    const left = records.filter((record) => !found.includes(record));
    expect(new Set(tasks.dueBy(Infinity))).toEqual(new Set(left));
  }
});

it("lists grants on tasks without reading their progress", async () => {
  const last = {
    attempt: 1,
    holder: "h",
    leaseId: "l",
    token: 1,
    ttlMs: 1_000,
    startedAtMs: 0,
    heartbeatAtMs: 0,
    expiresAtMs: 2 ** 50,
    untilMs: null,
    endedAtMs: null,
    result: null,
    error: null,
    progress: '{"half":"done"}',
  };
  const running = { state: "running", last } as const;
  const store = storeOf([pending(1, running), pending(2, running), pending(3)]);
  const parse = vi.spyOn(JSON, "parse");
  for (const states of [undefined, ["live"]] as const) {
    const query = { namespace: "n", limit: 1, ...(states && { states }) };
    const first = await store.leases(query);
    const second = await store.leases({ ...query, cursor: first.nextCursor ?? "" });
    const listed = [...first.items, ...second.items].map(({ resource }) => resource);
    expect(listed).toEqual([`task:${idOf(2)}`, `task:${idOf(1)}`]);
    expect(second.nextCursor).toBe(null);
  }
  expect(parse).not.toHaveBeenCalled();
  expect(await store.get({ namespace: "n", id: idOf(1) })).toMatchObject({
    progress: { half: "done" },
    attempts: [{ progress: { half: "done" } }],
  });
});

it("lists a task once whose id was deleted and added again", () => {
  const index = new TaskIndex();
  for (let round = 0; round < 3; round += 1) {
    for (const number of [1, 2]) index.put(pending(number));
    index.delete(pending(1));
  }
  index.put(pending(1));
  expect([...index.newestFirst(undefined)].map(({ id }) => id)).toEqual([idOf(2), idOf(1)]);
});
