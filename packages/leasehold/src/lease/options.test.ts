import { describe, expect, it } from "vitest";
import { InvalidOptionError } from "./errors.js";
import { checkName, encodeMetadata } from "./names.js";
import { type AcquireOptions, resolveOptions } from "./options.js";

const TTL = { minMs: 1, maxMs: 2 ** 31 - 1, stepMs: 1 };

function problem(options: AcquireOptions, ttl = TTL): string {
  try {
    resolveOptions(options, {}, ttl);
  } catch (error) {
    if (error instanceof InvalidOptionError) return `${error.path}: ${error.message}`;
    throw error;
  }
  return "none";
}

describe("resolveOptions", () => {
  it("has the defaults that it documents", () => {
    expect(resolveOptions({}, {}, TTL)).toEqual({
      ttlMs: 30_000,
      waitMs: Number.POSITIVE_INFINITY,
      autoRenew: true,
      renewIntervalMs: 10_000,
      marginMs: 10,
      driftRatio: 0.01,
      stopOnRenewError: false,
      signal: undefined,
      metadata: undefined,
    });
  });

  it("lets a call override the client's defaults, and undefined mean the default", () => {
    const defaults = { ttlMs: 5_000, marginMs: 20 };
    const options = { ttlMs: 6_000, marginMs: undefined } as unknown as AcquireOptions;
    expect(resolveOptions(options, defaults, TTL)).toMatchObject({ ttlMs: 6_000, marginMs: 20 });
  });

  it.each<[AcquireOptions, RegExp]>([
    [{ ttlMs: 99 }, /^ttlMs: .*from 100 to/],
    [{ ttlMs: 1_000.5 }, /^ttlMs: .*whole number/],
    [{ ttlMs: Number.NaN }, /^ttlMs: .*number/],
    [{ ttlMs: "5000" as unknown as number }, /^ttlMs: .*number, not "5000"/],
    [{ ttlMs: 2 ** 31 }, /^ttlMs: /],
    [{ waitMs: -1 }, /^waitMs: /],
    [{ marginMs: -1 }, /^marginMs: /],
    [{ driftRatio: 0.6 }, /^driftRatio: /],
    [{ renewIntervalMs: 0 }, /^renewIntervalMs: /],
    [{ ttlMs: 1_000, renewIntervalMs: 950 }, /^renewIntervalMs: .*shorter than the trusted time/],
    [{ ttlMs: 1_000, driftRatio: 0.5, renewIntervalMs: 500 }, /^renewIntervalMs: .* = 490:/],
    // Even a renewal at the very end of the trusted time is too late.
    [{ ttlMs: 1_100, driftRatio: 0, marginMs: 0, renewIntervalMs: 1_000 }, /^renewIntervalMs: /],
    [{ ttlMs: 100, marginMs: 70 }, /^renewIntervalMs: .*lower renewIntervalMs, marginMs/],
    [{ signal: {} as AbortSignal }, /^signal: /],
    [{ autoRenew: "no" as unknown as boolean }, /^autoRenew: .*boolean/],
    [{ stopOnRenewError: 1 as unknown as boolean }, /^stopOnRenewError: .*boolean/],
    [{ metadata: "x" as never }, /^metadata: .*object/],
    [{ metadata: { a: 1 as unknown as string } }, /^metadata.a: .*string/],
    [{ ttl: 5 } as AcquireOptions, /^ttl: .*is not an option; known are ttlMs/],
  ])("refuses %j by name", (options, expected) => {
    expect(problem(options)).toMatch(expected);
  });

  it("keeps to what the store can grant", () => {
    expect(problem({ ttlMs: 1_000 }, { minMs: 2_000, maxMs: 60_000, stepMs: 1_000 })).toMatch(
      /^ttlMs: .*from 2000 to 60000/,
    );
  });
});

describe("checkName", () => {
  it.each(["a", "a".repeat(256), "日本語", "a/b:c%d_*", "👩‍👩‍👧"])("takes %j", (name) => {
    expect(() => checkName("resource", name)).not.toThrow();
  });
  it.each([
    ["", /empty/],
    ["a".repeat(257), /256 bytes/],
    ["é".repeat(129), /256 bytes/],
    ["é".repeat(256), /256 bytes/],
    ["a\0b", /NUL/],
    ["a\ud800", /surrogate/],
    [7, /string/],
  ])("refuses %j", (name, expected) => {
    expect(() => checkName("resource", name)).toThrow(expected);
  });
});

it("bounds metadata by its bytes", () => {
  expect(encodeMetadata({ build: "1.2" })).toBe('{"build":"1.2"}');
  expect(() => encodeMetadata({ a: "é".repeat(2_100) })).toThrow(/4096 bytes/);
});
