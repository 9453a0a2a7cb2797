import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { nextTurn } from "../env/index.js";
import { Abort, Aborting, Calls } from "./aborting.js";

const FIRST = new Error("first");
const SECOND = new Error("second");
const pending = () => new Promise<never>(() => {});

describe("Abort", () => {
  it("aborts once, with its first reason", () => {
    const abort = new Abort();
    expect([abort.aborted, abort.reason]).toEqual([false, undefined]);
    abort.throwIfAborted();
    const { signal } = abort;
    expect(signal.aborted).toBe(false);
    let aborts = 0;
    signal.addEventListener("abort", () => (aborts += 1));
    abort.abort(FIRST);
    abort.abort(SECOND);
    expect([abort.aborted, abort.reason, aborts]).toEqual([true, FIRST, 1]);
    expect(() => abort.throwIfAborted()).toThrow(FIRST);
    expect(signal.reason).toBe(FIRST);
    expect(abort.signal).toBe(signal);
  });

  it("has a signal that has aborted already if it is asked for late", () => {
    const abort = new Abort();
    abort.abort(FIRST);
    expect(abort.signal.aborted).toBe(true);
    expect(abort.signal.reason).toBe(FIRST);
  });

  it("races promises: what comes first, counts", async () => {
    const abort = new Abort();
    expect(await abort.race(Promise.resolve(7))).toBe(7);
    await expect(abort.race(Promise.reject(SECOND))).rejects.toBe(SECOND);
    const races = [abort.race(pending()), abort.race(pending())];
    abort.abort(FIRST);
    for (const race of races) await expect(race).rejects.toBe(FIRST);
    await expect(abort.race(Promise.resolve(7))).rejects.toBe(FIRST);
  });

  it("ends a race that another one, which began later, has not outlasted", async () => {
    const abort = new Abort();
    let reason: unknown;
    void abort.race(pending()).catch((error: unknown) => (reason = error));
    expect(await abort.race(Promise.resolve(7))).toBe(7);
    abort.abort(FIRST);
    await nextTurn();
    expect(reason).toBe(FIRST);
  });

  it("keeps nothing of the races that have ended: a long wait has many", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const abort = new Abort();
    const answers: WeakRef<object>[] = [];
    const ended = async () => {
      const answer = {};
      answers.push(new WeakRef(answer));
      await abort.race(Promise.resolve(answer));
    };
    await Promise.all([ended(), ended()]);
    await ended();
    // A WeakRef keeps its object until the turn ends.
    await nextTurn();
    collect();
    expect(answers.map((answer) => answer.deref())).toEqual([undefined, undefined, undefined]);
    expect(abort.aborted).toBe(false);
  });
});

/** A signal that counts who listens. */
function countedSignal() {
  const controller = new AbortController();
  const { signal } = controller;
  const listeners = new Set<unknown>();
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args: [never, never]) => {
    listeners.add(args[1]);
    addEventListener.apply(signal, args);
  };
  signal.removeEventListener = (...args: [never, never]) => {
    listeners.delete(args[1]);
    removeEventListener.apply(signal, args);
  };
  return { controller, signal, listeners };
}

describe("Aborting", () => {
  it("ends all calls of a signal through one listener", async () => {
    const aborting = new Aborting();
    const { controller, signal, listeners } = countedSignal();
    const calls = Array.from({ length: 3 }, () =>
      aborting.run([undefined, signal], (abort) => abort.race(pending())),
    );
    expect(listeners.size).toBe(1);
    controller.abort(FIRST);
    for (const call of calls) await expect(call).rejects.toBe(FIRST);
    await expect(aborting.run([signal], async () => 7)).rejects.toBe(FIRST);
  });

  it("listens no more when the last call of a signal has ended", async () => {
    const aborting = new Aborting();
    const { controller, signal, listeners } = countedSignal();
    const ends: (() => void)[] = [];
    const calls = Array.from({ length: 2 }, () =>
      aborting.run([signal], () => new Promise<void>((resolve) => ends.push(resolve))),
    );
    ends[0]?.();
    await calls[0];
    expect(listeners.size).toBe(1);
    // The call that has not ended is still ended by the signal.
    const third = aborting.run([signal], (abort) => abort.race(pending()));
    expect(listeners.size).toBe(1);
    ends[1]?.();
    await calls[1];
    expect(listeners.size).toBe(1);
    controller.abort(FIRST);
    await expect(third).rejects.toBe(FIRST);
    const fresh = countedSignal();
    expect(await aborting.run([fresh.signal], async () => 7)).toBe(7);
    expect(fresh.listeners.size).toBe(0);
    const failing = aborting.run([fresh.signal], () => Promise.reject(SECOND));
    await expect(failing).rejects.toBe(SECOND);
    expect(fresh.listeners.size).toBe(0);
  });

  it("follows the signal that aborts first", async () => {
    const aborting = new Aborting();
    const [one, two] = [new AbortController(), new AbortController()];
    const call = aborting.run([one.signal, two.signal], async (abort) => {
      two.abort(SECOND);
      one.abort(FIRST);
      return abort.reason;
    });
    expect(await call).toBe(SECOND);
  });
});

describe("Calls", () => {
  it("have ended when the last of them has, and not before", async () => {
    const calls = new Calls();
    const ends: (() => void)[] = [];
    const begin = () =>
      calls.run(undefined, () => new Promise<void>((resolve) => ends.push(resolve)));
    const running = [begin(), begin()];
    let haveEnded = false;
    const ended = calls.ended().then(() => (haveEnded = true));
    await nextTurn();
    expect(haveEnded).toBe(false);
    ends[0]?.();
    await running[0];
    await nextTurn();
    expect(haveEnded).toBe(false);
    ends[1]?.();
    await Promise.all(running);
    await ended;
    await calls.ended();
  });

  it("run with an abort that has aborted if the signal has", async () => {
    const calls = new Calls();
    const seen = await calls.run(AbortSignal.abort(FIRST), async ({ aborted, reason }) => [
      aborted,
      reason,
    ]);
    expect(seen).toEqual([true, FIRST]);
  });
});
