/** Watches a scripted etcd under a manual clock. */
import { expect, it } from "vitest";
import { watchAbortListeners } from "../../../../../tests/support/worlds/abort-listeners.js";
import { scripted } from "../../../../../tests/support/worlds/etcd-transport.js";
import type { WatchEvent } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { EtcdClient, type RequestContext } from "./connection.js";
import type { WatchMessage, WatchRequest } from "./connection-api.js";
import { CallFailure, saidFailure, unavailable } from "./failures.js";
import { Place } from "./keys.js";
import { Watches } from "./watch.js";

interface Stream {
  /** What was asked for. */
  readonly create: { readonly start_revision?: string; readonly key: string };
  readonly token: string | null;
  say(message: WatchMessage): void;
  break(): void;
  /** Ends it with what etcd says. */
  fail(message: string): void;
  cancelled: boolean;
}

function open(user: { name: string; password: string } | null = null) {
  const env = manualEnv();
  const streams: Stream[] = [];
  const server = { isDown: false, logins: 0 };
  const login = async () => {
    server.logins += 1;
    return { token: `token-${server.logins}` };
  };
  async function* watch(_endpoint: string, body: WatchRequest, context: RequestContext) {
    if (server.isDown) throw unavailable("it is down", "none", "unreachable");
    const said: (WatchMessage | CallFailure)[] = [];
    let wake = () => {};
    const next = (one: WatchMessage | CallFailure) => {
      said.push(one);
      wake();
    };
    const stream: Stream = {
      create: body.create_request,
      token: context.token,
      say: next,
      break: () => next(unavailable("terminated", "unknown", "unreachable")),
      fail: (message) => next(saidFailure(message)),
      cancelled: false,
    };
    context.signal.addEventListener("abort", () => {
      stream.cancelled = true;
      stream.break();
    });
    streams.push(stream);
    for (;;) {
      const one = said.shift();
      if (one instanceof CallFailure) throw one;
      if (one) yield one;
      else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  }
  const transport = scripted(login, watch);
  const client = new EtcdClient({ endpoints: ["http://etcd:2379"], user, transport, env });
  const watches = new Watches(client, "");
  const follow = (namespace = "n") => {
    const events: WatchEvent[] = [];
    const stop = new AbortController();
    const ended = (async () => {
      for await (const event of watches.follow(namespace, stop.signal)) events.push(event);
    })();
    ended.catch(() => {});
    return { events, ended, signal: stop.signal, stop: () => stop.abort() };
  };
  /** The open stream, from the message that it has begun. */
  const created = async (revision: number): Promise<Stream> => {
    await env.clock.settle();
    const stream = streams.at(-1);
    if (!stream) throw new Error("no stream");
    stream.say({ header: { revision: `${revision}` }, created: true });
    await env.clock.settle();
    return stream;
  };
  return { clock: env.clock, client, watches, server, streams, follow, created };
}

const RESYNC = { type: "resync" };
type Event = NonNullable<WatchMessage["events"]>[number];
const deletion = (key: string, revision: number): Event => ({
  type: "DELETE",
  kv: { key, mod_revision: `${revision}` },
});
const message = (revision: number, ...events: Event[]): WatchMessage => ({
  header: { revision: `${revision}` },
  events,
});
const freed = (resource: string, revision: number) =>
  deletion(`${new Place("", { namespace: "n", resource }).locks}7f`, revision);
const bell = (resource: string, grantId: string, revision: number) =>
  deletion(new Place("", { namespace: "n", resource }).bells + grantId, revision);
const changed = (resource: string, wakes?: string) => ({
  type: "changed",
  namespace: "n",
  resource,
  ...(wakes !== undefined && { wakes }),
});

it("goes on after each break from the last revision, without a gap and without a resync", async () => {
  const { clock, streams, follow, created } = open();
  const { events, stop, ended } = follow();
  let stream = await created(10);
  for (let round = 1; round <= 5; round += 1) {
    stream.say(message(10 + round, freed(`r${round}`, 10 + round)));
    await clock.settle();
    stream.break();
    while (streams.length === round) await clock.advance(100);
    stream = await created(10 + round);
  }
  expect(streams.map(({ create }) => create.start_revision)).toEqual([
    undefined,
    "12",
    "13",
    "14",
    "15",
    "16",
  ]);
  expect(events).toEqual([RESYNC, ...[1, 2, 3, 4, 5].map((round) => changed(`r${round}`))]);
  stop();
  await ended;
  expect(stream.cancelled).toBe(true);
  expect(clock.pendingTimers).toBe(0);
});

it("asks again for the backlog that a break cut off, whatever revision the headers had", async () => {
  const { clock, streams, follow, created } = open();
  const { events } = follow();
  (await created(10)).break();
  while (streams.length === 1) await clock.advance(100);
  // As etcd does: each header has the current revision, though events up to it still follow.
  (await created(13)).break();
  while (streams.length === 2) await clock.advance(100);
  const third = await created(13);
  third.say(message(13, freed("a", 11)));
  await clock.settle();
  third.break();
  while (streams.length === 3) await clock.advance(100);
  expect(streams.map(({ create }) => create.start_revision)).toEqual([undefined, "11", "11", "12"]);
  (await created(13)).say(message(13, freed("b", 12), freed("c", 13)));
  await clock.settle();
  expect(events).toEqual([RESYNC, changed("a"), changed("b"), changed("c")]);
});

it("sends a resync after each gap: a compaction, and a revision that went back", async () => {
  const { clock, streams, follow, created } = open();
  const { events } = follow();
  const resyncs = () => events.filter(({ type }) => type === "resync").length;
  let stream = await created(10);
  for (let round = 1; round <= 3; round += 1) {
    stream.break();
    await clock.advance(10_000);
    await clock.settle();
    const revision = { revision: "90" };
    const compacted = { header: revision, canceled: true, compact_revision: "80" };
    const wentBack = { header: { revision: "1" }, created: true };
    streams.at(-1)?.say(round === 2 ? wentBack : compacted);
    await clock.advance(10_000);
    expect(streams.at(-1)?.create.start_revision, `round ${round}`).toBeUndefined();
    stream = await created(100);
    expect(resyncs()).toBe(1 + round);
  }
});

it("wakes the waiter whose bell rang, and all of a resource that was freed without one", async () => {
  const { clock, follow, created } = open();
  const { events } = follow();
  const stream = await created(10);
  stream.say(message(11, freed("a", 11), bell("a", "first", 11), freed("b", 11)));
  // Another change of the same resource in the same message is another one.
  stream.say(message(13, bell("a", "second", 12), freed("a", 13)));
  stream.say(message(14, { kv: freed("c", 14).kv }, deletion("elsewhere", 14)));
  await clock.settle();
  expect(events.slice(1)).toEqual([
    changed("a", "first"),
    changed("b"),
    changed("a", "second"),
    changed("a"),
  ]);
});

it("has one stream for all watchers of a namespace, from the first to the last of them", async () => {
  const { clock, streams, follow, created } = open();
  const [first, second, other] = [follow(), follow(), follow("other")];
  await clock.settle();
  expect(streams).toHaveLength(2);
  const shared = streams[0];
  const began = { header: { revision: "10" }, created: true };
  shared?.say(began);
  await clock.settle();
  const third = follow();
  await clock.settle();
  expect(streams).toHaveLength(2);
  for (const { events } of [first, second, third]) expect(events).toEqual([RESYNC]);
  expect(other.events).toEqual([]);
  first.stop();
  second.stop();
  await Promise.all([first.ended, second.ended]);
  shared?.say(message(11, freed("a", 11)));
  await clock.settle();
  expect(third.events).toEqual([RESYNC, changed("a")]);
  expect(first.events).toEqual([RESYNC]);
  third.stop();
  await third.ended;
  expect(shared?.cancelled).toBe(true);
  // The next watcher begins a stream of its own.
  const late = follow();
  await created(20);
  expect(streams).toHaveLength(3);
  expect(late.events).toEqual([RESYNC]);
});

it("reconnects at once after a connection that lasted, however long an outage was before", async () => {
  const { clock, server, streams, follow, created } = open();
  follow();
  for (let outage = 1; outage <= 3; outage += 1) {
    const stream = await created(10);
    await clock.advance(6_000);
    server.isDown = true;
    stream.break();
    await clock.advance(120_000);
    server.isDown = false;
    while (streams.length === outage) await clock.advance(1_000);
    const next = await created(10);
    await clock.advance(6_000);
    next.break();
    await clock.advance(200);
    expect(streams.length, `after outage ${outage}`).toBe(outage + 2);
    streams.splice(0, 1);
  }
});

it("drops a stream that is silent for 30 s, and no other", async () => {
  const { clock, streams, follow, created } = open();
  follow();
  const stream = await created(10);
  for (let round = 1; round <= 5; round += 1) {
    await clock.advance(29_000);
    stream.say(message(10 + round));
  }
  await clock.settle();
  expect(streams).toHaveLength(1);
  await clock.advance(31_000);
  expect(stream.cancelled).toBe(true);
  expect(streams.length).toBeGreaterThan(1);
});

it("ends all watchers with an error that no reconnect heals, and watches again when asked", async () => {
  const { clock, streams, follow, created } = open();
  const [first, second] = [follow(), follow()];
  const stream = await created(10);
  stream.fail("etcdserver: permission denied");
  for (const { ended } of [first, second]) {
    await expect(ended).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
  }
  await clock.advance(60_000);
  expect(streams).toHaveLength(1);
  const late = follow();
  await created(20);
  expect(late.events).toEqual([RESYNC]);
});

it("leaves no listener behind, neither at a reconnect nor at its end", async () => {
  const listeners = watchAbortListeners();
  const { clock, streams, follow, created } = open();
  const { stop, ended } = follow();
  for (let round = 1; round <= 20; round += 1) {
    (await created(10)).break();
    while (streams.length === round) await clock.advance(1_000);
  }
  // The test's own transport adds one to each request.
  expect(listeners()).toBeLessThanOrEqual(2);
  stop();
  await ended;
  expect(listeners()).toBeLessThanOrEqual(1);
});

it("logs in anew when a watch is denied, once: a token that has expired is answered so", async () => {
  const { clock, server, streams, follow, created } = open({ name: "u", password: "p" });
  const { events, ended } = follow();
  const denial = {
    header: { revision: "10" },
    created: true,
    canceled: true,
    cancel_reason: "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
  };
  const denied = async (): Promise<void> => {
    await clock.settle();
    streams.at(-1)?.say(denial);
    await clock.settle();
  };
  const next = async (count: number): Promise<void> => {
    while (streams.length < count) await clock.advance(100);
  };
  await denied();
  await next(2);
  (await created(10)).break();
  expect(events).toEqual([RESYNC]);
  await next(3);
  await denied();
  await next(4);
  expect(streams.map(({ token }) => token)).toEqual(["token-1", "token-2", "token-2", "token-3"]);
  // A new login is denied as well.
  await denied();
  await expect(ended).rejects.toMatchObject({
    code: "STORE_MISCONFIGURED",
    message: expect.stringContaining("permission denied") as string,
  });
  expect(server.logins).toBe(3);
});
