/** The suites on a machine that is slow: every call of the store takes longer than a short TTL. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import {
  exerciseLeaseStore,
  exerciseTaskStore,
  manualEnv,
  type TestFramework,
} from "../../packages/leasehold/src/testing/index.js";

const CALL_MS = 400;
/** The tests that try again with a longer TTL when the machine was too slow for the first one. */
const TRIES_AGAIN = new Set([
  "leaves a task alone until it is due",
  "keeps a task alive as long as heartbeats come in time",
  "does not bring back a task that was finished in time",
  "answers `ended` to a repeated request after a revoke at expiry",
  "extends a grant",
  "goes by lease id: a stranger's renewal is refused and leaves the grant alone",
  "of a repeated acquire shows in what it answers",
]);
const vitest: TestFramework = {
  afterAll,
  beforeAll,
  expect,
  // Sections without such a test are no empty suites.
  describe: (_, body) => body(),
  it: (name, body, timeoutMs) =>
    TRIES_AGAIN.has(name) && it(name, (context) => body(context), timeoutMs),
};

/** The same store; the clock advances at each call. */
function slowed<Store extends object>(store: Store, advance: (ms: number) => Promise<void>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function" || name === "watch") return value;
      return async (...args: unknown[]) => {
        await advance(CALL_MS);
        return (value as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

async function open() {
  const env = manualEnv({ seed: 12 });
  const stores = await memory().open(env);
  const advance = (ms: number) => env.clock.advance(ms);
  return { stores, advance, close: () => stores.close() };
}

describe("tasks", () =>
  exerciseTaskStore({
    name: "memory on a slow machine",
    vitest,
    async open() {
      const { stores, advance, close } = await open();
      if (!stores.tasks) throw new Error("no task store");
      return { store: slowed(stores.tasks, advance), advance, close };
    },
  }));

describe("leases", () =>
  exerciseLeaseStore({
    name: "memory on a slow machine",
    vitest,
    async open() {
      const { stores, advance, close } = await open();
      return { store: slowed(stores.leases, advance), advance, close };
    },
  }));
