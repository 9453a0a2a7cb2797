/** What a change writes, compares and reads, on a cluster whose answers a test chooses. */
import { expect, it } from "vitest";
import { nextTurn } from "../../env/index.js";
import type { AcquireRequest } from "../../lease/index.js";
import { operationsOn } from "../../store-kit/index.js";
import { manualEnv } from "../../testing/index.js";
import type { EtcdClient } from "./connection.js";
import {
  COMPARE,
  type Compare,
  type Operation,
  type Response,
  type Transaction,
} from "./connection-api.js";
import { EngineLeases } from "./engine-leases.js";
import { unavailable } from "./failures.js";
import { EtcdEngine } from "./lease-engine.js";
import { encodeRecord, type GrantRecord } from "./records.js";

const KEY = { namespace: "default", resource: "r" };
const QUEUE = "%leasehold/queue/default/r/";
const BELLS = "%leasehold/bell/r/";
const RECORD_KEY = "%leasehold/record/default/r";
const REQUEST = { ...KEY, leaseId: "mine", holder: "h", ttlMs: 10_000 };
const TOKEN = 7;

const RECORD: GrantRecord = {
  leaseId: "mine",
  holder: "h",
  token: TOKEN,
  ttlMs: 10_000,
  grantedAt: "2020-01-01T00:00:00.000Z",
  renewedAt: null,
  expiresAt: "2020-01-01T00:00:10.000Z",
  ended: null,
  metadata: null,
};

interface State {
  readonly record: GrantRecord | null;
  /** The engine lease of our lock key; null: it is gone. */
  readonly lease: string | null;
  readonly waiters: readonly string[];
}

const kv = (key: string, value: string, revision: number, lease = "0") => ({
  key,
  value,
  create_revision: String(revision),
  mod_revision: String(revision),
  lease,
});

function answerOf({ record, lease, waiters }: State, { request_range }: RangeOperation): Response {
  const { key, range_end } = request_range;
  const found =
    key === RECORD_KEY
      ? record
        ? [kv(key, encodeRecord(record), TOKEN)]
        : []
      : key === "r/"
        ? lease
          ? [kv("r/1f", "h", TOKEN, lease)]
          : []
        : waiters
            .map((leaseId, at) => kv(QUEUE + leaseId, `holder of ${leaseId}`, 100 + at, "1"))
            .filter((one) => range_end !== undefined || one.key === key);
  const answer = { header: { revision: "200" }, kvs: found, count: String(found.length) };
  return { response_range: answer };
}

function holds({ record, lease, waiters }: State, compare: Compare): boolean {
  if (compare.target === COMPARE.MOD) return compare.mod_revision === (record ? TOKEN : 0);
  const { key, create_revision } = compare;
  if (key === QUEUE) return waiters.every((_, at) => 100 + at < create_revision);
  const at = waiters.indexOf(key.slice(QUEUE.length));
  return create_revision === (key.startsWith(QUEUE) ? 100 + at : lease ? TOKEN : 0);
}

type RangeOperation = Extract<Operation, { request_range: unknown }>;

/**
 * @param leftSeconds of each engine lease, as etcd says
 * @param compares false: others have changed the state of each change
 * @param failing the method that fails
 */
function open(state: State, leftSeconds = 9, compares = true, failing?: string) {
  const env = manualEnv();
  const changes: Transaction[] = [];
  const client = {
    connection: { env },
    async call({ method, body }: { method: string; body: { TTL?: string } & Transaction }) {
      if (method === failing) throw unavailable("no leader", "none");
      if (method === "LeaseGrant") return { ID: "255", TTL: body.TTL };
      if (method === "LeaseTimeToLive") return { TTL: String(leftSeconds) };
      const responses = (body.success ?? []).map((operation): Response => {
        if ("request_range" in operation) return answerOf(state, operation);
        if (!("request_txn" in operation)) return {};
        const { request_txn } = operation;
        changes.push(request_txn);
        const reads = (request_txn.failure ?? []).map((one) =>
          "request_range" in one ? answerOf(state, one) : {},
        );
        const header = { revision: "201" };
        const succeeded = compares && (request_txn.compare ?? []).every((one) => holds(state, one));
        return { response_txn: { header, succeeded, responses: succeeded ? [] : reads } };
      });
      return { header: { revision: "201" }, responses };
    },
  } as unknown as EtcdClient;
  const engine = new EtcdEngine(client, new EngineLeases(client), "");
  const operations = operationsOn(engine, { clock: env.clock, textOf: () => null });
  return { ...operations, changes, env };
}

const HELD: State = { record: RECORD, lease: "31", waiters: [] };

const putsOf = ({ success = [] }: Transaction) =>
  success.flatMap((one) => ("request_put" in one ? [one.request_put] : []));
const deletedOf = ({ success = [] }: Transaction) =>
  success.flatMap((one) => ("request_delete_range" in one ? [one.request_delete_range.key] : []));

it("a renewal with a shorter TTL shortens no grant, whose time is known to the second", async () => {
  for (const [leftSeconds, isKept] of [
    [9, true],
    [6, true],
    [5, false],
  ] as const) {
    const { renew, changes } = open(HELD, leftSeconds);
    const [outcome] = await renew([{ ...REQUEST, ttlMs: 5_000 }]);
    const remainingMs = isKept ? leftSeconds * 1_000 : 5_000;
    expect(outcome).toMatchObject({ status: "renewed", token: TOKEN, remainingMs });
    const [change] = changes;
    const lock = change && putsOf(change).find(({ key }) => key === "r/1f");
    expect([leftSeconds, lock?.lease]).toEqual([leftSeconds, isKept ? undefined : "255"]);
  }
});

