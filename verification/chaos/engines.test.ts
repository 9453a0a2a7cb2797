/**
 * Chaos on one engine for as long as a test may take: `npm run verify -- chaos` does the same for longer, on all
 * of them. CHAOS_SEED repeats the plan of a run's faults; what they hit is up to the machine.
 * @module-tag safety
 */
import { randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { describeRedis } from "../../tests/support/engines/redis-engine.js";
import { runCampaign } from "./engines/campaign.js";

const MINUTES = 0.3;
/** Most of it is for processes to start on a busy machine. */
const TIMEOUT_MS = 240_000;

describeRedis("chaos on Redis", () => {
  it(
    "lets no holder believe when the next one has it, and no late write past the fence",
    async () => {
      const seed = Number(process.env["CHAOS_SEED"] ?? randomInt(2 ** 31));
      console.info(`CHAOS_SEED=${seed}`);
      const { signal } = new AbortController();
      const { stores, failed } = await runCampaign({
        stores: ["redis"],
        minutes: MINUTES,
        seed,
        signal,
      });
      expect(failed).toEqual({});
      const { complaints, tooRare, fencedViolations, breaches, ...figures } = stores[0]!;
      console.info(figures);
      expect({ fencedViolations, breaches, complaints }).toEqual({
        fencedViolations: 0,
        breaches: [],
        complaints: [],
      });
      expect(tooRare, "happened too rarely to prove anything").toEqual([]);
    },
    TIMEOUT_MS,
  );
});
