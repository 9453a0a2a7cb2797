/** Ended tasks that are kept for a time. */
import { needsReap, type Section } from "./fixture.js";

const AT_ONCE = { retain: { doneMs: 0, deadMs: 0 } };
const DAY_MS = 24 * 3_600_000;

export const retaining: Section = (test, expect) => {
  test(
    "collects ended tasks that are to be kept no longer, with their attempts",
    async (fixture) => {
      const queues = ["done", "dead", "cancelled"];
      const ids = await fixture.addAll(queues.map((queue) => ({ queue, ...AT_ONCE })));
      const [done = "", dead = "", cancelled = ""] = ids;
      await fixture.complete(await fixture.hold({ queues: ["done"] }), 1);
      await fixture.fail(await fixture.hold({ queues: ["dead"] }), { final: true });
      await fixture.cancel({ id: cancelled });
      await fixture.pass(1);
      await fixture.until("they are collected", async () => {
        await fixture.store.collect(1_000);
        return (await fixture.store.list({ namespace: fixture.namespace })).items.length === 0;
      });
      expect(await fixture.leases()).toEqual([]);
      for (const id of [done, dead, cancelled]) {
        expect(await fixture.store.get(fixture.key(id))).toBe(null);
      }
    },
    needsReap,
  );

  test(
    "keeps a task that died of crashes as long as one that died of failures",
    async (fixture) => {
      const added = { queue: "crashing", crashLimit: 1 };
      const ids = await fixture.addAll([
        { ...added, ...AT_ONCE },
        { ...added, retain: { doneMs: 0, deadMs: DAY_MS } },
      ]);
      const [fleeting = "", kept = ""] = ids;
      const claims = { queues: ["crashing"], limit: 2, ttlMs: fixture.shortTtlMs };
      expect(await fixture.claim(claims)).toHaveLength(2);
      await fixture.pass(fixture.shortTtlMs + 1);
      await fixture.until("both are dead", async () => {
        await fixture.store.reap();
        return (await fixture.store.counts(fixture.namespace)).dead === 2;
      });
      await fixture.until("the first is collected", async () => {
        await fixture.store.collect(1_000);
        return (await fixture.store.get(fixture.key(fleeting))) === null;
      });
      expect(await fixture.view({ id: kept })).toMatchObject({ state: "dead", crashes: 1 });
    },
    needsReap,
  );

  test(
    "collects at most as many as asked, of all namespaces, and says how many",
    async (fixture) => {
      await fixture.until("nothing else is to be collected", async () => {
        return (await fixture.store.collect(1_000)) === 0;
      });
      const foreign = { namespace: `${fixture.namespace}-other`, ...AT_ONCE };
      const tasks = [AT_ONCE, AT_ONCE, foreign, foreign].map((task) => fixture.newTask(task));
      await fixture.enqueue(tasks);
      await fixture.cancelAll(tasks);
      await fixture.pass(1);
      const left = async () => {
        const found = await Promise.all(tasks.map((task) => fixture.store.get(task)));
        return found.filter((task) => task !== null).length;
      };
      expect(await fixture.store.collect(3)).toBe(3);
      expect(await left()).toBe(1);
      expect(await fixture.store.collect(3)).toBe(1);
      expect(await left()).toBe(0);
    },
    needsReap,
  );

  test(
    "gives a larger token to a task with the id of one that was collected",
    async (fixture) => {
      const first = await fixture.addAndHold(AT_ONCE);
      await fixture.complete(first, 1);
      await fixture.until("it is collected", async () => {
        await fixture.pass(1);
        await fixture.store.collect(1_000);
        return (await fixture.store.get(fixture.key(first.id))) === null;
      });
      const second = await fixture.addAndHold({ id: first.id });
      expect(second.token).toBeGreaterThan(first.token);
    },
    needsReap,
  );

  test(
    "keeps a task for its time from its end on, also if it ends a second time",
    async (fixture) => {
      await fixture.inTime(async (keepMs) => {
        const queue = `kept for ${keepMs}`;
        const retain = { doneMs: keepMs, deadMs: keepMs };
        const task = await fixture.add({ queue, retain });
        await fixture.cancel(task);
        await fixture.pass(keepMs / 2);
        await fixture.retry(task);
        await fixture.pass(keepMs / 2);
        await fixture.complete(await fixture.hold({ queues: [queue] }));
        await fixture.store.collect(1_000);
        if ((await fixture.store.get(task)) === null) return false;
        await fixture.pass(keepMs);
        await fixture.store.collect(1_000);
        expect(await fixture.store.get(task)).toBe(null);
        return true;
      });
    },
    needsReap,
  );

  test(
    "keeps those that have not ended, and each state for its own time",
    async (fixture) => {
      const keepDone = { retain: { doneMs: DAY_MS, deadMs: 0 } };
      const keepDead = { retain: { doneMs: 0, deadMs: DAY_MS } };
      const forever = { retain: { doneMs: null, deadMs: null } };
      const [
        pending = "",
        running = "",
        done = "",
        dead = "",
        cancelled = "",
        kept = "",
        bare = "",
      ] = await fixture.addAll([
        { queue: "pending", ...AT_ONCE },
        { queue: "running", ...AT_ONCE },
        { queue: "done", ...keepDone },
        { queue: "dead", ...keepDead },
        { queue: "cancelled", ...keepDead },
        { queue: "kept", ...forever },
        { queue: "bare" },
      ]);
      await fixture.hold({ queues: ["running"] });
      for (const queue of ["done", "kept", "bare"]) {
        await fixture.complete(await fixture.hold({ queues: [queue] }));
      }
      await fixture.fail(await fixture.hold({ queues: ["dead"] }), { final: true });
      await fixture.cancel({ id: cancelled });
      // It is dead, and then pending again.
      const retried = await fixture.addAndHold(
        { queue: "retried", ...AT_ONCE, maxAttempts: 1 },
        {
          queues: ["retried"],
        },
      );
      await fixture.fail(retried);
      await fixture.retry(retried);
      await fixture.pass(1);
      await fixture.store.collect(1_000);
      const { items } = await fixture.store.list({ namespace: fixture.namespace });
      const left = [retried.id, bare, kept, cancelled, dead, done, running, pending];
      expect(items.map(({ id }) => id)).toEqual(left);
    },
    needsReap,
  );
};
