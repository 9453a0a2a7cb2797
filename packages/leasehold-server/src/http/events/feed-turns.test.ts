/** Many streams of one tenant read in turns of the event loop. */
import { nextTurn } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import type { LeaseEvent } from "../lease-calls.js";
import { TenantActivity } from "./activity.js";
import { UNRESTRICTED } from "./event-stream.js";
import { EventHub } from "./events.js";
import { FeedTurns } from "./feed-turns.js";

const LOST: LeaseEvent = {
  type: "lost",
  reason: "taken",
  requestId: "q",
  tookMs: 1,
  resource: "r",
  grantId: "0".repeat(16),
  token: 1,
};

/** Reads all streams in the background and counts what they read. */
function readers(streams: readonly ReadableStream<Uint8Array>[]) {
  const read = { texts: 0, characters: 0, ended: 0 };
  const texts = streams.map(() => "");
  for (const [index, stream] of streams.entries()) {
    void (async () => {
      for await (const part of stream) {
        read.texts += 1;
        read.characters += part.length;
        texts[index] += new TextDecoder().decode(part);
      }
      read.ended += 1;
    })();
  }
  /** What was read in each turn of the event loop, until in some turns nothing more is. */
  const turns = async () => {
    const seen: { texts: number; characters: number }[] = [];
    let quiet = 0;
    while (quiet < 5) {
      const { texts, characters } = read;
      await nextTurn();
      const turn = { texts: read.texts - texts, characters: read.characters - characters };
      quiet = turn.texts === 0 ? quiet + 1 : 0;
      seen.push(turn);
    }
    const most = (what: keyof (typeof seen)[0]) => Math.max(...seen.map((turn) => turn[what]));
    const sum = (what: keyof (typeof seen)[0]) => seen.reduce((all, turn) => all + turn[what], 0);
    return { most, sum };
  };
  return { read, texts, turns };
}

function setUp(streams: number, env = manualEnv()) {
  const activity = new TenantActivity(env);
  onTestFinished(() => activity.close());
  const topics = ["lease", "operator"] as const;
  const followers = { topics, last: 0, lastEventId: undefined, listener: UNRESTRICTED };
  const open = () => activity.stream(followers) as ReadableStream<Uint8Array>;
  const all = readers(Array.from({ length: streams }, open));
  const pause = (name: string, reason = "test") =>
    activity.notePause("paused", { kind: "queue", name }, { actor: "a", reason });
  return { env, activity, pause, ...all };
}

test("one event is read by a few streams in each turn, and by all in the end", async () => {
  const { activity, texts, turns } = setUp(300);
  await turns();
  activity.noteLease(LOST);
  const { most, sum } = await turns();
  // Two turns may begin between two of ours.
  expect(most("texts")).toBeLessThanOrEqual(40);
  expect(sum("texts")).toBe(300);
  expect(texts.every((text) => text.split('"refused"').length === 2)).toBe(true);
});

test("so it is for notifications of the stores", async () => {
  const env = manualEnv();
  let change = () => {};
  const leases = {
    async *watch(namespace: string, { signal }: { signal: AbortSignal }) {
      yield { type: "resync" } as const;
      await new Promise<void>((resolve) => (change = resolve));
      yield { type: "changed", namespace, resource: "r" } as const;
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    },
  };
  const tasks = { async *watch() {}, async *watchResults() {} };
  const hub = new EventHub({ env, namespace: "n", leases, tasks });
  onTestFinished(() => hub.close());
  const open = () => hub.stream(["leases"], undefined) as ReadableStream<Uint8Array>;
  const { turns } = readers(Array.from({ length: 300 }, open));
  await turns();
  change();
  const { most, sum } = await turns();
  expect(most("texts")).toBeLessThanOrEqual(40);
  expect(sum("texts")).toBe(300);
});

