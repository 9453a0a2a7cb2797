/** What a run must show at least, by the times of its engine. */
import { expect, it } from "vitest";
import { leastOf } from "./report.js";
import { consul } from "./stores/consul.js";
import { redis } from "./stores/redis.js";
import { zookeeper } from "./stores/zookeeper.js";

it("wants of a store whose leases last for a second what each minute brings", () => {
  expect(leastOf(60_000, redis)).toEqual({
    faults: 12,
    takeovers: 4,
    expiries: 8,
    pausesPastTtl: 4,
    staleRefused: 2,
    unfencedViolations: 2,
  });
});

it("counts takeovers, and the stale writes after them, by the life of sessions, and pauses by the TTL", () => {
  // A session of 4 s and 2 s more, with leases of 2.5 s.
  expect(leastOf(360_000, zookeeper)).toMatchObject({ takeovers: 8, expiries: 17, faults: 28 });
  // Two TTLs of 10 s and 2 s more, with leases of 3 s.
  expect(leastOf(600_000, consul)).toEqual({
    faults: 40,
    takeovers: 3,
    expiries: 16,
    pausesPastTtl: 13,
    staleRefused: 1,
    unfencedViolations: 1,
  });
});

it("wants one of each of the shortest run", () => {
  expect(Object.values(leastOf(1_000, consul))).toEqual([1, 1, 1, 1, 1, 1]);
});
