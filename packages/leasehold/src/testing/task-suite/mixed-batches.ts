/**
 * Large batches in which every task and every request differs. Each task must keep what it was enqueued
 * with, and each outcome and each attempt must have the values of its own request.
 */
import { zip } from "../../env/index.js";
import { shuffled } from "../shuffled.js";
import { grantOf, type Held, LONG_TTL_MS, newTaskId, type Section } from "./fixture.js";
import {
  claimAll,
  detailsOf,
  expectGrant,
  failureOf,
  isDue,
  manyTasks,
  valueOf,
} from "./mixed-values.js";

const TASKS = 360;
/** A third each is completed, failed and requeued; of these, every ninth with the grant of another task. */
const STRANGE_EACH = 9;

export const mixedBatches: Section = (test, expect) => {
  test("keep the data, the limits and the times of each task", async (fixture) => {
    const tasks = manyTasks(fixture, TASKS);
    const first = shuffled(tasks).map((task) => ({ task, status: "enqueued", id: task.id }));
    // Copies that come later change nothing: of an id, and of a kind and dedupeKey.
    const limits = { priority: 7, maxAttempts: 99 };
    const changed = { ...limits, data: "of a copy" };
    const later = tasks.slice(0, 120).flatMap((task, at) => {
      const copy =
        at % 2 === 0
          ? { task: { ...task, ...limits }, status: "enqueued", id: task.id }
          : { task: { ...task, ...changed }, status: "conflict", id: task.id };
      if (task.dedupeKey === null) return [copy];
      const rival = { ...task, ...changed, id: newTaskId() };
      return [copy, { task: rival, status: "duplicate", id: task.id }];
    });
    const batch = [...first, ...shuffled(later)];
    const outcomes = await fixture.enqueue(batch.map(({ task }) => task));
    for (const [{ status, id }, outcome] of zip(batch, outcomes)) {
      expect(outcome, id).toEqual({ status, id });
    }
    const views = await detailsOf(fixture, expect, tasks);
    for (const task of tasks) {
      const { id, kind, queue, priority, data, scheduledAt, dedupeKey } = task;
      const { maxAttempts, crashLimit } = task;
      const own = { id, kind, queue, priority, data, scheduledAt, dedupeKey };
      expect(views.get(id), id).toMatchObject({ ...own, maxAttempts, crashLimit });
    }
  });

  test("reach many workers, each task once and with its own values", async (fixture) => {
    const tasks = manyTasks(fixture, TASKS);
    await fixture.enqueue(shuffled(tasks));
    const held = await claimAll(fixture, expect, tasks);
    const views = await detailsOf(fixture, expect, tasks);
    for (const task of tasks) {
      const { id, kind, queue, priority, data, scheduledAt, dedupeKey, maxAttempts } = task;
      const [claim, view] = [held.get(id), views.get(id)];
      expect(claim !== undefined, id).toBe(isDue(task));
      if (!claim) {
        expect(view, id).toMatchObject({ state: "pending", attempt: 0, holder: null });
        continue;
      }
      const own = { kind, queue, priority, data, scheduledAt, dedupeKey, maxAttempts };
      expect(claim, id).toMatchObject({ ...own, attempt: 1, failures: 0, crashes: 0 });
      expect(view, id).toMatchObject({ ...own, state: "running" });
      expectGrant(expect, view, claim, null);
    }
  });

  test("end each attempt with its own result", async (fixture) => {
    const tasks = manyTasks(fixture, TASKS);
    await fixture.enqueue(tasks);
    const claims = [...(await claimAll(fixture, expect, tasks)).values()];
    const task = new Map(tasks.map((one) => [one.id, one]));
    const uses = claims.map((held, index) => {
      const isStrange = index % STRANGE_EACH === 0;
      const { leaseId } = (isStrange && claims[index + 1]) || held;
      return { held, index, isStrange, grant: grantOf({ ...held, leaseId }) };
    });
    const refused = { status: "refused", reason: "taken" };

    const ttlOf = (index: number) => LONG_TTL_MS + 1 + index;
    const beats = shuffled(uses);
    const renewed = await fixture.heartbeatAll(
      beats.map(({ grant, index }) => ({
        ...grant,
        ttlMs: ttlOf(index),
        ...(index % 4 && { progress: valueOf("progress", index) }),
      })),
    );
    for (const [{ index, isStrange }, outcome] of zip(beats, renewed)) {
      const own = { status: "renewed", ttlMs: ttlOf(index) };
      expect(outcome).toMatchObject(isStrange ? refused : own);
    }

    const third = (rest: number) => shuffled(uses.filter(({ index }) => index % 3 === rest));
    const [done, failed, returned] = [third(0), third(1), third(2)];
    const [completed, recorded, requeued] = await Promise.all([
      fixture.completeAll(
        done.map(({ grant, index }) => ({ ...grant, output: valueOf("output", index) })),
      ),
      fixture.failAll(failed.map(({ grant, index }) => ({ ...grant, ...failureOf(index) }))),
      fixture.requeueAll(returned.map(({ grant }) => grant)),
    ]);
    for (const [{ index, isStrange }, outcome] of zip(done, completed)) {
      const own = { status: "completed", repeated: false, output: valueOf("output", index) };
      expect(outcome).toEqual(isStrange ? refused : own);
    }
    for (const [{ isStrange }, outcome] of zip(returned, requeued)) {
      expect(outcome).toEqual(isStrange ? refused : { status: "returned", repeated: false });
    }
    const diesOf = ({ id }: Held, index: number) =>
      failureOf(index).final || task.get(id)?.maxAttempts === 1;
    for (const [{ held, index, isStrange }, outcome] of zip(failed, recorded)) {
      const { id } = held;
      if (isStrange) expect(outcome, id).toEqual(refused);
      else if (diesOf(held, index)) {
        expect(outcome, id).toEqual({
          status: "recorded",
          repeated: false,
          state: "dead",
          retryInMs: null,
        });
      } else {
        expect(outcome, id).toMatchObject({ status: "recorded", state: "pending" });
        const retryInMs = outcome.status === "recorded" ? (outcome.retryInMs ?? 0) : 0;
        const { firstMs = 0, longestMs: mostMs = 0, jitter = 0 } = task.get(id)?.backoff ?? {};
        const asked = failureOf(index).retryInMs;
        const longestMs = asked ?? Math.min(firstMs, mostMs);
        expect(retryInMs, id).toBeLessThanOrEqual(longestMs + 1);
        expect(retryInMs, id).toBeGreaterThanOrEqual((asked ?? longestMs * (1 - jitter)) - 1);
      }
    }

    const views = await detailsOf(fixture, expect, tasks);
    for (const { held, index, isStrange } of uses) {
      const { id } = held;
      const view = views.get(id);
      expect(view?.data, id).toEqual(task.get(id)?.data);
      if (isStrange) {
        expect(view, id).toMatchObject({ state: "running", output: null, error: null });
        expectGrant(expect, view, held, null);
        continue;
      }
      const progress = index % 4 ? valueOf("progress", index) : null;
      expectGrant(expect, view, { ...held, ttlMs: ttlOf(index) }, progress);
      const { error } = failureOf(index);
      const state = diesOf(held, index) ? "dead" : "pending";
      const endings = [
        [{ state: "done", output: valueOf("output", index), error: null }, "done", null],
        [{ state, output: null, error, failures: 1 }, "failed", error],
        [{ state: "pending", output: null, error: null, failures: 0 }, "returned", null],
      ] as const;
      const [shown, result, reason] = endings[(index % 3) as 0 | 1 | 2];
      expect(view, id).toMatchObject({ ...shown, attempts: [{ result, error: reason }] });
    }
  });
};
