/** A task is done once, and its output stays. */
import { refusedAll, type Section } from "./fixture.js";

export const completing: Section = (test, expect) => {
  test("ends a task with its output", async (fixture) => {
    const held = await fixture.addAndHold();
    expect(await fixture.complete(held, { lines: 3 })).toEqual({
      status: "completed",
      repeated: false,
      output: { lines: 3 },
    });
    const view = await fixture.view(held);
    expect(view).toMatchObject({
      state: "done",
      output: { lines: 3 },
      remainingMs: null,
      holder: held.holder,
      token: held.token,
      error: null,
    });
    expect(view.finishedAt === null).toBe(false);
    expect(await fixture.claim()).toEqual([]);
  });

  test("answers the stored output when it is repeated", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.complete(held, "first");
    const again = { status: "completed", repeated: true, output: "first" };
    expect(await fixture.complete(held, "second")).toEqual(again);
    expect(await fixture.complete(held, "third")).toEqual(again);
    const others = await fixture.useAll(held);
    expect(others).toEqual({ ...refusedAll("finished"), complete: again });
    expect((await fixture.view(held)).output).toBe("first");
  });

  test("answers once `repeated: false` when copies arrive together", async (fixture) => {
    const held = await fixture.addAndHold();
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) => fixture.complete(held, index)),
    );
    const winner = outcomes.findIndex(
      (outcome) => outcome.status === "completed" && !outcome.repeated,
    );
    for (const [index, outcome] of outcomes.entries()) {
      const repeated = index !== winner;
      expect(outcome).toEqual({ status: "completed", repeated, output: winner });
    }
    expect((await fixture.view(held)).output).toBe(winner);
  });

  test("lets a dead task's holder, and a stranger, say nothing more", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.fail(held, { final: true });
    const { fail, ...refused } = refusedAll("finished");
    const { fail: repeated, ...answers } = await fixture.useAll(held);
    expect(answers).toEqual(refused);
    const recorded = { status: "recorded", repeated: true, state: "dead", retryInMs: null };
    expect(repeated).toEqual(recorded);
    expect(await fixture.useAll({ ...held, leaseId: "f".repeat(48) })).toEqual({
      ...refused,
      fail,
    });
  });
};
