import { describe, expect, it, vi } from "vitest";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { silentLogger } from "../env/index.js";
import { StoreMisconfiguredError, StoreUnavailableError } from "../lease/index.js";
import { defineTask, FinalTaskError } from "./define.js";
import type { Failed, TaskStore } from "./port.js";

const TTL_MS = 3_000;
const UNAVAILABLE: Failed = {
  status: "failed",
  applied: "no",
  retryable: true,
  error: new StoreUnavailableError("no answer", { outcome: "none" }),
};
const refuse = async (requests: readonly unknown[]) => requests.map(() => UNAVAILABLE);

describe("a worker whose reports the store does not take", () => {
  it("keeps the lease by heartbeats until it does", async () => {
    const { clock, client, store } = tasksWorld();
    let cut = true;
    const complete: TaskStore["complete"] = (requests) =>
      cut ? refuse(requests) : store.complete(requests);
    const tasks = client("me", { complete });
    const { id } = await tasks.enqueue(echo, null);
    tasks.work([echo.handle(() => "once")], { ttlMs: TTL_MS });
    await clock.advance(3 * TTL_MS);
    cut = false;
    await clock.advance(2_000);
    expect(await tasks.get(id)).toMatchObject({ state: "done", attempt: 1, output: "once" });
    await tasks.close();
  });

  it("claims no more once as many reports as handlers are on their way", async () => {
    const { clock, client } = tasksWorld();
    const tasks = client("me", { complete: refuse });
    await tasks.enqueueAll(
      echo,
      Array.from({ length: 10 }, (_, data) => ({ data })),
    );
    const run = vi.fn();
    const worker = tasks.work([echo.handle(run)], { concurrency: 2, ttlMs: TTL_MS });
    await clock.advance(2 * TTL_MS);
    expect(run).toHaveBeenCalledTimes(4);
    expect(worker.running).toBe(0);
    expect(await tasks.counts()).toMatchObject({ running: 4, pending: 6 });
  });

  it.each([
    ["an output", () => "done"],
    ["a failure", () => expect.fail("no")],
  ])(
    "runs a task again only when its lease has expired, and counts that, if no repetition brings %s to the store",
    async (_, run) => {
      const { clock, client } = tasksWorld();
      const error = new StoreMisconfiguredError("no permission");
      const forbid = async (requests: readonly unknown[]) =>
        requests.map((): Failed => ({ ...UNAVAILABLE, retryable: false, error }));
      const tasks = client("me", { complete: forbid, fail: forbid });
      const { id } = await tasks.enqueue(echo, null, { crashLimit: 2 });
      const handled = vi.fn<() => string>(run);
      const worker = tasks.work([echo.handle(handled)], { ttlMs: TTL_MS });
      await clock.advance(TTL_MS - 1);
      expect(handled).toHaveBeenCalledTimes(1);
      await clock.advance(3 * TTL_MS);
      expect(handled).toHaveBeenCalledTimes(2);
      expect(await tasks.get(id)).toMatchObject({ state: "dead", crashes: 2 });
      await worker.close();
    },
  );

  it("requeues the tasks when it closes, without a complaint about handlers", async () => {
    const error = vi.fn();
    const { clock, client } = tasksWorld({ ...silentLogger, error });
    const tasks = client("me", { complete: refuse });
    const { id } = await tasks.enqueue(echo, null);
    const worker = tasks.work([echo.handle(() => "once")], { ttlMs: TTL_MS });
    await clock.advance(10);
    const closed = worker.close();
    await clock.advance(6_000);
    await closed;
    expect(await tasks.get(id)).toMatchObject({ state: "pending", failures: 0, crashes: 0 });
    expect(error).not.toHaveBeenCalled();
  });
});

describe("a worker of one copy of the package", () => {
  it("gives up at once on a final error of another copy, but not on what it causes", async () => {
    vi.resetModules();
    const other = await import("./define.js");
    expect(other.FinalTaskError).not.toBe(FinalTaskError);
    const { tasks, clock } = tasksWorld();
    const final = new other.FinalTaskError("no such user");
    const upgrade = () => {
      throw final;
    };
    const upgraded = defineTask("upgraded", { version: 2, upgrade });
    const caused = defineTask("caused");
    const ids = await Promise.all([
      tasks.enqueue(echo, null),
      tasks.enqueue(defineTask("upgraded"), null),
      tasks.enqueue(caused, null),
    ]);
    const fail = (error: Error) => () => {
      throw error;
    };
    tasks.work([
      echo.handle(fail(final)),
      upgraded.handle(() => null),
      caused.handle(fail(new Error("failed", { cause: final }))),
    ]);
    await clock.advance(100);
    const states = await Promise.all(ids.map(async ({ id }) => (await tasks.get(id))?.state));
    expect(states).toEqual(["dead", "dead", "pending"]);
  });
});

