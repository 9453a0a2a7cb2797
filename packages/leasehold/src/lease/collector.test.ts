import { expect, it } from "vitest";
import { manualEnv } from "../testing/index.js";
import { startCollector } from "./collector.js";

it("deletes what ended a week ago, about once an hour, until it is stopped", async () => {
  const { clock, random, logger } = manualEnv();
  const collected: number[] = [];
  const collect = async (olderThanMs: number) => collected.push(olderThanMs);
  const collector = startCollector({ collect }, { clock, random, logger });
  const HOUR_MS = 3_600_000;
  await clock.advance(HOUR_MS / 2);
  expect(collected).toEqual([]);
  await clock.advance(10 * HOUR_MS);
  expect(new Set(collected)).toEqual(new Set([7 * 24 * HOUR_MS]));
  expect(collected.length).toBeGreaterThan(7);
  expect(collected.length).toBeLessThan(13);
  await collector.stop();
  expect(clock.pendingTimers).toBe(0);
});
