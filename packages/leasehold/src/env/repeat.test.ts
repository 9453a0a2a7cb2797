import { expect, test } from "vitest";
import { manualEnv } from "../testing/index.js";
import { repeat } from "./repeat.js";

test("works about every interval, never twice at once, until stopped", async () => {
  const env = manualEnv();
  const finish: (() => void)[] = [];
  const repeating = repeat(env, "test", 100, () => new Promise<void>((done) => finish.push(done)));
  await env.clock.advance(1_000);
  expect(finish).toHaveLength(1);
  finish[0]?.();
  await env.clock.advance(120);
  expect(finish).toHaveLength(2);

  let stopped = false;
  const stopping = repeating.stop().then(() => {
    stopped = true;
  });
  await env.clock.settle();
  expect(stopped, "waits for the round under way").toBe(false);
  finish[1]?.();
  await stopping;
  await env.clock.advance(10_000);
  expect(finish).toHaveLength(2);
  expect(env.clock.pendingTimers).toBe(0);
});

test("a failing round is logged once and tried again later", async () => {
  const logged: string[] = [];
  const log = (_: object, message: string) => void logged.push(message);
  const logger = { debug: log, info: log, warn: log, error: log };
  const env = manualEnv({ logger });
  let rounds = 0;
  let broken = true;
  const repeating = repeat(env, "test", 100, async () => {
    rounds += 1;
    if (broken) throw new Error("down");
  });
  await env.clock.advance(10_000);
  expect(logged).toEqual(["background work failed"]);
  expect(rounds).toBeGreaterThan(4);
  expect(rounds, "waits longer while it fails").toBeLessThan(20);
  broken = false;
  await env.clock.advance(2_000);
  expect(logged).toEqual(["background work failed", "background work succeeds again"]);
  await repeating.stop();
});

test("a round that succeeds ends the longer waits, after any number of failures", async () => {
  const env = manualEnv();
  let broken = false;
  let rounds = 0;
  const repeating = repeat(env, "test", 100, async () => {
    rounds += 1;
    if (broken) throw new Error("down");
  });
  for (let outage = 0; outage < 5; outage += 1) {
    broken = true;
    await env.clock.advance(20_000);
    broken = false;
    await env.clock.advance(2_000);
    const before = rounds;
    await env.clock.advance(1_000);
    expect(rounds - before, `after outage ${outage + 1}`).toBeGreaterThanOrEqual(8);
  }
  await repeating.stop();
  expect(env.clock.pendingTimers).toBe(0);
});