describe("what a worker shows", () => {
  it("logs a claim that failed, that the store answers again, and a task that failed", async () => {
    const [warn, info] = [vi.fn(), vi.fn()];
    const { clock, client, store } = tasksWorld({ ...silentLogger, warn, info });
    let cut = true;
    const claim: TaskStore["claim"] = async (request) => {
      if (!cut) return store.claim(request);
      cut = false;
      return UNAVAILABLE;
    };
    const tasks = client("me", { claim });
    const { id } = await tasks.enqueue(echo, null);
    const error = new Error("no such user");
    tasks.work([
      echo.handle(() => {
        throw error;
      }),
    ]);
    await clock.advance(400);
    expect(warn.mock.calls).toEqual([
      [{ err: UNAVAILABLE.error }, "could not claim tasks"],
      [{ err: error, id, kind: "echo" }, "task failed"],
    ]);
    // No claim fails from here on, so none is worth a line.
    await tasks.enqueue(echo, null);
    await clock.advance(400);
    expect(info.mock.calls).toEqual([[{}, "the store answers again"]]);
  });

  it.each([undefined, null, Symbol("s"), "text"])(
    "logs %s where a handler throws it",
    async (thrown) => {
      const warn = vi.fn();
      const { clock, client } = tasksWorld({ ...silentLogger, warn });
      const tasks = client("me");
      const { id } = await tasks.enqueue(echo, null);
      tasks.work([echo.handle(vi.fn().mockRejectedValue(thrown))]);
      await clock.advance(400);
      expect(warn.mock.calls).toEqual([[{ err: String(thrown), id, kind: "echo" }, "task failed"]]);
    },
  );

  it("claims again soon after an outage, however many there were before", async () => {
    const { clock, client, store } = tasksWorld();
    let isCut = false;
    const claim: TaskStore["claim"] = async (request) =>
      isCut ? UNAVAILABLE : store.claim(request);
    const tasks = client("me", { claim });
    const run = vi.fn();
    tasks.work([echo.handle(run)]);
    // Ten failures in a row would lead to the longest pause, of five seconds.
    for (let outage = 1; outage <= 10; outage += 1) {
      isCut = true;
      await tasks.enqueue(echo, outage);
      await clock.advance(1);
      isCut = false;
      await clock.advance(300);
      expect(run).toHaveBeenCalledTimes(outage);
    }
    await tasks.close();
  });

  it("names the task as the resource of its lease", async () => {
    const { tasks, clock } = tasksWorld();
    const { id } = await tasks.enqueue(echo, null);
    const { runs, handler } = stepped();
    tasks.work([handler]);
    await clock.settle();
    expect(runs[0]?.context.lease).toMatchObject({ resource: `task:${id}`, holder: "me" });
  });

  it("traces each run under the claim that brought it; only a run that is done is a success", async () => {
    const { telemetry, spans } = recordedTelemetry();
    /** The claims, and what each run belongs to. */
    const [claims, parents]: [object[], unknown[]] = [[], []];
    const { tasks, clock } = tasksWorld(silentLogger, {
      ...telemetry,
      here: () => claims.at(-1) ?? {},
      span: (name, options, work) => {
        if (name === "leasehold.task claim") claims.push({ claim: claims.length });
        if (name === "leasehold.task run") parents.push(options.parent);
        return telemetry.span(name, options, work);
      },
    });
    const [good, bad] = await tasks.enqueueAll(echo, [{ data: "good" }, { data: "bad" }]);
    const handler = echo.handle((data) => {
      if (data === "bad") throw new Error("bad");
    });
    tasks.work([handler], { concurrency: 1, ttlMs: TTL_MS });
    await clock.advance(10);
    expect(spans.filter(({ name }) => name === "leasehold.task run")).toEqual(
      [
        [good?.id, "ok"],
        [bad?.id, "failed"],
      ].map(([id, outcome]) => ({
        name: "leasehold.task run",
        attributes: { "leasehold.task.id": id, "leasehold.task.kind": "echo" },
        outcome,
      })),
    );
    expect(parents).toEqual([claims[0], claims[1]]);
  });
});

describe("an idle worker", () => {
  it.each([
    [30_000, 2_000],
    [3_000, 750],
  ])("with leases of %i ms lets a claim wait for %i ms", async (ttlMs, waitMs) => {
    const { client, clock, store } = tasksWorld();
    const waits: unknown[] = [];
    const tasks = client("me", {
      capabilities: { ...store.capabilities, remoteWait: true },
      claim: async (request) => {
        waits.push(request.waitMs);
        return new Promise(() => {});
      },
    });
    tasks.work([stepped().handler], { ttlMs });
    await clock.settle();
    expect(waits).toEqual([waitMs]);
  });
});

describe("work", () => {
  it.each([[[]], [null], [{}]])("refuses %j in place of handlers", (handlers) => {
    const { tasks } = tasksWorld();
    expect(() => tasks.work(handlers as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", path: "handlers" }),
    );
  });

  it.each([[null], [undefined], [{ kind: "a" }], [{ run() {} }], [{ kind: 1, run() {} }]])(
    "refuses %j as a handler",
    (handler) => {
      const { tasks } = tasksWorld();
      expect(() => tasks.work([stepped().handler, handler as never])).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path: "handlers.1" }),
      );
    },
  );

  it("refuses a graceMs that is negative or too long", () => {
    const { tasks } = tasksWorld();
    for (const graceMs of [-1, Number.POSITIVE_INFINITY]) {
      expect(() => tasks.work([stepped().handler], { graceMs })).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path: "graceMs" }),
      );
    }
  });
});
