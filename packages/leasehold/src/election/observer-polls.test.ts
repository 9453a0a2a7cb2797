/** When an observer polls, and what it says while the store does not answer. Without jitter, so that times are exact. */
import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { silentLogger } from "../env/index.js";
import { LeaseClient, StoreMisconfiguredError, StoreUnavailableError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { observeLeader } from "./observer.js";

const TTL_MS = 3_000;
const down = () => Promise.reject(new StoreUnavailableError("down", { outcome: "none" }));
const hang = () => new Promise<never>(() => {});

function open(watch: "push" | "poll" = "push") {
  const logged: (readonly [message: string, fields: object])[] = [];
  const warn = (fields: object, message: string) => void logged.push([message, fields]);
  const manual = manualEnv({ logger: { ...silentLogger, warn } });
  const { clock } = manual;
  const env = { ...manual, random: { ...manual.random, float: () => 0.5 } };
  const store = faultyStore(env);
  /** Subscriptions to the store that have not ended. */
  const subscriptions = new Set<AbortSignal>();
  const observed = {
    ...store,
    capabilities: { ...store.capabilities, watch },
    watch: (namespace: string, { signal }: { signal: AbortSignal }) => {
      subscriptions.add(signal);
      signal.addEventListener("abort", () => subscriptions.delete(signal));
      return store.watch(watch === "push" ? namespace : "a silent one", { signal });
    },
  };
  /** At first there are two: a new subscription may have missed something. */
  const polls: number[] = [];
  let answer = store.get;
  observed.get = (keys) => {
    polls.push(clock.monotonic());
    return answer(keys);
  };
  const leases = new LeaseClient(observed, { env, holder: "a" }, { close: undefined });
  const client = (holder: string) => new LeaseClient(store, { env, holder }, { close: undefined });
  const stop = new AbortController();
  const changes: (readonly [atMs: number, leader: string | null, unavailable: boolean])[] = [];
  const observe = async () => {
    for await (const { leader, unavailable } of observeLeader(leases, "n", stop.signal)) {
      changes.push([clock.monotonic(), leader, unavailable]);
    }
  };
  return {
    clock,
    client,
    leases,
    logged,
    stop,
    observe,
    polls,
    changes,
    subscriptions,
    /** Another node leads, and does not renew its lease. */
    lead: (holder = "b") => client(holder).acquire("n", { ttlMs: TTL_MS, autoRenew: false }),
    /** From now on. */
    answerBy: (get: typeof answer) => void (answer = get),
    answerAgain: () => void (answer = store.get),
  };
}

describe("an observer", () => {
  it("polls less and less often while there is no leader, then once a second", async () => {
    const { clock, observe, polls, stop } = open();
    const observing = observe();
    await clock.advance(4_000);
    expect(polls).toEqual([0, 0, 20, 60, 140, 300, 620, 1_260, 2_260, 3_260]);
    stop.abort();
    await observing;
  });

  it("says that there is no leader just after the expiry, and polls soon again", async () => {
    const { clock, observe, polls, changes, lead, stop } = open();
    const observing = observe();
    await clock.advance(2_000);
    await lead();
    await clock.advance(TTL_MS + 100);
    expect(changes).toEqual([
      [0, null, false],
      [2_260, "b", false],
      [5_001, null, false],
    ]);
    expect(polls.slice(-5)).toEqual([2_260, 5_001, 5_011, 5_031, 5_071]);
    stop.abort();
    await observing;
  });

  it("polls a store without notifications twice a second, and sees a new term of the same leader", async () => {
    const { clock, leases, stop, polls, lead } = open("poll");
    const changes = observeLeader(leases, "n", stop.signal);
    const first = await lead("a");
    const leader = { leader: "a", self: true, unavailable: false };
    expect(await changes.next()).toEqual({ done: false, value: { ...leader, token: 1 } });
    const second = changes.next();
    await clock.advance(600);
    await first.release();
    await lead("a");
    await clock.advance(500);
    expect(await second).toEqual({ done: false, value: { ...leader, token: 2 } });
    expect(polls).toEqual([0, 0, 500, 1_000]);
    const ended = changes.next();
    stop.abort();
    await ended;
  });

  it("keeps the leader while the store fails, until its lease must have expired", async () => {
    const { clock, observe, polls, changes, lead, stop, answerBy, logged } = open("poll");
    await lead();
    const observing = observe();
    await clock.advance(1_200);
    answerBy(down);
    await clock.advance(4_000);
    expect(changes).toEqual([
      [0, "b", false],
      [3_001, null, true],
    ]);
    expect(polls).toEqual([0, 0, 500, 1_000, 1_500, 2_500, 3_001, 4_001, 5_001]);
    const fields = { err: expect.objectContaining({ code: "STORE_UNAVAILABLE" }), name: "n" };
    expect(logged[0]).toEqual(["observing a store that does not answer", fields]);
    stop.abort();
    await observing;
  });

  it("keeps a leader that has renewed its lease for as long as the store said last", async () => {
    const { clock, observe, changes, lead, stop, answerBy } = open("poll");
    const leader = await lead();
    const observing = observe();
    for (let round = 0; round < 5; round += 1) {
      await clock.advance(1_200);
      await leader.renew();
    }
    await clock.advance(500);
    const seenAtMs = clock.monotonic();
    answerBy(down);
    await clock.advance(1_000);
    expect(changes).toEqual([[0, "b", false]]);
    await clock.advance(TTL_MS);
    expect(changes).toHaveLength(2);
    const [atMs, name, unavailable] = changes[1] ?? [];
    expect([name, unavailable]).toEqual([null, true]);
    expect(atMs).toBeGreaterThan(seenAtMs + 1_000);
    stop.abort();
    await observing;
  });

  it("says at once that a leader is unknown if the last one has resigned long before its expiry", async () => {
    const { clock, client, observe, changes, stop, answerBy } = open("poll");
    const leader = await client("b").acquire("n", { ttlMs: 60_000, autoRenew: false });
    const observing = observe();
    await clock.advance(100);
    await leader.release();
    await clock.advance(900);
    answerBy(down);
    await clock.advance(2_000);
    expect(changes.map(([, name, unavailable]) => [name, unavailable])).toEqual([
      ["b", false],
      [null, false],
      [null, true],
    ]);
    stop.abort();
    await observing;
  });

  it("says at once that the leader is unknown if the first poll fails, and retries each second", async () => {
    const { clock, observe, polls, changes, stop, answerBy, answerAgain } = open();
    answerBy(down);
    const observing = observe();
    await clock.advance(2_500);
    expect(changes).toEqual([[0, null, true]]);
    expect(polls).toEqual([0, 0, 1_000, 2_000]);
    answerAgain();
    await clock.advance(1_000);
    expect(changes.slice(1)).toEqual([[3_000, null, false]]);
    stop.abort();
    await observing;
  });

  it("keeps the leader of a store that hangs until a second after its lease must have expired", async () => {
    const { clock, observe, changes, lead, stop, answerBy, answerAgain } = open("poll");
    await lead();
    const observing = observe();
    await clock.advance(700);
    // Each answer takes a while, and is none.
    answerBy(async () => {
      await new Promise<void>((resolve) => void clock.timer(5_000, resolve));
      return down();
    });
    await clock.advance(3_299);
    expect(changes).toEqual([[0, "b", false]]);
    await clock.advance(20_000);
    expect(changes.slice(1)).toEqual([[4_000, null, true]]);
    answerAgain();
    await clock.advance(6_000);
    expect(changes.slice(2)).toEqual([[expect.any(Number), null, false]]);
    stop.abort();
    await observing;
  });

  it.each([0, 500, 2_000])("ends when it is asked to, %i ms after the store hung", async (ms) => {
    const { clock, observe, stop, answerBy, subscriptions } = open();
    answerBy(hang);
    const observing = observe();
    await clock.advance(ms);
    expect(subscriptions.size).toBe(1);
    stop.abort();
    await observing;
    expect(subscriptions.size).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([new StoreMisconfiguredError("no such table"), new TypeError("a mistake of the store")])(
    "ends with an error that no retry can cure: $name",
    async (error) => {
      const { clock, observe, answerBy, subscriptions } = open();
      const ended = expect(observe()).rejects.toBe(error);
      await clock.advance(5);
      answerBy(() => Promise.reject(error));
      await clock.advance(100);
      await ended;
      expect(subscriptions.size).toBe(0);
      expect(clock.pendingTimers).toBe(0);
    },
  );
});
