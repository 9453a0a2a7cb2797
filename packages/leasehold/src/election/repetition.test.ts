/** Many terms of the same candidates, and long lives: nothing of one term is left in the next. */
import { getEventListeners, once } from "node:events";
import { expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { ELECTOR_TTL_MS, electorsWorld } from "../../../../tests/support/worlds/electors-world.js";
import { LeaseClient, LeaseLostError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import type { LeaderChange } from "./observer.js";
import { singletonOver } from "./singleton.js";

it("candidates lead term after term, each once, without a listener or a timer more", async () => {
  const { clock, node, store } = electorsWorld();
  const nodes = [node("a"), node("b")];
  const observer = node("observer");
  const seen: LeaderChange[] = [];
  const observing = (async () => {
    const { signal } = observer.stop;
    for await (const change of observer.elector.observe({ signal })) seen.push(change);
  })();
  const terms: { readonly holder: string; readonly token: number }[] = [];
  const lost: number[] = [];
  const signals: AbortSignal[] = [];
  const leading = nodes.map(({ lead, elector }) =>
    lead(async (term) => {
      terms.push({ holder: term.holder, token: term.token });
      signals.push(term.signal);
      term.onLost(() => lost.push(term.token));
      await elector.runIfLeader(async () => {});
      await once(term.signal, "abort");
    }),
  );
  await clock.advance(2_000);
  const shared = [
    ...nodes.map(({ stop }) => stop.signal),
    ...nodes.map((each) => each.leases.closing),
  ];
  const listeners = () => shared.map((signal) => getEventListeners(signal, "abort").length).sort();
  const [before, timersBefore] = [listeners(), clock.pendingTimers];
  const expectedLost: number[] = [];
  for (let round = 0; round < 20; round += 1) {
    expect(terms).toHaveLength(round + 1);
    const leader = nodes.find(({ elector }) => elector.term) ?? expect.fail("no leader");
    const successor = nodes.find((each) => each !== leader)!;
    const { token } = terms.at(-1)!;
    if (round % 3 === 0) await Promise.all([leader.elector.resign(), clock.advance(2_000)]);
    else if (round % 3 === 1) {
      const { holder } = successor.leases;
      await Promise.all([leader.elector.resign({ successor: holder }), clock.advance(2_000)]);
      expect(successor.elector.term?.holder).toBe(holder);
    } else {
      expectedLost.push(token);
      store.faults.renew = "refuse";
      await clock.advance(ELECTOR_TTL_MS);
      store.faults.renew = "ok";
      await clock.advance(2_000);
    }
    expect(listeners()).toEqual(before);
    expect(clock.pendingTimers).toBe(timersBefore);
    expect(getEventListeners(signals[round]!, "abort")).toEqual([]);
  }
  const tokens = terms.map(({ token }) => token);
  expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
  expect(lost).toEqual(expectedLost);
  // The observer tells of each term once.
  const leaders = seen.filter(({ leader }) => leader !== null);
  expect(leaders.map(({ leader, token }) => ({ holder: leader, token }))).toEqual(terms);

  for (const { stop } of [...nodes, observer]) stop.abort();
  await clock.advance(100);
  await Promise.all([...leading, observing]);
  for (const signal of [...shared, observer.stop.signal]) {
    expect(getEventListeners(signal, "abort")).toEqual([]);
  }
  expect(clock.pendingTimers).toBe(0);
});

/** A singleton whose work fails on request, and the times at which it began. */
function failing() {
  const env = manualEnv();
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env, holder: "a" }, { close: undefined });
  const starts: number[] = [];
  const ends: number[] = [];
  let fail = (_: Error) => {};
  const work = () => {
    starts.push(env.clock.monotonic());
    return new Promise<void>((_, reject) => {
      fail = (error) => {
        ends.push(env.clock.monotonic());
        reject(error);
      };
    });
  };
  const options = { ttlMs: ELECTOR_TTL_MS, restartDelayMs: 1_000, maxRestartDelayMs: 60_000 };
  const singleton = singletonOver(leases, "job", work, options).start();
  /** Fails as often with as long a run before each, and gives the pauses before it began again. */
  const pauses = async (count: number, { runMs = 10, error = new Error("broken") } = {}) => {
    const found: number[] = [];
    for (let failure = 0; failure < count; failure += 1) {
      const begun = starts.length;
      await env.clock.advance(runMs);
      fail(error);
      for (let waitedMs = 0; starts.length === begun && waitedMs < 100_000; waitedMs += 100) {
        await env.clock.advance(100);
      }
      // Each pause is a power of two of seconds, give or take a tenth.
      found.push(2 ** Math.round(Math.log2((starts.at(-1)! - ends.at(-1)!) / 1_000)));
    }
    return found;
  };
  const close = async () => {
    const closing = singleton.close();
    fail(new Error("closed"));
    await closing;
  };
  return { clock: env.clock, store, starts, fail: () => fail(new Error("broken")), pauses, close };
}

it("a singleton pauses for longer after each failure, and begins anew after a long run", async () => {
  const { clock, pauses, close } = failing();
  await clock.advance(10);
  expect(await pauses(4)).toEqual([1, 2, 4, 8]);
  expect(await pauses(1, { runMs: 61_000 })).toEqual([1]);
  expect(await pauses(3)).toEqual([2, 4, 8]);
  // As long as it runs, not only once.
  expect(await pauses(1, { runMs: 600_000 })).toEqual([1]);
  expect(await pauses(2)).toEqual([2, 4]);
  await close();
});

it("a singleton's wait for its lease counts as no long run of its work", async () => {
  const { clock, store, starts, fail, pauses, close } = failing();
  await clock.advance(10);
  expect(await pauses(3)).toEqual([1, 2, 4]);
  // Another node gets the lease during the next pause, of eight seconds.
  fail();
  await clock.advance(100);
  const begun = starts.length;
  const rival = { namespace: "default", resource: "job", leaseId: "f".repeat(48) };
  await store.acquire([{ ...rival, holder: "b", ttlMs: 600_000 }]);
  await clock.advance(80_000);
  expect(starts).toHaveLength(begun);
  await store.release([rival]);
  await clock.advance(10_000);
  expect(starts).toHaveLength(begun + 1);
  expect(await pauses(1)).toEqual([16]);
  await close();
});

it("a singleton also pauses where the loss of another lease ends its work", async () => {
  const { clock, pauses, close } = failing();
  await clock.advance(10);
  const error = new LeaseLostError("another", "taken");
  expect(await pauses(4, { error })).toEqual([1, 2, 4, 8]);
  await close();
});

it("a candidacy ends with the loss of another lease that its work throws", async () => {
  const { clock, node } = electorsWorld();
  const { elector, lead } = node("a");
  const error = new LeaseLostError("another", "taken");
  let terms = 0;
  const failed = lead(async ({ signal }) => {
    terms += 1;
    if (terms === 1) throw error;
    await once(signal, "abort");
  }).catch((thrown: unknown) => thrown);
  await clock.advance(10);
  expect([elector.state, terms]).toEqual(["idle", 1]);
  expect(await failed).toBe(error);
  expect(clock.pendingTimers).toBe(0);
});
