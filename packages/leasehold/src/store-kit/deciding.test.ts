/** What becomes of a batch when the engine fails, and when others change its keys. */
import { expect, it } from "vitest";
import type { AcquireOutcome, AcquireRequest, Failed, LeaseRecord } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import {
  type Change,
  EMPTY_QUEUE,
  type Engine,
  type Lean,
  type Loaded,
  operationsOn,
} from "./index.js";

const namespace = "n";
const request = (resource: string, leaseId = `lease of ${resource}`) => ({
  namespace,
  resource,
  leaseId,
  holder: `holder of ${leaseId}`,
  ttlMs: 1_000,
});
const FREE: Loaded<number> = {
  record: null,
  version: 1,
  isPaused: false,
  leastToken: 1,
  queue: EMPTY_QUEUE,
};
const held = (leaseId: string, expiresAtMs = 500): Loaded<number> => {
  const record: LeaseRecord = {
    leaseId,
    holder: "other",
    token: 7,
    ttlMs: 1_000,
    grantedAtMs: 0,
    renewedAtMs: null,
    expiresAtMs,
    ended: null,
    metadata: null,
  };
  return { ...FREE, record };
};

/** @param of what is loaded of each resource; default: nothing */
function open(of: Readonly<Record<string, Loaded<number>>> = {}) {
  const env = manualEnv();
  const log: string[] = [];
  const saves: (readonly Change<number>[])[] = [];
  const engine: Engine<number> = {
    async load(keys) {
      log.push(`load ${keys.map(({ resource }) => resource).join(" ")}`);
      return { nowMs: 0, keys: keys.map(({ resource }) => of[resource] ?? FREE) };
    },
    async save(changes) {
      log.push(`save ${changes.map(({ resource }) => resource).join(" ")}`);
      saves.push(changes);
      return changes.map(() => true);
    },
    failed: (error): Failed => ({
      status: "failed",
      applied: "maybe",
      retryable: true,
      error: error as Failed["error"],
    }),
  };
  return { env, log, saves, engine, operations: operationsOn(engine, { clock: env.clock }) };
}

const failing = (what: string) => async () => {
  throw new Error(what);
};

it("writes nothing for refusals, and answers them from one load", async () => {
  const { log, operations } = open({ a: held("other") });
  const outcomes = await operations.acquire([request("a"), request("a", "second")]);
  expect(outcomes).toMatchObject([{ status: "held" }, { status: "held" }]);
  expect(await operations.renew([request("a")])).toEqual([{ status: "lost", reason: "taken" }]);
  expect(log).toEqual(["load a", "load a"]);
});

it("names no grant and no end of another program's lock", async () => {
  const { operations } = open({ a: held("", Number.POSITIVE_INFINITY) });
  const outcomes = await operations.acquire([request("a"), { ...request("a"), queueMs: 100 }]);
  const refused = { status: "held", holder: "other", grantId: null, remainingMs: null };
  expect(outcomes).toEqual([refused, { ...refused, ahead: 0 }]);
});

it("decides all requests for a key on one load, in order", async () => {
  const { log, operations } = open();
  const outcomes = await operations.acquire([
    request("a"),
    request("b"),
    request("a", "second"),
    request("a"),
  ]);
  expect(outcomes).toMatchObject([
    { status: "acquired", token: 1 },
    { status: "acquired", token: 1 },
    { status: "held", holder: "holder of lease of a" },
    { status: "acquired", token: 1 },
  ]);
  expect(log).toEqual(["load a b", "save a b"]);
});

it("says that nothing was applied when a load fails", async () => {
  const { engine, operations } = open();
  engine.load = failing("no connection");
  expect(await operations.acquire([request("a")])).toMatchObject([
    { status: "failed", applied: "no", error: { message: "no connection" } },
  ]);
});

it("does not know what was applied when a save fails, but for the keys that it was not to change", async () => {
  const { engine, operations } = open({ b: held("other") });
  engine.save = failing("no answer");
  expect(await operations.acquire([request("a"), request("b")])).toMatchObject([
    { status: "failed", applied: "maybe" },
    { status: "held", holder: "other" },
  ]);
});

