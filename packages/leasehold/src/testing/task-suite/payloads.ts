/** Lists and claims stay small, however large the payloads of the tasks are. */
import type { Json, TaskView } from "../../tasks/port.js";
import { type Fixture, grantOf, needsPush, type Section } from "./fixture.js";
import type { TaskChange } from "./new-task.js";

/** As large as a server takes by default. */
const LARGE = "x".repeat(200_000);
/** So many of these are one claim's, and so many are more than that. */
const [FIT, MANY] = [83, 90];

/** Each payload with what a list has of it: the whole, or its beginning. */
const LISTED: readonly (readonly [string, Json, string?])[] = [
  ["null", null],
  ["a small object", { to: ["ada"], text: "é" }],
  ["1,024 bytes", "x".repeat(1_022)],
  ["1,025 bytes", "x".repeat(1_023), `"${"x".repeat(199)}…`],
  ["1,024 bytes of 513 characters", "é".repeat(511)],
  ["1,026 bytes of 514 characters", "é".repeat(512), `"${"é".repeat(199)}…`],
  ["characters beyond the first plane", `a${"🦊".repeat(300)}`, `"a${"🦊".repeat(198)}…`],
  ["a large object", { text: "x".repeat(10_000) }, `{"text":"${"x".repeat(191)}…`],
  ["many entries", Array.from({ length: 5_000 }, () => 1), `[${"1,".repeat(100).slice(0, 199)}…`],
];

async function listed(fixture: Fixture): Promise<TaskView | undefined> {
  const { items } = await fixture.store.list({ namespace: fixture.namespace });
  return items[0];
}

export const payloads: Section = (test, expect) => {
  for (const [name, value, preview] of LISTED) {
    test(`lists ${name} ${preview === undefined ? "whole" : "by its beginning"}`, async (fixture) => {
      const held = await fixture.addAndHold({ data: value });
      await fixture.heartbeat(held, { progress: value });
      await fixture.complete(held, value);
      const item = await listed(fixture);
      const { data, dataPreview, output, outputPreview, progress, progressPreview } = item ?? {};
      const [whole, beginning] = preview === undefined ? [value, undefined] : [undefined, preview];
      expect([data, output, progress]).toEqual([whole, whole, whole]);
      expect([dataPreview, outputPreview, progressPreview]).toEqual([
        beginning,
        beginning,
        beginning,
      ]);
      expect(await fixture.view(held)).toMatchObject({
        data: value,
        output: value,
        progress: value,
      });
    });
  }

  test("lists a long error by its beginning", async (fixture) => {
    const held = await fixture.addAndHold();
    const errors = ["x".repeat(1_024), "é".repeat(513)];
    const [whole = "", long = ""] = errors;
    await fixture.fail(held, { error: whole, retryInMs: 0 });
    expect((await listed(fixture))?.error).toBe(whole);
    await fixture.fail(await fixture.hold(), { error: long, final: true });
    expect((await listed(fixture))?.error).toBe(`${"é".repeat(200)}…`);
    const { error, attempts } = await fixture.view(held);
    expect([error, ...attempts.map((attempt) => attempt.error)]).toEqual([long, whole, long]);
  });

  for (const queues of [["a"], ["a", "b", "c"]]) {
    test(`claims at most 16 MiB of data from ${queues.length} queue(s)`, async (fixture) => {
      const added: TaskChange[] = Array.from({ length: MANY }, (_, n) => ({
        queue: queues[n % queues.length] ?? "",
        priority: n,
        data: LARGE,
      }));
      const ids = await fixture.addAll([...added, { queue: "a", priority: MANY }]);
      const request = fixture.claimRequest({ queues, limit: 100 });
      const first = await fixture.claim(request);
      expect(first.map(({ id }) => id)).toEqual(ids.slice(0, FIT));
      expect(first.every(({ data }) => data === LARGE)).toBe(true);
      const again = await fixture.claim(request);
      expect(again.map(({ id, token }) => [id, token])).toEqual(
        first.map(({ id, token }) => [id, token]),
      );
      const second = await fixture.claim({ queues, limit: 100 });
      expect(second.map(({ id }) => id)).toEqual(ids.slice(FIT));
      expect(await fixture.claim({ queues })).toEqual([]);
    });
  }

  test("returns at most 256 KiB of outputs to repeated completes", async (fixture) => {
    const output = "x".repeat(80 * 1_024);
    await fixture.addAll(Array.from({ length: 6 }, () => ({})));
    const held = await fixture.claim({ limit: 100 });
    for (const task of held) await fixture.complete(task, output);
    const requests = held.map((task) => ({ ...grantOf(task), output: null }));
    const completed = { status: "completed", repeated: true, output };
    const copies = requests.flatMap(() => requests.slice(0, 1));
    for (const batch of [requests, copies]) {
      // Not `completeAll`, which repeats failed requests in another batch.
      const outcomes = await fixture.store.complete(batch);
      const refused = { status: "failed", applied: "no", retryable: true };
      expect(outcomes.slice(0, 3)).toEqual([completed, completed, completed]);
      expect(outcomes.slice(3)).toMatchObject([refused, refused, refused]);
    }
    expect(await fixture.completeAll(requests)).toEqual(held.map(() => completed));
  });

  test(
    "notifies of the due tasks that a claim leaves because of their size",
    async (fixture) => {
      await fixture.addAll(Array.from({ length: MANY }, () => ({ data: LARGE })));
      await fixture.add({ queue: "other", data: LARGE });
      const watching = await fixture.watch();
      const before = watching.ready.length;
      expect(await fixture.claim({ limit: 100 })).toHaveLength(FIT);
      await fixture.until("a notification of the task that is left", () =>
        watching.ready.slice(before).includes("queue"),
      );
      await watching.stop();
    },
    needsPush,
  );
};
