/**
 * The checkers of the simulation, fed by hand: each property is violated alone, as little as can be, and must
 * be reported alone. What is nearly the same and legal must pass.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { LeaseRecord } from "leasehold/internal";
import { describe, expect, it, vi } from "vitest";
import { differs } from "../campaign.js";
import { Machine } from "../machine.js";
import { Network } from "../network.js";
import type { Step } from "../observed.js";
import { Register } from "../register.js";
import { type RunResult, run } from "../simulation.js";
import { World } from "../world.js";
import { Expiries } from "./expiries.js";
import { FenceChecker } from "./fence.js";
import type { TrustRules } from "./grants.js";
import {
  type Course,
  type Example,
  type Found,
  GRANTS,
  KEY,
  recordOf,
  Store,
} from "./grants-examples.js";
import { KEYS } from "./keys-examples.js";
import { LeaderChecker } from "./leaders.js";
import { ONCE } from "./once-examples.js";
import { idleMachines, idleWork, lateWaiters, unevenShards } from "./rest.js";
import { SCHEDULES } from "./schedules-examples.js";
import { TaskChecker } from "./tasks.js";
import { VERSIONS } from "./versions-examples.js";
import { WorkChecker } from "./work.js";

const task = (counts: object, { accepted = ["t"], enqueued = 1, lost = false } = {}): Course => {
  return (world) => {
    const checker = new TaskChecker(world);
    for (const id of accepted) checker.accepted.add(id);
    checker.enqueued = enqueued;
    return checker.unsettled({ done: 1, dead: 0, ...counts }, async () => !lost);
  };
};
const leads = (act: (checker: LeaderChecker, world: World) => unknown): Course => {
  return async (world) => void (await act(new LeaderChecker(world, 1_000), world));
};
const deaths = (count: number, machines = 2): Course => {
  return (world) => {
    const checker = new LeaderChecker(world, 1_000);
    for (let at = 0; at < count; at += 1) checker.died();
    return checker.unsettled(machines);
  };
};
const works = (act: (checker: WorkChecker) => unknown): Course => {
  return (world) => void act(new WorkChecker(world));
};
const waits = (sinceMs: number, nowMs: number): Course => {
  return () => lateWaiters([["ann", sinceMs]], { healedAtMs: 1_000, nowMs, ttlMs: 100 });
};
const answers = (serve: () => Promise<string>): Course => {
  return async (world) => {
    const [client, server] = [new Machine(world, "client"), new Machine(world, "server")];
    const from = client.start();
    server.start();
    void new Network(world).call(from, server, serve);
    await world.runUntil(1_000);
    return undefined;
  };
};
const IDLE = { onStep() {}, start() {}, revoke() {}, onHealed() {}, figures: () => ({}) };
const rests = (unsettled: Found): Course => {
  return async (world) => {
    const scenario = {
      name: "none",
      servers: 0,
      set: () => ({ ...IDLE, unsettled: () => unsettled }),
    };
    const { violation } = (await run({ seed: 1, scenario })).world;
    if (violation) world.violate(violation.property, violation.what);
    return undefined;
  };
};

/** A run without a story. */
const runOf = (seed: number) => ({ world: new World(seed) }) as RunResult;
const repeats = (seed: number, first?: RunResult): Course => {
  return async () => {
    const unsettled: Found = [];
    const scenario = {
      name: "none",
      servers: 0,
      set: () => ({ ...IDLE, unsettled: () => unsettled }),
    };
    const result = first ?? (await run({ seed, scenario }));
    const violation = await differs(result, seed, scenario);
    return violation ? [violation] : [];
  };
};

