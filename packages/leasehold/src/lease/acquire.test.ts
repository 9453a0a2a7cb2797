/** Many clients that wait for one resource, each on its own, on the memory store. */
import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { repetitions } from "../../../../tests/support/runner/full.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import type { AcquireRequest, CallOptions, LeaseStore } from "./port.js";

const TTL_MS = 30_000;
/** What it takes grows with the square of their number. */
const CROWD = repetitions({ usual: 150, full: 300 });
const CROWD_WITH_DEAD = repetitions({ usual: 300, full: 450 });
const HELD_MS = 5;

/** Many waiters for "r", queued in the order of their numbers behind its holder. */
async function crowd(size: number) {
  const env = manualEnv();
  const store = faultyStore(env);
  const calls = { acquire: 0 };
  const dead = new Set<number>();
  const granted: number[] = [];
  const done: Promise<unknown>[] = [];
  const holder = new LeaseClient(store, { env, holder: "first" }, { close: undefined });
  const held = await holder.acquire("r", { ttlMs: TTL_MS });
  for (let number = 0; number < size; number += 1) {
    // A dead client neither sends requests nor receives notifications.
    const counted: LeaseStore = Object.assign(Object.create(store) as LeaseStore, {
      acquire(requests: readonly AcquireRequest[], options?: CallOptions) {
        if (dead.has(number)) return new Promise(() => {});
        calls.acquire += 1;
        return store.acquire(requests, options);
      },
      async *watch(namespace: string, options: { signal: AbortSignal }) {
        for await (const event of store.watch(namespace, options)) {
          if (!dead.has(number)) yield event;
        }
      },
    });
    const leases = new LeaseClient(counted, { env, holder: `n${number}` }, { close: undefined });
    done.push(
      leases.run("r", { ttlMs: TTL_MS }, async () => {
        granted.push(number);
        await new Promise((resolve) => env.clock.timer(HELD_MS, () => resolve(null)));
      }),
    );
    await env.clock.settle();
  }
  await env.clock.advance(1_000);
  return { clock: env.clock, calls, dead, granted, done, held };
}

/** How many waiters were overtaken by a later one. */
function overtaken(granted: readonly number[]): number {
  let last = -1;
  let count = 0;
  for (const number of granted) {
    if (number < last) count += 1;
    last = Math.max(last, number);
  }
  return count;
}

describe("a long wait queue", () => {
  it("is served in order with one attempt per handover, whatever its length", async () => {
    const asked: number[] = [];
    for (const size of [10, CROWD]) {
      const { clock, calls, granted, done, held } = await crowd(size);
      calls.acquire = 0;
      await held.release();
      for (let served = 0; served < size; served += 1) await clock.advance(HELD_MS);
      await Promise.all(done);
      expect(granted).toEqual(Array.from({ length: size }, (_, number) => number));
      asked.push(calls.acquire / size);
    }
    expect(asked[0]).toBe(1);
    expect(asked[1]).toBeLessThan(1.2);
  });

  it("passes over the dead, and hardly any of the living", { timeout: 600_000 }, async () => {
    const size = CROWD_WITH_DEAD;
    const { clock, dead, granted, done, held } = await crowd(size);
    for (let number = 0; number < size; number += 1) if (number % 10 < 3) dead.add(number);
    await held.release();
    const living = size - dead.size;
    let seconds = 0;
    for (; granted.length < living && seconds < 120; seconds += 1) await clock.advance(1_000);
    await clock.advance(HELD_MS);
    await Promise.all(done.filter((_, number) => !dead.has(number)));
    expect(granted.length).toBe(living);
    // The store cannot tell a dead waiter from a late one, so a late one may be overtaken.
    console.info(
      `${overtaken(granted)} of ${living} living waiters were overtaken, in ${seconds} s`,
    );
    expect(overtaken(granted)).toBeLessThan(0.05 * living);
  });
});
