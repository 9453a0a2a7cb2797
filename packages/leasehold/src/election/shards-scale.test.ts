import { expect, it } from "vitest";
import { SHARDS_TTL_MS, shardsWorld } from "../../../../tests/support/worlds/shards-world.js";

it("Shards works on 1,024 shards with 16 members, of which one dies and one joins", async () => {
  const { clock, join, loads, working, overlaps } = shardsWorld(1_024);
  const members = Array.from({ length: 16 }, (_, at) => join(`member-${at}`));
  await clock.advance(10_000);
  expect(Object.values(loads())).toEqual(Array.from({ length: 16 }, () => 64));
  const before = new Map(working);
  members[5]?.cut();
  await clock.advance(SHARDS_TTL_MS + 3_000);
  const owners = await members[0]!.shards.owners();
  expect(owners.every((owner) => owner !== null && owner !== "member-5")).toBe(true);
  const moved = owners.filter((owner, shard) => owner !== before.get(shard));
  expect(moved.length).toBeLessThanOrEqual(Math.ceil(1_024 / 16));
  members.push(join("late"));
  await clock.advance(10_000);
  expect(Object.values(loads()).every((load) => load === 64)).toBe(true);
  await Promise.all(members.filter((_, at) => at !== 5).map(({ shards }) => shards.close()));
  expect(overlaps()).toBe(0);
});
