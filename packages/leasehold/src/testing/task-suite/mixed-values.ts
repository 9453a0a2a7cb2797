/** Tasks and requests that differ in everything, and what the store must show of them. */
import { claimDigestOf, grantIdOf, taskLeaseId, zip } from "../../env/index.js";
import type { Json, NewTask, TaskDetails } from "../../tasks/port.js";
import type { Expect } from "../framework.js";
import { type Fixture, type Held, LONG_TTL_MS, newTaskId, numberOf } from "./fixture.js";

const HOUR_MS = 3_600_000;
const [PAST_MS, FUTURE_MS] = [Date.parse("1980-01-01T00:00Z"), Date.parse("2100-01-01T00:00Z")];
const [QUEUES, KINDS, WORKERS] = [5, 7, 9];

/** In the order of their ids. Every ninth is due in many years. */
export function manyTasks(fixture: Fixture, count: number): NewTask[] {
  return Array.from({ length: count }, (_, index) => {
    const dueMs = (index % 9 === 8 ? FUTURE_MS : PAST_MS) + index * HOUR_MS;
    return fixture.newTask({
      id: newTaskId(),
      kind: `kind ${index % KINDS}`,
      queue: `queue ${index % QUEUES}`,
      priority: ((index * 37) % 201) - 100,
      data: valueOf("data", index),
      scheduledAt: new Date(dueMs).toISOString(),
      dedupeKey: index % 4 ? null : `key ${index} é"\\{}`,
      maxAttempts: 1 + (index % 8),
      crashLimit: 1 + (index % 6),
      backoff: {
        firstMs: 60_000 + 200 * index,
        longestMs: index % 2 ? 30_000 + 100 * index : HOUR_MS + index,
        factor: 1 + (index % 3),
        jitter: (index % 5) / 4,
      },
    });
  });
}

export function isDue({ scheduledAt }: NewTask): boolean {
  return Date.parse(scheduledAt ?? "") < FUTURE_MS;
}

/** JSON of every kind, another one for each index. */
export function valueOf(what: string, index: number): Json {
  const values: readonly Json[] = [
    { [what]: index },
    `${what} ${index} {"a": é}\\`,
    [what, index, null, "x".repeat(index)],
    index + 0.5,
    { index, nested: { [`${what} ${index}`]: [true, { é: "'" }] } },
  ];
  return values[index % values.length] ?? null;
}

/** The error, delay and finality of each failure. */
export function failureOf(index: number): {
  readonly error: string;
  readonly retryInMs: number | null;
  readonly final: boolean;
} {
  const retryInMs = index % 2 ? null : 3_600_000 + 1_000 * index;
  return { error: `error ${index} "é" \\${index}`, retryInMs, final: index % 5 === 0 };
}

/** Lets many workers claim at once, each with its own filter, limit and TTL, until every due task is claimed. */
export async function claimAll(
  fixture: Fixture,
  expect: Expect,
  tasks: readonly NewTask[],
): Promise<Map<string, Held>> {
  const held = new Map<string, Held>();
  const numbers = new Set<number>();
  const due = tasks.filter(isDue).length;
  const queues = Array.from({ length: QUEUES }, (_, index) => `queue ${index}`);
  const worker = async (index: number) => {
    const request = fixture.claimRequest({
      holder: `worker ${index}`,
      limit: 5 + index,
      ttlMs: LONG_TTL_MS - 1_000 * index,
      queues: index % 3 === 1 ? [`queue ${index % QUEUES}`] : queues,
      kinds: index % 3 === 2 ? [`kind ${index % KINDS}`] : null,
    });
    const claimed = await fixture.claim(request);
    const claimDigest = claimDigestOf(request.claimId);
    for (const task of claimed) {
      expect(held.has(task.id), `${task.id} is claimed once`).toBe(false);
      expect(task.leaseId, task.id).toBe(taskLeaseId(claimDigest, numberOf(task)));
      expect(numbers.has(numberOf(task)), `${task.id} has a number of its own`).toBe(false);
      numbers.add(numberOf(task));
      expect(task.ttlMs, task.id).toBe(request.ttlMs);
      expect(request.queues, task.id).toContain(task.queue);
      if (request.kinds) expect(request.kinds, task.id).toContain(task.kind);
      held.set(task.id, task);
    }
    for (const [one, next] of zip(claimed.slice(0, -1), claimed.slice(1))) {
      const [first, second] = [one, next].map(({ priority, scheduledAt, id }) => ({
        order: priority * FUTURE_MS * 2 + Date.parse(scheduledAt),
        id,
      }));
      if (!first || !second) continue;
      const isInOrder =
        first.order < second.order || (first.order === second.order && first.id < second.id);
      expect(isInOrder, `${one.id} before ${next.id}`).toBe(true);
    }
  };
  await fixture.until("all due tasks are claimed", async () => {
    await Promise.all(Array.from({ length: WORKERS }, (_, index) => worker(index)));
    return held.size >= due;
  });
  return held;
}

/** Every task as `list` and `get` show it, which must be the same. */
export async function detailsOf(
  fixture: Fixture,
  expect: Expect,
  tasks: readonly NewTask[],
): Promise<Map<string, TaskDetails>> {
  const { namespace, store } = fixture;
  const details = new Map<string, TaskDetails>();
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await store.list({ namespace, limit: 100, ...(cursor && { cursor }) });
    const views = await Promise.all(page.items.map((item) => fixture.view(item)));
    for (const [item, view] of zip(page.items, views)) {
      const { attempts: _, checkpoint: __, remainingMs, ...shown } = view;
      expect({ ...item, remainingMs: null }, item.id).toEqual({ ...shown, remainingMs: null });
      expect(details.has(item.id), `${item.id} once`).toBe(false);
      details.set(item.id, view);
    }
    cursor = page.nextCursor;
  }
  expect(details.size).toBe(tasks.length);
  return details;
}

/** That the task, and its only attempt, show the grant of this claim. */
export function expectGrant(
  expect: Expect,
  view: TaskDetails | undefined,
  { id, holder, leaseId, token, ttlMs }: Held,
  progress: Json,
): void {
  const grant = { holder, grantId: grantIdOf(leaseId), token, progress };
  expect(view, id).toMatchObject({ id, ...grant, attempt: 1, attempts: [{ ...grant, ttlMs }] });
  expect(view?.attempts, id).toHaveLength(1);
}
