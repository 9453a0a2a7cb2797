import { describe, expect, test, vi } from "vitest";
import { silentLogger, sleep } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { ClosedError, InvalidOptionError, StoreUnavailableError } from "./errors.js";
import type { AcquireRequest, Failed, LeaseStore, RevokeRequest } from "./port.js";
import { LEASE_RETRIES, withRetries } from "./retries.js";
import { Retrying } from "./retrying.js";

function failed(applied: Failed["applied"], retryAfterMs?: number): Failed {
  const outcome = applied === "no" ? "none" : "unknown";
  const after = retryAfterMs === undefined ? {} : { retryAfterMs };
  const error = new StoreUnavailableError("it is down", { outcome, ...after });
  return { status: "failed", applied, retryable: true, error };
}

const closed: Failed = {
  status: "failed",
  applied: "no",
  retryable: false,
  error: new ClosedError("the store"),
};

const DONE = { status: "done" } as const;
type Outcome = typeof DONE | Failed;

/** A store that answers one try after the other, to the last one again and again. */
function scripted(...script: (readonly Outcome[] | Outcome)[]) {
  const debug = vi.fn();
  const env = manualEnv({ logger: { ...silentLogger, debug } });
  const { clock } = env;
  const retrying = new Retrying(env);
  const tries: { asked: readonly string[]; timeoutMs: number; atMs: number }[] = [];
  const startMs = clock.monotonic();
  const send = async (asked: readonly string[], timeoutMs: number): Promise<Outcome[]> => {
    const step = script[Math.min(tries.length, script.length - 1)] ?? DONE;
    tries.push({ asked, timeoutMs, atMs: clock.monotonic() - startMs });
    return "status" in step ? asked.map(() => step) : [...step];
  };
  /** Runs a call to its end, moving the clock as long as it waits. */
  const ended = async <T>(call: Promise<T>): Promise<T> => {
    let done = false;
    const settled = () => {
      done = true;
    };
    call.then(settled, settled);
    for (let ms = 0; !done && ms < 20_000; ms += 10) await clock.advance(10);
    return call;
  };
  const batch = (requests: readonly string[], options = {}) =>
    ended(retrying.batch(requests, send, { timeoutMs: 1_000, ...options }));
  return { env, clock, retrying, tries, send, ended, batch, startMs, debug };
}

