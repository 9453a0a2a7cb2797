import { expect, it } from "vitest";
import { type LeaseStore, StoreUnavailableError } from "../../lease/index.js";
import { manualEnv } from "../manual-clock.js";
import { History, recordHistory } from "./recorder.js";

const KEY = { namespace: "default", resource: "r" };
const ACQUIRE = { ...KEY, leaseId: "A", holder: "h", ttlMs: 100 };
const unavailable = (outcome: "none" | "unknown") => new StoreUnavailableError("down", { outcome });

it("writes down each request of a batch, with what came of it", async () => {
  const { clock } = manualEnv();
  const outcomes = [
    { status: "held", holder: "x", grantId: null, remainingMs: 5 },
    { status: "failed", applied: "no", retryable: true, error: unavailable("none") },
    { status: "failed", applied: "maybe", retryable: true, error: unavailable("unknown") },
  ];
  const options: unknown[] = [];
  const store = {
    acquire: async (_: unknown, call: unknown) => {
      options.push(call);
      await clock.advance(7);
      return outcomes;
    },
  } as unknown as LeaseStore;
  const { store: recorded, history } = recordHistory(store, clock, { client: "c1" });
  await clock.advance(3);
  expect(await recorded.acquire([ACQUIRE, ACQUIRE, ACQUIRE], { timeoutMs: 9 })).toBe(outcomes);
  expect(options).toEqual([{ timeoutMs: 9 }]);
  const common = { client: "c1", operation: "acquire", request: ACQUIRE, invokeMs: 3 };
  expect(history.entries()).toEqual([
    { ...common, returnMs: 10, result: "ok", outcome: outcomes[0] },
    {
      ...common,
      returnMs: 10,
      result: "fail",
      outcome: null,
      error: expect.stringContaining("down"),
    },
    {
      ...common,
      returnMs: null,
      result: "unknown",
      outcome: null,
      error: expect.stringContaining("down"),
    },
  ]);
});

it("records how often the store has sent a request, if the harness counts", async () => {
  const { clock } = manualEnv();
  let sent = 5;
  const store = {
    release: async () => {
      sent += 3;
      return [{ status: "released" }];
    },
    renew: async () => {
      sent += 2;
      throw new Error("misuse");
    },
  } as unknown as LeaseStore;
  const { store: recorded, history } = recordHistory(store, clock, { tries: () => sent });
  await recorded.release([ACQUIRE]);
  await expect(recorded.renew([ACQUIRE])).rejects.toThrow("misuse");
  expect(history.entries()).toMatchObject([
    { operation: "release", result: "ok", tries: 3 },
    { operation: "renew", result: "unknown", tries: 2 },
  ]);
});

it("keeps what several clients do in one history, also what has no answer or throws", async () => {
  const { clock } = manualEnv();
  const history = new History();
  const silent = { release: () => new Promise(() => {}) } as unknown as LeaseStore;
  const broken = { renew: () => Promise.reject(new Error("misuse")) } as unknown as LeaseStore;
  const first = recordHistory(silent, clock, { client: "c1", history }).store;
  const second = recordHistory(broken, clock, { client: "c2", history }).store;
  void first.release([ACQUIRE]);
  await expect(second.renew([ACQUIRE])).rejects.toThrow("misuse");
  const seen = history.entries().map((entry) => [entry.client, entry.operation, entry.result]);
  expect(seen).toEqual([
    ["c2", "renew", "unknown"],
    ["c1", "release", "unknown"],
  ]);
});
