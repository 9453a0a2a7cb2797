/** Reads of the store that pages of the console share. */
import { manualClock } from "leasehold/testing";
import { expect, it, vi } from "vitest";
import { CachedRead } from "./cached-read.js";

it("is shared for two seconds, and for ten times as long as it took", async () => {
  const clock = manualClock();
  let tookMs = 0;
  const read = vi.fn(async () => {
    if (tookMs > 0) await new Promise<void>((resolve) => clock.timer(tookMs, resolve));
    return read.mock.calls.length;
  });
  const cached = new CachedRead(clock, read);
  const answers = await Promise.all([cached.of("a"), cached.of("a"), cached.of("b")]);
  expect(answers).toEqual([1, 1, 2]);
  await clock.advance(1_999);
  expect(await cached.of("a")).toBe(1);
  await clock.advance(1);
  tookMs = 500;
  const slow = cached.of("a");
  await clock.advance(500);
  expect(await slow).toBe(3);
  await clock.advance(4_499);
  expect(await cached.of("a")).toBe(3);
  await clock.advance(1);
  const again = cached.of("a");
  await clock.advance(500);
  expect(await again).toBe(4);
});

it("does not keep a failure", async () => {
  const clock = manualClock();
  let isDown = true;
  const cached = new CachedRead(clock, async () => {
    if (isDown) throw new Error("down");
    return "up";
  });
  await expect(cached.of("a")).rejects.toThrow("down");
  isDown = false;
  expect(await cached.of("a")).toBe("up");
});

it("abandons a read that hangs, and a late failure of it leaves the answer of the next", async () => {
  const clock = manualClock();
  const reads: { resolve: (value: string) => void; reject: (error: Error) => void }[] = [];
  const cached = new CachedRead(
    clock,
    () => new Promise<string>((resolve, reject) => reads.push({ resolve, reject })),
  );
  const hanging = cached.of("a").catch(() => "failed");
  await clock.advance(9_999);
  void cached.of("a").catch(() => {});
  expect(reads).toHaveLength(1);
  await clock.advance(1);
  const next = cached.of("a");
  expect(reads).toHaveLength(2);
  reads[1]?.resolve("next");
  expect(await next).toBe("next");
  reads[0]?.reject(new Error("late"));
  expect(await hanging).toBe("failed");
  expect(await cached.of("a")).toBe("next");
  expect(reads).toHaveLength(2);
});
