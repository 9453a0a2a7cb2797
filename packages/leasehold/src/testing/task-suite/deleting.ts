/** Tasks that are deleted, by a program or an operator. */
import { refusedAll, type Section } from "./fixture.js";

export const deleting: Section = (test, expect) => {
  test("deletes a task that is not running, with its attempts, once", async (fixture) => {
    const [pending = "", cancelled = "", done = "", dead = ""] = await fixture.addAll([
      { queue: "pending", dedupeKey: "key" },
      { queue: "cancelled" },
      { queue: "done" },
      { queue: "dead" },
    ]);
    await fixture.cancel({ id: cancelled });
    const held = await fixture.hold({ queues: ["done"] });
    await fixture.complete(held, 1);
    await fixture.fail(await fixture.hold({ queues: ["dead"] }), { final: true });
    const keys = [pending, cancelled, done, dead].map((id) => fixture.key(id));
    const states = ["pending", "cancelled", "done", "dead"];
    expect(await fixture.deleteAll(keys)).toEqual(states.map((state) => ({ status: "ok", state })));
    expect(await fixture.deleteAll(keys)).toEqual(keys.map(() => ({ status: "unknown" })));
    for (const key of keys) expect(await fixture.store.get(key)).toBe(null);
    expect((await fixture.store.list({ namespace: fixture.namespace })).items).toEqual([]);
    expect(await fixture.leases()).toEqual([]);
    expect(await fixture.useAll(held)).toEqual(refusedAll("unknown"));
    expect(await fixture.claim({ queues: states })).toEqual([]);
    expect((await fixture.store.counts(fixture.namespace)).done).toBe(0);
    // Neither the id nor the dedupeKey is taken any more.
    const again = fixture.newTask({ id: pending, dedupeKey: "key", data: "new" });
    expect(await fixture.enqueue([again])).toEqual([{ status: "enqueued", id: pending }]);
  });

  test("keeps the dedupeKey of an unfinished task when an earlier one of it is deleted", async (fixture) => {
    const dedupeKey = "key";
    await fixture.add({ dedupeKey });
    const done = await fixture.hold();
    await fixture.complete(done);
    const id = (await fixture.add({ dedupeKey })).id;
    expect(await fixture.delete(done)).toEqual({ status: "ok", state: "done" });
    const again = fixture.newTask({ dedupeKey });
    expect(await fixture.enqueue([again])).toEqual([{ status: "duplicate", id }]);
  });

  test("leaves a running task alone", async (fixture) => {
    const held = await fixture.addAndHold();
    expect(await fixture.delete(held)).toEqual({ status: "conflict", state: "running" });
    expect(await fixture.heartbeat(held)).toMatchObject({ status: "renewed" });
    await fixture.requeue(held);
    expect(await fixture.delete(held)).toEqual({ status: "ok", state: "pending" });
  });

  test("a task whose id is used again starts anew, with a larger token", async (fixture) => {
    const first = await fixture.addAndHold();
    await fixture.heartbeat(first, { checkpoint: 1 });
    await fixture.complete(first, 1);
    await fixture.delete(first);
    const second = await fixture.addAndHold({ id: first.id });
    expect(second).toMatchObject({
      id: first.id,
      attempt: 1,
      checkpoint: null,
      previousHolder: null,
    });
    expect(second.token).toBeGreaterThan(first.token);
    expect(await fixture.useAll(first)).toEqual(refusedAll("taken"));
    expect((await fixture.view(second)).attempts).toHaveLength(1);
    expect(await fixture.complete(second, 2)).toMatchObject({ repeated: false, output: 2 });
  });

  test("decides each of a batch, and one that is named twice once", async (fixture) => {
    const [one = "", two = ""] = await fixture.addAll([{}, {}]);
    const keys = [one, two, one, "none"].map((id) => fixture.key(id));
    expect(await fixture.deleteAll(keys)).toEqual([
      { status: "ok", state: "pending" },
      { status: "ok", state: "pending" },
      { status: "unknown" },
      { status: "unknown" },
    ]);
    expect(await fixture.deleteAll([])).toEqual([]);
  });
};
