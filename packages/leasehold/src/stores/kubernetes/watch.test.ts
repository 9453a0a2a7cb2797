/** A watch of Lease objects over an API that the test plays, through several ends, gaps and outages. */
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { watchAbortListeners } from "../../../../../tests/support/worlds/abort-listeners.js";
import { EventQueue } from "../../env/index.js";
import {
  StoreMisconfiguredError,
  StoreUnavailableError,
  type WatchEvent,
} from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import type { ApiEvent, KubernetesApi } from "./connection.js";
import type { LeaseObject } from "./records.js";
import { followLeases } from "./watch.js";

type Step = "stream" | "gone" | Error;

function open() {
  const env = manualEnv();
  const { clock } = env;
  const closing = new AbortController();
  const asked: (string | undefined)[] = [];
  const server = { version: 100, lists: 0, next: "stream" as Step };
  let stream: EventQueue<ApiEvent> | undefined;
  const api = {
    closing: closing.signal,
    checkOpen() {},
    async send() {
      server.lists += 1;
      return {
        status: 200,
        wallMs: null,
        body: { metadata: { resourceVersion: `${server.version}` } },
      };
    },
    async watch(query: Record<string, string>, _silenceMs: number, signal: AbortSignal) {
      asked.push(query["resourceVersion"]);
      if (server.next instanceof Error) throw server.next;
      if (server.next === "gone") return null;
      const queue = new EventQueue<ApiEvent>();
      const end = () => queue.end();
      signal.addEventListener("abort", end, { once: true });
      stream = queue;
      return (async function* () {
        try {
          for await (const event of queue.read()) if ("object" in event) yield event;
        } finally {
          signal.removeEventListener("abort", end);
        }
      })();
    },
  } as unknown as KubernetesApi;
  const stop = new AbortController();
  const { signal } = stop;
  const events: WatchEvent[] = [];
  const observed: string[] = [];
  const observe = ({ metadata }: LeaseObject, deleted: boolean) =>
    void observed.push(`${metadata.name} ${metadata.resourceVersion}${deleted ? " deleted" : ""}`);
  const ended = (async () => {
    const following = followLeases(api, "default", observe, { signal, env });
    for await (const event of following) events.push(event);
  })();
  ended.catch(() => {});
  return {
    clock,
    closing,
    asked,
    server,
    events,
    observed,
    ended,
    signal,
    stop: () => stop.abort(),
    async say(...said: ApiEvent[]) {
      for (const event of said) stream?.push(event);
      await clock.settle();
    },
    async end() {
      stream?.end();
      await clock.settle();
    },
  };
}

const ACQUIRED = { acquireTime: "2020-01-01T00:00:00.000000Z", leaseDurationSeconds: 10 };
const held = { ...ACQUIRED, holderIdentity: "h" };
const free = { ...ACQUIRED, holderIdentity: "" };
const object = (name: string, version: number, spec: object, annotations = {}): LeaseObject => ({
  metadata: { name, resourceVersion: `${version}`, annotations },
  spec,
});
const modified = (name: string, version: number, spec: object = free): ApiEvent => ({
  type: "MODIFIED",
  object: object(name, version, spec),
});
const changed = (resource: string) => ({ type: "changed", namespace: "default", resource });
const RESYNC = { type: "resync" };

it("goes on from the last version after each end, by a bookmark too, without a resync", async () => {
  const { clock, asked, events, observed, say, end, server, stop, ended } = open();
  await clock.settle();
  await say(modified("a", 101));
  await end();
  await clock.advance(1_000);
  await say({ type: "BOOKMARK", object: object("", 150, {}) });
  await end();
  await clock.advance(1_000);
  await end();
  await clock.advance(1_000);
  await say(modified("b", 160, held), { type: "DELETED", object: object("c", 170, held) });
  await end();
  await clock.advance(1_000);
  expect(asked).toEqual(["100", "101", "150", "150", "170"]);
  expect(server.lists).toBe(1);
  expect(events).toEqual([RESYNC, changed("a"), changed("c")]);
  expect(observed).toEqual(["a 101", "b 160", "c 170 deleted"]);
  stop();
  await ended;
  expect(clock.pendingTimers).toBe(0);
});

it("begins anew with a resync after each gap, whichever way the server tells of it", async () => {
  const { clock, asked, events, server, say, end } = open();
  await clock.settle();
  for (let gap = 1; gap <= 4; gap += 1) {
    server.version = 100 + gap;
    if (gap % 2 === 0) {
      await say({ type: "ERROR", object: { code: 410 } });
    } else {
      server.next = "gone";
      await end();
      await clock.advance(10_000);
      server.next = "stream";
    }
    await clock.advance(10_000);
    expect(events, `gap ${gap}`).toEqual(Array(1 + gap).fill(RESYNC));
    expect(asked.at(-1)).toBe(`${100 + gap}`);
  }
});

it("notifies of what ends a grant, and of nothing else", async () => {
  const { clock, events, observed, say } = open();
  await clock.settle();
  const grant = "0123456789abcdef".repeat(4);
  const annotations = { "leasehold.dev/grant": grant, "leasehold.dev/holder": "h" };
  const ours = { ...held, holderIdentity: `h_${grant.slice(0, 16)}` };
  const revoked = { ...annotations, "leasehold.dev/ended": "revoked" };
  await say(
    { type: "ADDED", object: object("new", 101, {}) },
    { type: "ADDED", object: object("taken", 102, held) },
    { type: "MODIFIED", object: object("renewed", 103, ours, annotations) },
    { type: "MODIFIED", object: object("revoked", 104, ours, revoked) },
    modified("released", 105),
    {
      type: "MODIFIED",
      object: object("x", 106, free, {
        "leasehold.dev/namespace": "other",
        "leasehold.dev/resource": "x",
      }),
    },
  );
  expect(events).toEqual([RESYNC, changed("revoked"), changed("released")]);
  expect(observed).toHaveLength(6);
});

it("outlasts outages, and reconnects at once after a connection that lasted", async () => {
  const { clock, asked, events, server, say, end } = open();
  await clock.settle();
  for (let outage = 1; outage <= 3; outage += 1) {
    await clock.advance(10_000);
    server.next = new StoreUnavailableError("it is down", { outcome: "none" });
    await end();
    await clock.advance(120_000);
    server.next = "stream";
    await clock.advance(20_000);
    const before = asked.length;
    await end();
    await clock.advance(200);
    expect(asked.length, `after outage ${outage}`).toBe(before + 1);
    await say(modified("a", 100 + outage));
  }
  expect(events).toEqual([RESYNC, ...Array(3).fill(changed("a"))]);
});

it("ends with an error that no reconnect heals", async () => {
  const { clock, server, end, ended } = open();
  await clock.settle();
  server.next = new StoreMisconfiguredError("forbidden");
  await end();
  await clock.advance(10_000);
  await expect(ended).rejects.toBe(server.next);
  expect(clock.pendingTimers).toBe(0);
});

it("leaves no listener behind, neither at a reconnect nor at its end", async () => {
  const listeners = watchAbortListeners();
  const { clock, closing, signal, end, stop, ended } = open();
  await clock.settle();
  for (let round = 0; round < 20; round += 1) {
    await end();
    await clock.advance(10_000);
  }
  expect(listeners()).toBeLessThanOrEqual(2);
  stop();
  await ended;
  for (const each of [signal, closing.signal]) {
    expect(getEventListeners(each, "abort")).toEqual([]);
  }
});