it("fails one key alone where the engine could not load or save it, and decides the others", async () => {
  const { engine, operations } = open({ taken: held("other") });
  const { load, save } = engine;
  const failed = { ...engine.failed(new Error("of another type")), applied: "no" } as const;
  engine.load = async (keys, ...more) => {
    const loaded = await load(keys, ...more);
    const isBad = (at: number) => keys[at]?.resource === "bad";
    return { ...loaded, keys: loaded.keys.map((key, at) => (isBad(at) ? failed : key)) };
  };
  engine.save = async (changes, ...more) => {
    const saved = await save(changes, ...more);
    return saved.map((isSaved, at) => (changes[at]?.resource === "taken" ? failed : isSaved));
  };
  const requests = [request("bad"), request("a"), { ...request("taken"), queueMs: 1_000 }];
  expect(await operations.acquire(requests)).toMatchObject([
    { status: "failed", applied: "no", error: { message: "of another type" } },
    { status: "acquired" },
    { status: "failed", applied: "no", error: { message: "of another type" } },
  ]);
});

it("decides anew what others have changed, and leaves the rest", async () => {
  const { engine, log, operations } = open();
  const { save } = engine;
  let saves = 0;
  engine.save = async (changes, ...more) => {
    await save(changes, ...more);
    saves += 1;
    return changes.map(({ resource }) => resource === "b" || saves > 1);
  };
  const outcomes = await operations.acquire([request("a"), request("b")]);
  expect(outcomes).toMatchObject([{ status: "acquired" }, { status: "acquired" }]);
  expect(log).toEqual(["load a b", "save a b", "load a", "save a"]);
});

it("gives up when others change a key again and again", async () => {
  const { env, engine, log, operations } = open();
  engine.save = async (changes) => changes.map(() => false);
  const acquiring = operations.acquire([request("a")]);
  await env.clock.advance(100);
  expect(await acquiring).toMatchObject([{ status: "failed", applied: "no", retryable: true }]);
  expect(log).toHaveLength(6);
});

it("saves nothing once its time is over", async () => {
  const { env, engine, log, operations } = open({ taken: held("other") });
  const { load } = engine;
  engine.load = async (...call) => {
    const loaded = await load(...call);
    await env.clock.advance(1_000);
    return loaded;
  };
  const requests = [request("a"), request("taken")];
  expect(await operations.acquire(requests, { timeoutMs: 1_000 })).toMatchObject([
    { status: "failed", applied: "no", retryable: true },
    { status: "held" },
  ]);
  expect(log).toEqual(["load a taken"]);
});

it("does not say that nothing was applied once a waiter has joined", async () => {
  const { env, engine, operations } = open({ taken: held("other") });
  const { load } = engine;
  let loads = 0;
  engine.load = async (...call) => {
    loads += 1;
    if (loads > 1) throw new Error("no connection");
    return load(...call);
  };
  engine.save = async (changes) => changes.map(() => false);
  const waiting = [{ ...request("taken"), queueMs: 1_000 }];
  expect(await operations.acquire(waiting)).toMatchObject([{ status: "failed", applied: "maybe" }]);
  engine.load = load;
  const acquiring = operations.acquire([...waiting, request("a")]);
  await env.clock.advance(100);
  // It has its position, so the refusal is its answer in the end.
  expect(await acquiring).toMatchObject([
    { status: "held", ahead: 0 },
    { status: "failed", applied: "no", error: { outcome: "none" } },
  ]);
});

