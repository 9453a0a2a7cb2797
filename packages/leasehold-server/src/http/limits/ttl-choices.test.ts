import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { TtlChoices } from "./ttl-choices.js";

it("a tenant may use a hundred different TTLs within ten seconds", async () => {
  const { clock } = manualEnv();
  const choices = new TtlChoices(clock);
  const ttls = (from: number, count: number) =>
    Array.from({ length: count }, (_, at) => ({ ttlMs: (from + at) * 1_000 }));
  choices.check("a", ttls(1, 60));
  choices.check("a", ttls(1, 60));
  // Rounded up, they are among those.
  choices.check("a", [{ ttlMs: 59_001 }, { ttlMs: 1 }]);
  choices.check("a", ttls(61, 40));
  await clock.advance(4_000);
  expect(() => choices.check("a", ttls(101, 1))).toThrow(
    expect.objectContaining({
      code: "TOO_MANY_REQUESTS",
      init: { headers: { "retry-after": "6" } },
    }),
  );
  choices.check("b", ttls(101, 1));
  await clock.advance(6_000);
  choices.check("a", ttls(101, 100));
});

it("a TTL that a tenant uses stays allowed when another one is refused", () => {
  const choices = new TtlChoices(manualEnv().clock);
  for (let n = 1; n <= 100; n += 1) choices.check("a", [{ ttlMs: n * 1_000 }]);
  expect(() => choices.check("a", [{ ttlMs: 1_000 }, { ttlMs: 101_000 }])).toThrow();
  expect(() => choices.check("a", [{ ttlMs: 1_000 }])).not.toThrow();
  expect(() => choices.check("a", [{ ttlMs: 102_000 }])).toThrow();
});
