import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { Ttls } from "./ttls.js";

it("lets a tenant use a hundred different TTLs within ten seconds, and go on with those that it uses", async () => {
  const { clock } = manualEnv();
  const ttls = new Ttls(clock);
  const check = (from: number, count: number, namespace = "n") => {
    const used = Array.from({ length: count }, (_, at) => ({ ttlMs: (from + at) * 1_000 }));
    ttls.check(namespace, used);
  };
  check(1, 60);
  check(1, 60);
  // Rounded up, they are among those.
  ttls.check("n", [{ ttlMs: 59_001 }, { ttlMs: 1 }]);
  check(61, 40);
  await clock.advance(4_000);
  const init = { scarce: "ttls", headers: { "retry-after": "6" } };
  const refused = expect.objectContaining({ code: "TOO_MANY_REQUESTS", init });
  expect(() => check(1, 101)).toThrow(refused);
  check(1, 1);
  expect(() => check(102, 1)).toThrow(refused);
  check(101, 1, "other");
  await clock.advance(6_000);
  check(101, 100);
});
