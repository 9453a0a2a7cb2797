/** Tasks that are deleted and added again under their old ids, on every engine that keeps tasks. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newLeaseId, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { Fixture, grantOf } from "../../packages/leasehold/src/testing/task-suite/fixture.js";
import { CONTROL_ENGINES, type OpenedControl } from "../support/engines/control-engines.js";

describe.each(CONTROL_ENGINES)("$name", (engine) => {
  engine.describe("a task that was deleted and added again", () => {
    let opened: OpenedControl;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());

    const fixtureOf = () => new Fixture({ store: opened.tasks, close: async () => {} }, expect);

    it("is a new one, time after time, whose tokens grow", async () => {
      const fixture = fixtureOf();
      const { store } = fixture;
      const task = fixture.newTask({ dedupeKey: "key", maxAttempts: 2 });
      const claimIds: string[] = [];
      const tokens: number[] = [];
      for (let round = 0; round < 6; round += 1) {
        const added = { ...task, data: { round } };
        expect(await fixture.enqueue([added])).toEqual([{ status: "enqueued", id: task.id }]);
        expect(await fixture.view(task)).toMatchObject({
          state: "pending",
          data: { round },
          output: null,
          error: null,
          attempt: 0,
          failures: 0,
          token: null,
          attempts: [],
        });
        // A claim of an earlier life, repeated, has nothing of this one.
        for (const claimId of claimIds) expect(await fixture.claim({ claimId })).toEqual([]);
        const claimId = newLeaseId(systemRandom);
        claimIds.push(claimId);
        const first = await fixture.hold({ claimId });
        tokens.push(first.token);
        expect(first).toMatchObject({ attempt: 1, failures: 0, previousHolder: null });
        await fixture.heartbeat(first, { progress: { round } });
        await fixture.fail(first, { error: `failure ${round}`, retryInMs: 0 });
        const held = await fixture.hold();
        tokens.push(held.token);
        expect(held).toMatchObject({ attempt: 2, failures: 1, previousHolder: first.holder });
        const states = await store.counts(fixture.namespace);
        expect(states).toEqual({
          pending: 0,
          running: 1,
          done: 0,
          dead: 0,
          cancelled: 0,
          expired: 0,
        });

        const ends = [
          async () => fixture.complete(held, { round }),
          async () => fixture.fail(held, { error: `last failure ${round}` }),
          async () => fixture.cancel(held),
        ];
        await ends[round % 3]?.();
        const state = ["done", "dead", "cancelled"][round % 3];
        const view = await fixture.view(task);
        expect(view).toMatchObject({ state, output: round % 3 ? null : { round } });
        expect(view.attempts.map(({ holder, token }) => [holder, token])).toEqual([
          [first.holder, first.token],
          [held.holder, held.token],
        ]);
        expect(await fixture.leases()).toHaveLength(2);

        const [deleted] = await opened.control.actors.tasks.delete([fixture.key(task.id)]);
        expect(deleted).toEqual({ status: "ok", state });
        expect(await store.get(fixture.key(task.id))).toBe(null);
        expect(await fixture.leases()).toEqual([]);
        const none = { pending: 0, running: 0, done: 0, dead: 0, cancelled: 0, expired: 0 };
        expect(await store.counts(fixture.namespace)).toEqual(none);
        const refused = { status: "refused", reason: "unknown" };
        expect(await fixture.complete(held, "late")).toEqual(refused);
      }
      // A guard of the protected side has seen the tokens of the earlier lives.
      expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    });

    it("has larger tokens than before, though tasks with smaller ones were deleted since", async () => {
      const fixture = fixtureOf();
      const [often, once] = [fixture.newTask({ priority: 1 }), fixture.newTask()];
      const tokensOf = async (task: typeof often, times: number) => {
        await fixture.enqueue([task]);
        let token = 0;
        for (let time = 1; time <= times; time += 1) {
          const held = await fixture.hold();
          ({ token } = held);
          if (time < times) await fixture.requeue(held);
          else await fixture.complete(held, null);
        }
        return token;
      };
      await tokensOf(once, 1);
      const last = await tokensOf(often, 5);
      for (const { id } of [often, once]) {
        await opened.control.actors.tasks.delete([fixture.key(id)]);
      }
      expect(await tokensOf(often, 1)).toBeGreaterThan(last);
    });

    it("is completed by its own holder alone, not by one of its life before", async () => {
      const fixture = fixtureOf();
      const task = fixture.newTask();
      await fixture.enqueue([task]);
      const before = await fixture.hold();
      await fixture.cancel(before);
      await opened.control.actors.tasks.delete([fixture.key(task.id)]);
      await fixture.enqueue([task]);
      const held = await fixture.hold();
      const taken = { status: "refused", reason: "taken" };
      expect(await fixture.completeAll([{ ...grantOf(before), output: "old" }])).toEqual([taken]);
      expect(await fixture.heartbeat(before)).toEqual(taken);
      // Nor by its lease id with the new token, or the reverse.
      for (const mixed of [
        { ...grantOf(before), token: held.token },
        { ...grantOf(held), token: before.token },
      ]) {
        expect(await fixture.complete(mixed, "mixed")).toEqual(taken);
      }
      expect(await fixture.complete(held, "new")).toMatchObject({ status: "completed" });
      expect((await fixture.view(task)).output).toBe("new");
    });
  });
});
