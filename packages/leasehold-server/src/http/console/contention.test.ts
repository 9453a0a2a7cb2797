import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { Contention } from "./contention.js";

it("counts lost leases without a place in the list, also where none was contended", () => {
  const contention = new Contention(manualClock());
  for (let n = 0; n < 25; n += 1) contention.note("lost", "a", `p${n}/1`);
  const { items } = contention.of("a");
  expect(items.at(-1)).toMatchObject({ prefix: null, held: 0 });
  expect(items.reduce((sum, { lost }) => sum + lost, 0)).toBe(25);
});

it("names the prefix other, and counts those without a place in the list together", () => {
  const contention = new Contention(manualClock());
  const note = (resource: string, times: number) => {
    for (let n = 0; n < times; n += 1) contention.note("held", "a", resource);
  };
  note("other/1", 9);
  expect(contention.of("a").items).toEqual([{ prefix: "other", held: 9, lost: 0 }]);
  for (let n = 0; n < 25; n += 1) note(`p${n}/1`, 2);
  const { items } = contention.of("a");
  expect(items[0]).toEqual({ prefix: "other", held: 9, lost: 0 });
  expect(items.at(-1)?.prefix).toBeNull();
  expect(items.reduce((sum, { held }) => sum + held, 0)).toBe(59);
});
