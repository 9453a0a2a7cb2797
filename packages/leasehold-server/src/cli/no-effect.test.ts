import { openStores } from "leasehold";
import { expect, it, onTestFinished } from "vitest";
import { warnOfNoEffect } from "./no-effect.js";

type Given = Parameters<typeof warnOfNoEffect>[1];

async function warned(given: Given, { withKey = false, withControl = true } = {}) {
  const stores = await openStores("memory:");
  onTestFinished(() => stores.close());
  const lines: object[] = [];
  const warn = (fields: object, message?: string) => void lines.push({ ...fields, message });
  const used = withControl ? stores : { leases: stores.leases };
  warnOfNoEffect({ warn }, given, used, withKey ? "valid" : "none");
  return lines;
}

it("warns of a rate without keys, which are what it counts by", async () => {
  const given = { limits: { ratePerSecond: 5 } };
  const line = { event: "no_effect", option: "--limits ratePerSecond" };
  expect(await warned(given)).toEqual([
    { ...line, message: expect.stringContaining("leasehold keys create") },
  ]);
  expect(await warned(given, { withControl: false })).toEqual([
    { ...line, message: expect.stringContaining("--control") },
  ]);
  expect(await warned(given, { withKey: true })).toEqual([]);
  expect(await warned({ limits: { ratePerSecond: null } })).toEqual([]);
});

it("warns of --insecure-no-keys if there are keys, which requests then need", async () => {
  const given = { insecureNoKeys: true };
  expect(await warned(given, { withKey: true })).toMatchObject([{ option: "--insecure-no-keys" }]);
  expect(await warned(given)).toEqual([]);
});

it("warns of TTLs that the store does not grant", async () => {
  const limits = { shortestTtlMs: 0.5, longestTtlMs: 2 ** 40 };
  expect(await warned({ limits })).toMatchObject([
    { option: "--limits shortestTtlMs", message: expect.stringContaining("1 ms") },
    { option: "--limits longestTtlMs", message: expect.stringContaining("2147483647 ms") },
  ]);
  expect(await warned({ limits: { shortestTtlMs: 100, longestTtlMs: 60_000 } })).toEqual([]);
  expect(await warned({})).toEqual([]);
});
