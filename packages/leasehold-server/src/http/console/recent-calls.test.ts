/** The claims that an instance records. */

import { LONGEST_WAITER_MS } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { RecentCalls } from "./recent-calls.js";

const CLAIM = { namespace: "n", claimId: "c", limit: 1, ttlMs: 1_000, kinds: null };

test("keeps a worker's claims per set of queues, latest last, for two minutes", async () => {
  const { clock } = manualEnv();
  const recent = new RecentCalls(clock);
  const wordy = Array.from({ length: 200 }, (_, n) => `${n}`.padEnd(250, "."));
  const answered = recent.claiming({ ...CLAIM, holder: "a", queues: wordy });
  await clock.advance(1);
  recent.claiming({ ...CLAIM, holder: "a", queues: ["q"] })();
  const shown = () => recent.claimers().map(({ queues, waiting }) => [queues.length, waiting]);
  expect(shown()).toEqual([
    [200, true],
    [1, false],
  ]);
  await clock.advance(120_001);
  expect(shown()).toEqual([[200, true]]);
  answered();
  expect(shown()).toEqual([[200, false]]);
});

test("keeps few claims with very many queues, so that memory stays bounded", () => {
  const recent = new RecentCalls(manualEnv().clock);
  for (let n = 0; n < 2_000; n += 1) {
    const queues = Array.from({ length: 200 }, (_, index) => `${n}-${index}`.padEnd(20, "."));
    recent.claiming({ ...CLAIM, holder: `long-${n}`, queues })();
    recent.claiming({ ...CLAIM, holder: `short-${n}`, queues: ["q"] })();
  }
  const holders = recent.claimers().map(({ holder }) => holder);
  const many = (of: string) => holders.filter((holder) => holder.startsWith(of)).length;
  expect(many("long")).toBeLessThanOrEqual(50);
  expect(many("short")).toBeGreaterThanOrEqual(500);
  expect(holders).toContain("long-1999");
});

const CAUSE = { requestId: "q", tookMs: 1, resource: "r" };
const HELD = { ...CAUSE, type: "held", heldBy: "a", grantId: null, token: null } as const;
const ID = ["0".repeat(16), "1".repeat(16), "2".repeat(16)] as const;
const GRANTED = {
  ...CAUSE,
  type: "acquired",
  holder: "a",
  token: 1,
  ttlMs: 1,
  replaced: null,
} as const;

test("keeps a waiter from its first attempt until it stops polling, is granted, or leaves", async () => {
  const { clock } = manualEnv();
  const recent = new RecentCalls(clock);
  const firstAt = new Date(clock.wall()).toISOString();
  const ask = (asked: string, holder: string, ahead: number | null, queueMs = 5_000) =>
    recent.note({ ...HELD, asked, holder, ahead, queueMs });
  const holders = () => recent.waiters("r").map(({ holder }) => holder);
  ask(ID[0], "late", 2);
  await clock.advance(1_000);
  ask(ID[1], "early", 0);
  ask(ID[2], "middle", 1);
  for (let polls = 0; polls < 3; polls += 1) {
    await clock.advance(4_000);
    for (const [index, holder] of ["late", "early", "middle"].entries()) {
      ask(ID[index]!, holder, (index + 2) % 3);
    }
  }
  expect(holders()).toEqual(["early", "middle", "late"]);
  expect(recent.waiters("r")[2]).toMatchObject({ askedAt: firstAt, ahead: 2 });
  expect(recent.waiters("other")).toEqual([]);
  expect(recent.contended()).toEqual({ resources: 1, waiting: 3 });
  recent.note({ ...GRANTED, grantId: ID[1], holder: "early" });
  expect(holders()).toEqual(["middle", "late"]);
  expect(recent.note({ ...CAUSE, type: "notHeld", grantId: ID[2] }), "only leaves").toBe(false);
  expect([holders(), recent.waits(ID[2])]).toEqual([["late"], false]);
  expect(recent.counts().waiters).toEqual(new Map([["r", 1]]));
  await clock.advance(5_000);
  expect([holders(), recent.waits(ID[0])]).toEqual([[], false]);
  expect(recent.contended()).toEqual({ resources: 1, waiting: 0 });
  await clock.advance(60_000);
  expect(recent.contended()).toEqual({ resources: 0, waiting: 0 });
});

test("waiters of a store without positions are in the order of their first attempts", async () => {
  const { clock } = manualEnv();
  const recent = new RecentCalls(clock);
  const ask = (asked: string, holder: string, resource = "r") =>
    recent.note({ ...HELD, resource, asked, holder, ahead: null, queueMs: 60_000 });
  ask(ID[0], "first");
  await clock.advance(1_000);
  for (let n = 0; n < 1_500; n += 1) ask(`${n}`.padStart(16, "a"), "another", "another");
  ask(ID[1], "second");
  ask(ID[0], "first");
  expect(recent.waiters("r").map(({ holder }) => holder)).toEqual(["first", "second"]);
});

