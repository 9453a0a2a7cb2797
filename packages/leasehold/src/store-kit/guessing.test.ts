/** An engine that guesses keys, assigns tokens as it saves, and says what it has found instead. */
import { expect, it } from "vitest";
import type { Failed, LeaseRecord } from "../core/index.js";
import { manualEnv } from "../testing/index.js";
import { EMPTY_QUEUE, type Engine, type Loaded, operationsOn, type SaveResult } from "./index.js";

const KEY = { namespace: "n", resource: "r" };
const REQUEST = { ...KEY, leaseId: "mine", holder: "h", ttlMs: 1_000 };

const record = (leaseId: string): LeaseRecord => ({
  leaseId,
  holder: `holder of ${leaseId}`,
  token: 7,
  ttlMs: 1_000,
  grantedAtMs: 0,
  renewedAtMs: null,
  expiresAtMs: 500,
  ended: null,
  metadata: null,
});
const loaded = (one: LeaseRecord | null, more: Partial<Loaded<number>> = {}): Loaded<number> => ({
  record: one,
  version: 1,
  isPaused: false,
  leastToken: 1,
  queue: EMPTY_QUEUE,
  ...more,
});
const FREE = loaded(null);
const HELD = loaded(record("other"));

/**
 * @param guessed null: nothing is guessed
 * @param results of the saves, one after the other; behind them each change is saved
 */
function open(
  guessed: Loaded<number> | null,
  stored: Loaded<number>,
  results: SaveResult<number>[] = [],
) {
  const { clock } = manualEnv();
  const log: string[] = [];
  const engine: Engine<number> = {
    guess() {
      log.push("guess");
      return guessed && { nowMs: 0, loaded: guessed };
    },
    async load(keys) {
      log.push("load");
      return { nowMs: 0, keys: keys.map(() => stored) };
    },
    async save(changes) {
      log.push(`save ${changes.map((one) => one.record?.leaseId ?? "waiters").join(" ")}`);
      return changes.map(() => results.shift() ?? true);
    },
    failed: (error): Failed => ({
      status: "failed",
      applied: "maybe",
      retryable: true,
      error: error as Failed["error"],
    }),
  };
  return { log, ...operationsOn(engine, { clock, textOf: () => null }) };
}

it("a change that rests on a guess needs no load, and one that is saved is the answer", async () => {
  const { log, acquire } = open(FREE, HELD, [{ token: 42, remainingMs: 900 }]);
  expect(await acquire([REQUEST])).toEqual([
    { status: "acquired", token: 42, ttlMs: 1_000, remainingMs: 900, expiresAt: null },
  ]);
  expect(log).toEqual(["guess", "save mine"]);
});

it("no answer rests on a guess", async () => {
  const free = open(HELD, FREE);
  expect(await free.acquire([REQUEST])).toMatchObject([{ status: "acquired" }]);
  expect(free.log).toEqual(["guess", "load", "save mine"]);
  const own = open(loaded(record("mine")), loaded(record("other")));
  expect(await own.acquire([REQUEST])).toMatchObject([{ status: "held" }]);
  expect(await own.release([{ ...KEY, leaseId: "another" }])).toEqual([{ status: "notHeld" }]);
});

it("no waiter joins on a guess: it would stand before those whose requests came earlier", async () => {
  const { log, acquire } = open(FREE, HELD);
  const waits = (leaseId: string) => ({ ...REQUEST, leaseId, queueMs: 1_000 });
  expect(await acquire([waits("a"), waits("b")])).toMatchObject([{ ahead: 0 }, { ahead: 1 }]);
  expect(log).toEqual(["guess", "load", "save waiters"]);
});

it("a guess that fails is decided anew: on what the save found, or else on a load", async () => {
  const found = open(FREE, FREE, [{ nowMs: 100, loaded: HELD }]);
  expect(await found.acquire([REQUEST])).toMatchObject([{ status: "held", remainingMs: 400 }]);
  expect(found.log).toEqual(["guess", "save mine"]);
  const lost = open(FREE, HELD, [false]);
  expect(await lost.acquire([REQUEST])).toMatchObject([{ status: "held", remainingMs: 500 }]);
  expect(lost.log).toEqual(["guess", "save mine", "load"]);
});

it("several requests for a key share the token that its save has assigned", async () => {
  const { acquire } = open(null, FREE, [{ token: 42 }]);
  expect(await acquire([REQUEST, { ...REQUEST, leaseId: "b" }, REQUEST])).toMatchObject([
    { status: "acquired", token: 42 },
    { status: "held" },
    { status: "acquired", token: 42 },
  ]);
});

it("a save without an answer may have been applied, also on a guess", async () => {
  const error = new Error("no answer") as unknown as Failed["error"];
  const { log, acquire } = open(FREE, FREE, [
    { status: "failed", applied: "maybe", retryable: true, error },
  ]);
  expect(await acquire([REQUEST])).toMatchObject([{ status: "failed", applied: "maybe" }]);
  expect(log).toEqual(["guess", "save mine"]);
});

it("a grant that was read is trusted for as long as its engine says, or is written again", async () => {
  const own = (trustedUntilMs: number | null) => loaded(record("mine"), { trustedUntilMs });
  const read = open(null, own(300));
  expect(await read.acquire([REQUEST])).toMatchObject([{ status: "acquired", remainingMs: 300 }]);
  expect(read.log).toEqual(["guess", "load"]);
  const written = open(null, own(null), [{ remainingMs: 450 }]);
  expect(await written.acquire([REQUEST])).toMatchObject([{ token: 7, remainingMs: 450 }]);
  expect(written.log).toEqual(["guess", "load", "save mine"]);
});

it("another program's lock has no name and no end, and no view when it is replaced", async () => {
  const foreign = { ...record(""), expiresAtMs: Number.POSITIVE_INFINITY };
  const { acquire } = open(null, loaded(foreign));
  expect(await acquire([REQUEST])).toEqual([
    { status: "held", holder: "holder of ", grantId: null, remainingMs: null },
  ]);
  const over = loaded({ ...foreign, ended: "released", expiresAtMs: 0 }, { view: () => null });
  const [outcome] = await open(null, over).acquire([REQUEST], { returnReplaced: true });
  expect(outcome).toMatchObject({ status: "acquired" });
  expect(outcome).not.toHaveProperty("replaced");
});
