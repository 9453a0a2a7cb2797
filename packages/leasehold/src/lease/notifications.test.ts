/** What wakes the waiters of one client, and the queue in which they stand. */
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { manualEnv } from "../testing/index.js";
import { Abort } from "./aborting.js";
import type { LeaseStore, WatchEvent } from "./port.js";
import { LocalQueue, Notifications, Wakeup } from "./waiter.js";

/** A store whose events the test sends. */
function watched() {
  const warned: [message: string, fields: object][] = [];
  const warn = (fields: object, message: string) => void warned.push([message, fields]);
  const env = manualEnv({ logger: { debug() {}, info() {}, error() {}, warn } });
  const watches: {
    signal: AbortSignal;
    send(event: WatchEvent): void;
    fail(error: Error): void;
  }[] = [];
  async function* watch(_namespace: string, { signal }: { signal: AbortSignal }) {
    const events: WatchEvent[] = [];
    let wake = () => {};
    let failure: Error | undefined;
    watches.push({
      signal,
      send: (event) => {
        events.push(event);
        wake();
      },
      fail: (error) => {
        failure = error;
        wake();
      },
    });
    for (;;) {
      if (failure) throw failure;
      const event = events.shift();
      if (event) yield event;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  }
  const store = { watch } as unknown as LeaseStore;
  return { clock: env.clock, warned, watches, notifications: new Notifications(store, "n", env) };
}
const changed = (resource: string, wakes?: string) =>
  ({ type: "changed", resource, ...(wakes && { wakes }) }) as WatchEvent;

describe("the notifications of a client", () => {
  it("reach the waiters for their resource alone, a resync all of them", async () => {
    const { clock, watches, notifications } = watched();
    const seen: string[] = [];
    const subscribe = (name: string, resource: string) =>
      notifications.subscribe(resource, (wakes) => seen.push(`${name} ${wakes}`));
    subscribe("a", "r");
    subscribe("b", "r");
    subscribe("c", "s");
    await clock.settle();
    expect(watches).toHaveLength(1);
    watches[0]?.send(changed("r", "x"));
    await clock.settle();
    expect(seen.splice(0)).toEqual(["a x", "b x"]);
    watches[0]?.send({ type: "resync" });
    await clock.settle();
    expect(seen.splice(0)).toEqual(["a undefined", "b undefined", "c undefined"]);
  });

  it("end with the last waiter, and begin again with the next", async () => {
    const { clock, watches, notifications } = watched();
    const seen: string[] = [];
    const subscribe = (name: string, resource: string) =>
      notifications.subscribe(resource, () => seen.push(name));
    const leaves = [subscribe("a", "r"), subscribe("b", "r"), subscribe("c", "s")];
    await clock.settle();
    leaves[0]?.();
    leaves[2]?.();
    notifications.changed("r");
    notifications.changed("s");
    expect(seen.splice(0)).toEqual(["b"]);
    expect(watches[0]?.signal.aborted).toBe(false);
    leaves[1]?.();
    expect(watches[0]?.signal.aborted).toBe(true);
    subscribe("d", "r");
    await clock.settle();
    expect(watches).toHaveLength(2);
    // A waiter that has left already leaves no other one behind.
    leaves[1]?.();
    expect(watches[1]?.signal.aborted).toBe(false);
    notifications.changed("r");
    expect(seen).toEqual(["d"]);
  });

  it("begin anew when they break, which is logged, but not for a client that waits no more", async () => {
    const { clock, warned, watches, notifications } = watched();
    const leave = notifications.subscribe("r", () => {});
    await clock.settle();
    const err = new Error("broken");
    watches[0]?.fail(err);
    await clock.settle();
    expect(warned).toEqual([["watch broke; subscribing again", { err }]]);
    expect(watches).toHaveLength(1);
    await clock.advance(2_000);
    expect(watches).toHaveLength(2);
    leave();
    watches[1]?.fail(err);
    await clock.advance(10_000);
    expect(watches).toHaveLength(2);
    expect(warned).toHaveLength(1);
  });

  it("come from one watch alone if the next waiter comes while a broken one pauses", async () => {
    const { clock, watches, notifications } = watched();
    let notified = 0;
    const subscribe = () => notifications.subscribe("r", () => (notified += 1));
    const leave = subscribe();
    await clock.settle();
    watches[0]?.fail(new Error("broken"));
    await clock.settle();
    leave();
    subscribe();
    await clock.advance(10_000);
    expect(watches).toHaveLength(2);
    watches[1]?.send(changed("r"));
    await clock.settle();
    expect(notified).toBe(1);
  });
});

describe("a wakeup", () => {
  it("waits until it is set or the time is over, and leaves nothing behind", async () => {
    const env = manualEnv();
    const wakeup = new Wakeup();
    const { signal } = new AbortController();
    let waits = 0;
    const wait = () => void wakeup.wait(env, 100, signal).then(() => (waits += 1));
    wait();
    await env.clock.advance(99);
    expect(waits).toBe(0);
    await env.clock.advance(1);
    expect(waits).toBe(1);
    wait();
    wakeup.set();
    await env.clock.settle();
    expect(waits).toBe(2);
    // Set while no one waits, it is seen by the next wait, and by that one alone.
    wakeup.set();
    wait();
    await env.clock.settle();
    expect(waits).toBe(3);
    wait();
    await env.clock.settle();
    expect(waits).toBe(3);
    await env.clock.advance(100);
    expect(env.clock.pendingTimers).toBe(0);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("rejects with the reason of the signal, at once", async () => {
    const env = manualEnv();
    const abort = new AbortController();
    const waiting = expect(new Wakeup().wait(env, 100, abort.signal)).rejects.toBe("bye");
    abort.abort("bye");
    await waiting;
    expect(env.clock.pendingTimers).toBe(0);
  });
});

it("a local queue listens to no signal of a caller that has become its head, or that has failed", async () => {
  const queue = new LocalQueue();
  const [head, served, failed] = [new Abort(), new Abort(), new Abort()];
  await queue.enter("r", head, true);
  const turn = queue.enter("r", served, true);
  const failure = expect(queue.enter("r", failed, false)).rejects.toBe("down");
  expect(queue.isBusy("r")).toBe(true);
  queue.fail("r", "down");
  queue.leave("r");
  await Promise.all([turn, failure]);
  for (const { signal } of [served, failed]) expect(getEventListeners(signal, "abort")).toEqual([]);
  queue.leave("r");
  expect(queue.isBusy("r")).toBe(false);
});
