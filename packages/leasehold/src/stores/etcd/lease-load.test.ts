/** What the rules see of states which a cluster is rarely in. */
import { expect, it } from "vitest";
import { MOST_AWAITED, RESERVED_MS } from "../../lease/index.js";
import { operationsOn } from "../../store-kit/index.js";
import { askedFor, loadedOf, type Terms, type Version } from "./lease-load.js";
import { type Entry, type GrantRecord, NOTHING, type Owner } from "./records.js";
import type { WaitQueue } from "./wait-queue.js";

const KEY = { namespace: "n", resource: "r" };
const REQUEST = { ...KEY, leaseId: "mine", holder: "h", ttlMs: 10_000 };
const TOKEN = 7;
const NOW_MS = 1_000_000;

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
const OWNER: Owner = { key: "p/r/1f", createRevision: TOKEN, lease: "31", value: "h" };
const LIVE: Entry = { ...NOTHING, record: RECORD, modRevision: TOKEN, owner: OWNER };
const ANOTHER: Entry = { ...LIVE, record: { ...RECORD, leaseId: "another" } };

function queue(count: number): WaitQueue {
  const first = Array.from({ length: Math.min(count, MOST_AWAITED + 1) }, (_, number) => ({
    leaseId: `waiter ${number}`,
    holder: `w${number}`,
    createRevision: 100 + number,
    lease: "1",
  }));
  return { first, count, alone: [], revision: 200 };
}

/** The operations of a store that has read this entry, and what they save. */
function storeOf(entry: Entry, terms: Partial<Terms> = {}) {
  const saved: unknown[] = [];
  const operations = operationsOn<Version>(
    {
      async load(keys) {
        const loaded = keys.map((key) =>
          loadedOf(
            { ...askedFor("p/", key), entry, changes: 0, nowMs: NOW_MS },
            { leftMs: null, freeForMs: 0, waitersMs: new Map(), aheadOf: () => 0, ...terms },
          ),
        );
        return { nowMs: NOW_MS, keys: loaded };
      },
      async save(changes) {
        saved.push(...changes);
        return changes.map(() => true);
      },
      failed: (error) => {
        throw error;
      },
    },
    { textOf: () => null },
  );
  return { ...operations, saved };
}

it.each([null, RECORD])("an operator ends no lock of another program", async (record) => {
  const owner = { ...OWNER, createRevision: TOKEN + 1 };
  for (const free of ["now", "atExpiry"] as const) {
    const store = storeOf({ ...LIVE, record, owner });
    const [outcome] = await store.revoke([{ ...KEY, free }]);
    expect(outcome).toEqual({ status: "notHeld" });
    expect(store.saved).toEqual([]);
  }
});

it("a renewal tells why the lease is lost", async () => {
  const cases: [Entry, string][] = [
    [NOTHING, "gone"],
    [ANOTHER, "taken"],
    [{ ...LIVE, record: { ...RECORD, ended: "revoked" } }, "revoked"],
    [{ ...LIVE, record: { ...RECORD, ended: "released" }, owner: null }, "gone"],
    [{ ...LIVE, owner: null }, "expired"],
    // Another client of etcd holds the lock by now.
    [{ ...LIVE, owner: { ...OWNER, createRevision: TOKEN + 1 } }, "taken"],
  ];
  for (const [entry, reason] of cases) {
    const { renew } = storeOf(entry, { leftMs: 5_000 });
    expect(await renew([REQUEST])).toEqual([{ status: "lost", reason }]);
  }
});

it("a repeated acquire returns the remaining time, and no ended grant", async () => {
  const acquire = async (entry: Entry, leftMs: number) => {
    const store = storeOf(entry, { leftMs });
    const [outcome] = await store.acquire([REQUEST]);
    expect(store.saved).toEqual([]);
    return outcome;
  };
  expect(await acquire(LIVE, 4_000)).toMatchObject({
    status: "acquired",
    token: TOKEN,
    remainingMs: 4_000,
  });
  // etcd rounds TTLs up.
  expect(await acquire(LIVE, 12_000)).toMatchObject({ remainingMs: 10_000 });
  const revoked = { ...LIVE, record: { ...RECORD, ended: "revoked" as const } };
  for (const entry of [revoked, { ...LIVE, owner: null }]) {
    expect(await acquire(entry, 4_000)).toEqual({ status: "ended" });
  }
});

it("a free resource is reserved for its waiters, from when it was seen free", async () => {
  const entry: Entry = { ...NOTHING, waiters: queue(2) };
  const after = async (freeForMs: number) => {
    const [outcome] = await storeOf(entry, { freeForMs }).acquire([REQUEST]);
    return outcome;
  };
  expect(await after(2 * RESERVED_MS - 1)).toEqual({
    status: "held",
    holder: "w0",
    grantId: null,
    remainingMs: 1,
    ahead: 2,
  });
  expect(await after(2 * RESERVED_MS)).toMatchObject({ status: "acquired" });
});

it("a refused request waits as long as it asks, and extends a position that ends earlier", async () => {
  const entry: Entry = { ...ANOTHER, waiters: queue(2) };
  const ask = async (leaseId: string, queueMs: number, lastsMs: number) => {
    const waitersMs = new Map([[leaseId, lastsMs]]);
    const store = storeOf(entry, { leftMs: 5_000, waitersMs });
    const [outcome] = await store.acquire([{ ...REQUEST, leaseId, queueMs }]);
    return { outcome, saved: store.saved };
  };
  const joining = (leaseId: string, inMs: number) => [
    { joins: [{ leaseId, holder: "h", expiresAtMs: NOW_MS + inMs }] },
  ];
  const first = await ask("new", 3_000, 0);
  expect(first.outcome).toMatchObject({
    status: "held",
    ahead: 2,
    remainingMs: 5_000 + 2 * RESERVED_MS,
  });
  expect(first.saved).toMatchObject(joining("new", 3_000));
  expect((await ask("new", 3_600_000, 0)).saved).toMatchObject(joining("new", 60_000));
  const lasts = await ask("waiter 1", 5_000, 5_000);
  expect(lasts).toMatchObject({ outcome: { ahead: 1 }, saved: [] });
  expect((await ask("waiter 1", 5_001, 5_000)).saved).toMatchObject(joining("waiter 1", 5_001));
});

it("the end of a grant is shown to others only where this client knows it", async () => {
  const shown = async (leftMs: number | null) => {
    const [outcome] = await storeOf(ANOTHER, { leftMs }).acquire([REQUEST]);
    return outcome;
  };
  expect(await shown(null)).toMatchObject({ status: "held", holder: "h", remainingMs: null });
  expect(await shown(2_500)).toMatchObject({ remainingMs: 2_500 });
});

it("the lock of another client is named by its value, or by its lease if that is long", async () => {
  const held = async (value: string) => {
    const owner = { ...OWNER, value, createRevision: TOKEN + 1 };
    const [outcome] = await storeOf({ ...NOTHING, owner }).acquire([REQUEST]);
    return outcome;
  };
  const named = (holder: string) => ({ status: "held", holder, grantId: null, remainingMs: null });
  expect(await held("leader-1")).toEqual(named("leader-1"));
  expect(await held("x".repeat(85))).toEqual(named("x".repeat(85)));
  expect(await held("x".repeat(86))).toEqual(named("etcd lease 1f"));
  expect(await held("")).toEqual(named("etcd lease 1f"));
});