test("a contender that does not wait is no waiter", () => {
  const recent = new RecentCalls(manualEnv().clock);
  recent.note({ ...HELD, asked: ID[0], holder: "b", ahead: null, queueMs: null });
  expect(recent.contended()).toEqual({ resources: 1, waiting: 0 });
  expect(recent.waits(ID[0])).toBe(false);
});

test("each end of a grant is news once", () => {
  const recent = new RecentCalls(manualEnv().clock);
  const end = (type: "released" | "lost" | "notHeld", grantId: string) =>
    recent.note({ ...CAUSE, type, grantId, token: 1, reason: "expired" });
  for (const grantId of ID) {
    expect(recent.note({ ...GRANTED, grantId })).toBe(true);
    expect(recent.note({ ...GRANTED, grantId }), "repeated").toBe(false);
  }
  expect([end("released", ID[0]), end("released", ID[0]), end("notHeld", ID[0])]).toEqual([
    true,
    false,
    false,
  ]);
  // A holder that comes too late is refused, and that is news once.
  expect([end("notHeld", ID[1]), end("notHeld", ID[1])]).toEqual([true, false]);
  expect([end("lost", ID[2]), end("lost", ID[2]), end("notHeld", ID[2])]).toEqual([
    true,
    true,
    false,
  ]);
  // A revoked holder may still release before the expiry, and repeat that.
  expect(recent.note({ ...GRANTED, grantId: "3".repeat(16) })).toBe(true);
  const late = (["lost", "released", "released"] as const).map((type) => end(type, "3".repeat(16)));
  expect(late).toEqual([true, true, false]);
  // A grant of another instance.
  expect([end("released", "f".repeat(16)), end("notHeld", "f".repeat(16))]).toEqual([true, false]);
});

test("a grant that is renewed stays known, however many short ones follow it", () => {
  const recent = new RecentCalls(manualEnv().clock);
  const long = "f".repeat(16);
  recent.note({ ...GRANTED, grantId: long });
  for (let n = 0; n < 40_000; n += 1) {
    recent.note({ ...GRANTED, grantId: `${n}`.padStart(16, "0") });
    if (n % 5_000 === 0) {
      recent.note({ ...CAUSE, type: "renewed", grantId: long, token: 1, ttlMs: 1 });
    }
  }
  expect(recent.grant(long)).toMatchObject({ holder: "a", renewals: 8 });
  expect(recent.grant("0".repeat(16))).toBeUndefined();
});

test("a waiter that asks for longer than a store keeps it counts for as long as a store does", async () => {
  const { clock } = manualEnv();
  const recent = new RecentCalls(clock);
  recent.note({ ...HELD, asked: ID[0], holder: "b", ahead: 0, queueMs: 3_600_000 });
  await clock.advance(LONGEST_WAITER_MS - 1);
  expect(recent.waits(ID[0])).toBe(true);
  await clock.advance(1);
  expect(recent.waits(ID[0])).toBe(false);
});

test("the latest refusals of the wanted resources come first", () => {
  const recent = new RecentCalls(manualEnv().clock);
  for (let n = 0; n < 600; n += 1) {
    const names = { resource: n % 2 ? "odd" : "even", holder: null, token: n, grantId: null };
    recent.refused({ at: "", topic: "lease", operation: "renew", reason: "taken", ...names });
  }
  const tokens = (wanted: string, most?: number) =>
    recent.refusals((resource) => resource === wanted, most).map(({ token }) => token);
  expect(tokens("odd", 3)).toEqual([599, 597, 595]);
  expect([tokens("even").length, tokens("even").at(-1)]).toEqual([250, 100]);
  expect(recent.counts().refusals.get("odd")).toBe(250);
});

test("a worker with several open claims waits until the last is answered", () => {
  const recent = new RecentCalls(manualEnv().clock);
  const claim = { ...CLAIM, holder: "a", queues: ["q"] };
  const [first, second] = [recent.claiming(claim), recent.claiming(claim)];
  const waiting = () => recent.claimers().map((claimer) => claimer.waiting);
  first();
  expect(waiting()).toEqual([true]);
  second();
  expect(waiting()).toEqual([false]);
  recent.claiming({ ...claim, kinds: ["k"] });
  recent.claiming({ ...claim, holder: "b" });
  expect(recent.claimers().map(({ holder, kinds }) => [holder, kinds])).toEqual([
    ["a", null],
    ["a", ["k"]],
    ["b", null],
  ]);
});
