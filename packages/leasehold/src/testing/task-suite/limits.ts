/** Limits of kinds and queues, and rates. */
import type { Rate } from "../../tasks/port.js";
import type { Held, Section } from "./fixture.js";
import { needsPush, needsReap } from "./fixture.js";
import { declare, HOUR_MS, ids, limitsOf, many, needsLimits, view } from "./limit-fixture.js";

export const limits: Section = (test, expect) => {
  test(
    "shows who declared a limit last, and writes nothing when it is declared again",
    async (fixture) => {
      const [slow, rate] = [2_000, 1_000].map((perMs) => ({ limit: 7, perMs })) as [Rate, Rate];
      expect(await declare(fixture, { running: 5, rate: slow, by: "one" })).toBe("added");
      const before = await view(fixture);
      const { namespace } = fixture;
      const { declaredAt, ...rest } = before;
      expect(rest).toEqual({
        namespace,
        scope: "kind",
        name: "kind",
        running: 5,
        rate: slow,
        declaredBy: "one",
        live: 0,
        by: [],
        started: 0,
        usedUpUntil: null,
      });
      const { createdAt } = await fixture.view(await fixture.add({ queue: "aside" }));
      expect(Date.parse(declaredAt)).toBeLessThanOrEqual(Date.parse(createdAt));
      await fixture.pass(5);
      expect(await declare(fixture, { running: 5, rate: slow, by: "two" })).toBe("none");
      expect(await view(fixture)).toEqual(before);
      expect(await declare(fixture, { running: 5, rate, by: "three" })).toBe("changed");
      expect((await view(fixture)).rate).toEqual(rate);
      expect(await declare(fixture, { running: 4, rate, by: "three" })).toBe("changed");
      const after = await view(fixture);
      const changed = { declaredBy: "three", declaredAt: after.declaredAt };
      expect(after).toEqual({ ...before, running: 4, rate, ...changed });
      expect(Date.parse(after.declaredAt)).toBeGreaterThan(Date.parse(declaredAt));
      await declare(fixture, { scope: "queue", name: "a", running: 1 });
      await declare(fixture, { name: "a", running: 1 });
      const all = await limitsOf(fixture).list(namespace);
      expect(all.map(({ scope, name }) => `${scope} ${name}`)).toEqual([
        "kind a",
        "kind kind",
        "queue a",
      ]);
      const key = { namespace, scope: "kind", name: "kind" } as const;
      expect(await limitsOf(fixture).remove(key)).toBe(true);
      expect(await limitsOf(fixture).remove(key)).toBe(false);
      expect(await limitsOf(fixture).list(namespace)).toHaveLength(2);
    },
    needsLimits,
  );

  test(
    "runs at most so many tasks of a kind at once, in all queues",
    async (fixture) => {
      await declare(fixture, { running: 2 });
      const added = await fixture.addAll([
        { queue: "other" },
        {},
        {},
        { queue: "other", kind: "other" },
        { kind: "other" },
      ]);
      const queues = ["queue", "other"];
      const held = await fixture.claim({ queues });
      expect(ids(held)).toEqual([0, 1, 3, 4].map((at) => added[at]));
      expect(await fixture.claim({ queues })).toEqual([]);
      expect((await view(fixture)).live).toBe(2);
      await fixture.complete(held[2] as Held);
      expect(await fixture.claim({ queues })).toEqual([]);
      await fixture.complete(held[0] as Held);
      expect(ids(await fixture.claim({ queues }))).toEqual([added[2]]);
    },
    needsLimits,
  );

  test(
    "runs at most so many tasks of a queue at once, and keeps the limit of their kind too",
    async (fixture) => {
      await declare(fixture, { scope: "queue", name: "queue", running: 3 });
      await declare(fixture, { running: 1 });
      const added = await fixture.addAll([
        {},
        {},
        ...many(3, { kind: "other" }),
        { queue: "more" },
      ]);
      const queues = ["more", "queue"];
      const held = await fixture.claim({ queues });
      expect(ids(held)).toEqual([0, 2, 3].map((at) => added[at]));
      await fixture.complete(held[0] as Held);
      expect(ids(await fixture.claim({ queues }))).toEqual([added[1]]);
      await fixture.complete(held[1] as Held);
      expect(ids(await fixture.claim({ queues }))).toEqual([added[4]]);
      await fixture.complete(held[2] as Held);
      expect(await fixture.claim({ queues })).toEqual([]);
    },
    needsLimits,
  );

  test(
    "lets tasks of other kinds pass those that must wait, in their order",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      await fixture.addAll(many(300));
      const others = await fixture.addAll([
        { kind: "b", priority: 2 },
        { kind: "c", priority: 1 },
        { kind: "b", priority: 1 },
        { kind: "c", priority: 2 },
      ]);
      expect(ids(await fixture.claim({ limit: 3 })).slice(1)).toEqual([others[1], others[2]]);
      expect(ids(await fixture.claim({ limit: 1 }))).toEqual([others[0]]);
      expect(ids(await fixture.claim({ kinds: ["kind", "c"], limit: 3 }))).toEqual([others[3]]);
      expect(await fixture.claim({ kinds: ["kind"] })).toEqual([]);
    },
    needsLimits,
  );

  test(
    "has a place again when a task fails, is requeued or cancelled",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      const added = await fixture.addAll(many(4));
      await fixture.fail(await fixture.hold(), { retryInMs: HOUR_MS });
      const second = await fixture.hold();
      expect(second.id).toBe(added[1]);
      await fixture.requeue(second);
      const again = await fixture.hold();
      expect(again.id).toBe(added[1]);
      await fixture.cancel(again);
      expect((await fixture.hold()).id).toBe(added[2]);
    },
    needsLimits,
  );

  test(
    "counts leases that have not expired",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      const added = await fixture.addAll(many(2));
      const held = await fixture.hold({ ttlMs: fixture.shortTtlMs });
      expect(held.id).toBe(added[0]);
      await fixture.heartbeat(held, { ttlMs: 4 * fixture.shortTtlMs });
      await fixture.pass(fixture.shortTtlMs);
      await fixture.store.reap();
      const { remainingMs } = await fixture.view(held);
      // A machine that is slow has let it expire.
      if ((remainingMs ?? 0) > 0) expect((await view(fixture)).live).toBe(1);
      await fixture.pass(4 * fixture.shortTtlMs);
      expect((await view(fixture)).live).toBe(0);
      // Behind a server, the first is claimable again.
      expect(added).toContain((await fixture.hold()).id);
    },
    needsLimits,
  );

  test(
    "counts tasks that run since before the limit was declared",
    async (fixture) => {
      const added = await fixture.addAll(many(3));
      const first = await fixture.hold({ limit: 1 });
      await declare(fixture, { running: 2 });
      expect((await view(fixture)).live).toBe(1);
      expect(ids(await fixture.claim())).toEqual([added[1]]);
      expect(await fixture.claim()).toEqual([]);
      await fixture.complete(first);
      expect(ids(await fixture.claim())).toEqual([added[2]]);
    },
    needsLimits,
  );

  test(
    "keeps the newest limit, and none once it is removed",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      const added = await fixture.addAll(many(5));
      expect(ids(await fixture.claim())).toEqual(added.slice(0, 1));
      await declare(fixture, { running: 3 });
      expect(ids(await fixture.claim())).toEqual(added.slice(1, 3));
      await declare(fixture, { running: 2 });
      expect(await fixture.claim()).toEqual([]);
      const { live, by } = await view(fixture);
      expect([live, ids(by)]).toEqual([3, added.slice(0, 3)]);
      const { namespace } = fixture;
      await limitsOf(fixture).remove({ namespace, scope: "kind", name: "kind" });
      expect(ids(await fixture.claim())).toEqual(added.slice(3));
    },
    needsLimits,
  );

  test(
    "takes tasks with a concurrency key under the limit of their kind",
    async (fixture) => {
      await declare(fixture, { running: 2 });
      const keyed = (key: string, kind = "kind") => ({
        kind,
        concurrency: { key, perKey: 1, order: "fifo" } as const,
      });
      const added = await fixture.addAll([
        keyed("a"),
        keyed("a"),
        keyed("b"),
        keyed("c"),
        keyed("c", "other"),
        {},
      ]);
      const held = await fixture.claim();
      expect(ids(held)).toEqual([0, 2, 4].map((at) => added[at]));
      expect(await fixture.claim()).toEqual([]);
      await fixture.complete(held[0] as Held);
      expect(ids(await fixture.claim())).toEqual([added[1]]);
      await fixture.complete(held[1] as Held);
      expect(ids(await fixture.claim())).toEqual([added[3]]);
    },
    needsLimits,
  );

  test(
    "starts at most so many tasks in a window, and says when the next one may begin",
    async (fixture) => {
      await fixture.inTime(async (perMs) => {
        const kind = `per ${perMs}`;
        const queue = kind;
        await declare(fixture, { name: kind, rate: { limit: 3, perMs } });
        const added = await fixture.addAll(many(9, { kind, queue }));
        const own = { queues: [queue] };
        const request = fixture.claimRequest({ ...own, limit: 2 });
        const first = await fixture.claim(request);
        expect(ids(first)).toEqual(added.slice(0, 2));
        // A repeated claim takes no second permit.
        expect(ids(await fixture.claim(request))).toEqual(added.slice(0, 2));
        for (const held of first) await fixture.complete(held);
        const third = ids(await fixture.claim(own));
        // The window has ended meanwhile.
        if (third.length > 1) return false;
        expect(third).toEqual(added.slice(2, 3));
        const outcome = await fixture.store.claim(fixture.claimRequest(own));
        if (outcome.status === "failed") throw outcome.error;
        if (outcome.tasks.length > 0) return false;
        const all = await limitsOf(fixture).list(fixture.namespace);
        const { started, usedUpUntil } = all.find(({ name }) => name === kind) ?? {};
        if (usedUpUntil === null) return false;
        expect(started).toBe(3);
        // Behind a server, which waits by itself, an answer does not say it.
        if (!fixture.store.capabilities.remoteWait) {
          expect(outcome.retryInMs).toBeGreaterThan(0);
          expect(outcome.retryInMs).toBeLessThanOrEqual(perMs);
        }
        // What a window leaves over is lost.
        await fixture.pass(3 * perMs);
        expect(ids(await fixture.claim(own))).toEqual(added.slice(3, 6));
        const more = await fixture.claim(own);
        return more.length === 0;
      });
    },
    needsLimits,
  );

  test(
    "starts at most so many tasks of a concurrency key in a window",
    async (fixture) => {
      await fixture.inTime(async (perMs) => {
        const queue = `per ${perMs}`;
        const keyed = (key: string) => ({
          queue,
          concurrency: { key, perKey: 10, order: "fifo", rate: { limit: 2, perMs } } as const,
        });
        const added = await fixture.addAll([...many(5, keyed("a")), keyed("b")]);
        const own = { queues: [queue] };
        const first = await fixture.claim({ ...own, limit: 1 });
        expect(ids(first)).toEqual(added.slice(0, 1));
        await fixture.complete(first[0] as Held);
        const second = ids(await fixture.claim(own));
        if (second.length > 2) return false;
        expect(second).toEqual([added[1], added[5]]);
        if ((await fixture.claim(own)).length > 0) return false;
        const only = { queue, kind: "kind", key: "a" };
        const { namespace, store } = fixture;
        const [blocked] = (await store.blockedKeys?.({ namespace, only, limit: 1 })) ?? [];
        if (!blocked) return false;
        expect(blocked).toMatchObject({ ...only, rate: { limit: 2, perMs }, pending: 3 });
        expect(Date.parse(blocked.usedUpUntil ?? "")).toBeGreaterThan(0);
        await fixture.pass(perMs);
        const next = await fixture.claim(own);
        expect(ids(next)).toEqual(added.slice(2, 4));
        if ((await fixture.claim(own)).length > 0) return false;
        await fixture.pass(perMs);
        expect(ids(await fixture.claim(own))).toEqual(added.slice(4, 5));
        return true;
      });
    },
    needsLimits,
  );

  test(
    "notifies those who wait in any queue when a task of a limited kind ends",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      await declare(fixture, { scope: "queue", name: "narrow", running: 1 });
      const held = await fixture.addAndHold();
      const narrow = await fixture.addAndHold(
        { queue: "narrow", kind: "other" },
        { queues: ["narrow"] },
      );
      const watching = await fixture.watch();
      const count = () => watching.events.filter(({ type }) => type === "resync").length;
      const before = count();
      await fixture.complete(held);
      await fixture.until("a resync", () => count() > before);
      await fixture.complete(narrow);
      await fixture.until("a notification", () => watching.ready.includes("narrow"));
      await watching.stop();
    },
    (fixture) => needsLimits(fixture) ?? needsPush(fixture),
  );

  test(
    "has a place again once the lease of a dead worker is reaped",
    async (fixture) => {
      await declare(fixture, { running: 1 });
      const [first = "", second = ""] = await fixture.addAll([{}, {}]);
      const held = await fixture.hold({ ttlMs: fixture.shortTtlMs });
      await fixture.pass(held.ttlMs);
      await fixture.reap(held);
      expect((await fixture.hold()).id).toBe(first);
      expect((await fixture.view({ id: second })).state).toBe("pending");
    },
    (fixture) => needsLimits(fixture) ?? needsReap(fixture),
  );

  test(
    "never runs more than a limit, nor starts more than a rate, for 10 claimers at once",
    async (fixture) => {
      await declare(fixture, { running: 3 });
      await declare(fixture, { name: "rated", rate: { limit: 7, perMs: HOUR_MS } });
      await declare(fixture, { scope: "queue", name: "narrow", running: 1 });
      const added = await fixture.addAll([
        ...many(40),
        ...many(20, { queue: "narrow", kind: "other" }),
        ...many(20, { kind: "rated" }),
      ]);
      const groupOf = (id: string) => (added.indexOf(id) < 40 ? 0 : added.indexOf(id) < 60 ? 1 : 2);
      const running = [0, 0, 0];
      const most = [3, 1, 7];
      const done = [0, 0, 0];
      await Promise.all(
        Array.from({ length: 10 }, async (_, claimer) => {
          while ((done[0] ?? 0) < 40 || (done[1] ?? 0) < 20 || (done[2] ?? 0) < 7) {
            const queues = ["queue", "narrow"];
            for (const held of await fixture.claim({ queues, limit: 1 + (claimer % 4) })) {
              const group = groupOf(held.id);
              running[group] = (running[group] ?? 0) + 1;
              expect(running[group]).toBeLessThanOrEqual(most[group] ?? 0);
              await fixture.view(held);
              running[group] = (running[group] ?? 0) - 1;
              done[group] = (done[group] ?? 0) + 1;
              await fixture.complete(held);
            }
          }
        }),
      );
      expect(done).toEqual([40, 20, 7]);
      expect(await fixture.claim()).toEqual([]);
    },
    needsLimits,
  );
};
