/** What the measured store of a client, and that of a server, says of a sequence of calls. */
import { expect, it } from "vitest";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import type { MeasureOptions } from "../env/index.js";
import type { AcquireRequest, LeaseStore } from "../lease/index.js";
import { StoreUnavailableError } from "../lease/index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "../stores/memory/store.js";
import { manualEnv } from "../testing/index.js";
import { measuredLeases } from "./leases.js";

const TTL_MS = 9_000;
const TERM = JSON.stringify({ leasehold: "elector" });

function open(
  options: MeasureOptions = {},
  over: (inner: LeaseStore) => Partial<LeaseStore> = () => ({}),
) {
  const { clock } = manualEnv();
  const { telemetry, valuesOf, spans } = recordedTelemetry();
  const inner = new MemoryLeaseStore(new MemoryLeaseState(clock));
  const store = measuredLeases(Object.assign(inner, over(inner)), { telemetry, clock }, options);
  const request = (leaseId: string, change: Partial<AcquireRequest> = {}): AcquireRequest => ({
    namespace: "n",
    resource: "r",
    leaseId,
    holder: "h",
    ttlMs: TTL_MS,
    ...change,
  });
  const numbers = (name: string) => valuesOf(name).map(([, value]) => value);
  return { clock, store, request, valuesOf, numbers, spans };
}

it("counts a term once for each grant of each election in each namespace, if it serves", async () => {
  const { store, request, valuesOf } = open({ serves: true });
  const term = (leaseId: string, change = {}) => request(leaseId, { metadata: TERM, ...change });
  await store.acquire([term("1"), request("2", { resource: "no election" })]);
  // A caller that got no answer repeats its request.
  await store.acquire([term("1")]);
  await store.acquire([term("3", { namespace: "other" }), term("4", { resource: "s" })]);
  await store.release([term("1")]);
  await store.acquire([term("5")]);
  expect(valuesOf("terms").map(([resource]) => resource)).toEqual(["r", "r", "s", "r"]);
  const client = open();
  await client.store.acquire([client.request("1", { metadata: TERM })]);
  expect(client.valuesOf("terms")).toEqual([]);
});

it("names resources of one namespace alone, and counts those of others under no name", async () => {
  const { store, request, valuesOf } = open({ serves: true, namesOf: "n" });
  const both = (leaseId: string) => [request(leaseId), request(leaseId, { namespace: "other" })];
  await store.acquire(both("1"));
  await store.acquire(both("2"));
  await store.renew(both("3"));
  const everything = [
    ["r", 1],
    ["", 1],
  ];
  expect(valuesOf("contended")).toEqual(everything);
  expect(valuesOf("endangered")).toEqual(everything);
});

it("counts the outcome of each request of a batch, in its order", async () => {
  const { store, request, valuesOf } = open();
  await store.acquire([request("1"), request("2"), request("3", { resource: "s" })]);
  const outcomes = (operation: string) =>
    valuesOf(`leasehold.lease.${operation}`).map(
      ([labels]) => (labels as { outcome: string }).outcome,
    );
  expect(outcomes("acquire.attempts")).toEqual(["acquired", "held", "acquired"]);
  await store.renew([request("2"), request("1")]);
  expect(outcomes("renew.attempts")).toEqual(["lost", "renewed"]);
  await store.release([request("2"), request("1")]);
  expect(outcomes("release.attempts")).toEqual(["notHeld", "released"]);
  await store.revoke([
    { ...request("1"), free: "now" },
    { ...request("3", { resource: "s" }), free: "now" },
  ]);
  expect(outcomes("revokes")).toEqual(["notHeld", "revoked"]);
  expect(valuesOf("contended")).toEqual([["r", 1]]);
});

it("counts each request of a call that throws as failed, and throws on", async () => {
  const error = new StoreUnavailableError("it is down", { outcome: "none" });
  const fail = () => Promise.reject(error);
  const { store, request, valuesOf, spans } = open({ serves: true }, () => ({
    acquire: fail,
    renew: fail,
    release: fail,
    revoke: fail,
  }));
  const requests = [request("1"), request("2")];
  await expect(store.acquire(requests)).rejects.toBe(error);
  await expect(store.renew(requests)).rejects.toBe(error);
  await expect(store.release(requests)).rejects.toBe(error);
  await expect(store.revoke([{ ...request("1"), free: "now" }])).rejects.toBe(error);
  const failed = [{ outcome: "failed" }, 1];
  for (const of of ["acquire", "renew", "release"]) {
    expect(valuesOf(`leasehold.lease.${of}.attempts`), of).toEqual([failed, failed]);
  }
  expect(valuesOf("leasehold.lease.revokes")).toEqual([failed]);
  expect(valuesOf("leasehold.lease.losses")).toEqual([]);
  expect(spans.map(({ outcome }) => outcome)).toEqual(Array(4).fill("failed"));
});

