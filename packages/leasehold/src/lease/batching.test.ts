import { describe, expect, it } from "vitest";
import type { Telemetry, TraceContext } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { Batcher, batched } from "./batching.js";
import { InvalidOptionError } from "./errors.js";
import type { LeaseStore } from "./port.js";
import { refusedRequest } from "./store-errors.js";

/** A lane whose calls the test answers one by one. */
function lane(telemetry?: Pick<Telemetry, "here" | "within">, smallestShare?: number) {
  const { clock } = manualEnv();
  const calls: {
    requests: string[];
    timeoutMs: number | undefined;
    answer: (outcomes?: string[]) => void;
    fail: (error: Error) => void;
  }[] = [];
  const batcher = new Batcher<string, string>(
    (requests, { timeoutMs }) =>
      new Promise((resolve, reject) => {
        const answer = (outcomes = requests.map((request) => `${request}!`)) => resolve(outcomes);
        calls.push({ requests, timeoutMs, answer, fail: reject });
      }),
    clock,
    telemetry as Telemetry | undefined,
    smallestShare,
  );
  return { batcher, calls, clock };
}

describe("Batcher", () => {
  it("finds the requests that the store refuses for good, so that the others of their batch succeed", async () => {
    const { clock } = manualEnv();
    const sent: string[][] = [];
    const send = async (requests: string[]) => {
      sent.push(requests);
      if (requests.some((request) => request.startsWith("bad")))
        throw refusedRequest("it is too long");
      return requests.map((request) => `${request}!`);
    };
    const batcher = new Batcher<string, string>(send, clock);
    const requests = ["a", "b", "bad 1", "c", "d", "e", "bad 2", "f"];
    const outcomes = await batcher.submitAll(requests, 1_000);
    for (const [at, request] of requests.entries()) {
      if (!request.startsWith("bad")) expect(outcomes[at]).toBe(`${request}!`);
      else
        expect(outcomes[at]).toMatchObject({ status: "failed", applied: "no", retryable: false });
    }
    // In their order: a group is decided as its caller has sent it.
    const alone = sent.filter((some) => !some.some((request) => request.startsWith("bad"))).flat();
    expect(alone).toEqual(["a", "b", "c", "d", "e", "f"]);
    expect(sent.length).toBeLessThan(2 * requests.length);
  });

  it("sends no other failure of a batch again, nor what its callers no longer wait for", async () => {
    const { batcher, calls, clock } = lane();
    const failing = batcher.submitAll(["a", "b"], 1_000);
    await clock.settle();
    calls[0]?.fail(new Error("it is down"));
    expect(await failing).toMatchObject([{ applied: "maybe" }, { applied: "maybe" }]);
    expect(calls).toHaveLength(1);
    const late = batcher.submitAll(["c", "d"], 1_000);
    await clock.settle();
    await clock.advance(1_000);
    calls[1]?.fail(refusedRequest("it is too long"));
    expect(await late).toMatchObject([{ retryable: true }, { retryable: true }]);
    expect(calls).toHaveLength(2);
  });

  it("sends an idle caller's request at once and alone", async () => {
    const { batcher, calls, clock } = lane();
    const outcome = batcher.submit("a", 1_000);
    await clock.settle();
    expect(calls.map((call) => call.requests)).toEqual([["a"]]);
    calls[0]?.answer();
    expect(await outcome).toBe("a!");
  });

  it("gathers what arrives while two calls are in flight, in order", async () => {
    const { batcher, calls, clock } = lane();
    const first = batcher.submit("a", 1_000);
    await clock.settle();
    void batcher.submit("busy", 1_000);
    await clock.settle();
    const rest = ["b", "c", "d"].map((request) => batcher.submit(request, 1_000));
    await clock.settle();
    expect(calls.map((call) => call.requests)).toEqual([["a"], ["busy"]]);
    calls[0]?.answer();
    await first;
    await clock.settle();
    expect(calls[2]?.requests).toEqual(["b", "c", "d"]);
    calls[2]?.answer();
    expect(await Promise.all(rest)).toEqual(["b!", "c!", "d!"]);
  });

  it("takes as many at once as its lane says, however few that leaves for the next call", async () => {
    for (const [share, sizes] of [
      [undefined, [45, 45]],
      [50, [50, 40]],
      [500, [90]],
    ] as const) {
      const { batcher, calls, clock } = lane(undefined, share);
      for (let n = 0; n < 90; n += 1) void batcher.submit(`${n}`, 1_000);
      await clock.settle();
      expect(calls.map(({ requests }) => requests.length).slice(0, 2)).toEqual(sizes);
    }
  });

  it("bounds a call by the shortest timeout in its batch", async () => {
    const { batcher, calls, clock } = lane();
    void batcher.submit("a", 900);
    void batcher.submit("b", 300);
    await clock.settle();
    expect(calls[0]?.timeoutMs).toBe(300);
  });

  it("sends requests of much less patience in a call of their own", async () => {
    const { batcher, calls, clock } = lane();
    const timeoutsMs = [10_000, 250, 9_000, Infinity, 60];
    const outcomes = timeoutsMs.map((timeoutMs) => batcher.submit(`${timeoutMs}`, timeoutMs));
    await clock.settle();
    expect(calls.map(({ requests, timeoutMs }) => [requests, timeoutMs])).toEqual([
      [["Infinity"], undefined],
      [["10000", "9000"], 9_000],
      [["250"], 250],
      [["60"], 60],
    ]);
    await clock.advance(400);
    for (const call of calls.slice(0, 2)) call.answer();
    const answers = await Promise.all(outcomes);
    expect(answers.map((answer) => (typeof answer === "string" ? answer : answer.status))).toEqual([
      "10000!",
      "failed",
      "9000!",
      "Infinity!",
      "failed",
    ]);
  });

  it("answers `maybe` for a call that never settles, and goes on with the next", async () => {
    const { batcher, calls, clock } = lane();
    const hung = batcher.submit("a", 1_000);
    await clock.settle();
    void batcher.submit("busy", 9_000);
    await clock.settle();
    const next = batcher.submit("b", 9_000);
    await clock.advance(1_100);
    expect(await hung).toMatchObject({ status: "failed", applied: "maybe", retryable: true });
    expect(calls[2]?.requests).toEqual(["b"]);
    // The late answer of the hung call must not be taken for the answer to the next call.
    calls[0]?.answer(["late"]);
    calls[2]?.answer();
    expect(await next).toBe("b!");
  });

  it("drops unsent what waited for longer than its caller does", async () => {
    const { batcher, calls, clock } = lane();
    const first = batcher.submit("a", 5_000);
    await clock.settle();
    void batcher.submit("busy", 5_000);
    await clock.settle();
    const hasty = batcher.submit("b", 1_000);
    const patient = batcher.submit("c", 5_000);
    await clock.advance(1_000);
    calls[0]?.answer();
    await first;
    expect(await hasty).toMatchObject({
      status: "failed",
      applied: "no",
      retryable: true,
      error: { code: "STORE_UNAVAILABLE", outcome: "none" },
    });
    await clock.settle();
    expect(calls[2]?.requests).toEqual(["c"]);
    calls[2]?.answer();
    expect(await patient).toBe("c!");
  });

  it("does not repeat what an error says is of no use", async () => {
    const { batcher, calls, clock } = lane();
    const outcome = batcher.submit("a", 1_000);
    await clock.settle();
    calls[0]?.fail(new InvalidOptionError("output", "is too large"));
    expect(await outcome).toMatchObject({ status: "failed", applied: "no", retryable: false });
  });

  it("turns a call that throws, or answers the wrong number, into outcomes", async () => {
    const { batcher, calls, clock } = lane();
    const thrown = batcher.submit("a", 1_000);
    await clock.settle();
    calls[0]?.fail(new Error("broken"));
    expect(await thrown).toMatchObject({
      status: "failed",
      applied: "maybe",
      error: { code: "STORE_UNAVAILABLE", outcome: "unknown" },
    });
    const short = batcher.submit("b", 1_000);
    await clock.settle();
    calls[1]?.answer([]);
    expect(await short).toMatchObject({ status: "failed", applied: "maybe" });
  });

  it("never takes every caller, so that the store works while callers are answered", async () => {
    const { batcher, calls, clock } = lane();
    const sizes = () => calls.map(({ requests }) => requests.length);
    const answered: number[] = [];
    // Each caller comes back once it is answered.
    const caller = async (at: number) => {
      for (let round = 0; round < 3; round += 1) {
        expect(await batcher.submit(`${at}/${round}`, 1_000)).toBe(`${at}/${round}!`);
        answered.push(calls.length);
      }
    };
    const callers = Array.from({ length: 300 }, (_, at) => caller(at));
    await clock.settle();
    expect(sizes()).toEqual([150, 150]);
    calls[0]?.answer();
    await clock.settle();
    expect(sizes()).toEqual([150, 150, 150]);
    // The store had the other half while the callers of the first one went on.
    expect(new Set(answered)).toEqual(new Set([2]));
    for (let next = 1; next < 6; next += 1) {
      calls[next]?.answer();
      await clock.settle();
    }
    await Promise.all(callers);
    expect(sizes()).toEqual(Array(6).fill(150));
  });

  it("sends few callers together: a call costs more than its requests", async () => {
    const { batcher, calls, clock } = lane();
    for (let at = 0; at < 20; at += 1) void batcher.submit(`${at}`, 1_000);
    await clock.settle();
    expect(calls.map(({ requests }) => requests.length)).toEqual([16, 4]);
  });

  it("sends what one caller asks for in an order together", async () => {
    const { batcher, calls, clock } = lane();
    const letters = Array.from({ length: 40 }, (_, at) => `a${at}`);
    void batcher.submit("first", 1_000);
    const outcomes = batcher.submitAll(letters, 1_000);
    void batcher.submit("last", 1_000);
    await clock.settle();
    expect(calls.map(({ requests }) => requests)).toEqual([["first", ...letters], ["last"]]);
    for (const call of calls) call.answer();
    expect(await outcomes).toEqual(letters.map((letter) => `${letter}!`));
  });

  it("sends few requests of one caller together, also if they are all that there is", async () => {
    const { batcher, calls, clock } = lane();
    // As many as one call takes.
    const letters = Array.from({ length: 16 }, (_, at) => `a${at}`);
    const outcomes = batcher.submitAll(letters, 1_000);
    await clock.settle();
    expect(calls.map(({ requests }) => requests)).toEqual([letters]);
    calls[0]?.answer();
    expect(await outcomes).toEqual(letters.map((letter) => `${letter}!`));
  });

  it("ends a call behind the last request of a caller, not behind the next caller's", async () => {
    const { batcher, calls, clock } = lane();
    const alone = (count: number) => {
      for (let at = 0; at < count; at += 1) void batcher.submit("alone", 1_000);
    };
    // A call takes sixteen; here the sixteenth is the first of two.
    alone(15);
    void batcher.submitAll(["first", "second"], 1_000);
    alone(3);
    await clock.settle();
    expect(calls.map(({ requests }) => requests.slice(15))).toEqual([["first", "second"], []]);
    expect(calls.map(({ requests }) => requests.length)).toEqual([17, 3]);
  });

  it("shares out the callers that there are, not those of earlier calls", async () => {
    const { batcher, calls, clock } = lane();
    for (let round = 1; round <= 3; round += 1) {
      for (let at = 0; at < 60; at += 1) void batcher.submit(`${at}`, 1_000);
      await clock.settle();
      expect(calls.splice(0).map((call) => (call.answer(), call.requests.length))).toEqual([
        30, 30,
      ]);
      await clock.settle();
    }
  });

  it("bounds a call, and how many are in flight, however many callers there are", async () => {
    const { batcher, calls, clock } = lane();
    const outcomes = Array.from({ length: 4_500 }, (_, at) => batcher.submit(`${at}`, 1_000));
    await clock.settle();
    expect(calls).toHaveLength(2);
    for (let next = 0; next < calls.length; next += 1) {
      calls[next]?.answer();
      await clock.settle();
      expect(calls.length).toBeLessThanOrEqual(next + 3);
    }
    expect((await Promise.all(outcomes)).at(-1)).toBe("4499!");
    expect(calls.map(({ requests }) => requests.length)).toEqual([1_000, 1_000, 1_000, 1_000, 500]);
  });

  it("takes an answer that the store gives at the end of its time", async () => {
    const { batcher, calls, clock } = lane();
    const outcome = batcher.submit("a", 1_000);
    await clock.advance(1_000);
    calls[0]?.answer();
    expect(await outcome).toBe("a!");
  });

  it("waits without a timer for callers that have no end", async () => {
    const { batcher, calls, clock } = lane();
    const outcome = batcher.submit("a", Number.POSITIVE_INFINITY);
    await clock.settle();
    expect(calls[0]?.timeoutMs).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
    calls[0]?.answer();
    expect(await outcome).toBe("a!");
  });

  it("traces a call as part of what all its callers do, as far as those are traced", async () => {
    const contexts: (TraceContext | undefined)[] = [{ of: "a" }, undefined, { of: "c" }];
    const within: unknown[] = [];
    const { batcher, calls, clock } = lane({
      here: () => contexts.shift() as TraceContext,
      within(of, work) {
        within.push(of);
        return work();
      },
    });
    for (const request of ["a", "b", "c"]) void batcher.submit(request, 1_000);
    await clock.settle();
    expect(calls.map(({ requests }) => requests)).toEqual([["a", "b", "c"]]);
    expect(within).toEqual([[{ of: "a" }, { of: "c" }]]);
  });
});

