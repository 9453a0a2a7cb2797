import { LeaseWatching, type Need, type Section } from "./fixture.js";

const needsPush: Need = ({ store }) =>
  store.capabilities.watch === "push" ? null : "it declares watch: poll";

export const watching: Section = (test, expect) => {
  test("begins with a resync and ends with its signal", async (t) => {
    const subscription = await t.watch();
    expect(subscription.events).toEqual([{ type: "resync" }]);
    await subscription.stop();
  });

  test("ends at once where the signal has aborted before", async (t) => {
    const events = t.store.watch(t.namespace, { signal: AbortSignal.abort() });
    for await (const event of events) expect(event).toEqual({ type: "resync" });
  });

  test("ends when its reader stops reading", async (t) => {
    const controller = new AbortController();
    for await (const event of t.store.watch(t.namespace, { signal: controller.signal })) {
      expect(event).toEqual({ type: "resync" });
      break;
    }
    controller.abort();
  });

  test(
    "notifies of a release and of a revoke that a waiter waits for",
    async (t) => {
      const ends = {
        release: async (held: Parameters<typeof t.release>[0]) => t.release(held),
        revoke: async (held: Parameters<typeof t.release>[0]) => t.revoke(held, "now"),
      };
      const subscription = await t.watch();
      for (const [name, end] of Object.entries(ends)) {
        const key = t.key(name);
        const held = await t.hold(key);
        const waiting = await t.acquire(t.request(key, { queueMs: 60_000 }));
        expect(waiting.status).toBe("held");
        await end(held);
        await t.until(`a notification of the ${name}`, () =>
          subscription.changed.some(({ resource }) => resource === name),
        );
      }
      for (const event of subscription.changed) {
        expect(event).toMatchObject({ type: "changed", ...t.key(event.resource) });
      }
      await subscription.stop();
    },
    needsPush,
  );

  test(
    "delivers only its own namespace's events, to several readers at once",
    async (t) => {
      const other = `${t.namespace}-other`;
      const readers = [await t.watch(), await t.watch(), await t.watch(other)];
      for (const namespace of [other, t.namespace]) {
        const key = { namespace, resource: `of ${namespace}` };
        const held = await t.hold(key);
        await t.acquire(t.request(key, { queueMs: 60_000 }));
        await t.release(held);
      }
      for (const [index, reader] of readers.entries()) {
        const namespace = index < 2 ? t.namespace : other;
        await t.until("a notification for each reader", () => reader.changed.length > 0);
        for (const event of reader.changed) {
          expect(event).toMatchObject({ type: "changed", namespace, resource: `of ${namespace}` });
        }
      }
      await Promise.all(readers.map((reader) => reader.stop()));
    },
    needsPush,
  );

  test(
    "of one reader ends without disturbing another",
    async (t) => {
      const [first, second] = [await t.watch(), await t.watch()];
      await first.stop();
      const held = await t.hold();
      await t.acquire(t.request(t.key(), { queueMs: 60_000 }));
      await t.release(held);
      await t.until("a notification", () => second.changed.length > 0);
      expect(first.changed).toEqual([]);
      await second.stop();
    },
    needsPush,
  );

  test("may begin and end many times", async (t) => {
    for (let round = 0; round < 20; round++) {
      const subscription = new LeaseWatching(t.store, t.namespace);
      if (round % 2 === 0) await t.until("an event", () => subscription.events.length > 0);
      await subscription.stop();
    }
  });
};
