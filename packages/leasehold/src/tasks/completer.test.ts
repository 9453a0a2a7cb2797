import { describe, expect, it, vi } from "vitest";
import { tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { type LeaseId, newLeaseId, silentLogger } from "../env/index.js";
import {
  type Failed,
  HeldLease,
  InvalidOptionError,
  instant,
  RenewalScheduler,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../lease/index.js";
import { newTaskOf } from "../testing/task-suite/new-task.js";
import { Completer } from "./completer.js";
import type { CallOptions, TaskStore } from "./port.js";

const TTL_MS = 3_000;
const KEY = { namespace: "default", id: "019a0000-0000-7000-8000-000000000001" };
const UNAVAILABLE: Failed = {
  status: "failed",
  applied: "maybe",
  retryable: true,
  error: new StoreUnavailableError("no answer", { outcome: "unknown" }),
};

/** The completer of a worker that has claimed one task, whose store answers with `over` where that is given. */
async function setUp({ over = {}, ttlMs = TTL_MS }: { over?: Partial<TaskStore>; ttlMs?: number }) {
  const warn = vi.fn();
  const { env, clock, store } = tasksWorld({ ...silentLogger, warn });
  await store.enqueue([newTaskOf(KEY)]);
  const request = { namespace: "default", holder: "me", queues: ["queue"], kinds: null, limit: 1 };
  const claimed = await store.claim({ ...request, claimId: newLeaseId(env.random), ttlMs });
  const [task] = claimed.status === "claimed" ? claimed.tasks : [];
  if (!task) throw new Error("no task");
  const { leaseId, token } = task;
  const never = () => new Promise<never>(() => {});
  const lease = new HeldLease(
    {
      resource: `task:${KEY.id}`,
      holder: "me",
      sent: instant(clock),
      leaseId: leaseId as LeaseId,
      token,
      remainingMs: ttlMs,
    },
    {
      ttlMs,
      autoRenew: false,
      renewIntervalMs: ttlMs / 3,
      marginMs: 0,
      driftRatio: 0,
      stopOnRenewError: false,
    },
    { renew: never, release: never },
    new RenewalScheduler(clock),
    env,
  );
  const completer = new Completer(Object.assign(store, over), env);
  return { clock, store, completer, lease, warn, grant: { ...KEY, leaseId, token } };
}

const answers = <T>(outcome: T) =>
  vi.fn(async (requests: readonly unknown[]) => requests.map(() => outcome));

describe("heartbeat", () => {
  it("returns the renewed lease with its token", async () => {
    const { completer, grant } = await setUp({});
    expect(await completer.heartbeat({ ...grant, ttlMs: TTL_MS }, 100)).toMatchObject({
      status: "renewed",
      token: grant.token,
      remainingMs: TTL_MS,
    });
  });

  it.each([
    ["expired", "expired"],
    ["taken", "taken"],
    ["cancelled", "revoked"],
    ["finished", "gone"],
    ["unknown", "gone"],
  ] as const)("a task that is %s is a lease that is lost as %s", async (reason, lost) => {
    const { completer, grant } = await setUp({
      over: { heartbeat: answers({ status: "refused", reason } as const) },
    });
    expect(await completer.heartbeat({ ...grant, ttlMs: TTL_MS }, 100)).toEqual({
      status: "lost",
      reason: lost,
    });
  });

  it("returns a failure as it is", async () => {
    const { completer, grant } = await setUp({ over: { heartbeat: answers(UNAVAILABLE) } });
    expect(await completer.heartbeat({ ...grant, ttlMs: TTL_MS }, 100)).toEqual(UNAVAILABLE);
  });
});

describe("requeue", () => {
  it("releases the lease, and finds it no longer held the next time", async () => {
    const { completer, store, grant } = await setUp({});
    expect(await completer.requeue(grant, 100)).toEqual({ status: "released" });
    expect(await store.get(KEY)).toMatchObject({ state: "pending", failures: 0 });
    await store.cancel([KEY]);
    expect(await completer.requeue(grant, 100)).toEqual({ status: "notHeld" });
  });

  it("returns a failure as it is", async () => {
    const { completer, grant } = await setUp({ over: { requeue: answers(UNAVAILABLE) } });
    expect(await completer.requeue(grant, 100)).toEqual(UNAVAILABLE);
  });
});

describe("complete and fail", () => {
  it("are true once the store has taken the report", async () => {
    const done = await setUp({});
    expect(await done.completer.complete(done.lease, { ...done.grant, output: 1 })).toBe(true);
    expect(await done.store.get(KEY)).toMatchObject({ state: "done", output: 1 });
    const failed = await setUp({});
    const report = { ...failed.grant, error: "no", retryInMs: null };
    expect(await failed.completer.fail(failed.lease, report)).toBe(true);
    expect(await failed.store.get(KEY)).toMatchObject({ state: "pending", error: "no" });
  });

  it("end the lease for its reason when the store refuses, and are false", async () => {
    for (const end of ["complete", "fail"] as const) {
      const { completer, store, lease, grant, warn } = await setUp({});
      const lost = vi.fn();
      lease.onLost(lost);
      await store.cancel([KEY]);
      const accepted =
        end === "complete"
          ? completer.complete(lease, { ...grant, output: 1 })
          : completer.fail(lease, { ...grant, error: "no", retryInMs: null });
      expect(await accepted).toBe(false);
      expect(lost.mock.calls).toEqual([["revoked"]]);
      expect(warn.mock.calls[0]).toEqual([
        { id: KEY.id, reason: "cancelled" },
        "the store refused a late report",
      ]);
    }
  });

  it("send nothing once trust in the lease has ended, and are false", async () => {
    const complete = answers(UNAVAILABLE);
    const { clock, completer, lease, grant } = await setUp({ over: { complete } });
    await clock.advance(TTL_MS);
    expect(await completer.complete(lease, { ...grant, output: 1 })).toBe(false);
    expect(complete).not.toHaveBeenCalled();
  });

  it("log each try that is not acknowledged, and give up when the lease ends", async () => {
    const { clock, completer, lease, grant, warn } = await setUp({
      over: { complete: answers(UNAVAILABLE) },
    });
    const report = completer.complete(lease, { ...grant, output: 1 });
    await clock.advance(TTL_MS + 2_000);
    expect(await report).toBe(false);
    const tries = warn.mock.calls.filter(([, message]) => /not acknowledged/.test(message));
    expect(tries.length).toBeGreaterThan(2);
    expect(tries.map(([fields]) => fields)).toEqual(
      tries.map((_, index) => ({ err: UNAVAILABLE.error, id: KEY.id, tries: index + 1 })),
    );
  });

  it("allow each call half of the remaining trust, but no more than five seconds", async () => {
    for (const [ttlMs, expected] of [
      [3_000, 1_500],
      [30_000, 5_000],
    ] as const) {
      const timeouts: (number | undefined)[] = [];
      const complete = async (requests: readonly unknown[], options?: CallOptions) => {
        timeouts.push(options?.timeoutMs);
        return requests.map(() => ({ status: "completed", repeated: false, output: 1 }) as const);
      };
      const { completer, lease, grant } = await setUp({ over: { complete }, ttlMs });
      await completer.complete(lease, { ...grant, output: 1 });
      expect(timeouts).toEqual([expected]);
    }
  });

  it("record a failure in place of an output that the store will never take", async () => {
    const error = new InvalidOptionError("the request", "is too large");
    const refused: Failed = { status: "failed", applied: "no", retryable: false, error };
    const { completer, store, lease, grant } = await setUp({
      over: { complete: answers(refused) },
    });
    expect(await completer.complete(lease, { ...grant, output: 1 })).toBe(true);
    expect(await store.get(KEY)).toMatchObject({ state: "dead", failures: 1 });
  });

  it("are false after a fault that no repetition heals and the task is not to blame for", async () => {
    const error = new StoreMisconfiguredError("no permission");
    const faulty = answers<Failed>({ status: "failed", applied: "no", retryable: false, error });
    const { completer, store, lease, grant } = await setUp({
      over: { complete: faulty, fail: faulty },
    });
    expect(await completer.complete(lease, { ...grant, output: 1 })).toBe(false);
    expect(await completer.fail(lease, { ...grant, error: "no", retryInMs: null })).toBe(false);
    expect(faulty).toHaveBeenCalledTimes(2);
    expect(await store.get(KEY)).toMatchObject({ state: "running", failures: 0 });
  });
});