function storeOf(send: unknown, callCost?: number): LeaseStore {
  const lanes = { acquire: send, renew: send, release: send };
  return { ...lanes, capabilities: { callCost } } as unknown as LeaseStore;
}

it("a call of each lane takes as many requests as the store says that a call costs", async () => {
  const { clock } = manualEnv();
  const sizes: number[] = [];
  const send = (requests: readonly unknown[]) => {
    sizes.push(requests.length);
    return new Promise(() => {});
  };
  const lanes = batched(storeOf(send, 32), clock);
  const grant = { namespace: "n", resource: "r", leaseId: "x" };
  for (let n = 0; n < 40; n += 1) {
    void lanes.acquire({ ...grant, holder: "h", ttlMs: 1_000 }, 700);
    void lanes.renew({ ...grant, ttlMs: 1_000 }, 700);
    void lanes.release(grant, 700);
  }
  await clock.settle();
  expect(sizes).toEqual([32, 8, 32, 8, 32, 8]);
});

it("an acquire is sent with its time, and with what shall be returned beside its outcome", async () => {
  const { clock } = manualEnv();
  const sent: unknown[] = [];
  const send = async (requests: readonly unknown[], options: unknown) => {
    sent.push(options);
    return requests.map(() => ({ status: "ended" }));
  };
  const store = storeOf(send);
  const lanes = batched(store, clock, { returnReplaced: true });
  const grant = { namespace: "n", resource: "r", leaseId: "x" };
  await lanes.acquire({ ...grant, holder: "h", ttlMs: 1_000 }, 700);
  await lanes.release(grant, 300);
  expect(sent).toEqual([{ timeoutMs: 700, returnReplaced: true }, { timeoutMs: 300 }]);
});

it("every lane traces its calls as part of what their callers do", async () => {
  const { clock } = manualEnv();
  const send = async (requests: readonly unknown[]) => requests.map(() => ({ status: "ended" }));
  const store = storeOf(send);
  let caller = "";
  const within: unknown[] = [];
  const telemetry = {
    here: () => ({ of: caller }),
    within(of: unknown, work: () => unknown) {
      within.push(of);
      return work();
    },
  } as unknown as Telemetry;
  const lanes = batched(store, clock, {}, telemetry);
  const grant = { namespace: "n", resource: "r", leaseId: "x" };
  caller = "an acquire";
  await lanes.acquire({ ...grant, holder: "h", ttlMs: 1_000 }, 700);
  caller = "a renewal";
  await lanes.renew({ ...grant, ttlMs: 1_000 }, 700);
  caller = "a release";
  await lanes.release(grant, 300);
  expect(within).toEqual([[{ of: "an acquire" }], [{ of: "a renewal" }], [{ of: "a release" }]]);
});
