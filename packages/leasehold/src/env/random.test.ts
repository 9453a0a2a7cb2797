import { expect, it } from "vitest";
import { jittered, systemRandom } from "./random.js";

it("gives no bytes twice, whatever is asked for, and none that change later", () => {
  const seen = new Set<string>();
  const kept: [bytes: Uint8Array, hex: string][] = [];
  const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
  // More than one buffer of them; 16 does not divide what is left of each.
  for (let round = 0; round < 2_000; round += 1) {
    const bytes = systemRandom.bytes(round % 50 === 0 ? 5_000 : 16 + (round % 3));
    seen.add(hexOf(bytes.subarray(0, 16)));
    kept.push([bytes, hexOf(bytes)]);
  }
  expect(seen.size).toBe(2_000);
  // By chance, one in 256 begins as the one before it ends.
  const linked = kept.filter(([bytes], at) => bytes[0] === kept[at - 1]?.[0].at(-1));
  expect(linked.length).toBeLessThan(200);
  for (const [bytes, hex] of kept) if (hexOf(bytes) !== hex) expect.unreachable("it has changed");
  expect(systemRandom.bytes(5_000)).toHaveLength(5_000);
});

it("spreads a value evenly to both sides", () => {
  const at = (float: number) => jittered({ ...systemRandom, float: () => float }, 100, 0.2);
  expect([at(0), at(0.5), at(0.999_999)].map(Math.round)).toEqual([80, 100, 120]);
});