/** Operations with a lean statement that decides and loads what is given for each resource. */
function openLean(
  knows: Readonly<
    Record<string, { outcome?: AcquireOutcome; loaded?: Loaded<number>; joined?: boolean }>
  >,
  of?: Readonly<Record<string, Loaded<number>>>,
) {
  const opened = open(of);
  const { env, engine, log } = opened;
  const acquire: Lean<AcquireRequest, AcquireOutcome, number> = async (requests) => {
    log.push(`lean ${requests.map(({ resource }) => resource).join(" ")}`);
    const known = requests.map(({ resource }) => knows[resource] ?? {});
    return {
      nowMs: 0,
      outcomes: known.map(({ outcome = null }) => outcome),
      loaded: known.map(({ loaded = null }) => loaded),
      joined: known.map(({ joined = false }) => joined),
    };
  };
  const lean = { acquire: () => acquire, renew: null, release: null };
  return { ...opened, operations: operationsOn(engine, { clock: env.clock }, lean) };
}
const GRANTED: AcquireOutcome = {
  status: "acquired",
  token: 3,
  ttlMs: 1_000,
  remainingMs: 1_000,
  expiresAt: "",
};

it("takes the answers of a lean statement, and decides on what it has loaded", async () => {
  const { log, operations } = openLean({ a: { outcome: GRANTED }, b: { loaded: held("other") } });
  expect(await operations.acquire([request("b"), request("a")])).toMatchObject([
    { status: "held", holder: "other" },
    { status: "acquired", token: 3 },
  ]);
  expect(log).toEqual(["lean b a"]);
});

it("loads what a lean statement has left, unless it has loaded all of that", async () => {
  const { log, operations } = openLean(
    { a: { loaded: held("other") }, c: { outcome: GRANTED } },
    { a: held("other") },
  );
  const outcomes = await operations.acquire([request("a"), request("b"), request("c")]);
  expect(outcomes.map(({ status }) => status)).toEqual(["held", "acquired", "acquired"]);
  expect(log).toEqual(["lean a b c", "load a b", "save b"]);
});

it("asks a lean statement again where another client has changed the key, and not for the queue", async () => {
  const { log, engine, operations } = openLean({ a: { loaded: FREE } });
  const { save } = engine;
  let saves = 0;
  engine.save = async (...call) => {
    saves += 1;
    return saves === 1 ? [false] : save(...call);
  };
  expect(await operations.acquire([request("a")])).toMatchObject([{ status: "acquired" }]);
  expect(log).toEqual(["lean a", "lean a", "save a"]);

  const queued = openLean({ a: { loaded: { ...FREE, queue: null } } });
  expect(await queued.operations.acquire([request("a")])).toMatchObject([{ status: "acquired" }]);
  expect(queued.log).toEqual(["lean a", "load a", "save a"]);
});

it("has no lean statement for several requests of a key", async () => {
  const { log, operations } = openLean({ a: { outcome: GRANTED } });
  await operations.acquire([request("a"), request("a", "second")]);
  await operations.acquire([]);
  expect(log).toEqual(["load a", "save a"]);
});

it("does not know what became of requests whose lean statement failed", async () => {
  const { engine, env } = open();
  const acquire = failing("no answer");
  const lean = { acquire: () => acquire, renew: null, release: null };
  const operations = operationsOn(engine, { clock: env.clock }, lean);
  expect(await operations.acquire([request("a")])).toMatchObject([
    { status: "failed", applied: "maybe" },
  ]);
});

it("does not save a waiter that a lean statement has added, and removes it where the request is granted", async () => {
  const waiting = { ...request("a"), queueMs: 1_000 };
  const refused = openLean({ a: { loaded: held("other"), joined: true } });
  expect(await refused.operations.acquire([waiting])).toMatchObject([{ status: "held", ahead: 0 }]);
  expect(refused.log).toEqual(["lean a"]);

  // It was free, and locked by another client.
  const queue = { count: 2, firstHolder: "first", positions: new Map() };
  const record = { ...(held("other").record as LeaseRecord), expiresAtMs: -5_000 };
  const free = openLean({ a: { loaded: { ...FREE, record, queue }, joined: true } });
  expect(await free.operations.acquire([waiting])).toMatchObject([{ status: "acquired" }]);
  expect(free.saves).toMatchObject([[{ joins: [], served: null, withdrawn: [waiting.leaseId] }]]);
});

