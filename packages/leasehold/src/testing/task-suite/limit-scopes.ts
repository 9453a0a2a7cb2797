/** Limits of kinds and queues: what each of them counts, and whom a change concerns. */
import { type Held, type Need, needsPush, type Section } from "./fixture.js";
import { declare, HOUR_MS, ids, many, needsLimits, view } from "./limit-fixture.js";

/** The most limits of one namespace: tasks/limits-port.ts. */
const MOST_LIMITS = 1_000;

const needsItself: Need = ({ store }) =>
  store.capabilities.remoteWait ? "a thousand requests to a server take long" : null;

export const limitScopes: Section = (test, expect) => {
  test(
    "hold in their own namespace alone",
    async (fixture) => {
      const namespace = `${fixture.namespace}-other`;
      const abroad = many(3).map(() => fixture.newTask({ namespace }));
      await fixture.enqueue(abroad);
      const added = await fixture.addAll(many(3));
      await fixture.hold({ namespace, limit: 1 });
      await declare(fixture, { running: 2 });
      await declare(fixture, { scope: "queue", name: "queue", rate: { limit: 2, perMs: HOUR_MS } });
      await declare(fixture, { running: 3, namespace });
      expect((await view(fixture)).live).toBe(0);
      expect((await view(fixture, { namespace })).live).toBe(1);
      expect(ids(await fixture.claim())).toEqual(added.slice(0, 2));
      expect(ids(await fixture.claim({ namespace }))).toEqual(ids(abroad.slice(1)));
      expect((await view(fixture, { namespace })).live).toBe(3);
      expect((await view(fixture, { scope: "queue", name: "queue" })).started).toBe(2);
      const key = { scope: "kind", name: "kind" } as const;
      expect(await fixture.store.limits?.remove({ ...key, namespace })).toBe(true);
      expect((await view(fixture)).running).toBe(2);
      expect(await fixture.store.limits?.list(namespace)).toEqual([]);
    },
    needsLimits,
  );

  test(
    "of a kind and of a queue count apart, though both have one name",
    async (fixture) => {
      const name = "same";
      await declare(fixture, { name, running: 1, rate: { limit: 2, perMs: HOUR_MS } });
      await declare(fixture, { scope: "queue", name, rate: { limit: 3, perMs: HOUR_MS } });
      const ofKind = await fixture.addAll(many(3, { kind: name }));
      const ofQueue = await fixture.addAll(many(4, { queue: name, kind: "other" }));
      const held = await fixture.claim({ queues: ["queue", name] });
      expect(ids(held)).toEqual([ofKind[0], ...ofQueue.slice(0, 3)]);
      const kind = await view(fixture, { name });
      expect([kind.live, kind.started, ids(kind.by)]).toEqual([1, 1, [ofKind[0]]]);
      const queue = await view(fixture, { scope: "queue", name });
      expect([queue.live, queue.started, queue.by]).toEqual([3, 3, []]);
      await fixture.complete(held[0] as Held);
      expect(ids(await fixture.claim({ queues: ["queue", name] }))).toEqual([ofKind[1]]);
      const key = { namespace: fixture.namespace, name };
      expect(await fixture.store.limits?.remove({ ...key, scope: "queue" })).toBe(true);
      expect(await view(fixture, { name })).toMatchObject({ running: 1, started: 2 });
    },
    needsLimits,
  );

  test(
    "have a rate for a queue, of all its kinds",
    async (fixture) => {
      await declare(fixture, {
        scope: "queue",
        name: "narrow",
        rate: { limit: 3, perMs: HOUR_MS },
      });
      const queue = "narrow";
      const added = await fixture.addAll([
        { queue, kind: "a" },
        { queue, kind: "b" },
        { kind: "a" },
        { queue, kind: "a" },
        { queue, kind: "b" },
      ]);
      const first = await fixture.claim({ queues: [queue], limit: 2 });
      expect(ids(first)).toEqual(added.slice(0, 2));
      for (const held of first) await fixture.complete(held);
      expect(ids(await fixture.claim({ queues: [queue, "queue"] }))).toEqual(added.slice(2, 4));
      expect(await fixture.claim({ queues: [queue] })).toEqual([]);
    },
    needsLimits,
  );

  test(
    "keep both numbers, the smaller one first",
    async (fixture) => {
      await declare(fixture, { name: "a", running: 3, rate: { limit: 2, perMs: HOUR_MS } });
      await declare(fixture, { name: "b", running: 1, rate: { limit: 2, perMs: HOUR_MS } });
      const a = await fixture.addAll(many(4, { kind: "a" }));
      const b = await fixture.addAll(many(4, { kind: "b" }));
      const held = await fixture.claim();
      expect(ids(held)).toEqual([a[0], a[1], b[0]]);
      for (const task of held) await fixture.complete(task);
      const next = await fixture.claim();
      expect(ids(next)).toEqual([b[1]]);
      for (const task of next) await fixture.complete(task);
      expect(await fixture.claim()).toEqual([]);
    },
    needsLimits,
  );

  test(
    "name ten of the tasks that use them up, those that were added first",
    async (fixture) => {
      await declare(fixture, { running: 12 });
      const added = await fixture.addAll(many(13));
      const held = await fixture.claim({ limit: 11 });
      expect(await view(fixture)).toMatchObject({ live: 11, by: [] });
      await fixture.hold();
      const { live, by } = await view(fixture);
      expect([live, ids(by)]).toEqual([12, added.slice(0, 10)]);
      const [first] = held;
      const { expiresAt, holder } = await fixture.view(first as Held);
      expect(by[0]).toEqual({ id: first?.id, state: "running", holder, until: expiresAt });
    },
    needsLimits,
  );

  test(
    "delay no claim of other kinds and queues",
    async (fixture) => {
      await declare(fixture, { rate: { limit: 1, perMs: HOUR_MS } });
      await declare(fixture, {
        scope: "queue",
        name: "narrow",
        rate: { limit: 1, perMs: HOUR_MS },
      });
      await fixture.addAll([...many(2), ...many(2, { queue: "narrow", kind: "other" })]);
      await fixture.claim({ queues: ["queue", "narrow"] });
      const asked = async (queue: string, kind: string) => {
        const claim = fixture.claimRequest({ queues: [queue], kinds: [kind] });
        const outcome = await fixture.store.claim(claim);
        return outcome.status === "claimed" && (outcome.retryInMs ?? null) !== null;
      };
      expect(await asked("queue", "other")).toBe(false);
      expect(await asked("queue", "kind")).toBe(!fixture.store.capabilities.remoteWait);
      expect(await asked("narrow", "other")).toBe(!fixture.store.capabilities.remoteWait);
    },
    needsLimits,
  );

  test(
    "notify those who wait when one is raised, and when one is removed",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      const watching = await fixture.watch();
      const count = () => watching.events.filter(({ type }) => type === "resync").length;
      const notified = async (change: () => Promise<unknown>) => {
        const before = count();
        await change();
        await fixture.until("a resync", () => count() > before);
      };
      await notified(() => declare(fixture, { running: 2 }));
      const key = { namespace: fixture.namespace, scope: "kind", name: "kind" } as const;
      await notified(async () => fixture.store.limits?.remove(key));
      await watching.stop();
    },
    (fixture) => needsLimits(fixture) ?? needsPush(fixture),
  );

  test(
    "are a bounded number in each namespace, and still change",
    async (fixture) => {
      for (let at = 0; at < MOST_LIMITS; at += 100) {
        const some = Array.from({ length: 100 }, (_, n) => `${at + n}`);
        await Promise.all(some.map((name) => declare(fixture, { name, running: 1 })));
      }
      expect(await declare(fixture, { name: "more", running: 1 })).toBe("full");
      expect(await declare(fixture, { name: "7", running: 2 })).toBe("changed");
      const namespace = `${fixture.namespace}-other`;
      expect(await declare(fixture, { namespace, running: 1 })).toBe("added");
      const { store } = fixture;
      await store.limits?.remove({ namespace: fixture.namespace, scope: "kind", name: "8" });
      expect(await declare(fixture, { name: "more", running: 1 })).toBe("added");
    },
    (fixture) => needsLimits(fixture) ?? needsItself(fixture),
  );
};
