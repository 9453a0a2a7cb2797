/** Schedules as programs declare them, and the ticks of workers, on a manual clock. */
import { describe, expect, it, vi } from "vitest";
import { importsSettled } from "../../../../../tests/support/runner/imports.js";
import { echo } from "../../../../../tests/support/worlds/tasks-world.js";
import { silentLogger } from "../../env/index.js";
import { connect, defineTask, type ScheduleOptions } from "../../index.js";
import { memory } from "../../stores/memory/index.js";
import { manualEnv } from "../../testing/index.js";

const MINUTE_MS = 60_000;

async function world() {
  const env = manualEnv({ logger: { ...silentLogger } });
  const source = memory();
  const client = (holder: string) => connect(source, { env, holder });
  return { env, clock: env.clock, client, stores: await source.open(env) };
}

/** Workers handle tasks at once; `done` has the ids of those that were handled. */
function handler() {
  const done: string[] = [];
  return {
    done,
    handlers: [echo.handle((data, { task }) => (done.push(task.id), data))],
  };
}

async function settle(clock: ReturnType<typeof manualEnv>["clock"]) {
  // The cron library and the ticks are loaded in real time.
  await importsSettled();
  await clock.settle();
}

describe("a schedule", () => {
  it("makes one task at each fire time, whichever process ticks", async () => {
    const { clock, client } = await world();
    const { done, handlers } = handler();
    const workers = await Promise.all(["a", "b", "c"].map(client));
    const [first] = workers;
    await first?.tasks.schedule("minutely", { cron: "* * * * *", kind: "echo", data: 1 });
    for (const { tasks } of workers) tasks.work(handlers);
    await settle(clock);
    for (let n = 0; n < 10; n += 1) await clock.advance(MINUTE_MS);
    expect(done).toHaveLength(10);
    expect(new Set(done).size).toBe(10);
    for (const id of done) expect(id).toMatch(/^minutely@\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/);
    const schedule = await first?.tasks.schedules.get("minutely");
    expect(schedule).toMatchObject({ fired: 10, skipped: 0, lastTask: { state: "done" } });
    expect(schedule?.nextFireTimes).toHaveLength(5);
    await Promise.all(workers.map((worker) => worker.close()));
  });

  it("fires once at each fire time, though the clocks are set back, then ahead twice", async () => {
    const { clock, client } = await world();
    const { done, handlers } = handler();
    const a = await client("a");
    await a.tasks.schedule("minutely", { cron: "* * * * *", kind: "echo", data: 1 });
    a.tasks.work(handlers);
    await settle(clock);
    for (const jumpMs of [-60 * MINUTE_MS, 30 * MINUTE_MS, 30 * MINUTE_MS, 0]) {
      for (let n = 0; n < 3; n += 1) await clock.advance(MINUTE_MS);
      clock.jumpWall(jumpMs);
    }
    expect(new Set(done).size).toBe(done.length);
    expect(done.length).toBeGreaterThanOrEqual(12);
    await a.close();
  });

  it("fires in its own time zone, beside one with the same expression in another", async () => {
    const { clock, client } = await world();
    const { done, handlers } = handler();
    const a = await client("a");
    a.tasks.work(handlers);
    for (const timeZone of ["UTC", "Asia/Kolkata"]) {
      await a.tasks.schedule(timeZone, { cron: "0 * * * *", timeZone, kind: echo, data: 1 });
    }
    await settle(clock);
    for (let n = 0; n < 60; n += 1) await clock.advance(MINUTE_MS);
    // An hour begins there half an hour later.
    expect(done.sort()).toEqual([
      expect.stringMatching(/^Asia\/Kolkata@.*:30:00\.000Z$/),
      expect.stringMatching(/^UTC@.*:00:00\.000Z$/),
    ]);
    await a.close();
  });

  it("is taken over from a process that has ended", async () => {
    const { clock, client } = await world();
    const { done, handlers } = handler();
    const [a, b] = [await client("a"), await client("b")];
    a.tasks.work(handlers);
    await a.tasks.schedule("s", { everyMs: MINUTE_MS, kind: echo, data: 1 });
    await settle(clock);
    await clock.advance(MINUTE_MS);
    await a.close();
    await clock.advance(2.5 * MINUTE_MS);
    expect(done).toHaveLength(1);
    b.tasks.work(handlers);
    await settle(clock);
    await clock.advance(2_000);
    // One for those that were missed.
    expect(done).toHaveLength(2);
    await clock.advance(MINUTE_MS);
    expect(done).toHaveLength(3);
    await b.close();
  });

  it("spreads tasks after their fire time by jitterMs", async () => {
    const { clock, client } = await world();
    const a = await client("a");
    a.tasks.work([defineTask("other").handle(() => null)]);
    const options = { everyMs: 10_000, jitterMs: 5_000, overlap: "allow", data: 1 } as const;
    await a.tasks.schedule("s", { ...options, kind: "echo" });
    await settle(clock);
    for (let n = 0; n < 20; n += 1) await clock.advance(10_000);
    const { items } = await a.tasks.list();
    expect(items).toHaveLength(20);
    const afterMs = items.map(({ id, scheduledAt }) => {
      return Date.parse(scheduledAt) - Date.parse(id.slice("s@".length));
    });
    expect(afterMs.every((ms) => ms >= 0 && ms < 5_000)).toBe(true);
    expect(new Set(afterMs).size).toBeGreaterThan(10);
    await a.close();
  });

  it("makes no tasks while it is paused, and none for the time of the pause", async () => {
    const { clock, client } = await world();
    const { done, handlers } = handler();
    const a = await client("a");
    a.tasks.work(handlers);
    const declare = () => a.tasks.schedule("s", { everyMs: MINUTE_MS, kind: echo, data: 1 });
    await declare();
    await settle(clock);
    expect(await a.tasks.schedules.pause("s", { reason: "the disk is full" })).toBe("changed");
    const paused = await declare();
    expect(paused).toMatchObject({ paused: { by: "a", reason: "the disk is full" } });
    expect(paused.nextFireTimes).toEqual([]);
    await clock.advance(5 * MINUTE_MS);
    expect(done).toEqual([]);
    expect(await a.tasks.schedules.runNow("s")).toEqual(expect.any(String));
    await clock.advance(1_000);
    expect(done).toHaveLength(1);
    expect(await a.tasks.schedules.resume("s")).toBe("changed");
    await clock.advance(MINUTE_MS);
    expect(done).toHaveLength(2);
    expect(await a.tasks.schedules.remove("s")).toBe(true);
    await clock.advance(5 * MINUTE_MS);
    expect(done).toHaveLength(2);
    expect(await a.tasks.schedules.runNow("s")).toBe(null);
    await a.close();
  });

  it("keeps the concurrency key of its kind, for each of its tasks", async () => {
    const { clock, client } = await world();
    const a = await client("a");
    const keyed = defineTask<{ account: string }>("pay", {
      concurrencyKey: ({ account }) => account,
      perKey: 2,
    });
    a.tasks.work([defineTask("other").handle(() => null)]);
    const options = { everyMs: MINUTE_MS, kind: keyed, data: { account: "ada" } };
    const declared = await a.tasks.schedule("s", options);
    const concurrency = { key: "ada", perKey: 2, order: "fifo" };
    expect(declared.task.concurrency).toEqual(concurrency);
    await settle(clock);
    await clock.advance(MINUTE_MS);
    const { items } = await a.tasks.list();
    expect(items.map((task) => task.concurrency)).toEqual([concurrency]);
    await a.close();
  });

  it("has the settings of its kind, unless it says otherwise", async () => {
    const { client } = await world();
    const { tasks, close } = await client("a");
    const kind = defineTask<{ of: string }>("report", { queue: "reports", maxAttempts: 3 });
    const options = { cron: "0 2 * * *", timeZone: "Europe/Zurich", kind, data: { of: "sales" } };
    expect(await tasks.schedule("s", { ...options, maxAttempts: 5 })).toMatchObject({
      cron: "0 2 * * *",
      everyMs: null,
      timeZone: "Europe/Zurich",
      catchUp: "last",
      overlap: "skip",
      jitterMs: 0,
      task: { kind: "report", queue: "reports", maxAttempts: 5, data: { of: "sales" } },
    });
    const { items } = await tasks.schedules.list();
    expect(items.map(({ name }) => name)).toEqual(["s"]);
    void close;
  });

  it.each([
    [{}, "cron"],
    [{ cron: "0 2 * * *", everyMs: 1_000 }, "cron"],
    [{ cron: "0 25 * * *" }, "cron"],
    [{ cron: "0 0 30 2 *" }, "cron"],
    [{ cron: 5 }, "cron"],
    [{ cron: "0 2 * * *", timeZone: "Europe/Bern" }, "timeZone"],
    [{ everyMs: 99 }, "everyMs"],
    [{ everyMs: 1_000.5 }, "everyMs"],
    [{ everyMs: 1_000, catchUp: "all" }, "catchUp"],
    [{ everyMs: 1_000, catchUp: { most: 0 } }, "catchUp.most"],
    [{ everyMs: 1_000, overlap: "wait" }, "overlap"],
    [{ everyMs: 1_000, jitterMs: -1 }, "jitterMs"],
    [{ everyMs: 1_000, data: "x".repeat(70_000) }, "data"],
    [{ everyMs: 1_000, priority: 1e9 }, "priority"],
    [{ everyMs: 1_000, cronn: "" }, "cronn"],
  ])("refuses %j", async (wrong, path) => {
    const { client } = await world();
    const { tasks } = await client("a");
    const options = { kind: "echo", data: null, ...wrong } as unknown as ScheduleOptions<null>;
    await expect(tasks.schedule("s", options)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path,
    });
    expect((await tasks.schedules.list()).items).toEqual([]);
  });

  it.each(["", ".", "..", "é".repeat(65), "a\0b"])("refuses the name %j", async (name) => {
    const { client } = await world();
    const { tasks } = await client("a");
    const declared = tasks.schedule(name, { everyMs: 1_000, kind: "echo", data: null });
    await expect(declared).rejects.toMatchObject({ code: "INVALID_OPTION", path: "name" });
  });
});

