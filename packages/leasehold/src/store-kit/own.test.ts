/** How a client ends what its session would keep alive. */
import { expect, it } from "vitest";
import { SerialExecutor } from "../env/index.js";
import { manualClock } from "../testing/index.js";
import { Own } from "./own.js";

interface One {
  readonly id: string;
  untilMs: number;
}

function open() {
  const clock = manualClock();
  const turns = new SerialExecutor();
  const ends: [id: string, atMs: number][] = [];
  const server = { isDown: false };
  const own: Own<One> = new Own<One>(clock, turns, async ({ id }) => {
    ends.push([id, clock.monotonic()]);
    if (server.isDown) throw new Error("no connection");
    own.forget(id);
  });
  const put = (id: string, untilMs: number): One => {
    const one = { id, untilMs };
    own.put(one);
    return one;
  };
  return { clock, turns, ends, server, own, put };
}

it("ends each at its own expiry, and what was extended meanwhile at its new one", async () => {
  const { clock, ends, own, put } = open();
  const extended = put("extended", 1_000);
  put("b", 3_000);
  put("a", 2_000);
  await clock.advance(900);
  extended.untilMs = 5_000;
  await clock.advance(9_000);
  expect(ends).toEqual([
    ["a", 2_000],
    ["b", 3_000],
    ["extended", 5_000],
  ]);
  expect(own.get("a")).toBeUndefined();
  expect(clock.pendingTimers).toBe(0);
});

it("tries a failed end again each second until it succeeds, and at once on a new connection", async () => {
  const { clock, ends, server, own, put } = open();
  server.isDown = true;
  put("due", 1_000);
  put("later", 60_000);
  await clock.advance(4_500);
  expect(ends.map(([, atMs]) => atMs)).toEqual([1_000, 2_000, 3_000, 4_000]);
  own.hurry();
  await clock.advance(0);
  expect(ends).toHaveLength(5);
  server.isDown = false;
  own.hurry();
  await clock.advance(0);
  expect(ends.at(-1)).toEqual(["due", 4_500]);
  await clock.advance(50_000);
  expect(ends).toHaveLength(6);
  expect(clock.pendingTimers).toBe(1);
});

it("tries one again that has failed at this very time, on a new connection", async () => {
  const { clock, ends, server, own, put } = open();
  server.isDown = true;
  put("due", 1_000);
  await clock.advance(1_000);
  own.hurry();
  await clock.advance(0);
  expect(ends).toEqual([
    ["due", 1_000],
    ["due", 1_000],
  ]);
});

it("ends one at its expiry that was renewed for a moment meanwhile", async () => {
  const { clock, turns, ends, put } = open();
  const renewed = put("renewed", 1_000);
  const { lasting, finish } = work();
  void turns.run("renewed", async () => {
    await lasting;
    renewed.untilMs = 1_500;
  });
  await clock.advance(1_000);
  finish();
  await clock.advance(500);
  expect(ends).toEqual([["renewed", 1_500]]);
});

it("ends nothing that its holder renews or releases in the same moment", async () => {
  const { clock, turns, ends, own, put } = open();
  const renewed = put("renewed", 1_000);
  put("released", 1_000);
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  // These were sent before the expiry, and are answered after it.
  void turns.run("renewed", async () => {
    await answered;
    renewed.untilMs = 3_000;
  });
  void turns.run("released", async () => {
    await answered;
    own.forget("released");
  });
  await clock.advance(1_500);
  expect(ends).toEqual([]);
  answer();
  await clock.advance(1_000);
  expect(ends).toEqual([]);
  await clock.advance(1_000);
  expect(ends).toEqual([["renewed", 3_000]]);
  expect(clock.pendingTimers).toBe(0);
});

it("has one timer for each, and none once it is closed", async () => {
  const { clock, ends, own, put } = open();
  put("a", 1_000);
  put("a", 2_000);
  put("b", 2_000);
  expect(clock.pendingTimers).toBe(2);
  own.forget("b");
  expect(clock.pendingTimers).toBe(1);
  own.close();
  put("late", 1_000);
  expect(own.get("late")).toBeUndefined();
  expect(clock.pendingTimers).toBe(0);
  await clock.advance(10_000);
  expect(ends).toEqual([]);
});

it("counts and shows what it keeps, from whatever time its clock began", async () => {
  const { clock, ends, own, put } = open();
  await clock.advance(10_000);
  const kept = put("a", 11_000);
  put("b", 12_000);
  expect([own.size, own.get("a"), own.get("none")]).toEqual([2, kept, undefined]);
  own.forget("none");
  await clock.advance(1_000);
  expect(ends).toEqual([["a", 11_000]]);
  expect(own.size).toBe(1);
  // It ends only those that are due.
  own.hurry();
  await clock.advance(0);
  expect(ends).toHaveLength(1);
});

/** Work that lasts until `finish` is called. */
function work() {
  let finish = () => {};
  const lasting = new Promise<void>((resolve) => {
    finish = resolve;
  });
  return { lasting, finish };
}

it("works on one only while it does not end, nor does it end meanwhile", async () => {
  const { clock, ends, own, put } = open();
  put("a", 1_000);
  const { lasting, finish } = work();
  const working = own.inTurn("a", 5_000, async () => {
    await lasting;
    return "worked";
  });
  const next = own.inTurn("a", 5_000, async () => clock.monotonic());
  await clock.advance(2_000);
  expect(ends).toEqual([]);
  finish();
  expect(await working).toBe("worked");
  expect(await next).toBe(2_000);
  await clock.advance(0);
  expect(ends).toEqual([["a", 2_000]]);
  expect(clock.pendingTimers).toBe(0);
});

it("does not begin work after its deadline, and passes on its failure", async () => {
  const { clock, own } = open();
  await clock.advance(10_000);
  const { lasting, finish } = work();
  const working = own.inTurn("a", 15_000, async () => {
    await lasting;
    throw new Error("no connection");
  });
  let begun = false;
  const late = own.inTurn("a", 11_000, async () => {
    begun = true;
  });
  await clock.advance(1_000);
  expect(await late).toBeNull();
  const failed = expect(working).rejects.toThrow("no connection");
  finish();
  await failed;
  await clock.advance(0);
  expect(begun).toBe(false);
  expect(await own.inTurn("a", 15_000, async () => "next")).toBe("next");
});
