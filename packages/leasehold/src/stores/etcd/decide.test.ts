/** Decisions that rest on states which a cluster is rarely in. */
import { expect, it } from "vitest";
import { MOST_AWAITED, RESERVED_MS } from "../../core/index.js";
import { release, renew, revoke, type Surroundings } from "./decide.js";
import { acquire } from "./decide-acquire.js";
import { Place } from "./keys.js";
import { type Entry, type GrantRecord, NOTHING, type Owner } from "./records.js";
import type { Waiter } from "./wait-queue.js";

const KEY = { namespace: "n", resource: "r" };
const PLACE = new Place("p/", KEY);
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
const OWNER: Owner = { key: `${PLACE.locks}1f`, createRevision: TOKEN, lease: "31", value: "h" };
const LIVE: Entry = { ...NOTHING, record: RECORD, modRevision: TOKEN, owner: OWNER };

const waiter = (number: number, lease = "1"): Waiter => ({
  leaseId: `waiter ${number}`,
  holder: `w${number}`,
  createRevision: 100 + number,
  lease,
});
const queue = (count: number, first = Math.min(count, MOST_AWAITED + 1)) => ({
  first: Array.from({ length: first }, (_, number) => waiter(number)),
  count,
  own: null,
  revision: 200,
});

const world = (leftMs: number, changes: Partial<Surroundings> = {}): Surroundings => ({
  wallMs: 0,
  textOf: (wallMs) => new Date(wallMs).toISOString(),
  monotonicMs: () => 0,
  take: async (ttlMs) => ({ id: "255", ttlMs, endsMs: ttlMs }),
  remainingMs: async () => leftMs,
  knownMs: () => leftMs,
  freeForMs: () => 0,
  countBefore: async () => 0,
  ...changes,
});

it("a renewal with a shorter TTL shortens no grant, whose time is known to the second", async () => {
  const shorter = { ...REQUEST, ttlMs: 5_000 };
  for (const [leftMs, isKept] of [
    [9_000, true],
    [4_001, true],
    [4_000, false],
  ] as const) {
    const step = await renew(LIVE, shorter, world(leftMs));
    if (!("change" in step)) throw new Error("no change");
    const { lock } = step.change;
    expect([leftMs, lock === "kept"]).toEqual([leftMs, isKept]);
    const outcome = step.outcomeAt(0);
    expect(outcome).toMatchObject({
      status: "renewed",
      token: TOKEN,
      ...(isKept ? { ttlMs: 10_000, remainingMs: leftMs } : { ttlMs: 5_000, remainingMs: 5_000 }),
    });
  }
});

it("a renewal tells why the lease is lost", async () => {
  const cases: [Entry, string][] = [
    [NOTHING, "gone"],
    [{ ...LIVE, record: { ...RECORD, leaseId: "another" } }, "taken"],
    [{ ...LIVE, record: { ...RECORD, ended: "revoked" } }, "revoked"],
    [{ ...LIVE, record: { ...RECORD, ended: "released" }, owner: null }, "gone"],
    [{ ...LIVE, owner: null }, "expired"],
    [{ ...LIVE, owner: { ...OWNER, createRevision: TOKEN + 1 } }, "expired"],
  ];
  for (const [entry, reason] of cases) {
    expect(await renew(entry, REQUEST, world(5_000))).toEqual({
      outcome: { status: "lost", reason },
    });
  }
});

it("a repeated acquire returns the remaining time, and no ended grant", async () => {
  expect(await acquire(LIVE, REQUEST, world(4_000), PLACE)).toMatchObject({
    outcome: { status: "acquired", token: TOKEN, remainingMs: 4_000 },
  });
  // etcd rounds TTLs up.
  expect(await acquire(LIVE, REQUEST, world(12_000), PLACE)).toMatchObject({
    outcome: { remainingMs: 10_000 },
  });
  const revoked = { ...LIVE, record: { ...RECORD, ended: "revoked" as const } };
  for (const entry of [revoked, { ...LIVE, owner: null }]) {
    expect(await acquire(entry, REQUEST, world(4_000), PLACE)).toEqual({
      outcome: { status: "ended" },
    });
  }
});

it("a free resource is reserved for its waiters, from when it was seen free", async () => {
  const entry: Entry = { ...NOTHING, waiters: queue(2) };
  const after = (freeForMs: number) =>
    acquire(entry, REQUEST, world(0, { freeForMs: () => freeForMs }), PLACE);
  expect(await after(2 * RESERVED_MS - 1)).toEqual({
    outcome: { status: "held", holder: "w0", grantId: null, remainingMs: 1, ahead: 2 },
  });
  expect(await after(2 * RESERVED_MS)).toMatchObject({ change: { record: { holder: "h" } } });
});

