/** What operators do: cancel and retry. */
import { refusedAll, type Section } from "./fixture.js";

const HOUR_MS = 3_600_000;

export const cancelling: Section = (test, expect) => {
  test("cancels a pending task, again and again", async (fixture) => {
    const task = await fixture.add();
    expect(await fixture.cancel(task)).toEqual({ status: "ok", state: "cancelled" });
    expect(await fixture.cancel(task)).toEqual({ status: "ok", state: "cancelled" });
    const view = await fixture.view(task);
    expect(view).toMatchObject({ state: "cancelled", attempts: [] });
    expect(view.finishedAt === null).toBe(false);
    expect(await fixture.claim()).toEqual([]);
  });

  test("cancels a running task and refuses its holder from then on", async (fixture) => {
    const held = await fixture.addAndHold();
    expect(await fixture.cancel(held)).toEqual({ status: "ok", state: "cancelled" });
    expect(await fixture.useAll(held)).toEqual(refusedAll("cancelled"));
    expect(await fixture.useAll({ ...held, token: held.token - 1 })).toEqual(
      refusedAll("cancelled"),
    );
    expect(await fixture.view(held)).toMatchObject({
      state: "cancelled",
      remainingMs: null,
      output: null,
      attempts: [{ result: "cancelled" }],
    });
  });

  test("changes nothing about a task that is done or dead", async (fixture) => {
    const done = await fixture.addAndHold();
    await fixture.complete(done, "output");
    expect(await fixture.cancel(done)).toEqual({ status: "conflict", state: "done" });
    expect(await fixture.retry(done)).toEqual({ status: "conflict", state: "done" });
    expect(await fixture.view(done)).toMatchObject({ state: "done", output: "output" });
    const dead = await fixture.addAndHold();
    await fixture.fail(dead, { final: true });
    expect(await fixture.cancel(dead)).toEqual({ status: "conflict", state: "dead" });
  });

  test("does not retry a running task", async (fixture) => {
    const held = await fixture.addAndHold();
    expect(await fixture.retry(held)).toEqual({ status: "conflict", state: "running" });
    expect(await fixture.heartbeat(held)).toMatchObject({ status: "renewed" });
  });

  test("starts a dead task over: counters at 0, attempts and tokens going on", async (fixture) => {
    const { id } = await fixture.add({ maxAttempts: 1, crashLimit: 2 });
    const crashed = await fixture.hold({ ttlMs: fixture.shortTtlMs });
    await fixture.pass(crashed.ttlMs);
    await fixture.reap(crashed);
    const failed = await fixture.hold();
    expect(failed).toMatchObject({ attempt: 2, crashes: 1 });
    await fixture.fail(failed, { error: "failed" });
    expect(await fixture.retry({ id })).toEqual({ status: "ok", state: "pending" });
    expect(await fixture.view({ id })).toMatchObject({
      state: "pending",
      failures: 0,
      crashes: 0,
      finishedAt: null,
      attempt: 2,
    });
    const third = await fixture.hold();
    expect(third).toMatchObject({ attempt: 3, failures: 0, crashes: 0 });
    expect(third.token).toBeGreaterThan(failed.token);
    expect(await fixture.useAll(failed)).toEqual(refusedAll("taken"));
    await fixture.complete(third);
    expect((await fixture.view({ id })).attempts.map(({ result }) => result)).toEqual([
      "expired",
      "failed",
      "done",
    ]);
  });

  test("starts a cancelled task over, and still refuses who held it", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.cancel(held);
    expect(await fixture.retry(held)).toEqual({ status: "ok", state: "pending" });
    expect(await fixture.useAll(held)).toEqual(refusedAll("expired"));
    expect((await fixture.hold()).id).toBe(held.id);
    expect(await fixture.useAll(held)).toEqual(refusedAll("taken"));
  });

  test("makes a pending task due now", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.fail(held, { retryInMs: HOUR_MS });
    const { createdAt } = await fixture.view(held);
    const scheduledAt = new Date(Date.parse(createdAt) + HOUR_MS).toISOString();
    const later = await fixture.add({ scheduledAt });
    expect(await fixture.claim()).toEqual([]);
    expect(await fixture.retryAll([held, later])).toEqual([
      { status: "ok", state: "pending" },
      { status: "ok", state: "pending" },
    ]);
    const claimed = await fixture.claim();
    expect(claimed.map(({ id }) => id).sort()).toEqual([held.id, later.id].sort());
    for (const { failures } of claimed) expect(failures).toBe(0);
  });

  test("keeps the place of a pending task that is due, and puts one that starts over at the end", async (fixture) => {
    const [first = "", second = "", third = ""] = await fixture.addAll([{}, {}, {}]);
    await fixture.pass(5);
    expect(await fixture.retry({ id: second })).toEqual({ status: "ok", state: "pending" });
    await fixture.cancel({ id: first });
    await fixture.pass(5);
    await fixture.retry({ id: first });
    const claimed = await fixture.claim();
    expect(claimed.map(({ id }) => id)).toEqual([second, third, first]);
  });

  test("does not start a task over beside another unfinished one of its dedupeKey", async (fixture) => {
    const first = await fixture.add({ dedupeKey: "key" });
    await fixture.cancel(first);
    const second = await fixture.add({ dedupeKey: "key" });
    expect(await fixture.retry(first)).toEqual({ status: "conflict", state: "cancelled" });
    await fixture.cancel(second);
    // A task of another kind is no conflict.
    await fixture.add({ kind: "other", dedupeKey: "key" });
    // Of two in one call the first starts over.
    expect(await fixture.retryAll([second, first])).toEqual([
      { status: "ok", state: "pending" },
      { status: "conflict", state: "cancelled" },
    ]);
    await fixture.cancel(second);
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) => fixture.retry(index % 2 ? first : second)),
    );
    const started = outcomes.filter(({ status }) => status === "ok");
    expect(started.length).toBeGreaterThan(0);
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(2);
  });

  test("starts over, in one batch, the tasks of one dedupeKey in each namespace", async (fixture) => {
    const dedupeKey = "shared";
    const own = await fixture.add({ dedupeKey });
    const foreign = fixture.newTask({ dedupeKey, namespace: `${fixture.namespace}-other` });
    await fixture.enqueue([foreign]);
    const both = [own, { namespace: foreign.namespace, id: foreign.id }];
    await fixture.cancelAll(both);
    const pending = { status: "ok", state: "pending" };
    expect(await fixture.retryAll(both)).toEqual([pending, pending]);
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(1);
    expect((await fixture.store.counts(foreign.namespace)).pending).toBe(1);
  });
};
