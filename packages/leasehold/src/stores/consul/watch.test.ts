/** The mailbox of a client over a Consul that the test plays: bells, ends of sessions, restored snapshots, outages. */
import { expect, it } from "vitest";
import { toBase64 } from "../../env/base64.js";
import {
  StoreMisconfiguredError,
  StoreUnavailableError,
  type WatchEvent,
} from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import type { Answer, Call, ConsulClient } from "./connection.js";
import type { Pair, Transaction } from "./connection-api.js";
import type { Sessions } from "./connection-session.js";
import { Watches } from "./watch.js";

const down = new StoreUnavailableError("connection refused", { outcome: "unknown" });
const RESYNC = { type: "resync" };
const changed = (resource: string, namespace = "default") => ({
  type: "changed",
  namespace,
  resource,
  wakes: `id-${resource}`,
});

/** A pair of the mailbox; without a resource the one that keeps it from being empty. */
function pair(index: number, resource?: string, namespace = "default"): Pair {
  const bell = JSON.stringify({ namespace, resource, wakes: `id-${resource}` });
  const Value = resource === undefined ? null : toBase64(bell);
  return { Key: `${index}`, Value, Flags: 0, CreateIndex: index, ModifyIndex: index };
}

function open() {
  const env = manualEnv();
  const { clock } = env;
  const asked: { path: string; index: string | undefined; forMs: number }[] = [];
  const anchors: string[] = [];
  const lost: string[] = [];
  const consul = { sessions: 1, anchorFails: false };
  let pending: { resolve(answer: Answer): void; reject(error: Error): void } | undefined;
  const client = {
    connection: { env, prefix: "lease hold/" },
    checkOpen() {},
    deadline: (timeoutMs = 5_000) => clock.monotonic() + timeoutMs,
    async transaction({ body }: Transaction) {
      anchors.push(body);
      return { pairs: [], failed: consul.anchorFails ? [{ at: 0, what: "invalid session" }] : [] };
    },
    call({ path, query, deadlineMs = 0, signal }: Call) {
      asked.push({ path, index: query?.["index"], forMs: deadlineMs - clock.monotonic() });
      return new Promise<Answer>((resolve, reject) => {
        const abort = () => reject(down);
        const settled = <Args extends unknown[]>(settle: (...args: Args) => void) => {
          return (...args: Args) => {
            signal?.removeEventListener("abort", abort);
            settle(...args);
          };
        };
        pending = { resolve: settled(resolve), reject: settled(reject) };
        signal?.addEventListener("abort", abort, { once: true });
      });
    },
  };
  const sessions = {
    take: async () => `s${consul.sessions}`,
    lost(id: string) {
      lost.push(id);
      consul.sessions += 1;
    },
  };
  const watches = new Watches(client as unknown as ConsulClient, sessions as unknown as Sessions);
  const follow = (namespace = "default") => {
    const stop = new AbortController();
    const events: WatchEvent[] = [];
    const ended = (async () => {
      for await (const event of watches.follow(namespace, stop.signal)) events.push(event);
    })();
    ended.catch(() => {});
    return { events, ended, stop: () => stop.abort() };
  };
  return {
    clock,
    consul,
    asked,
    anchors,
    lost,
    watches,
    follow,
    async answer(index: number, ...pairs: Pair[]) {
      await clock.settle();
      pending?.resolve({ status: 200, text: JSON.stringify(pairs), index });
      await clock.settle();
    },
    async gone() {
      await clock.settle();
      pending?.resolve({ status: 404, text: "", index: 0 });
      await clock.settle();
    },
    async fail(error: Error) {
      await clock.settle();
      pending?.reject(error);
      await clock.settle();
    },
  };
}

it("notifies of each bell once, and of none that rang before the mailbox was read", async () => {
  const { asked, anchors, follow, answer, lost } = open();
  const { events } = follow();
  await answer(10, pair(8), pair(9, "before"));
  expect(events).toEqual([RESYNC]);
  await answer(12, pair(8), pair(9, "before"), pair(11, "a"), pair(12, "b"));
  await answer(12, pair(8), pair(11, "a"), pair(12, "b"));
  await answer(15, pair(8), pair(12, "b"), pair(15, "c"));
  expect(events).toEqual([RESYNC, changed("a"), changed("b"), changed("c")]);
  expect(asked.map(({ index }) => index)).toEqual([undefined, "10", "12", "12", "15"]);
  expect(new Set(asked.map(({ path }) => path)).size).toBe(1);
  expect(asked[0]?.path).toMatch(/^kv\/lease%20hold\/.*s1/);
  // Consul answers up to a sixteenth later than it is asked to.
  expect(asked[1]?.forMs).toBeGreaterThan(30_000 * (17 / 16));
  expect(anchors).toHaveLength(1);
  expect(lost).toEqual([]);
});

