import { describe, expect, it, vi } from "vitest";
import { echo, stepped, tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { type Logger, silentLogger } from "../env/index.js";
import { InvalidOptionError, StoreUnavailableError } from "../lease/index.js";
import type { HeartbeatOutcome, HeartbeatRequest, TaskStore } from "./port.js";

const TTL_MS = 3_000;

/** A task whose handler runs, and the requests of its heartbeats. */
async function running(heartbeat?: TaskStore["heartbeat"], logger?: Logger) {
  const world = tasksWorld(logger);
  const beats: HeartbeatRequest[][] = [];
  const tasks = world.client("me", {
    heartbeat(requests, options) {
      beats.push([...requests]);
      return (heartbeat ?? world.store.heartbeat.bind(world.store))(requests, options);
    },
  });
  const { id } = await tasks.enqueue(echo, 1, { backoff: { firstMs: 0 } });
  const { runs, handler } = stepped();
  tasks.work([handler], { ttlMs: TTL_MS });
  await world.clock.advance(10);
  const [run] = runs;
  if (!run) throw new Error("the handler runs");
  return { ...world, tasks, id, beats, runs, run };
}

describe("a checkpoint", () => {
  it("is sent at once, and is there for the next attempt", async () => {
    const { tasks, id, beats, runs, run, clock } = await running();
    expect(run.context.lastCheckpoint).toBe(null);
    await run.context.checkpoint({ row: 17 });
    expect(beats).toMatchObject([[{ id, checkpoint: { row: 17 }, ttlMs: TTL_MS }]]);
    expect(await tasks.get(id)).toMatchObject({ checkpoint: { row: 17 }, progress: null });
    // Once confirmed, it does not travel with later heartbeats.
    await clock.advance(TTL_MS);
    expect(beats.length).toBeGreaterThan(1);
    for (const [beat] of beats.slice(1)) expect(beat).not.toHaveProperty("checkpoint");
    run.fail(new Error("it failed"));
    await clock.advance(1_000);
    expect(runs[1]?.context.lastCheckpoint).toEqual({ row: 17 });
    expect(runs[1]?.context.task).not.toHaveProperty("checkpoint");
  });

  it("follows a heartbeat in flight, which was sent without it", async () => {
    const answers: (() => void)[] = [];
    const held = async (requests: readonly HeartbeatRequest[]): Promise<HeartbeatOutcome[]> => {
      await new Promise<void>((resolve) => answers.push(resolve));
      return requests.map(({ ttlMs }) => ({
        status: "renewed",
        ttlMs,
        remainingMs: ttlMs,
        expiresAt: new Date(0).toISOString(),
      }));
    };
    const { beats, run, clock } = await running(held);
    const renewal = run.context.lease.renew();
    await clock.advance(1);
    const recorded = [run.context.checkpoint(1), run.context.checkpoint(2)];
    await clock.advance(1);
    expect(beats).toHaveLength(1);
    answers[0]?.();
    await clock.advance(1);
    expect(beats[1]).toMatchObject([{ checkpoint: 2 }]);
    answers[1]?.();
    await clock.advance(1);
    answers[2]?.();
    await clock.advance(1);
    await Promise.all([renewal, ...recorded]);
  });

  it("rejects if the lease is lost, and records nothing", async () => {
    const { tasks, store, id, run } = await running();
    await run.context.checkpoint("kept");
    await store.cancel([{ namespace: "default", id }]);
    await expect(run.context.checkpoint("late")).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect((await tasks.get(id))?.checkpoint).toBe("kept");
    await expect(run.context.checkpoint("later")).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(run.context.signal.aborted).toBe(true);
  });

  it("goes with the next heartbeat if the store was unavailable", async () => {
    let isAway = true;
    const { tasks, store, id, beats, run, clock } = await running((requests) => {
      if (!isAway) return store.heartbeat(requests);
      const error = new StoreUnavailableError("away", { outcome: "none" });
      const failed = { status: "failed", applied: "no", retryable: true, error } as const;
      return Promise.resolve(requests.map(() => failed));
    });
    await expect(run.context.checkpoint([1])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((await tasks.get(id))?.checkpoint).toBe(null);
    isAway = false;
    await clock.advance(TTL_MS);
    expect(beats[1]).toMatchObject([{ checkpoint: [1] }]);
    expect((await tasks.get(id))?.checkpoint).toEqual([1]);
  });

  it("is what JSON carries, of at most 64 KiB", async () => {
    const { beats, run } = await running();
    const longest = "x".repeat(64 * 1024 - 2);
    await run.context.checkpoint(longest);
    for (const value of [`${longest}y`, 1n, { at: Number.NaN }]) {
      await expect(run.context.checkpoint(value as never)).rejects.toMatchObject({
        code: "INVALID_OPTION",
        path: expect.stringMatching(/^checkpoint/),
      });
    }
    expect(beats).toHaveLength(1);
  });
});

describe("what the store refuses for good of a handler's reports", () => {
  const SAYS = "the store refuses what a handler reports";
  const error = new InvalidOptionError("the request", "is refused for good");
  const refused = { status: "failed", applied: "no", retryable: false, error } as const;

  /** A task whose store refuses the word "bad". */
  async function refusing() {
    const warn = vi.fn();
    const world: Awaited<ReturnType<typeof running>> = await running(
      async (requests) => {
        const all = requests.map(async (request) => {
          if (JSON.stringify(request).includes("bad")) return refused;
          const [outcome] = await world.store.heartbeat([request]);
          return outcome as HeartbeatOutcome;
        });
        return Promise.all(all);
      },
      { ...silentLogger, warn },
    );
    const said = () => warn.mock.calls.filter(([, message]) => message === SAYS);
    return { ...world, said };
  }

  it("is dropped: a checkpoint, and its call rejects", async () => {
    const { tasks, id, run, beats, clock, said } = await refusing();
    await run.context.checkpoint("good");
    await expect(run.context.checkpoint({ row: "bad" })).rejects.toBe(error);
    await clock.advance(2 * TTL_MS);
    expect(run.context.signal.aborted).toBe(false);
    expect((await tasks.get(id))?.checkpoint).toBe("good");
    expect(beats.filter(([beat]) => beat && "checkpoint" in beat)).toHaveLength(2);
    expect(said()).toEqual([[{ err: error, id, what: "checkpoint" }, SAYS]]);
  });

  it("is dropped: a progress, with a warning, and the lease is renewed", async () => {
    const { tasks, id, run, beats, clock, said } = await refusing();
    run.context.progress("bad");
    await clock.advance(2 * TTL_MS);
    expect(run.context.signal.aborted).toBe(false);
    expect(beats.filter(([beat]) => beat && "progress" in beat)).toHaveLength(1);
    expect(said()).toEqual([[{ err: error, id, what: "progress" }, SAYS]]);
    run.context.progress("fine");
    await clock.advance(TTL_MS);
    expect((await tasks.get(id))?.attempts[0]?.progress).toBe("fine");
  });

  it.each([
    ["a checkpoint beside a progress", "good", "bad"],
    ["a progress beside a checkpoint", "bad", "good"],
  ])("keeps the other one: %s", async (_, progress, checkpoint) => {
    const { tasks, id, run, clock, said } = await refusing();
    run.context.progress(progress);
    const recorded = run.context.checkpoint(checkpoint);
    if (checkpoint === "bad") await expect(recorded).rejects.toBe(error);
    else await recorded;
    await clock.advance(TTL_MS);
    const task = await tasks.get(id);
    expect(task?.attempts[0]?.progress ?? null).toBe(progress === "bad" ? null : progress);
    expect(task?.checkpoint).toBe(checkpoint === "bad" ? null : checkpoint);
    expect(said()).toHaveLength(1);
  });

  it("is dropped in turn if it is both", async () => {
    const { run, clock, said } = await refusing();
    run.context.progress("bad");
    await expect(run.context.checkpoint("bad")).rejects.toBe(error);
    await clock.advance(2 * TTL_MS);
    expect(run.context.signal.aborted).toBe(false);
    expect(said().map(([fields]) => (fields as { what: string }).what)).toEqual([
      "checkpoint",
      "progress",
    ]);
  });
});
