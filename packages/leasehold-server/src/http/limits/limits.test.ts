import { expect, it } from "vitest";
import { resolveLimits, servedTtl } from "./limits.js";

const RANGE = { minMs: 1, maxMs: 2 ** 31, stepMs: 1 };

it("accepts TTLs of one second to one hour, within the store's limits", () => {
  const limits = resolveLimits();
  expect(servedTtl(RANGE, limits)).toEqual({ minMs: 1_000, maxMs: 3_600_000, stepMs: 1 });
  const coarse = { minMs: 4_000_000, maxMs: 9_000_000, stepMs: 1_000 };
  expect(servedTtl(coarse, limits)).toEqual({ minMs: 4_000_000, maxMs: 4_000_000, stepMs: 1_000 });
});

it.each<[limits: object, path: string]>([
  [{ inFlight: 0 }, "limits.inFlight"],
  [{ ratePerSecond: 1.5 }, "limits.ratePerSecond"],
  // As `--limits inFlight=none` sets it: no limit would refuse every request.
  [{ inFlight: null }, "limits.inFlight"],
  [{ lease: 1 }, "lease"],
  [{ shortestTtlMs: 5_000, longestTtlMs: 10 }, "limits.longestTtlMs"],
  [{ longestTtlMs: 10 }, "limits.longestTtlMs"],
  [{ shortestTtlMs: 3_600_001 }, "limits.longestTtlMs"],
])("refuses %o, naming it", (limits, path) => {
  expect(() => resolveLimits(limits)).toThrow(expect.objectContaining({ path }));
});