const OTHERS: readonly Example[] = [
  {
    property: "a seed repeats itself",
    when: "its second run takes another course",
    wrong: repeats(150, runOf(1)),
    right: repeats(150),
  },
  {
    property: "a seed repeats itself",
    when: "it is one of those that run twice",
    wrong: repeats(150, runOf(1)),
    right: repeats(151, runOf(1)),
  },
  {
    property: "fenced resource",
    when: "the fence lets an older token pass",
    wrong: (world) => {
      const fence = new FenceChecker(world, "r", new Register(world, "r", false));
      for (const token of [1, 3, 2]) fence.write(token);
      return undefined;
    },
    right: (world) => {
      const fence = new FenceChecker(world, "r");
      for (const token of [1, 3, 3, 2]) fence.write(token);
      expect(fence).toMatchObject({ stale: 1, unfenced: 1 });
      return undefined;
    },
  },
  {
    property: "a node's work never overlaps itself",
    when: "it begins again before its end",
    wrong: works((checker) => [checker.begin("ann"), checker.begin("ann")]),
    right: works((checker) => [checker.begin("ann"), checker.end("ann"), checker.begin("ann")]),
  },
  {
    property: "a node's work never overlaps itself",
    when: "it is the same node",
    wrong: works((checker) => [checker.begin("ann"), checker.begin("ann")]),
    right: works((checker) => [checker.begin("ann"), checker.begin("bob")]),
  },
  {
    property: "nothing is stopped that has not begun",
    when: "work begins after the end of its lease",
    wrong: works((checker) => checker.begin("ann", AbortSignal.abort())),
    right: works((checker) => checker.begin("ann", new AbortController().signal)),
  },
  {
    property: "tokens never go back",
    when: "one observer sees a smaller one",
    wrong: leads((checker) => [1, 2, 1].forEach(checker.observer())),
    right: leads((checker) => {
      [null, 1, 2, 2].forEach(checker.observer());
      checker.observer()(1);
    }),
  },
  {
    property: "tokens never go back",
    when: "an observer sees none after one",
    wrong: leads((checker) => [1, null].forEach(checker.observer())),
    right: leads((checker) => [null, null, 1].forEach(checker.observer())),
  },
  {
    property: "a leader within ttl and epsilon of a death",
    when: "the vacancy ends too late",
    wrong: leads(async (checker, world) => {
      checker.died();
      await world.runUntil(4_001);
      checker.led();
    }),
    right: leads(async (checker, world) => {
      checker.died();
      await world.runUntil(3_999);
      checker.led();
      await world.runUntil(4_001);
    }),
  },
  {
    property: "a leader within ttl and epsilon of a death",
    when: "it is of the last death",
    wrong: leads(async (checker, world) => {
      checker.died();
      await world.runUntil(3_000);
      checker.died();
      await world.runUntil(7_001);
    }),
    right: leads(async (checker, world) => {
      checker.died();
      await world.runUntil(3_000);
      checker.died();
      await world.runUntil(6_999);
    }),
  },
  { property: "liveness", when: "leaders are few", wrong: deaths(1), right: deaths(2) },
  { property: "liveness", when: "there are others", wrong: deaths(0, 2), right: deaths(0, 1) },
  {
    property: "a task completes once",
    when: "its completion is applied twice",
    wrong: (world) => {
      const checker = new TaskChecker(world);
      checker.completed("t", 1);
      checker.completed("t", 2);
      return undefined;
    },
    right: (world) => {
      const checker = new TaskChecker(world);
      checker.completed("t", 1);
      checker.completed("u", 1);
      return undefined;
    },
  },
  { property: "liveness", when: "a task is not done", wrong: task({ dead: 1 }), right: task({}) },
  {
    property: "no lost task",
    when: "an accepted one is gone",
    wrong: task({}, { lost: true }),
    right: task({}),
  },
  {
    property: "no lost task",
    when: "fewer are done than were accepted",
    wrong: task({ done: 1 }, { accepted: ["t", "u"], enqueued: 2 }),
    right: task({ done: 2 }, { accepted: ["t", "u"], enqueued: 2 }),
  },
  {
    property: "no lost task",
    when: "more are done than were enqueued, answered or not",
    wrong: task({ done: 3 }, { enqueued: 2 }),
    right: task({ done: 2 }, { enqueued: 2 }),
  },
  {
    property: "waiters",
    when: "one waits since before the healing",
    wrong: waits(1_000, 1_100),
    right: waits(1_001, 1_100),
  },
  {
    property: "waiters",
    when: "one waits for too long",
    wrong: waits(1_500, 4_000),
    right: waits(1_500, 3_999),
  },
  {
    property: "liveness",
    when: "a machine does not work",
    wrong: () => idleMachines([{ name: "ann" }, { name: "bob" }], new Map([["bob", 1]])),
    right: () => idleMachines([{ name: "bob" }], new Map([["bob", 1]])),
  },
  {
    property: "liveness",
    when: "the work does not go on",
    wrong: () => idleWork(49),
    right: () => idleWork(50),
  },
  {
    property: "liveness",
    when: "a shard has no holder",
    wrong: () => unevenShards([[0], []], 2),
    right: () => unevenShards([[0], []], 1),
  },
  {
    property: "liveness",
    when: "a shard has two holders",
    wrong: () => unevenShards([[0], [1, 0]], 2),
    right: () => unevenShards([[1], [2, 0]], 3),
  },
  {
    property: "shards are even",
    when: "one has two more",
    wrong: () => unevenShards([[0, 1], []], 2),
    right: () => unevenShards([[0, 1], [2]], 3),
  },
  {
    property: "a store answers",
    when: "it throws",
    wrong: answers(() => Promise.reject(new Error("a bug"))),
    right: answers(() => Promise.resolve("failed")),
  },
  {
    property: "liveness",
    when: "the world does not come to rest",
    wrong: rests([{ property: "liveness", what: "stuck" }]),
    right: rests([]),
  },
];
const EXAMPLES = [...GRANTS, ...ONCE, ...SCHEDULES, ...KEYS, ...VERSIONS, ...OTHERS];