it("measures how much time each renewal had left, and its delay, from the last write of the grant", async () => {
  const { clock, store, request, numbers } = open();
  const renew = (change = {}) => store.renew([request("1", change)]);
  await store.acquire([request("1")]);
  await clock.advance(3_000);
  await renew();
  await clock.advance(5_000);
  // From now on the grant lasts longer, and is due later.
  await renew({ ttlMs: 30_000 });
  await clock.advance(12_000);
  await renew({ ttlMs: 30_000 });
  expect(numbers("leasehold.lease.renew.left")).toEqual([6_000, 4_000, 18_000]);
  expect(numbers("leasehold.lease.renew.delay")).toEqual([0, 2_000, 2_000]);
  await clock.advance(31_000);
  expect(await renew()).toMatchObject([{ status: "lost", reason: "expired" }]);
  expect(numbers("leasehold.lease.renew.left").at(-1)).toBe(0);
  expect(numbers("leasehold.lease.renew.delay").at(-1)).toBe(21_000);
  // The holder that got no answer asks again: it is lost once.
  await renew();
  expect(numbers("leasehold.lease.renew.left")).toHaveLength(4);
});

it("measures the delay of a renewal that succeeds after failures from the last one that was made", async () => {
  let fails = false;
  const error = new StoreUnavailableError("down", { outcome: "none" });
  const { clock, store, request, numbers } = open({}, ({ renew }) => ({
    async renew(requests) {
      if (!fails) return renew(requests);
      return requests.map(() => ({ status: "failed", applied: "no", retryable: true, error }));
    },
  }));
  await store.acquire([request("1")]);
  fails = true;
  for (const waitMs of [3_000, 1_000, 1_000]) {
    await clock.advance(waitMs);
    expect(await store.renew([request("1")])).toMatchObject([{ status: "failed" }]);
  }
  fails = false;
  await clock.advance(1_000);
  await store.renew([request("1")]);
  expect(numbers("leasehold.lease.renew.delay")).toEqual([3_000]);
  expect(numbers("leasehold.lease.renew.left")).toEqual([3_000]);
});

it("measures no renewal of a grant that was released, revoked or never seen", async () => {
  const { clock, store, request, numbers } = open();
  await store.acquire([request("1"), request("2", { resource: "s" })]);
  await store.release([request("1")]);
  await store.revoke([{ ...request("2", { resource: "s" }), free: "now" }]);
  await clock.advance(1_000);
  await store.renew([request("1"), request("2", { resource: "s" }), request("3")]);
  expect(numbers("leasehold.lease.renew.left")).toEqual([]);
});

it("a server measures a hold when the next grant replaces it; a client knows its own", async () => {
  for (const serves of [true, false]) {
    const { clock, store, request, valuesOf, numbers } = open({ serves });
    await store.acquire([request("1")]);
    await clock.advance(2_000);
    await store.release([request("1")]);
    await clock.advance(50_000);
    await store.acquire([request("2")]);
    await store.acquire([request("2")]);
    await clock.advance(20_000);
    await store.acquire([request("3")]);
    const held = [
      [{ ended: "released" }, 2_000],
      [{ ended: "expired" }, TTL_MS],
    ];
    expect(valuesOf("leasehold.lease.hold.duration")).toEqual(serves ? held : []);
    expect(numbers("leasehold.lease.reclaimed")).toEqual([1]);
  }
});

it("a server counts a lost lease once, however often its holder asks", async () => {
  const { store, request, valuesOf } = open({ serves: true });
  await store.acquire([request("1"), request("2", { resource: "s" })]);
  for (const resource of ["r", "s"]) {
    await store.revoke([{ namespace: "n", resource, free: "now" }]);
  }
  for (let round = 0; round < 3; round += 1) {
    await store.renew([request("1"), request("2", { resource: "s" })]);
  }
  const lost = [{ reason: "revoked" }, 1];
  expect(valuesOf("leasehold.lease.losses")).toEqual([lost, lost]);
});

it("passes the options of each call on to its store", async () => {
  const seen: unknown[] = [];
  const note = async (requests: readonly unknown[], options: unknown) => {
    seen.push(options);
    return requests.map(() => ({ status: "none" })) as never[];
  };
  const over = { acquire: note, renew: note, release: note, revoke: note };
  const { store, request } = open({}, () => over);
  const given = { timeoutMs: 700 };
  await store.acquire([request("1")], given);
  await store.renew([request("1")], given);
  await store.release([request("1")], given);
  await store.revoke([{ ...request("1"), free: "now" }], given);
  // The replaced grant is measured, even if the caller has not asked for it.
  expect(seen).toEqual([{ ...given, returnReplaced: true }, given, given, given]);
});
