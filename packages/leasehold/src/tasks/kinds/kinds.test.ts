/** Kinds with a contract: what is refused, and what a handler of a later version gets. */
import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { importsSettled } from "../../../../../tests/support/runner/imports.js";
import { tasksWorld } from "../../../../../tests/support/worlds/tasks-world.js";
import { connect } from "../../index.js";
import { defineTask, FinalTaskError } from "../define.js";
import type { Json } from "../port.js";

const schema = z.object({ cents: z.number().int() });
const JSON_SCHEMA = { type: "object", properties: { cents: { type: "integer" } } };

describe("defineTask() with a contract", () => {
  it("checks data by a JSON Schema, when it is enqueued and before it is handled", async () => {
    const { tasks, clock } = tasksWorld();
    const invoice = defineTask("invoice", { schema: JSON_SCHEMA });
    await expect(tasks.enqueue(invoice, { cents: "3" })).rejects.toThrow(/^data\.cents does not/);
    const handled = vi.fn<(data: Json) => null>(() => null);
    tasks.work([invoice.handle(handled)]);
    // Enqueued by a program that does not check.
    const { id } = await tasks.enqueue(defineTask("invoice"), { cents: "3" });
    await importsSettled();
    await clock.advance(1_000);
    await importsSettled();
    await clock.advance(1_000);
    expect(handled).not.toHaveBeenCalled();
    expect(await tasks.get(id)).toMatchObject({ state: "dead" });
    await tasks.close();
  });

  it.each([
    [{ version: 0 }, "version must be"],
    [{ version: 1.5 }, "version must be"],
    [{ upgrade: () => null }, "upgrade needs a version above 1"],
    [{ version: 2, upgrade: 3 }, "upgrade must be a function"],
    [{ schema: "text" }, "schema must be a Standard Schema or a JSON Schema, got a string"],
    [{ schema: [] }, "schema must be a Standard Schema or a JSON Schema"],
  ])("refuses %j", (options, problem) => {
    expect(() => defineTask("invoice", options as object)).toThrow(problem);
  });
});

describe("a handler of a later version", () => {
  const first = defineTask<{ euros: number }>("invoice");
  const upgrade = vi.fn<(data: Json, from: number) => unknown>((data) => ({
    cents: (data as { euros: number }).euros * 100,
  }));
  const second = defineTask("invoice", { schema, version: 2, upgrade });

  it("gets what an earlier version enqueued, upgraded and checked", async () => {
    const { tasks, clock } = tasksWorld();
    const handled: unknown[] = [];
    await tasks.enqueue(first, { euros: 3 });
    await tasks.enqueue(second, { cents: 4 });
    tasks.work([
      second.handle((data, { task }) => {
        handled.push([data, task.version]);
        return null;
      }),
    ]);
    await clock.advance(1_000);
    // The upgrade takes a turn longer.
    expect(handled).toEqual([
      [{ cents: 4 }, 2],
      [{ cents: 300 }, 1],
    ]);
    expect(upgrade.mock.calls).toEqual([[{ euros: 3 }, 1]]);
    await tasks.close();
  });

  it("leaves tasks of a later version to others, without counting anything", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(second, { cents: 4 });
    const old = tasks.work([first.handle(() => null)]);
    await clock.advance(60_000);
    expect(await tasks.get(id)).toMatchObject({ state: "pending", attempt: 0, failures: 0 });
    const worker = tasks.work([second.handle(({ cents }) => cents)]);
    await clock.advance(5_000);
    expect(await tasks.get(id)).toMatchObject({ state: "done", output: 4, attempt: 1 });
    await old.close();
    await worker.close();
    await tasks.close();
  });

  it("is woken by a task of its version while an earlier one waits for the same kind", async () => {
    const { tasks, clock } = tasksWorld();
    // Both wait; the earlier one began first.
    tasks.work([first.handle(() => null)]);
    await clock.advance(10);
    tasks.work([second.handle(({ cents }) => cents)]);
    await clock.advance(10);
    const { id } = await tasks.enqueue(second, { cents: 4 });
    await clock.settle();
    await clock.settle();
    expect(await tasks.get(id)).toMatchObject({ state: "done" });
    await tasks.close();
  });

  it("fails an attempt whose upgrade throws, and says which one", async () => {
    const { tasks, clock } = tasksWorld();
    const broken = defineTask("invoice", {
      schema,
      version: 3,
      upgrade(data, from) {
        if (from === 1) throw new Error("no rate for this currency");
        if (from === 2 && (data as { cents?: number }).cents === 0) {
          throw new FinalTaskError("it was never valid");
        }
        return { cents: "wrong" };
      },
    });
    const { id } = await tasks.enqueue(first, { euros: 3 }, { maxAttempts: 2 });
    const final = await tasks.enqueue(second, { cents: 0 });
    const wrong = await tasks.enqueue(second, { cents: 1 });
    tasks.work([broken.handle(() => null)]);
    await clock.advance(100);
    expect(await tasks.get(id)).toMatchObject({
      state: "pending",
      failures: 1,
      error: expect.stringContaining(
        'the upgrade of "invoice" from version 1 to 3 failed: no rate for this currency',
      ) as string,
    });
    expect(await tasks.get(final.id)).toMatchObject({ state: "dead", failures: 1 });
    // A mended upgrade may give right data: it is tried again.
    expect(await tasks.get(wrong.id)).toMatchObject({ state: "pending", failures: 1 });
    await tasks.close();
  });

  it.each<[string, (data: Json) => unknown]>([
    ["changes the data in place", (data) => void Object.assign(data as object, { cents: 300 })],
    ["does so after a pause", async (data) => void Object.assign(data as object, { cents: 300 })],
  ])("refuses for good an upgrade that returns no data: it %s", async (_, upgrade) => {
    const { tasks, clock } = tasksWorld();
    const forgetful = defineTask("invoice", { version: 2, upgrade });
    const { id } = await tasks.enqueue(first, { euros: 3 });
    const handled = vi.fn<() => null>(() => null);
    const worker = tasks.work([forgetful.handle(handled)]);
    await clock.advance(100);
    expect(handled).not.toHaveBeenCalled();
    const problem =
      'the upgrade of "invoice" from version 1 to 2 returned undefined: upgrade must return the data';
    const error = expect.stringContaining(problem) as string;
    expect(await tasks.get(id)).toMatchObject({ state: "dead", failures: 1, error });
    await worker.close();
    await tasks.close();
  });

  it("tries a task again whose schema cannot check its data, and says what that returned", async () => {
    const { tasks, clock } = tasksWorld();
    const validate = vi
      .fn<() => unknown>()
      .mockReturnValueOnce(false)
      .mockReturnValue({ value: 7 });
    const schema = { "~standard": { version: 1, vendor: "own", validate } } as never;
    const { id } = await tasks.enqueue(first, { euros: 3 });
    const worker = tasks.work([defineTask("invoice", { schema }).handle((data) => data)]);
    await clock.advance(100);
    const error = expect.stringContaining("its validate returned false") as string;
    expect(await tasks.get(id)).toMatchObject({ state: "pending", failures: 1, error });
    await clock.advance(5_000);
    expect(await tasks.get(id)).toMatchObject({ state: "done", output: 7 });
    await worker.close();
    await tasks.close();
  });

  it("gives a schedule's tasks the version of their kind", async () => {
    await using leasehold = await connect("memory:");
    const { tasks } = leasehold;
    await tasks.schedule("s", { everyMs: 60_000, kind: second, data: { cents: 1 } });
    const id = await tasks.schedules.runNow("s");
    expect(await tasks.get(id ?? "")).toMatchObject({ version: 2 });
  });
});
