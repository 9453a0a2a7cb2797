/** A share of `npm run verify -- model`: random programs of the public API against models of it. */
import { describe, expect, it } from "vitest";
import { repetitions } from "../../tests/support/runner/full.js";
import { FAMILIES, type Family, replay, report, runPrograms } from "./index.js";

const SEED = 1;
const TIMEOUT_MS = 3_600_000;

describe.each(FAMILIES)("random programs of $name", (family: Family) => {
  it(
    "are answered as the model says, with every outcome",
    async () => {
      const programs = repetitions({ usual: family.usualPrograms, full: 1_000 });
      const result = await runPrograms(family, { programs, seed: SEED });
      expect(report(result)).toBe("");
      expect(result.programs).toBe(programs);
      expect(result.missing).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

it("repeats a program that a failure has printed", async () => {
  const acquire = { do: "acquire", client: 0, resource: 0, ttlMs: 300, waitMs: null };
  const steps = [
    { ...acquire, autoRenew: true },
    { do: "pass", ms: 20 },
  ];
  const { failure, story } = await replay({ family: "leases", seed: 1, steps });
  expect(failure).toBe(null);
  expect(story).toMatch(/^acquire: granted \d+$/m);
  await expect(replay({ family: "unknown", seed: 1, steps })).rejects.toThrow("no family");
});
