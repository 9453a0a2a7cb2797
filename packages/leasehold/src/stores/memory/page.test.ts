/** Pages by filters that nothing matches read a part of the records each, and all together. */
import { expect, it } from "vitest";
import type { Page } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { newTaskOf } from "../../testing/task-suite/new-task.js";
import { memory } from "./index.js";
import { MOST_PASSED_OVER } from "./page.js";

const COUNT = 2 * MOST_PASSED_OVER + 1;
const numbers = Array.from({ length: COUNT }, (_, number) => number);

/** How many items each page has, and how many pages there are. */
async function pagesOf(
  list: (part: { limit: number; cursor?: string }) => Promise<Page<unknown>>,
): Promise<number[]> {
  const pages: number[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await list({ limit: 5, ...(cursor !== undefined && { cursor }) });
    pages.push(page.items.length);
    cursor = page.nextCursor;
  }
  return pages;
}

it("bounds what a page of tasks and of their leases reads", async () => {
  const env = manualEnv();
  const { tasks } = await memory().open(env);
  const idOf = (number: number) => `00000000-0000-4000-8000-${`${number}`.padStart(12, "0")}`;
  await tasks.enqueue(numbers.map((number) => newTaskOf({ namespace: "n", id: idOf(number) })));
  const list = (queue: string) => pagesOf((part) => tasks.list({ namespace: "n", queue, ...part }));
  expect(await list("none")).toEqual([0, 0, 0]);
  const { namespace, queue } = newTaskOf({ namespace: "n", id: idOf(0) });
  const all = await tasks.list({ namespace, queue, limit: COUNT });
  expect([all.items.length, all.nextCursor]).toEqual([COUNT, null]);
  const claim = { namespace, holder: "h", claimId: "0".repeat(48), queues: [queue], kinds: null };
  await tasks.claim({ ...claim, limit: COUNT, ttlMs: 1_000 });
  const states = ["revoked"] as const;
  const leases = await pagesOf((part) => tasks.leases({ namespace, states, ...part }));
  expect(leases).toEqual([0, 0, 0]);
});

it("bounds what a page of the audit reads, other tenants' entries included", async () => {
  const { control } = await memory().open(manualEnv());
  const entry = { actor: "a", action: "lease.revoke", target: "t", reason: null, details: {} };
  const appended = numbers.map((number) => ({ ...entry, namespace: number === 0 ? "a" : "b" }));
  await control?.audit.append(appended as never);
  const list = async (namespace: string) =>
    pagesOf(async (part) => (await control?.audit.list({ namespace, ...part })) as Page<unknown>);
  expect(await list("none")).toEqual([0, 0, 0]);
  expect(await list("a")).toEqual([0, 1]);
});