it("says that a request may have joined by a lean statement, whatever fails afterwards", async () => {
  const { engine, operations } = openLean({ a: { joined: true } });
  engine.load = failing("no connection");
  expect(await operations.acquire([{ ...request("a"), queueMs: 1_000 }])).toMatchObject([
    { status: "failed", applied: "maybe" },
  ]);
});

it("gives the rest of its time to each call of the engine", async () => {
  const { env, engine, operations } = open();
  const times: number[] = [];
  const { load, save } = engine;
  engine.load = async (keys, needsQueue, timeoutMs) => {
    times.push(timeoutMs);
    const loaded = load(keys, needsQueue, timeoutMs);
    await env.clock.advance(300);
    return loaded;
  };
  engine.save = (changes, nowMs, timeoutMs) => {
    times.push(timeoutMs);
    return save(changes, nowMs, timeoutMs);
  };
  await operations.acquire([request("a")], { timeoutMs: 1_000 });
  expect(times).toEqual([1_000, 700]);
});

it("confirms a grant that it has read, and none that it has written", async () => {
  const { engine, log, operations } = open({ mine: held("lease of mine") });
  engine.confirm = async () => void log.push("confirm");
  await operations.acquire([request("a")]);
  expect(log).toEqual(["load a", "save a"]);
  expect(await operations.acquire([request("mine"), request("b")])).toMatchObject([
    { status: "acquired", token: 7 },
    { status: "acquired", token: 1 },
  ]);
  expect(log.slice(2)).toEqual(["load mine b", "save b", "confirm"]);
  engine.confirm = failing("the standby does not answer");
  expect(await operations.acquire([request("mine"), request("b")])).toMatchObject([
    { status: "failed", applied: "maybe" },
    { status: "acquired" },
  ]);
});

it("loads the queue only when it is needed", async () => {
  const { engine, operations } = open({ free: { ...FREE, queue: null }, taken: held("other") });
  const asked: boolean[] = [];
  const { load } = engine;
  engine.load = async (keys, needsQueue, ...more) => {
    asked.push(needsQueue);
    const loaded = await load(keys, needsQueue, ...more);
    return needsQueue
      ? { ...loaded, keys: loaded.keys.map((key) => ({ ...key, queue: EMPTY_QUEUE })) }
      : loaded;
  };
  await operations.acquire([request("taken")]);
  expect(asked.splice(0)).toEqual([false]);
  expect(await operations.acquire([request("free")])).toMatchObject([{ status: "acquired" }]);
  expect(asked.splice(0)).toEqual([false, true]);
  await operations.acquire([{ ...request("taken"), queueMs: 1_000 }]);
  expect(asked.splice(0)).toEqual([true]);
  await operations.renew([request("taken")]);
  await operations.release([request("taken")]);
  expect(asked).toEqual([false, true]);
});

it("decides in order also where a request needs the next load", async () => {
  const { engine, operations } = open();
  const { record } = held("lease of taken");
  const loads = [
    // The first request is of this grant, and needs the queue; the second one is refused without it.
    { nowMs: 0, keys: [{ ...FREE, record, queue: null }] },
    { nowMs: 600, keys: [FREE] },
  ];
  engine.load = async () => loads.shift() ?? { nowMs: 600, keys: [FREE] };
  const outcomes = await operations.acquire([request("taken"), request("taken", "second")]);
  expect(outcomes).toMatchObject([{ status: "acquired" }, { status: "held" }]);
});

it("says which change is of the loaded grant, and must come before its expiry", async () => {
  const { saves, operations } = open({ mine: held("lease of mine"), old: held("old") });
  await operations.renew([request("mine")]);
  await operations.release([request("mine")]);
  await operations.revoke([{ namespace, resource: "old", free: "now" }]);
  await operations.acquire([request("new")]);
  const changes = saves.flat().map(({ resource, changesGrant }) => [resource, changesGrant]);
  expect(changes).toEqual([
    ["mine", true],
    ["mine", true],
    ["old", true],
    ["new", false],
  ]);
});
