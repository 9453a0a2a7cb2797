/** Results of tasks, and the notifications of their ends. */
import type { TaskEndEvent, TaskResult } from "../../tasks/port.js";
import { Watching } from "../waiting.js";
import { type Fixture, needsPush, newTaskId, type Section } from "./fixture.js";

const NOTIFY_MS = 60_000;

/** The ends that the store notifies of. */
class EndWatching extends Watching<TaskEndEvent> {
  constructor({ store, namespace }: Fixture) {
    super((options) => store.watchResults(namespace, options));
  }

  get ends(): string[] {
    return this.events.flatMap((event) => (event.type === "ended" ? event.id : []));
  }
}

async function watchEnds(fixture: Fixture): Promise<EndWatching> {
  const watching = new EndWatching(fixture);
  await fixture.until("the first event of watchResults", () => watching.events.length > 0);
  return watching;
}

export const results: Section = (test, expect) => {
  const resultOf = async (fixture: Fixture, { id }: { id: string }): Promise<TaskResult> => {
    const [result] = await fixture.store.results([fixture.key(id)]);
    return result as TaskResult;
  };

  test("answers how each task has ended, in order", async (fixture) => {
    const done = await fixture.addAndHold();
    await fixture.complete(done, { lines: [1, null] });
    const empty = await fixture.addAndHold();
    await fixture.complete(empty, null);
    const dead = await fixture.addAndHold();
    await fixture.fail(dead, { error: "no disk", final: true });
    const failed = await fixture.addAndHold();
    await fixture.fail(failed, { error: "no disk", retryInMs: 600_000 });
    const cancelled = await fixture.add();
    await fixture.cancel(cancelled);
    const running = await fixture.addAndHold();
    const pending = await fixture.add();
    const unknown = newTaskId();
    const keys = [done, empty, dead, failed, cancelled, running, pending, done].map(({ id }) =>
      fixture.key(id),
    );
    expect(await fixture.store.results([fixture.key(unknown), ...keys])).toEqual([
      { id: unknown, state: "unknown" },
      { id: done.id, state: "done", output: { lines: [1, null] } },
      { id: empty.id, state: "done", output: null },
      { id: dead.id, state: "dead", error: "no disk" },
      { id: failed.id, state: "pending" },
      { id: cancelled.id, state: "cancelled", error: null },
      { id: running.id, state: "running" },
      { id: pending.id, state: "pending" },
      { id: done.id, state: "done", output: { lines: [1, null] } },
    ]);
    expect(await fixture.store.results([])).toEqual([]);
  });

  test("answers any number of tasks, each in its place", async (fixture) => {
    const added = await fixture.addAll(Array.from({ length: 450 }, () => ({})));
    const [first = "", last = ""] = [added[0], added.at(-1)];
    await fixture.cancelAll([fixture.key(first), fixture.key(last)]);
    const unknown = newTaskId();
    // No task can have the second one.
    const asked = [last, "..", ...added, unknown, first];
    const found = await fixture.store.results(asked.map((id) => fixture.key(id)));
    expect(found.map(({ id }) => id)).toEqual(asked);
    const places = (state: string) =>
      asked.flatMap((_, at) => (found[at]?.state === state ? at : []));
    expect(places("cancelled")).toEqual([0, 2, 451, 453]);
    expect(places("unknown")).toEqual([1, 452]);
    expect(places("pending")).toHaveLength(448);
  });

  test("answers of the tasks of one namespace alone", async (fixture) => {
    const { id } = await fixture.add();
    const abroad = { namespace: `${fixture.namespace}-other`, id };
    expect(await fixture.store.results([abroad])).toEqual([{ id, state: "unknown" }]);
  });

  test("answers outputs up to 256 KiB, and one at least", async (fixture) => {
    const outputs = ["a", "b", "c"].map((letter) => letter.repeat(200_000));
    const keys = [];
    for (const output of outputs) {
      const held = await fixture.addAndHold();
      await fixture.complete(held, output);
      keys.push(fixture.key(held.id));
    }
    const states = (some: readonly TaskResult[]) => some.map(({ state }) => state);
    const lengths = (some: readonly TaskResult[]) =>
      some.map(({ output }) => (output as string | undefined)?.length ?? null);
    const all = await fixture.store.results(keys);
    expect(states(all)).toEqual(["done", "done", "done"]);
    expect(lengths(all)).toEqual([200_000, null, null]);
    expect(lengths(await fixture.store.results(keys.slice(1)))).toEqual([200_000, null]);
  });

  test("answers a task that was retried as one that has not ended", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.fail(held, { final: true });
    await fixture.retry(held);
    expect(await resultOf(fixture, held)).toEqual({ id: held.id, state: "pending" });
  });

  test("the watch begins with a resync and ends with its signal", async (fixture) => {
    const watching = await watchEnds(fixture);
    expect(watching.events).toEqual([{ type: "resync" }]);
    await watching.stop();
  });

  test(
    "notifies of every way in which an awaited task ends",
    async (fixture) => {
      const watching = await watchEnds(fixture);
      const ends = async (id: string, work: () => Promise<unknown>) => {
        const [result] = await fixture.store.results([fixture.key(id)], { notifyMs: NOTIFY_MS });
        expect(["pending", "running"]).toContain(result?.state);
        await work();
        await fixture.until(`a notification of ${id}`, () => watching.ends.includes(id));
        // What is notified can be read.
        expect(["done", "dead", "cancelled"]).toContain((await resultOf(fixture, { id })).state);
      };
      const done = await fixture.addAndHold();
      await ends(done.id, () => fixture.complete(done));
      const failed = await fixture.addAndHold();
      await ends(failed.id, () => fixture.fail(failed, { final: true }));
      const cancelled = await fixture.add();
      await ends(cancelled.id, () => fixture.cancel(cancelled));
      const stopped = await fixture.addAndHold();
      await ends(stopped.id, () => fixture.cancel(stopped));
      // Several in one batch, one of them not awaited.
      await fixture.addAll([{}, {}, {}]);
      const [first, second, third] = await fixture.claim();
      await ends(first?.id ?? "", () =>
        ends(third?.id ?? "", () =>
          fixture.completeAll(
            [first, second, third]
              .flatMap((held) => held ?? [])
              .map((held) => ({ ...held, output: 1 })),
          ),
        ),
      );
      const { id } = await fixture.add({ crashLimit: 1 });
      await ends(id, async () => {
        const held = await fixture.hold({ ttlMs: fixture.shortTtlMs });
        await fixture.pass(held.ttlMs);
        await fixture.reap(held);
      });
      await watching.stop();
    },
    needsPush,
  );

  test(
    "notifies the watches of its own namespace, and of a failed attempt no one",
    async (fixture) => {
      const watching = await watchEnds(fixture);
      const held = await fixture.addAndHold();
      await fixture.store.results([fixture.key(held.id)], { notifyMs: NOTIFY_MS });
      await fixture.fail(held, { retryInMs: 0 });
      const foreign = `${fixture.namespace}-other`;
      const task = fixture.newTask({ namespace: foreign });
      await fixture.enqueue([task]);
      await fixture.store.results([task], { notifyMs: NOTIFY_MS });
      await fixture.store.cancel([task]);
      const again = await fixture.hold();
      await fixture.complete(again, "at last");
      await fixture.until("the notification", () => watching.ends.length > 0);
      expect(watching.ends).toEqual([held.id]);
      await watching.stop();
    },
    needsPush,
  );
};
