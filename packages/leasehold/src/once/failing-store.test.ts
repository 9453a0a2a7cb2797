/** What a caller of `once` sees of a store that fails, or whose records change while it waits. */
import { expect, it, vi } from "vitest";
import { instead } from "../../../../tests/support/worlds/instead.js";
import { onceWith, onceWorld } from "../../../../tests/support/worlds/once-world.js";
import { StoreUnavailableError } from "../index.js";
import type { CallOptions, Failed } from "../lease/index.js";
import { leasesOf } from "../leasehold.js";
import { onceOver } from "./once.js";

const HOUR_MS = 3_600_000;
const down = () => new StoreUnavailableError("it is down", { outcome: "none" });
const failed = (error: StoreUnavailableError): Failed => ({
  status: "failed",
  applied: "no",
  retryable: false,
  error,
});

it("gives its caller the store's error if a success cannot be recorded", async () => {
  const { a, records, view } = await onceWorld();
  const error = down();
  const client = onceWith(a, records, { succeed: async () => failed(error) });
  await expect(client.once("bill", {}, () => "sent")).rejects.toBe(error);
  expect(await view("bill")).toBe(null);
  await client.close();
});

it("gives its caller the work's error if a failure cannot be recorded, and warns why", async () => {
  const { env, a, records } = await onceWorld();
  const warn = vi.spyOn(env.logger, "warn");
  const err = down();
  const work = () => Promise.reject(new Error("no ink"));
  for (const outcome of [failed(err), { status: "refused" as const }]) {
    const client = onceWith(a, records, { fail: async () => outcome });
    await expect(client.once("bill", {}, work)).rejects.toThrow("no ink");
    await client.close();
    await a.revoke("once:bill", { free: "now" });
  }
  expect(warn.mock.calls.filter(([, message]) => message === "failure not recorded")).toEqual([
    [{ key: "bill", err }, "failure not recorded"],
    [{ key: "bill" }, "failure not recorded"],
  ]);
});

it("bounds each call that records, and all of them together", async () => {
  const { env, a, records } = await onceWorld();
  const bounds: (number | undefined)[] = [];
  const client = onceWith(a, records, {
    async succeed(_, options: CallOptions = {}) {
      bounds.push(options.timeoutMs);
      await new Promise<void>((resolve) => env.clock.timer(options.timeoutMs ?? 0, resolve));
      return { status: "failed", applied: "maybe", retryable: true, error: down() };
    },
  });
  const answer = client.once("bill", { ttlMs: 60_000 }, () => "sent");
  const refused = expect(answer).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await env.clock.advance(60_000);
  await refused;
  expect(bounds[0]).toBe(5_000);
  expect(bounds.length).toBeGreaterThan(1);
  expect(bounds.reduce<number>((sum, ms) => sum + (ms ?? Number.NaN), 0)).toBeLessThanOrEqual(
    10_000,
  );
  await client.close();
});

it("waits for no store that will not answer later, and does not repeat work that met one", async () => {
  const { a, records } = await onceWorld();
  const final = new Error("it is of another version");
  const leases = leasesOf(a);
  const tryRun = vi.spyOn(leases, "tryRun").mockRejectedValueOnce(final);
  const client = onceOver(records, leases, false);
  await expect(client.once("bill", {}, () => 1)).rejects.toBe(final);
  tryRun.mockRestore();
  const error = down();
  const work = vi.fn(() => Promise.reject(error));
  await expect(client.once("bill", {}, work)).rejects.toBe(error);
  expect(work).toHaveBeenCalledOnce();
  await client.close();
});

it("waits for no lease if the work is done meanwhile, as by a transaction that goes on", async () => {
  const { a, b, records } = await onceWorld();
  const held = await a.acquire("once:bill");
  const done = await b
    .once("mail", () => "sent")
    .then(() => records.get({ namespace: "default", key: "mail" }));
  let looks = 0;
  const client = onceWith(b, records, { get: async () => (looks++ === 0 ? null : done) });
  expect(await client.once("bill", {}, () => "again")).toMatchObject({ ran: false, value: "sent" });
  expect(looks).toBe(2);
  expect(held.checkAlive()).toBe(true);
  await client.close();
});

it("goes on waiting if it cannot look for the record at a notification", async () => {
  const { env, a, b, records } = await onceWorld();
  const debug = vi.spyOn(env.logger, "debug");
  const held = await a.acquire("once:bill");
  const error = down();
  let isCut = false;
  const client = onceWith(b, records, {
    async get(key) {
      if (!isCut) return records.get(key);
      isCut = false;
      throw error;
    },
  });
  const answer = client.once("bill", {}, () => "sent");
  await env.clock.settle();
  isCut = true;
  await held.release();
  expect(await answer).toEqual({ ran: true, value: "sent" });
  expect(debug.mock.calls).toContainEqual([{ err: error }, "record not read"]);
  await client.close();
});

it("leaves at its caller's signal while it waits for the time of the next attempt", async () => {
  const { a, b } = await onceWorld();
  const bad = () => Promise.reject(new Error("no"));
  await a.once("bill", { retryDelayMs: 10_000 }, bad).catch(() => {});
  const leaving = new AbortController();
  const waiting = b.once("bill", { signal: leaving.signal }, () => 1);
  const refused = expect(waiting).rejects.toBe("leaving");
  leaving.abort("leaving");
  await refused;
});

it("takes no lease after that time if another caller has succeeded meanwhile", async () => {
  const { env, a, b, records } = await onceWorld();
  const bad = () => Promise.reject(new Error("no"));
  await a.once("bill", { retryDelayMs: 10_000 }, bad).catch(() => {});
  const waiting = b.once("bill", () => "b");
  await env.clock.advance(5_000);
  await records.retry({ namespace: "default", key: "bill" });
  await a.once("bill", () => "a");
  const before = await a.get("once:bill");
  await env.clock.advance(5_000);
  expect(await waiting).toMatchObject({ ran: false, value: "a" });
  expect((await a.get("once:bill"))?.token).toBe(before?.token);
});

it.each([true, false])(
  "collects once an hour until it is closed; leases of its own: %s",
  async (isOwn) => {
    const { env, a, records } = await onceWorld();
    const leases = leasesOf(a);
    const close = vi.spyOn(leases, "close");
    const [ofRecords, ofLeases] = [vi.fn(async () => 0), vi.fn(async () => 0)];
    const own = { collect: ofRecords, leases: instead(records.leases, { collect: ofLeases }) };
    const client = onceOver(instead(records, own), leases, isOwn);
    await env.clock.advance(2 * HOUR_MS);
    const times = ofRecords.mock.calls.length;
    expect(times).toBeGreaterThan(0);
    expect(ofLeases.mock.calls.length > 0).toBe(isOwn);
    await client.close();
    expect(close).toHaveBeenCalledTimes(isOwn ? 1 : 0);
    await env.clock.advance(2 * HOUR_MS);
    expect(ofRecords).toHaveBeenCalledTimes(times);
  },
);
