/** Since when a client has seen a resource free. */
import { expect, it } from "vitest";
import { MOST_KNOWN, Sightings } from "./sightings.js";

it("measures from the first sight, which later ones of the same change do not move", () => {
  const sightings = new Sightings();
  expect(sightings.freeForMs("r", 5, 7, 1_000)).toBe(0);
  expect(sightings.freeForMs("r", 5, 8, 1_400)).toBe(400);
  // It was read at revision 7, so a change at 7 was seen.
  expect(sightings.freeForMs("r", 7, 9, 1_500)).toBe(500);
  expect(sightings.freeForMs("other", 5, 7, 1_500)).toBe(0);
});

it("begins anew when the resource was granted in between, or is seen held", () => {
  const sightings = new Sightings();
  sightings.freeForMs("r", 5, 7, 1_000);
  expect(sightings.freeForMs("r", 8, 9, 2_000)).toBe(0);
  expect(sightings.freeForMs("r", 8, 9, 2_100)).toBe(100);
  sightings.taken("r");
  expect(sightings.freeForMs("r", 8, 9, 3_000)).toBe(0);
  // A read of a member that lags behind: the change is the newer one.
  expect(sightings.freeForMs("lagging", 9, 3, 3_000)).toBe(0);
  expect(sightings.freeForMs("lagging", 9, 3, 3_200)).toBe(200);
});

it("forgets the oldest rather than grow", () => {
  const sightings = new Sightings();
  sightings.freeForMs("old", 1, 1, 0);
  for (let n = 0; n < 2 * MOST_KNOWN; n += 1) sightings.freeForMs(`r${n}`, 1, 1, 0);
  expect(sightings.freeForMs("old", 1, 1, 1_000)).toBe(0);
  expect(sightings.freeForMs(`r${2 * MOST_KNOWN - 1}`, 1, 1, 1_000)).toBe(1_000);
});