it("a grant to a waiter deletes both of its keys, and the waiters before it", async () => {
  const first = [waiter(0), waiter(1), waiter(2)];
  const entry: Entry = { ...NOTHING, waiters: { ...queue(3), first } };
  const request = { ...REQUEST, leaseId: "waiter 1" };
  const step = await acquire(entry, request, world(0, { freeForMs: () => RESERVED_MS }), PLACE);
  if (!("change" in step)) throw new Error("no change");
  const own = "waiter 1";
  expect(step.change.deleted).toEqual([
    PLACE.queueFolder + own,
    PLACE.bells + own,
    `${PLACE.queueFolder}waiter 0`,
  ]);
  // Its own position is the proof that no earlier waiter was added.
  expect(step.change.given).toEqual([]);
});

it("a refused request waits as long as it asks, and extends a position that ends earlier", async () => {
  const entry: Entry = { ...LIVE, record: { ...RECORD, leaseId: "another" }, waiters: queue(2) };
  const ask = async (leaseId: string, queueMs: number, leftMs: number) => {
    const step = await acquire(entry, { ...REQUEST, leaseId, queueMs }, world(leftMs), PLACE);
    if (!("waiter" in step)) throw new Error("does not wait");
    return { waiter: step.waiter, refusal: await step.refusal() };
  };
  expect(await ask("new", 3_000, 5_000)).toMatchObject({
    waiter: { ttlMs: 3_000, holder: "h", isAgain: false },
    refusal: { status: "held", ahead: 2, remainingMs: 5_000 + 2 * RESERVED_MS },
  });
  expect((await ask("new", 3_600_000, 5_000)).waiter).toMatchObject({ ttlMs: 60_000 });
  const lasts = await ask("waiter 1", 5_000, 5_000);
  expect(lasts).toMatchObject({ waiter: null, refusal: { ahead: 1 } });
  expect((await ask("waiter 1", 5_001, 5_000)).waiter).toMatchObject({ isAgain: true });
  expect(await acquire(entry, { ...REQUEST, leaseId: "new" }, world(5_000), PLACE)).toMatchObject({
    outcome: { status: "held" },
  });
});

it("the first waiter that withdraws wakes the next one, if the resource is free", async () => {
  const [first, second] = [0, 1].map((number) => `waiter ${number}`);
  const bells = async (owner: Owner | null, leaseId: string) => {
    const entry: Entry = { ...NOTHING, owner, waiters: queue(2) };
    const step = await release(entry, { ...KEY, leaseId }, world(0), PLACE);
    if (!("change" in step)) throw new Error("no change");
    expect(step.outcomeAt(0)).toEqual({ status: "notHeld" });
    return (step.change.deleted ?? []).filter((key) => key.startsWith(PLACE.bells));
  };
  expect(await bells(null, "waiter 0")).toEqual([PLACE.bells + first, PLACE.bells + second]);
  expect(await bells(null, "waiter 1")).toEqual([PLACE.bells + second]);
  expect(await bells(OWNER, "waiter 0")).toEqual([PLACE.bells + first]);
});

it("a revocation at the expiry keeps the lock, once, and one at once wakes the first waiter", async () => {
  const entry: Entry = { ...LIVE, waiters: queue(1) };
  const late = await revoke(entry, { ...KEY, free: "atExpiry" }, world(4_000.5), PLACE);
  if (!("change" in late)) throw new Error("no change");
  expect(late.change).toMatchObject({ record: { ended: "revoked" }, lock: "kept" });
  const outcome = { status: "revoked", token: TOKEN, freeInMs: 4_001 };
  expect(late.outcomeAt(0)).toEqual(outcome);
  const again = { ...entry, record: { ...RECORD, ended: "revoked" as const } };
  expect(await revoke(again, { ...KEY, free: "atExpiry" }, world(4_000.5), PLACE)).toEqual({
    outcome,
  });
  const other = { ...KEY, free: "now", expectedToken: TOKEN + 1 } as const;
  expect(await revoke(entry, other, world(1), PLACE)).toEqual({
    outcome: { status: "otherToken" },
  });
  const now = await revoke(entry, { ...KEY, free: "now" }, world(4_000), PLACE);
  if (!("change" in now)) throw new Error("no change");
  expect(now.change.lock).toEqual({ deleted: OWNER.key });
  expect(now.change.deleted).toEqual([`${PLACE.bells}waiter 0`]);
});

it("the lock of another client is named by its value, or by its lease if that is long", async () => {
  const held = async (value: string) => {
    const owner = { ...OWNER, value, createRevision: TOKEN + 1 };
    const step = await acquire({ ...NOTHING, owner }, REQUEST, world(0), PLACE);
    return "outcome" in step && step.outcome;
  };
  const named = (holder: string) => ({ status: "held", holder, grantId: null, remainingMs: null });
  expect(await held("leader-1")).toEqual(named("leader-1"));
  expect(await held("x".repeat(85))).toEqual(named("x".repeat(85)));
  expect(await held("x".repeat(86))).toEqual(named("etcd lease 1f"));
  expect(await held("")).toEqual(named("etcd lease 1f"));
});
