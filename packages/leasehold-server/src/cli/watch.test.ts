/** What `leasehold watch` reports, and where the store fails meanwhile. */
import { LeaseholdError, openStores, StoreUnavailableError } from "leasehold";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { directLeases } from "../../../../tests/support/worlds/direct-leases.js";
import { watchLeases } from "./watch.js";

const EVERY_MS = 1_000;
const namespace = "default";

type Call = "get" | "list" | "watch";

interface Opening {
  readonly prefix?: string;
  readonly notifies?: boolean;
  /** Resources that are held before the watch begins. */
  readonly before?: readonly string[];
  readonly failing?: readonly Call[];
}

/** A watch that polls without notifications, of a store whose next calls a test can fail. */
async function open({ prefix = "", notifies = false, before = [], failing = [] }: Opening = {}) {
  const env = manualEnv();
  const stores = await openStores("memory:", { env });
  const { leases } = stores;
  const acquire = directLeases(leases, env, namespace);
  const state = { failing: new Set(failing), error: unavailable() };
  for (const resource of before) await acquire(resource);
  const refuse = (call: Call) => {
    if (state.failing.has(call)) throw state.error;
  };
  const reported: string[] = [];
  const warned: string[] = [];
  const answers: string[] = [];
  const ended = new AbortController();
  const watching = watchLeases(
    {
      async get(keys) {
        refuse("get");
        return leases.get(keys);
      },
      async list(query) {
        refuse("list");
        return leases.list(query);
      },
      async *watch(...given) {
        refuse("watch");
        if (notifies) yield* leases.watch(...given);
      },
    },
    {
      env,
      namespace,
      prefix,
      everyMs: EVERY_MS,
      signal: ended.signal,
      report: async ({ event, lease }) => void reported.push(`${event} ${lease.resource}`),
      outage: {
        failed: (error) => void answers.push((error as Error).message),
        answered: () => void answers.push("ok"),
      },
      warn: (message) => void warned.push(message),
    },
  );
  watching.catch(() => {});
  onTestFinished(async () => {
    ended.abort();
    await watching.catch(() => {});
    await stores.close();
  });
  await env.clock.advance(0);
  return {
    env,
    acquire,
    reported,
    warned,
    answers,
    state,
    watching,
    end: () => ended.abort(),
    /** Long enough for one poll, and too short for two. */
    poll: () => env.clock.advance(1.1 * EVERY_MS),
  };
}

function unavailable(): LeaseholdError {
  return new StoreUnavailableError("the store is unavailable", { outcome: "none" });
}

test("a change of a round in which the store fails is reported by the next, once", async () => {
  const { acquire, reported, warned, answers, state, poll } = await open();
  const lease = await acquire("a");
  await poll();
  for (const call of ["get", "list"] as const) {
    reported.length = 0;
    state.failing.add(call);
    await (call === "get" ? lease.release() : acquire("b"));
    await poll();
    await poll();
    expect(reported).toEqual([]);
    state.failing.clear();
    await poll();
    await poll();
    expect(reported).toEqual([call === "get" ? "released a" : "acquired b"]);
  }
  // What says that to the user says it once: see outage.ts.
  expect(answers.filter((answer) => answer !== "ok").length).toBeGreaterThan(1);
  expect(answers.at(-1)).toBe("ok");
  expect(warned).toEqual([]);
});

test("leases of all pages are watched, of the prefix only", async () => {
  const { acquire, reported, poll } = await open({ prefix: "job/" });
  const names = Array.from({ length: 450 }, (_, n) => `job/${n}`);
  const leases = await Promise.all([...names, "other"].map((name) => acquire(name)));
  await poll();
  expect(reported.toSorted()).toEqual(names.map((name) => `acquired ${name}`).toSorted());
  reported.length = 0;
  await Promise.all(leases.map((lease) => lease.release()));
  await poll();
  expect(reported.toSorted()).toEqual(names.map((name) => `released ${name}`).toSorted());
});

test("a lease that changed its holder between two polls ends before it is acquired", async () => {
  const { acquire, reported, poll } = await open();
  await (await acquire("a")).release();
  const first = await acquire("a");
  await poll();
  await first.release();
  await acquire("a");
  await poll();
  expect(reported).toEqual(["acquired a", "ended a", "acquired a"]);
});

test("an expiry is reported as such, and a lease of before the watch as live", async () => {
  const { env, acquire, reported, poll } = await open({ before: ["a"] });
  expect(reported).toEqual(["live a"]);
  await acquire("b", { ttlMs: 500 });
  await env.clock.advance(450);
  await poll();
  await poll();
  // It began and ended between two polls.
  expect(reported).toEqual(["live a"]);
  await acquire("c", { ttlMs: 3 * EVERY_MS });
  for (let polls = 0; polls < 5; polls += 1) await poll();
  expect(reported).toEqual(["live a", "acquired c", "expired c"]);
});

test("a notification of the prefix is followed at once, and each later one", async () => {
  const { env, acquire, reported, poll } = await open({ prefix: "job/", notifies: true });
  const [first, second] = [await acquire("job/a"), await acquire("job/b")];
  await poll();
  reported.length = 0;
  for (const lease of [first, second]) {
    await lease.release();
    await env.clock.advance(1);
  }
  expect(reported).toEqual(["released job/a", "released job/b"]);
});

test("polling goes on without notifications", async () => {
  const { acquire, reported, warned, poll } = await open({ failing: ["watch"] });
  expect(warned).toHaveLength(1);
  for (const resource of ["a", "b"]) {
    await acquire(resource);
    await poll();
  }
  expect(reported).toEqual(["acquired a", "acquired b"]);
});

test("an error that no retry helps ends the watch", async () => {
  const { state, poll, watching } = await open();
  state.error = new LeaseholdError("STORE_MISCONFIGURED", "no such database", {
    retryable: false,
    outcome: "none",
  });
  state.failing.add("list");
  await poll();
  await expect(watching).rejects.toBe(state.error);
});

test("the end of the watch leaves no timer and no subscription", async () => {
  const { env, end, watching } = await open({ notifies: true });
  end();
  await watching;
  expect(env.clock.pendingTimers).toBe(0);
});
