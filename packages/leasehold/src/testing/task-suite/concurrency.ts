/** Many at once: nothing is given out twice, nothing is lost. */
import { grantOf, type Held, LONG_TTL_MS, type Section } from "./fixture.js";

export const concurrency: Section = (test, expect) => {
  test("never gives a task to two of 20 claimers", async (fixture) => {
    const ids = await fixture.addAll(Array.from({ length: 500 }, () => ({})));
    const claimed: Held[] = [];
    await Promise.all(
      Array.from({ length: 20 }, async (_, claimer) => {
        const mine = { holder: `claimer ${claimer}`, limit: 1 + (claimer % 7) };
        // Rows that others are taking just now are passed over: an empty answer is not the end.
        while (claimed.length < ids.length) {
          claimed.push(...(await fixture.claim(mine)));
        }
      }),
    );
    expect(claimed).toHaveLength(500);
    expect(claimed.map(({ id }) => id).sort()).toEqual(ids);
    expect(new Set(claimed.map(({ leaseId }) => leaseId)).size).toBe(500);
    const completed = await fixture.completeAll(
      claimed.map((task) => ({ ...grantOf(task), output: task.holder })),
    );
    for (const outcome of completed) expect(outcome).toMatchObject({ repeated: false });
    expect(await fixture.store.counts(fixture.namespace)).toMatchObject({ pending: 0, done: 500 });
  });

  test("does not deadlock when batches come in opposite orders", async (fixture) => {
    await fixture.addAll(Array.from({ length: 200 }, () => ({})));
    const tasks = (await fixture.claim({ limit: 200 })).map(grantOf);
    const reversed = [...tasks].reverse();
    const beats = (batch: typeof tasks) => batch.map((task) => ({ ...task, ttlMs: LONG_TTL_MS }));
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all([
        fixture.heartbeatAll(beats(tasks)),
        fixture.heartbeatAll(beats(reversed)),
        fixture.heartbeatAll(beats(tasks)),
        fixture.heartbeatAll(beats(reversed)),
      ]);
      for (const outcome of answers.flat()) expect(outcome.status).toBe("renewed");
    }
    const outputs = (batch: typeof tasks, output: string) =>
      batch.map((task) => ({ ...task, output }));
    const [forth, back] = await Promise.all([
      fixture.completeAll(outputs(tasks, "forth")),
      fixture.completeAll(outputs(reversed, "back")),
    ]);
    for (const [index, one] of forth.entries()) {
      const other = back[tasks.length - 1 - index];
      if (one.status !== "completed" || other?.status !== "completed") {
        throw new Error("both orders are answered `completed`");
      }
      expect(one.repeated).toBe(!other.repeated);
      expect(one.output).toBe(other.output);
    }
  });

  test("takes tasks added in opposite orders by concurrent callers once each", async (fixture) => {
    const tasks = Array.from({ length: 100 }, (_, index) =>
      fixture.newTask({ dedupeKey: `${index}` }),
    );
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, caller) =>
        fixture.enqueue(caller % 2 ? tasks : [...tasks].reverse()),
      ),
    );
    for (const outcome of answers.flat()) expect(outcome.status).toBe("enqueued");
    expect((await fixture.store.counts(fixture.namespace)).pending).toBe(100);
  });

  test("lets one of complete, fail, requeue and cancel win", async (fixture) => {
    for (let round = 0; round < 10; round += 1) {
      const held = await fixture.addAndHold(
        { queue: `round ${round}` },
        { queues: [`round ${round}`] },
      );
      const [completed, failed, returned, cancelled] = await Promise.all([
        fixture.complete(held, "output"),
        fixture.fail(held, { final: true }),
        fixture.requeue(held),
        fixture.cancel(held),
      ]);
      const { state, attempts } = await fixture.view(held);
      const { result } = attempts[0] ?? {};
      expect(attempts).toHaveLength(1);
      expect(completed.status === "completed").toBe(result === "done");
      expect(failed.status === "recorded").toBe(result === "failed");
      expect(returned.status === "returned").toBe(result === "returned");
      // A requeued task is pending, so the cancellation may follow it.
      expect(cancelled.status).toBe(state === "cancelled" ? "ok" : "conflict");
    }
  });
};
