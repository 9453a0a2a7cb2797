/** Rates whose declarations change. */
import type { Rate } from "../../tasks/port.js";
import type { Section } from "./fixture.js";
import { declare, HOUR_MS, many, needsLimits, view } from "./limit-fixture.js";

export const rates: Section = (test, expect) => {
  test(
    "counts what has started in a window when another limit is declared",
    async (fixture) => {
      const [three, four] = [3, 4].map((limit) => ({ limit, perMs: HOUR_MS })) as [Rate, Rate];
      await declare(fixture, { rate: three });
      await fixture.addAll(many(9));
      expect(await fixture.claim()).toHaveLength(3);
      // As two versions of a program do, one after the other.
      for (const [rate, started] of [
        [four, 4],
        [three, 4],
        [four, 4],
      ] as const) {
        expect(await declare(fixture, { rate })).toBe("changed");
        await fixture.claim();
        expect((await view(fixture)).started).toBe(started);
      }
    },
    needsLimits,
  );
};
