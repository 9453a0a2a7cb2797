/** Notifications that a task may be claimable. */
import { needsPush, type Section } from "./fixture.js";

const HOUR_MS = 3_600_000;

export const watching: Section = (test, expect) => {
  test("begins with a resync and ends with its signal", async (fixture) => {
    const watching = await fixture.watch();
    expect(watching.events).toEqual([{ type: "resync" }]);
    await watching.stop();
  });

  test("ends at once when its signal has aborted already", async (fixture) => {
    const events = [];
    const signal = AbortSignal.abort();
    for await (const event of fixture.store.watch(fixture.namespace, { signal }))
      events.push(event);
    expect(events).toEqual([]);
  });

  test(
    "notifies of every way in which a task becomes claimable",
    async (fixture) => {
      const watching = await fixture.watch();
      const notified = async (queue: string, work: () => Promise<unknown>) => {
        const before = watching.ready.length;
        await work();
        await fixture.until(`a notification of ${queue}`, () =>
          watching.ready.slice(before).includes(queue),
        );
      };
      const queue = "a queue: 🦊, {}";
      await notified(queue, () => fixture.add({ queue }));
      const first = await fixture.hold({ queues: [queue] });
      await notified(queue, () => fixture.requeue(first));
      const second = await fixture.hold({ queues: [queue] });
      await notified(queue, () => fixture.fail(second, { retryInMs: 0 }));
      // A server behind the store may reap the task first.
      await notified(queue, async () => {
        const third = await fixture.hold({ queues: [queue], ttlMs: fixture.shortTtlMs });
        await fixture.pass(third.ttlMs);
        await fixture.reap(third);
      });
      const fourth = await fixture.hold({ queues: [queue] });
      await fixture.fail(fourth, { final: true });
      await notified(queue, () => fixture.retry(fourth));
      await notified("other", () =>
        fixture.addAll([{ queue: "other" }, { queue }, { queue: "other" }]),
      );
      await watching.stop();
    },
    needsPush,
  );

  test(
    "notifies of its own namespace's claimable tasks, and of no delayed ones",
    async (fixture) => {
      const foreign = `${fixture.namespace}-other`;
      const [watching, abroad] = [await fixture.watch(), await fixture.watch(foreign)];
      const { createdAt } = await fixture.view(await fixture.add({ queue: "first" }));
      const scheduledAt = new Date(Date.parse(createdAt) + HOUR_MS).toISOString();
      await fixture.add({ queue: "later", scheduledAt });
      const held = await fixture.addAndHold({ queue: "failed" }, { queues: ["failed"] });
      await fixture.fail(held, { retryInMs: HOUR_MS });
      await fixture.enqueue([fixture.newTask({ namespace: foreign, queue: "foreign" })]);
      await fixture.add({ queue: "last" });
      await fixture.until("the last notification", () => watching.ready.includes("last"));
      await fixture.until("the notification of the other namespace", () => abroad.ready.length > 0);
      expect(watching.ready).toEqual(["first", "failed", "last"]);
      expect(abroad.ready).toEqual(["foreign"]);
      await Promise.all([watching.stop(), abroad.stop()]);
    },
    needsPush,
  );
};