test("long events are read by fewer streams in a turn", async () => {
  const { pause, texts, turns } = setUp(40);
  await turns();
  for (let n = 0; n < 60; n += 1) pause(`${n}`, "x".repeat(1_000));
  const { most } = await turns();
  expect(most("characters")).toBeLessThan(210_000);
  for (const text of texts) {
    const names = [...text.matchAll(/"other":"queue (\d+)"/g)].map(([, name]) => name);
    expect(names).toEqual(Array.from({ length: 60 }, (_, n) => `${n}`));
  }
});

test("a flood of refused renewals is read some thousand times per second; a stream that falls behind gets a resync", async () => {
  const { env, activity, pause, read, texts, turns } = setUp(200);
  await turns();
  await env.clock.advance(10_000);
  const before = read.texts;
  for (let request = 0; request < 100; request += 1) {
    for (let item = 0; item < 20; item += 1) activity.noteLease(LOST);
    await turns();
  }
  // Without a limit, each of the 200 streams reads after each of the 100 requests.
  expect(read.texts - before).toBeLessThan(5_000);
  expect(texts.every((text) => text.split("event: resync").length === 2)).toBe(true);
  pause("last");
  for (let second = 0; second < 5; second += 1) {
    await env.clock.advance(1_000);
    await turns();
  }
  for (const text of texts) {
    const behind = text.lastIndexOf("event: resync");
    expect(text.split("event: resync")).toHaveLength(3);
    // No number is missing before the resync, which says that some are missing.
    const ids = text.slice(0, behind).matchAll(/^id: \w+\.(\d+)\nevent: activity$/gm);
    const numbers = [...ids].map(([, number]) => Number(number));
    const first = numbers[0] ?? 0;
    expect(numbers).toEqual(numbers.map((_, index) => first + index));
  }
});

test("streams that wait for a turn end at once when the server closes, and leave no timer", async () => {
  const { env, activity, read, turns } = setUp(200);
  await turns();
  for (let request = 0; request < 100; request += 1) {
    activity.noteLease(LOST);
    await turns();
  }
  activity.noteLease(LOST);
  await turns();
  activity.close();
  await env.clock.settle();
  expect(read.ended).toBe(200);
  expect(env.clock.pendingTimers).toBe(0);
});

test("a stream that waits for a turn ends with its key", async () => {
  const env = manualEnv();
  const activity = new TenantActivity(env);
  onTestFinished(() => activity.close());
  let isValid = true;
  const listener = { ...UNRESTRICTED, isStillValid: async () => isValid };
  const followers = { topics: ["lease"] as const, last: 0, lastEventId: undefined, listener };
  const open = () => activity.stream(followers) as ReadableStream<Uint8Array>;
  const { read, turns } = readers(Array.from({ length: 200 }, open));
  await turns();
  for (let request = 0; request < 100; request += 1) {
    activity.noteLease(LOST);
    await turns();
  }
  isValid = false;
  await env.clock.advance(1_000);
  await turns();
  expect(read.ended).toBe(200);
});

test("a long text uses up the reads of others for a while, also of a stream that comes when those have left", async () => {
  const { clock } = manualEnv();
  const turns = new FeedTurns(clock);
  const granted: string[] = [];
  const reader = (name: string) => ({ grant: () => void granted.push(name) });
  const [long, leaving, later] = [reader("long"), reader("leaving"), reader("later")];
  turns.ask(long);
  // As much as 5,000 reads, of the 4,000 in a second.
  turns.read(long, () => ({ text: "x".repeat(5_000 * 4_096) }));
  await nextTurn();
  await nextTurn();
  turns.ask(leaving);
  await nextTurn();
  await nextTurn();
  turns.leave(leaving);
  expect([granted, clock.pendingTimers]).toEqual([["long"], 0]);
  turns.ask(later);
  await clock.advance(100);
  await nextTurn();
  expect(granted).toEqual(["long"]);
  await clock.advance(300);
  expect(granted).toEqual(["long", "later"]);
});