describe("a ticking process", () => {
  it("goes on when the store fails for a while", async () => {
    const { env, clock, client, stores } = await world();
    const warn = vi.spyOn(env.logger, "warn");
    const a = await client("a");
    await a.tasks.schedule("s", { everyMs: MINUTE_MS, kind: echo, data: 1 });
    const { startTicker } = await import("./ticker.js");
    const ticking = stores.schedules?.ticking;
    if (!ticking) throw new Error("memory ticks");
    let isDown = true;
    const due = (limit: number) =>
      isDown ? Promise.reject(new Error("it is down")) : ticking.due(limit);
    const ticker = startTicker({ ticking: { ...ticking, due } }, env);
    await clock.advance(2 * MINUTE_MS);
    expect(warn).toHaveBeenCalledTimes(1);
    isDown = false;
    await clock.advance(2_000);
    expect((await a.tasks.list()).items).toHaveLength(1);
    await ticker.stop();
    await clock.advance(5 * MINUTE_MS);
    expect((await a.tasks.list()).items).toHaveLength(1);
    await a.close();
  });

  it("goes through more schedules than it takes at once, without a pause", async () => {
    const { env, clock, client, stores } = await world();
    const a = await client("a");
    const names = Array.from({ length: 250 }, (_, n) => `s${n}`);
    for (const name of names) {
      await a.tasks.schedule(name, { everyMs: MINUTE_MS, kind: echo, data: 1 });
    }
    const { startTicker } = await import("./ticker.js");
    const ticking = stores.schedules?.ticking;
    if (!ticking) throw new Error("memory ticks");
    const ticker = startTicker({ ticking }, env);
    // Each is due when it is declared, and then at its fire time.
    await clock.advance(100);
    expect((await ticking.due(1_000)).schedules).toEqual([]);
    await clock.advance(MINUTE_MS - (clock.wall() % MINUTE_MS) + 100);
    const { pending } = await a.tasks.counts();
    expect(pending).toBe(names.length);
    await ticker.stop();
    await a.close();
  });

  it("passes over a schedule that it cannot read, and says so once", async () => {
    const { env, clock, client, stores } = await world();
    const warn = vi.spyOn(env.logger, "warn");
    const a = await client("a");
    await a.tasks.schedule("good", { everyMs: MINUTE_MS, kind: echo, data: 1 });
    const view = await stores.schedules?.get({ namespace: "default", name: "good" });
    if (!view) throw new Error("it is declared");
    const declaration = { ...view, everyMs: null, cron: "0 0 * * *", timeZone: "Mars/Olympus" };
    await stores.schedules?.declare({ namespace: "default", name: "bad", declaration });
    a.tasks.work([defineTask("other").handle(() => null)]);
    await settle(clock);
    for (let n = 0; n < 3; n += 1) await clock.advance(MINUTE_MS);
    expect((await a.tasks.list()).items).toHaveLength(1);
    expect(await a.tasks.schedules.get("good")).toMatchObject({ fired: 1, skipped: 2 });
    expect(warn).toHaveBeenCalledTimes(1);
    await a.close();
  });
});