it("makes another mailbox when its session has ended, and has all read anew", async () => {
  const { clock, asked, follow, answer, gone, lost } = open();
  const { events } = follow();
  await answer(10);
  await gone();
  expect(lost).toEqual(["s1"]);
  await clock.advance(5_000);
  await answer(3);
  expect(asked.at(-2)).toMatchObject({ path: expect.stringContaining("s2"), index: undefined });
  expect(events).toEqual([RESYNC, RESYNC]);
  await answer(4, pair(4, "a"));
  expect(events.slice(2)).toEqual([changed("a")]);
});

it("takes no mailbox whose session ended before it was made", async () => {
  const { clock, consul, asked, follow, gone, answer, lost } = open();
  const { events } = follow();
  consul.anchorFails = true;
  await gone();
  expect(lost).toContain("s1");
  expect(events).toEqual([]);
  consul.anchorFails = false;
  await clock.advance(5_000);
  await answer(7);
  expect(asked.at(-1)?.path).not.toContain("s1");
  expect(events).toEqual([RESYNC]);
});

it("makes another mailbox when the index has gone back, as after a restored snapshot", async () => {
  const { clock, anchors, asked, follow, answer, lost } = open();
  const { events } = follow();
  await answer(100);
  await answer(40, pair(39, "a"));
  await clock.advance(5_000);
  expect(anchors).toHaveLength(2);
  expect(asked.at(-1)?.index).toBeUndefined();
  await answer(41, pair(39, "a"));
  expect(events).toEqual([RESYNC, RESYNC]);
  expect(lost).toEqual([]);
});

it("goes on from the same index after an outage, however long, so that no bell is lost", async () => {
  const { clock, asked, anchors, follow, answer, fail } = open();
  const { events } = follow();
  await answer(10);
  for (let n = 0; n < 20; n += 1) {
    await fail(down);
    await clock.advance(10_000);
  }
  await answer(14, pair(12, "a"));
  expect(events).toEqual([RESYNC, changed("a")]);
  expect(new Set(asked.slice(1, 22).map(({ index }) => index))).toEqual(new Set(["10"]));
  expect(anchors).toHaveLength(1);
  // The next outage does not begin with the longest pause.
  await fail(down);
  const before = asked.length;
  await clock.advance(1_000);
  expect(asked.length).toBe(before + 1);
});

it("notifies each namespace of its own, and one that comes later has to read at first", async () => {
  const { follow, answer } = open();
  const [one, other] = [follow(), follow("other")];
  await answer(10);
  const late = follow();
  await answer(12, pair(11, "a"), pair(12, "b", "other"));
  expect(one.events).toEqual([RESYNC, changed("a")]);
  expect(late.events).toEqual([RESYNC, changed("a")]);
  expect(other.events).toEqual([RESYNC, changed("b", "other")]);
});

it("asks nothing any more when the last one has left, and begins anew with the next one", async () => {
  const { clock, asked, anchors, watches, follow, answer } = open();
  const [one, two] = [follow(), follow()];
  await answer(10);
  one.stop();
  await one.ended;
  expect(watches.isFollowed).toBe(true);
  await answer(11, pair(11, "a"));
  expect(two.events).toEqual([RESYNC, changed("a")]);
  two.stop();
  await two.ended;
  await clock.settle();
  expect(watches.isFollowed).toBe(false);
  const before = asked.length;
  await clock.advance(60_000);
  expect(asked).toHaveLength(before);
  const three = follow();
  await clock.settle();
  expect(three.events).toEqual([]);
  expect(anchors).toHaveLength(2);
  await answer(20);
  expect(three.events).toEqual([RESYNC]);
});

it("ends all with an error that no retry heals, and follows again when asked", async () => {
  const { watches, follow, fail, answer } = open();
  const [one, other] = [follow(), follow("other")];
  await answer(10);
  const denied = new StoreMisconfiguredError("permission denied");
  await fail(denied);
  await expect(one.ended).rejects.toBe(denied);
  await expect(other.ended).rejects.toBe(denied);
  expect(watches.isFollowed).toBe(false);
  const again = follow();
  await answer(20);
  expect(again.events).toEqual([RESYNC]);
});

it("ends all when the store closes", async () => {
  const { watches, follow, answer } = open();
  const { ended } = follow();
  await answer(10);
  watches.close();
  await ended;
  expect(watches.isFollowed).toBe(false);
});