async function reported(course: Course): Promise<string[]> {
  const world = new World(1);
  const violate = vi.spyOn(world, "violate");
  const unsettled = (await course(world)) ?? [];
  return [
    ...violate.mock.calls.map(([property]) => property),
    ...unsettled.map((one) => one.property),
  ];
}

describe("the simulation reports", () => {
  // In full: the fields of an object are cut short in names.
  const named = EXAMPLES.map((one) => [`${one.property}: when ${one.when}`, one] as const);
  it.each(named)("%s, alone", async (_, { property, wrong }) => {
    expect(await reported(wrong)).toEqual([property]);
  });
  it.each(named)("nothing near %s", async (_, { right }) => {
    expect(await reported(right)).toEqual([]);
  });

  it("each property that its source names, and all of them are violated here", () => {
    const folder = new URL("../", import.meta.url);
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
    const named = files
      .filter((file) => /(?<!test|examples)\.ts$/.test(file))
      .map((file) => readFileSync(new URL(file, folder), "utf8"))
      .flatMap((source) => [...source.matchAll(/(?:[#.]violate\(|property:)\s*"([^"]+)"/g)])
      .map(([, property]) => property);
    const violated = new Set(EXAMPLES.map(({ property }) => property));
    expect([...violated].sort()).toEqual([...new Set(named)].sort());
  });
});

describe("the simulation counts", () => {
  const stepOf = (before: Partial<LeaseRecord> | null, storeMs: number) =>
    ({ ...KEY, before: before && { ...recordOf("A", 1, 100), ...before }, storeMs }) as Step;

  it("each grant that expired, once, and none that was ended or is live", () => {
    const expiries = new Expiries();
    for (const step of [stepOf(null, 0), stepOf({}, 99), stepOf({ ended: "released" }, 100)]) {
      expiries.step(step);
    }
    expect(expiries.count).toBe(0);
    for (const step of [stepOf({}, 100), stepOf({}, 101)]) expiries.step(step);
    expect(expiries.count).toBe(1);
    expiries.step(stepOf({ token: 2, expiresAtMs: 200 }, 200));
    expect(expiries.count).toBe(2);
  });

  it("an overlap of trust that wrong clocks explain, and none that an operator does", () => {
    const overlaps = (rules: Partial<TrustRules>, freeMs: number) => {
      const store = new Store(new World(1), rules);
      store.acquired(0, "A", 1, 100).holds("A", { remainingMs: 1 });
      store.revoked(50, freeMs).acquired(100, "B", 2, 200);
      return store.checker.overlaps;
    };
    expect([overlaps({ clocksBounded: false }, 100), overlaps({}, 50)]).toEqual([1, 0]);
  });
});
