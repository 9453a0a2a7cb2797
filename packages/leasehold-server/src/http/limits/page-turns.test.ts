/** Pages of a tenant take turns, so that few of them are written in one turn of the event loop. */
import { nextTurn } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished, vi } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";
import { PageTurns } from "./page-turns.js";

it("four are under way at once, and the next ones begin in order, each after another was written", async () => {
  const turns = new PageTurns();
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const all = Array.from({ length: 7 }, (_, index) =>
    turns.run(async () => {
      begun.push(index);
      await new Promise<void>((end) => ends.push(end));
      // Failures return their place too.
      if (index === 0) throw new Error("away");
      return index;
    }),
  );
  const settled = Promise.allSettled(all);
  await nextTurn();
  expect(begun).toEqual([0, 1, 2, 3]);
  ends[0]?.();
  await expect(all[0]).rejects.toThrow("away");
  expect(begun).toEqual([0, 1, 2, 3]);
  await nextTurn();
  await nextTurn();
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  for (let index = 1; index < 7; index += 1) {
    ends[index]?.();
    await nextTurn();
    await nextTurn();
  }
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect((await settled).map(({ status }) => status)).toEqual([
    "rejected",
    ...Array.from({ length: 6 }, () => "fulfilled"),
  ]);
});

it.each([
  ["a list of tasks", "/api/tasks", "tasks", "list"],
  ["a list of tasks by id", "/api/tasks?id=a&id=b", "tasks", "list"],
  ["a task", "/api/tasks/a", "tasks", "get"],
  ["the result of a task", "/v1/tasks/a/result", "tasks", "results"],
  ["why a task waits", "/api/tasks/a/why", "tasks", "get"],
  ["a list of leases", "/v1/leases", "leases", "list"],
  ["a list of schedules", "/v1/schedules", "schedules", "list"],
  ["a schedule", "/v1/schedules/a", "schedules", "get"],
  ["a record of once", "/v1/once/a", "once", "get"],
  ["the audit", "/v1/audit", "audit", "list"],
  ["the pauses", "/v1/pauses", "pauses", "list"],
  ["the keys", "/v1/keys", "keys", "list"],
] as const)(
  "%s waits for the turn of its tenant, and for no other tenant",
  async (_, path, port, method) => {
    const env = manualEnv();
    const stores = await memory().open(env);
    let begun = 0;
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    const { app, newKey } = openTenants(stores, env);
    onTestFinished(async () => {
      await app.close();
      await stores.close();
    });
    const [a, b] = [await newKey("a", "admin"), await newKey("b", "admin")];
    const ask = async ({ text }: { readonly text: string }) => {
      const headers = { authorization: `Bearer ${text}` };
      return (await app.fetch(new Request(`http://x${path}`, { headers }))).status;
    };
    // Keys and limits are read and kept.
    await ask(a);
    await ask(b);
    const ports: Record<string, unknown> = { ...stores, ...stores.control };
    const slow = ports[port] as Record<string, (...values: unknown[]) => Promise<unknown>>;
    const read = slow[method]?.bind(slow);
    slow[method] = async (...values) => {
      begun += 1;
      await ended;
      return read?.(...values);
    };
    const asked = Array.from({ length: 7 }, () => ask(a));
    // Each begins in a turn of the event loop.
    await vi.waitFor(() => expect(begun).toBe(4));
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    expect(begun).toBe(4);
    const other = ask(b);
    await vi.waitFor(() => expect(begun).toBe(5));
    end();
    await Promise.all([...asked, other]);
    expect(begun).toBe(8);
  },
);

it("those who share a scan write it four in a turn", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { app, newKey } = openTenants(stores, env);
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const { text } = await newKey("a", "viewer");
  let reads = 0;
  let end = () => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  const counts = stores.tasks.counts.bind(stores.tasks);
  stores.tasks.counts = async (namespace) => {
    reads += 1;
    await ended;
    return counts(namespace);
  };
  let answered = 0;
  const asked = Array.from({ length: 20 }, async () => {
    const headers = { authorization: `Bearer ${text}` };
    await app.fetch(new Request("http://x/api/tasks/counts", { headers }));
    answered += 1;
  });
  await vi.waitFor(() => expect(reads).toBe(1));
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  end();
  let most = 0;
  for (let before = 0; answered < 20; before = answered) {
    await nextTurn();
    most = Math.max(most, answered - before);
    if (answered === before) await env.clock.settle();
  }
  await Promise.all(asked);
  expect(reads).toBe(2);
  expect(most).toBeLessThanOrEqual(4);
});