describe("a batch", () => {
  test("that does not fail is sent once, with all of its time", async () => {
    const { batch, tries, clock } = scripted(DONE);
    expect(await batch(["a", "b"])).toEqual([DONE, DONE]);
    expect(tries).toEqual([{ asked: ["a", "b"], timeoutMs: 1_000, atMs: 0 }]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("whose pause lasts beyond its time is not sent again, and keeps its outcome", async () => {
    const env = manualEnv();
    let pausedMs = 0;
    const monotonic = () => env.clock.monotonic() + pausedMs;
    const retrying = new Retrying({ ...env, clock: { ...env.clock, monotonic } });
    let sent = 0;
    const call = retrying.batch(["a"], async (): Promise<Outcome[]> => {
      sent += 1;
      return [failed("no")];
    });
    await env.clock.settle();
    pausedMs = 5_000;
    await env.clock.advance(1_000);
    expect(await call).toEqual([failed("no")]);
    expect(sent).toBe(1);
  });

  test("that keeps failing is sent less and less often", async () => {
    const { batch, tries } = scripted(failed("no"));
    await batch(["a"], { timeoutMs: 8_000 });
    // At 25 ms at first, then at 400 ms.
    expect(tries.length).toBeGreaterThan(15);
    expect(tries.length).toBeLessThan(45);
  });

  test("of nothing is sent too: the store may have something to say", async () => {
    const { batch, tries } = scripted([]);
    expect(await batch([])).toEqual([]);
    expect(tries).toHaveLength(1);
  });

  test("is sent again within its time, and says each time what is left", async () => {
    const { batch, tries, clock, startMs } = scripted(failed("no"));
    expect(await batch(["a"])).toMatchObject([{ applied: "no", retryable: true }]);
    expect(tries.length).toBeGreaterThan(2);
    expect(clock.monotonic() - startMs).toBeLessThanOrEqual(1_010);
    for (const { timeoutMs, atMs } of tries) expect(timeoutMs).toBe(1_000 - atMs);
    expect(new Set(tries.map(({ atMs }) => atMs)).size).toBe(tries.length);
  });

  test("is sent again without what has succeeded, or failed for good", async () => {
    const { batch, tries } = scripted([failed("no"), DONE, closed, failed("maybe")], DONE);
    expect(await batch(["a", "b", "c", "d"])).toEqual([DONE, DONE, closed, DONE]);
    expect(tries.map(({ asked }) => asked)).toEqual([
      ["a", "b", "c", "d"],
      ["a", "d"],
    ]);
  });

  test("is sent again with a log of how many requests, and of the first one's error", async () => {
    const [first, second] = [failed("no"), failed("no")];
    const { batch, debug } = scripted([DONE, first, second, closed], DONE);
    await batch(["a", "b", "c", "d"]);
    expect(debug.mock.calls).toEqual([
      [{ err: expect.anything(), requests: 2 }, "the store failed; asking it again"],
    ]);
    expect(debug.mock.calls[0]?.[0].err).toBe(first.error);
  });

  test("whose answers are all lost fails with the store's own error", async () => {
    const lost = failed("maybe");
    const { batch } = scripted(lost);
    const [outcome] = await batch(["a"]);
    expect(outcome).toBe(lost);
  });

  test("does not wait for one that a server passed on as failed", async () => {
    const locked = { ...failed("no"), passedOn: true } as const;
    const { batch, tries } = scripted([DONE, locked, DONE]);
    expect(await batch(["a", "b", "c"])).toEqual([DONE, locked, DONE]);
    expect(tries).toHaveLength(1);
  });

  test("may have been applied once any try may have been", async () => {
    const { batch } = scripted([failed("maybe"), failed("no")], failed("no"));
    expect(await batch(["a", "b"])).toMatchObject([
      { applied: "maybe", error: { code: "STORE_UNAVAILABLE", outcome: "unknown" } },
      { applied: "no", error: { code: "STORE_UNAVAILABLE", outcome: "none" } },
    ]);
  });

  test("may have been applied though a later try fails for good", async () => {
    const { batch, tries } = scripted(failed("maybe"), closed);
    expect(await batch(["a"])).toMatchObject([
      { applied: "maybe", retryable: false, error: { code: "CLOSED" } },
    ]);
    expect(tries).toHaveLength(2);
  });

  test("is not repeated where that would do harm", async () => {
    const { batch, tries } = scripted([failed("maybe"), failed("no")], failed("maybe"));
    const outcomes = await batch(["a", "b"], { repeatable: false });
    expect(outcomes).toMatchObject([{ applied: "maybe" }, { applied: "maybe" }]);
    expect(tries.map(({ asked }) => asked)).toEqual([["a", "b"], ["b"]]);
  });

  test("waits as long as it is asked to, or gives up at once", async () => {
    const { batch, tries, clock, startMs } = scripted(failed("no", 2_000));
    expect(await batch(["a"])).toMatchObject([{ applied: "no" }]);
    expect(tries).toHaveLength(1);
    expect(clock.monotonic() - startMs).toBeLessThan(50);
  });

  test("is never sent again sooner than one of its requests is asked to", async () => {
    const [soon, late] = [failed("no"), failed("no", 1_000)];
    const { batch, tries } = scripted([soon, late, soon], [late, soon, soon], late);
    await batch(["a", "b", "c"], { timeoutMs: 10_000 });
    expect(tries.length).toBeGreaterThan(5);
    for (const [index, { atMs }] of tries.slice(1).entries()) {
      expect(atMs - (tries[index]?.atMs ?? 0)).toBeGreaterThanOrEqual(1_000);
    }
  });

  test("waits as long as it is asked to, though an earlier answer was lost", async () => {
    const { batch, tries } = scripted(failed("maybe"), failed("no", 2_000));
    expect(await batch(["a"])).toMatchObject([
      { applied: "maybe", error: { outcome: "unknown", retryAfterMs: 2_000 } },
    ]);
    expect(tries).toHaveLength(2);
  });

  test("has 5 s where it does not say", async () => {
    const { retrying, send, ended, tries } = scripted(failed("no"));
    await ended(retrying.batch(["a"], send));
    expect(tries[0]?.timeoutMs).toBe(5_000);
    expect(tries.at(-1)?.atMs).toBeGreaterThan(4_000);
  });
});

describe("a try that the time ends", () => {
  const refused = new StoreUnavailableError("connect ECONNREFUSED", { outcome: "none" });
  const reason: Failed = { status: "failed", applied: "no", retryable: true, error: refused };
  /** Fails at once but for the last try, which answers when its time is over. */
  function cut(last: Failed) {
    const { env, retrying, ended } = scripted();
    let tries = 0;
    const send = async (_: readonly string[], timeoutMs: number): Promise<Outcome[]> => {
      if (tries++ === 0) return [reason];
      await sleep(env.clock, timeoutMs);
      return [last];
    };
    return ended(retrying.batch(["a"], send, { timeoutMs: 1_000 }));
  }

  test("does not hide why the one before it failed", async () => {
    expect(await cut(failed("no"))).toEqual([reason]);
  });

  test("may have been applied all the same", async () => {
    const [outcome] = await cut(failed("maybe"));
    expect(outcome).toMatchObject({ applied: "maybe", error: { outcome: "unknown" } });
    expect((outcome as Failed).error.message).toContain("ECONNREFUSED");
  });

  test("is reported if it was refused for good", async () => {
    expect(await cut(closed)).toEqual([closed]);
  });
});

describe("a pause", () => {
  test("ends with the signal of the call", async () => {
    const { retrying, send, clock, tries } = scripted(failed("no", 500));
    const gone = new AbortController();
    const call = retrying.batch(["a"], send, { timeoutMs: 1_000, signal: gone.signal });
    await clock.settle();
    gone.abort();
    expect(await call).toMatchObject([{ applied: "no" }]);
    expect(tries.map(({ atMs }) => atMs)).toEqual([0, 0]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("ends when the store is closed, which then says so", async () => {
    const { retrying, send, clock, tries } = scripted(failed("maybe", 500), closed);
    const call = retrying.batch(["a"], send, { timeoutMs: 1_000 });
    await clock.settle();
    retrying.close();
    expect(await call).toMatchObject([{ applied: "maybe", error: { code: "CLOSED" } }]);
    expect(tries).toHaveLength(2);
    expect(clock.pendingTimers).toBe(0);
  });

  test("is not begun any more when the store is closed", async () => {
    const { retrying, send, tries } = scripted(failed("no"));
    retrying.close();
    expect(await retrying.batch(["a"], send)).toMatchObject([{ applied: "no" }]);
    expect(tries).toHaveLength(1);
  });
});

describe("a call that throws", () => {
  function throwing(...errors: Error[]) {
    const { retrying, ended } = scripted();
    let calls = 0;
    const call = ended(
      retrying.call(async () => {
        const error = errors[calls];
        calls += 1;
        if (error) throw error;
        return "read";
      }),
    );
    call.catch(() => {});
    return { call, calls: () => calls };
  }

  test("is tried again where that may help", async () => {
    const { call, calls } = throwing(failed("no").error, failed("maybe").error);
    expect(await call).toBe("read");
    expect(calls()).toBe(3);
  });

  test.each([
    new InvalidOptionError("url", "is wrong"),
    new TypeError("a bug"),
    Object.assign(new Error("of a driver"), { retryable: true }),
  ])("is not where it does not: %s", async (error) => {
    const { call, calls } = throwing(error);
    await expect(call).rejects.toBe(error);
    expect(calls()).toBe(1);
  });
});

test("a call that must not be done twice is tried again if it was not done, and no further", async () => {
  const { retrying, ended } = scripted();
  const errors = [failed("no").error, failed("maybe").error, failed("no").error];
  let calls = 0;
  const work = async () => {
    const error = errors[calls];
    calls += 1;
    if (error) throw error;
  };
  await expect(ended(retrying.call(work, { repeatable: false }))).rejects.toBe(errors[1]);
  expect(calls).toBe(2);
});

test("a call that may have been done stays so when its repetition is refused", async () => {
  const { retrying, ended } = scripted();
  let calls = 0;
  const work = async () => {
    calls += 1;
    throw failed(calls === 1 ? "maybe" : "no").error;
  };
  await expect(ended(retrying.call(work))).rejects.toMatchObject({ outcome: "unknown" });
});

describe("a lease store", () => {
  const key = { namespace: "default", resource: "r" };
  const acquire: AcquireRequest = { ...key, leaseId: "l", holder: "h", ttlMs: 1_000 };
  const revoke: RevokeRequest = { ...key, free: "now" };

  function opened(acquire: "batch" | "batchOnce" = "batch") {
    const { env, ended } = scripted();
    let tries = 0;
    const fail = async (requests: readonly unknown[]) => {
      tries += 1;
      return requests.map(() => failed("maybe"));
    };
    const store = { acquire: fail, renew: fail, release: fail, revoke: fail };
    const ways = { ...LEASE_RETRIES, acquire };
    const leases = withRetries(store as unknown as LeaseStore, ways, new Retrying(env));
    const triesOf = async (call: () => Promise<unknown>) => {
      tries = 0;
      await ended(call());
      return tries;
    };
    return { leases, triesOf };
  }

  test("repeats all but a revoke, when the answer is lost", async () => {
    const { leases, triesOf } = opened();
    expect(await triesOf(() => leases.acquire([acquire]))).toBeGreaterThan(2);
    expect(await triesOf(() => leases.renew([acquire]))).toBeGreaterThan(2);
    expect(await triesOf(() => leases.release([acquire]))).toBeGreaterThan(2);
    expect(await triesOf(() => leases.revoke([revoke]))).toBe(1);
  });

  test("is called with the options of its caller, and the time that is left", async () => {
    const { env, clock } = scripted();
    const given: unknown[] = [];
    const answer = async (_: unknown, options: unknown) => {
      given.push(options);
      return [DONE];
    };
    const watch = async function* (...args: unknown[]) {
      yield args;
    };
    const inner = { acquire: answer, renew: answer, release: answer, revoke: answer, watch };
    const leases = withRetries(inner as unknown as LeaseStore, LEASE_RETRIES, new Retrying(env));
    const options = { timeoutMs: 700, returnReplaced: true };
    await leases.acquire([acquire], options);
    await leases.renew([acquire], options);
    await leases.release([acquire], options);
    await leases.revoke([revoke], options);
    expect(given).toEqual([options, options, options, options]);
    const { signal } = new AbortController();
    for await (const args of leases.watch("n", { signal })) expect(args).toEqual(["n", { signal }]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("repeats no acquire where its engine does not allow it", async () => {
    const { leases, triesOf } = opened("batchOnce");
    expect(await triesOf(() => leases.acquire([acquire]))).toBe(1);
    expect(await triesOf(() => leases.release([acquire]))).toBeGreaterThan(2);
  });
});

test("a read whose answer was lost has changed nothing, and says so", async () => {
  const { env, ended } = scripted(DONE);
  const lost = () =>
    Promise.reject(
      new StoreUnavailableError("no answer within 10 ms", {
        outcome: "unknown",
        retryAfterMs: 7,
        refusedBy: "load",
      }),
    );
  const store = withRetries(
    { get: lost, list: lost } as unknown as LeaseStore,
    LEASE_RETRIES,
    new Retrying(env),
  );
  for (const read of [() => store.get([]), () => store.list({ namespace: "n" })]) {
    const error: unknown = await ended<unknown>(read()).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ outcome: "none", retryAfterMs: 7, refusedBy: "load" });
    expect((error as Error).message).toBe("no answer within 10 ms; nothing has changed: try again");
  }
});

test("a read that has failed otherwise rejects with the store's own error", async () => {
  const { env, ended } = scripted(DONE);
  for (const error of [failed("no").error, new InvalidOptionError("cursor", "is wrong")]) {
    const store = withRetries(
      { get: () => Promise.reject(error) } as unknown as LeaseStore,
      LEASE_RETRIES,
      new Retrying(env),
    );
    await expect(ended(store.get([]))).rejects.toBe(error);
  }
});

test("a collection is tried again, and ends with the store, which is closed", async () => {
  const { env, clock } = scripted(DONE);
  const calls: string[] = [];
  const inner = {
    async collect(olderThanMs: number) {
      calls.push(`collect ${olderThanMs}`);
      if (calls.length === 1) throw failed("no").error;
      if (calls.length === 3) throw failed("no", 500).error;
      return 7;
    },
    close: async () => void calls.push("close"),
  };
  const store = withRetries(inner as unknown as LeaseStore, LEASE_RETRIES, new Retrying(env));
  const collecting = store.collect(1_000);
  await clock.advance(100);
  expect(await collecting).toBe(7);
  const pausing = store.collect(2_000);
  await clock.settle();
  await store.close();
  expect(await pausing).toBe(7);
  expect(calls).toEqual(["collect 1000", "collect 1000", "collect 2000", "close", "collect 2000"]);
  expect(clock.pendingTimers).toBe(0);
});
