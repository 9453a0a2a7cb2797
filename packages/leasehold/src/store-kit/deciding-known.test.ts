/** What an engine knows of a key without a load, and what it alone knows of a grant. */
import { expect, it } from "vitest";
import { grantIdOf } from "../env/index.js";
import type { Failed } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import {
  EMPTY_QUEUE,
  type Engine,
  type Found,
  type Loaded,
  operationsOn,
  type SaveResult,
} from "./index.js";

const KEY = { namespace: "n", resource: "r" };
const request = (leaseId: string, ttlMs = 1_000) => ({ ...KEY, leaseId, holder: leaseId, ttlMs });
const FREE: Loaded<number> = {
  record: null,
  version: 1,
  isPaused: false,
  leastToken: 1,
  queue: EMPTY_QUEUE,
};
/** @param expiresAtMs of the grant, which has no end before it */
const held = (leaseId: string, expiresAtMs = 500): Loaded<number> => ({
  ...FREE,
  version: 2,
  record: {
    leaseId,
    holder: leaseId,
    token: 7,
    ttlMs: 1_000,
    grantedAtMs: 0,
    renewedAtMs: null,
    expiresAtMs,
    ended: null,
    metadata: null,
  },
});
const found = (loaded: Loaded<number>, nowMs = 0): Found<number> => ({ nowMs, loaded });

/** @param results of the saves, in order; then they succeed */
function open(
  loaded: Loaded<number>,
  results: SaveResult<number>[] = [],
  guess?: NonNullable<Engine<number>["guess"]>,
) {
  const { clock } = manualEnv();
  const log: string[] = [];
  const engine: Engine<number> = {
    ...(guess && { guess }),
    async load(keys) {
      log.push("load");
      return { nowMs: 0, keys: keys.map(() => loaded) };
    },
    async save(changes) {
      log.push(...changes.map(({ version }) => `save on ${version}`));
      return changes.map(() => results.shift() ?? true);
    },
    failed: (error) => {
      throw error;
    },
  };
  return { log, ...operationsOn(engine, { clock, textOf: () => null }) };
}

it("saves on a guess without a load, and loads where others have changed the key since", async () => {
  const known = open(FREE, [], () => found(held("mine")));
  expect(await known.renew([request("mine")])).toMatchObject([{ status: "renewed", token: 7 }]);
  expect(known.log).toEqual(["save on 2"]);
  const changed = open(held("theirs"), [false], () => found(held("mine")));
  expect(await changed.renew([request("mine")])).toEqual([{ status: "lost", reason: "taken" }]);
  expect(changed.log).toEqual(["save on 2", "load"]);
});

it("answers nothing by a guess that is not saved", async () => {
  const { log, renew } = open(held("mine"), [], () => found(held("mine"), 500));
  expect(await renew([request("mine")])).toMatchObject([{ status: "renewed" }]);
  expect(log).toEqual(["load", "save on 2"]);
});

it("answers nothing by a guess that is not saved, beside one of the batch that is", async () => {
  const guess = ({ resource }: { resource: string }) =>
    found(held("mine"), resource === "r" ? 0 : 500);
  const { log, renew } = open(held("mine"), [], guess);
  const outcomes = await renew([request("mine"), { ...request("mine"), resource: "s" }]);
  expect(outcomes).toMatchObject([{ status: "renewed" }, { status: "renewed" }]);
  expect(log).toEqual(["save on 2", "load", "save on 2"]);
});

it("answers nothing by a guess that there was no time to save", async () => {
  const { log, renew } = open(held("mine"), [], () => found(held("mine")));
  const outcomes = await renew([request("mine")], { timeoutMs: 0 });
  expect(outcomes).toMatchObject([{ status: "failed", applied: "no" }]);
  expect(log).toEqual(["load"]);
});

