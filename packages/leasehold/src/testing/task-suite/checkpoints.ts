/** What an attempt records for the next one. */
import { LONG_TTL_MS, refusedAll, type Section } from "./fixture.js";

export const checkpoints: Section = (test, expect) => {
  test("keeps the last checkpoint of a task, and returns it with later claims", async (fixture) => {
    const first = await fixture.addAndHold();
    expect(first.checkpoint).toBe(null);
    expect((await fixture.view(first)).checkpoint).toBe(null);
    expect(
      await fixture.heartbeat(first, { checkpoint: { row: 1 }, progress: "half" }),
    ).toMatchObject({
      status: "renewed",
    });
    await fixture.heartbeat(first, { checkpoint: { row: 2, é: [null] } });
    await fixture.heartbeat(first);
    const kept = { row: 2, é: [null] };
    expect(await fixture.view(first)).toMatchObject({ checkpoint: kept, progress: "half" });
    await fixture.fail(first, { retryInMs: 0 });
    const second = await fixture.hold();
    expect(second.checkpoint).toEqual(kept);
    expect(await fixture.view(second)).toMatchObject({ checkpoint: kept, progress: null });
    await fixture.heartbeat(second, { checkpoint: null });
    await fixture.requeue(second);
    const third = await fixture.hold();
    expect(third.checkpoint).toBe(null);
    await fixture.heartbeat(third, { checkpoint: "end" });
    await fixture.complete(third, 1);
    expect(await fixture.view(third)).toMatchObject({
      state: "done",
      checkpoint: "end",
      output: 1,
    });
  });

  test("keeps a checkpoint when the lease expires, and when an operator retries the task", async (fixture) => {
    const dead = await fixture.addAndHold({ queue: "q" }, { queues: ["q"] });
    await fixture.heartbeat(dead, { checkpoint: 7 });
    await fixture.fail(dead, { final: true });
    await fixture.retry(dead);
    const claims = { queues: ["q", "queue"] };
    expect((await fixture.hold(claims)).checkpoint).toBe(7);
    // The lease may expire before its heartbeat is sent.
    await fixture.inTime(async (ttlMs) => {
      const queue = `${ttlMs} ms`;
      const held = await fixture.addAndHold({ queue }, { queues: [queue], ttlMs });
      const beat = await fixture.heartbeat(held, { ttlMs, checkpoint: [held.id] });
      if (beat.status !== "renewed") return false;
      await fixture.pass(ttlMs);
      await fixture.reap(held);
      expect((await fixture.hold({ queues: [queue] })).checkpoint).toEqual([held.id]);
      return true;
    });
  });

  test("takes none under a grant that has ended", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.heartbeat(held, { checkpoint: 1 });
    await fixture.requeue(held);
    expect(await fixture.heartbeat(held, { checkpoint: 2 })).toEqual({
      status: "refused",
      reason: "expired",
    });
    const next = await fixture.hold();
    expect(next.checkpoint).toBe(1);
    expect(await fixture.heartbeat(held, { checkpoint: 3 })).toEqual({
      status: "refused",
      reason: "taken",
    });
    expect(await fixture.useAll(held)).toEqual(refusedAll("taken"));
    expect((await fixture.view(held)).checkpoint).toBe(1);
  });

  test("in a batch, keeps the last of each task", async (fixture) => {
    await fixture.addAll([{}, {}, {}]);
    const held = await fixture.claim();
    const beat = { ttlMs: LONG_TTL_MS };
    await fixture.heartbeatAll(
      held.flatMap(({ namespace, id, leaseId, token }, index) => {
        const grant = { namespace, id, leaseId, token, ...beat };
        return [{ ...grant, checkpoint: index }, { ...grant, checkpoint: -index }, grant];
      }),
    );
    const kept = await Promise.all(held.map(async (task) => (await fixture.view(task)).checkpoint));
    expect(kept.map(Number)).toEqual(held.map((_, index) => 0 - index));
  });
};