it("a renewal shortens no grant after one that was shorter, and so changed the record alone", async () => {
  const shorter = { ...RECORD, ttlMs: 5_000 };
  const { renew, changes } = open({ ...HELD, record: shorter }, 9);
  const [outcome] = await renew([{ ...REQUEST, ttlMs: 5_000 }]);
  expect(outcome).toMatchObject({ status: "renewed", remainingMs: 5_000 });
  expect(changes.flatMap(putsOf).filter(({ key }) => key === "r/1f")).toEqual([]);
});

it("a grant to a waiter deletes both of its keys, and the waiters before it", async () => {
  const { acquire, changes, env } = open({
    record: null,
    lease: null,
    waiters: ["w0", "w1", "w2"],
  });
  const request = { ...REQUEST, leaseId: "w1" };
  expect(await acquire([request])).toMatchObject([{ status: "held", ahead: 1 }]);
  await env.clock.advance(500);
  expect(await acquire([request])).toMatchObject([{ status: "acquired", token: 201 }]);
  const change = changes.at(-1);
  expect(change && deletedOf(change)).toEqual([`${QUEUE}w1`, `${BELLS}w1`, `${QUEUE}w0`]);
  // Its own position is the proof that no earlier waiter was added.
  expect(change?.compare?.map(({ key }) => key)).toEqual([RECORD_KEY, "r/"]);
});

it("a grant to a newcomer compares that no waiter has come", async () => {
  const { acquire, release, changes } = open({ record: null, lease: null, waiters: [] });
  expect(await acquire([REQUEST])).toMatchObject([{ status: "acquired", token: 201 }]);
  const [grant] = changes;
  expect(grant?.compare?.map(({ key }) => key)).toEqual([RECORD_KEY, "r/", QUEUE]);
  // The next change rests on what this one has written.
  void release([REQUEST]);
  await nextTurn();
  expect(changes.at(-1)?.compare).toMatchObject([{ key: RECORD_KEY, mod_revision: 201 }, {}, {}]);
});

it("waiters that join at once do so one after the other, and whether or not the state stands", async () => {
  const { acquire, changes, env } = open(HELD, 9, false);
  const waiting = ["a", "b", "c"].map((leaseId) => ({ ...REQUEST, leaseId, queueMs: 5_000 }));
  const outcomes = acquire(waiting);
  await env.clock.advance(100);
  expect(await outcomes).toMatchObject([{ ahead: 0 }, { ahead: 1 }, { ahead: 2 }]);
  const [change] = changes;
  expect(change?.failure?.slice(0, 2)).toMatchObject([
    { request_put: { key: `${QUEUE}c`, lease: "255" } },
    { request_put: { key: `${BELLS}c`, lease: "255" } },
  ]);
});

it("of several waiters that join at once, some may have when the call fails", async () => {
  const [one, two] = ["a", "b"].map((leaseId) => ({ ...REQUEST, leaseId, queueMs: 5_000 }));
  const failing = (asked: AcquireRequest[]) => open(HELD, 9, true, "LeaseGrant").acquire(asked);
  expect(await failing([one as AcquireRequest])).toMatchObject([
    { status: "failed", applied: "no" },
  ]);
  const both = await failing([one, two] as AcquireRequest[]);
  expect(both).toMatchObject([{ applied: "maybe" }, { applied: "maybe" }]);
});

it("the first waiter that withdraws wakes the next one, if the resource is free", async () => {
  const bells = async (lease: string | null, leaseId: string) => {
    const { release, changes } = open({ record: null, lease, waiters: ["w0", "w1"] });
    expect(await release([{ ...KEY, leaseId }])).toEqual([{ status: "notHeld" }]);
    const [change] = changes;
    return change && deletedOf(change).filter((key) => key.startsWith(BELLS));
  };
  expect(await bells(null, "w0")).toEqual([`${BELLS}w0`, `${BELLS}w1`]);
  expect(await bells(null, "w1")).toEqual([`${BELLS}w1`]);
  expect(await bells("31", "w0")).toEqual([`${BELLS}w0`]);
});

it("many waiters that withdraw at once leave in transactions that etcd takes", async () => {
  const waiters = Array.from({ length: 90 }, (_, at) => `w${at}`);
  const { release, changes } = open({ ...HELD, waiters });
  const outcomes = await release(waiters.map((leaseId) => ({ ...KEY, leaseId })));
  expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(["notHeld"]));
  const [change] = changes;
  // The others have left before.
  expect(change && deletedOf(change)).toHaveLength(8);
});

it("a revocation at the expiry keeps the lock, and one at once wakes the first waiter", async () => {
  const state = { ...HELD, waiters: ["w0"] };
  const late = open(state, 4);
  expect(await late.revoke([{ ...KEY, free: "atExpiry" }])).toEqual([
    { status: "revoked", token: TOKEN, freeInMs: 4_000 },
  ]);
  const [kept] = late.changes;
  expect(kept && [putsOf(kept).map(({ key }) => key), deletedOf(kept)]).toEqual([[RECORD_KEY], []]);
  const other = open(state);
  expect(await other.revoke([{ ...KEY, free: "now", expectedToken: TOKEN + 1 }])).toEqual([
    { status: "otherToken" },
  ]);
  const now = open(state);
  expect(await now.revoke([{ ...KEY, free: "now" }])).toEqual([
    { status: "revoked", token: TOKEN, freeInMs: 0 },
  ]);
  const [freed] = now.changes;
  expect(freed && deletedOf(freed)).toEqual([`${BELLS}w0`, "r/1f"]);
});