it("decides on what a save has found, without another load", async () => {
  const { log, acquire } = open(FREE, [found({ ...FREE, version: 3, leastToken: 9 })]);
  expect(await acquire([request("mine")])).toMatchObject([{ status: "acquired", token: 9 }]);
  expect(log).toEqual(["load", "save on 1", "save on 3"]);
});

it("answers a grant with the token and the trust that the engine has of it, and never longer than it lasts", async () => {
  const { acquire, renew } = open(FREE, [{ token: 20, remainingMs: 900 }]);
  expect(await acquire([request("mine")])).toMatchObject([{ token: 20, remainingMs: 900 }]);
  expect(await renew([request("mine")])).toEqual([{ status: "lost", reason: "gone" }]);
  const longer = open(held("mine"), [{ remainingMs: 2_000 }]);
  // Each renewal has its own TTL, and one write.
  const both = [request("mine", 1_000), request("mine", 2_000)];
  expect(await longer.renew(both)).toMatchObject([{ remainingMs: 1_000 }, { remainingMs: 2_000 }]);
});

it("answers a revocation with when the engine frees the resource", async () => {
  const revocation = { ...KEY, free: "atExpiry" as const };
  expect(await open(held("mine")).revoke([revocation])).toEqual([
    { status: "revoked", token: 7, freeInMs: 500 },
  ]);
  expect(await open(held("mine"), [{ freeInMs: 1_000 }]).revoke([revocation])).toEqual([
    { status: "revoked", token: 7, freeInMs: 1_000 },
  ]);
});

it("trusts a grant that it has read for as long as the engine says, and writes it again where that is unknown", async () => {
  const known = open({ ...held("mine"), trustedUntilMs: 300 });
  expect(await known.acquire([request("mine")])).toMatchObject([{ remainingMs: 300 }]);
  expect(known.log).toEqual(["load"]);
  const unknown = open({ ...held("mine"), trustedUntilMs: null }, [{ remainingMs: 400 }]);
  expect(await unknown.acquire([request("mine")])).toMatchObject([{ remainingMs: 400 }]);
  expect(unknown.log).toEqual(["load", "save on 2"]);
});

it("no waiter joins on a guess: it would stand before those whose requests came earlier", async () => {
  const { log, acquire } = open(held("other"), [], () => found(FREE));
  const waits = (leaseId: string) => ({ ...request(leaseId), queueMs: 1_000 });
  expect(await acquire([waits("a"), waits("b")])).toMatchObject([{ ahead: 0 }, { ahead: 1 }]);
  expect(log).toEqual(["load", "save on 2"]);
});

it("gives several requests for a key the token that its save has assigned", async () => {
  const { acquire } = open(FREE, [{ token: 42 }]);
  expect(await acquire([request("mine"), request("b"), request("mine")])).toMatchObject([
    { status: "acquired", token: 42 },
    { status: "held" },
    { status: "acquired", token: 42 },
  ]);
});

it("does not know what was applied when a save on a guess has no answer", async () => {
  const error = new Error("no answer") as unknown as Failed["error"];
  const failed: Failed = { status: "failed", applied: "maybe", retryable: true, error };
  const { log, acquire } = open(FREE, [failed], () => found(FREE));
  expect(await acquire([request("mine")])).toEqual([failed]);
  expect(log).toEqual(["save on 1"]);
});

it("shows another program's grant by its holder alone", async () => {
  const ours = open(held("other"));
  expect(await ours.acquire([request("mine")])).toMatchObject([{ grantId: grantIdOf("other") }]);
  const lock = held("", Number.POSITIVE_INFINITY);
  const foreign = { ...lock, record: lock.record && { ...lock.record, holder: "other" } };
  expect(await open(foreign).acquire([request("mine")])).toEqual([
    { status: "held", holder: "other", grantId: null, remainingMs: null },
  ]);
  const { acquire } = open({ ...held("other", 0), view: () => null });
  const [granted] = await acquire([request("mine")], { returnReplaced: true });
  expect(granted).toMatchObject({ status: "acquired", token: 8 });
  expect(granted).not.toHaveProperty("replaced");
});
