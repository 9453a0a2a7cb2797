/** The hub with stores whose notifications the test sends, and the route over stores in memory. */

import type { WatchEvent } from "leasehold";
import { newLeaseId, systemRandom } from "leasehold/internal";
import type { EventTopic } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { afterEach, describe, expect, test } from "vitest";
import { expectProblem, openApp } from "../../../../../tests/support/server/app.js";
import type { TaskEndEvent, TaskWatchEvent } from "../../../../leasehold/src/tasks/index.js";
import { createApp, listen } from "../index.js";
import { type Listener, UNRESTRICTED } from "./event-stream.js";
import { EventHub } from "./events.js";

/** A watch that yields what the test pushes. */
function watched<Event>() {
  const state = {
    watches: 0,
    ended: 0,
    push: (_: Event): void => {},
    fail: (_: Error): void => {},
  };
  async function* watch(_: string, { signal }: { signal: AbortSignal }): AsyncGenerator<Event> {
    state.watches += 1;
    const events: Event[] = [];
    let failure: Error | undefined;
    let wake = () => {};
    signal.addEventListener("abort", () => wake(), { once: true });
    state.push = (event) => {
      events.push(event);
      wake();
    };
    state.fail = (error) => {
      failure = error;
      wake();
    };
    try {
      while (!signal.aborted) {
        if (failure) throw failure;
        const event = events.shift();
        if (event) yield event;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      state.ended += 1;
    }
  }
  return { state, watch };
}

function setUp() {
  const env = manualEnv();
  const leases = watched<WatchEvent>();
  const tasks = watched<TaskWatchEvent>();
  const results = watched<TaskEndEvent>();
  const hub = new EventHub({
    env,
    namespace: "default",
    leases,
    tasks: { ...tasks, watchResults: results.watch },
  });
  const changed = (resource: string) =>
    leases.state.push({ type: "changed", namespace: "default", resource });
  /** Reads in the background until it is cancelled. */
  const follow = (
    topics: EventTopic[] = ["leases", "tasks"],
    lastEventId?: string,
    listener: Listener = UNRESTRICTED,
  ) => {
    const reader = hub.stream(topics, lastEventId, listener).getReader();
    const reading = { text: "", ended: false, cancel: () => reader.cancel() };
    void (async () => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        reading.text += new TextDecoder().decode(value as Uint8Array);
      }
      reading.ended = true;
    })();
    return reading;
  };
  /** Establishes both watches. */
  const establish = async () => {
    await env.clock.settle();
    leases.state.push({ type: "resync" });
    tasks.state.push({ type: "resync" });
    await env.clock.settle();
  };
  return {
    env,
    clock: env.clock,
    hub,
    leases: leases.state,
    tasks: tasks.state,
    results: results.state,
    changed,
    follow,
    establish,
  };
}

/** The events without their ids. */
function events({ text }: { text: string }): string[] {
  return [...text.matchAll(/^event: (.*)\ndata: (.*)\n\n/gm)].map(([, name, data]) => {
    const value = Object.values(JSON.parse(data ?? "") as object).join();
    return value === "" ? `${name}` : `${name} ${value}`;
  });
}
function lastId({ text }: { text: string }): string {
  return [...text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? "";
}

describe("the hub", () => {
  test("watches each store once, from the first stream until a minute after the last", async () => {
    const { clock, hub, leases, tasks, follow, establish } = setUp();
    expect(leases.watches + tasks.watches).toBe(0);
    const unread = hub.stream(["leases"], undefined);
    await clock.settle();
    expect(leases.watches + tasks.watches, "an unread stream causes no watch").toBe(0);
    await unread.cancel();
    const first = follow();
    await establish();
    const second = follow(["tasks"]);
    await clock.settle();
    expect([leases.watches, tasks.watches]).toEqual([1, 1]);
    await first.cancel();
    await clock.advance(600_000);
    expect(leases.ended).toBe(0);
    await second.cancel();
    await clock.advance(59_000);
    const third = follow();
    await clock.advance(600_000);
    expect([leases.watches, leases.ended]).toEqual([1, 0]);
    await third.cancel();
    await clock.advance(60_000);
    expect([leases.ended, tasks.ended]).toEqual([1, 1]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("a stream that was never read ends no later one", async () => {
    const { clock, hub, leases, follow, establish } = setUp();
    const first = follow();
    await establish();
    const unread = hub.stream(["leases"], undefined);
    await first.cancel();
    await clock.advance(30_000);
    await unread.cancel();
    const later = follow();
    await clock.advance(600_000);
    expect([later.ended, leases.watches, leases.ended]).toEqual([false, 1, 0]);
  });

  test("stops watching a minute after it has ended its last stream, whose listener may no more", async () => {
    const { clock, hub, leases, follow, establish } = setUp();
    let isValid = true;
    const listener = { ...UNRESTRICTED, isStillValid: async () => isValid };
    const stream = follow(["leases", "tasks"], undefined, listener);
    await establish();
    expect(hub.streams).toBe(1);
    isValid = false;
    await clock.advance(5_000);
    expect([stream.ended, hub.streams, leases.ended]).toEqual([true, 0, 0]);
    await clock.advance(60_000);
    expect(leases.ended).toBe(1);
    expect(clock.pendingTimers).toBe(0);
  });

  test("sends a comment at once, and a resync when all watches are established", async () => {
    const { clock, leases, tasks, changed, follow } = setUp();
    const both = follow();
    const ofTasks = follow(["tasks"]);
    await clock.settle();
    expect(both.text).toBe(": alive\n\n");
    tasks.push({ type: "resync" });
    await clock.settle();
    expect(events(ofTasks)).toEqual(["resync"]);
    expect(events(both)).toEqual([]);
    leases.push({ type: "resync" });
    await clock.settle();
    changed("a\n: é");
    leases.push({ type: "changed", namespace: "default", resource: "b", wakes: "w" });
    await clock.settle();
    tasks.push({ type: "ready", queue: "default" });
    await clock.settle();
    expect(events(both)).toEqual(["resync", "lease a\n: é", "lease b,w", "task default"]);
    expect(events(ofTasks)).toEqual(["resync", "task default"]);
    expect(both.text).toMatch(/^id: [0-9a-f]{16}\.\d+\nevent: lease\ndata: .*\n\n/m);
  });

  test("resumes after the last received event", async () => {
    const { clock, tasks, changed, follow, establish } = setUp();
    const first = follow();
    await establish();
    changed("a");
    await clock.settle();
    const id = lastId(first);
    await first.cancel();
    changed("b");
    tasks.push({ type: "ready", queue: "q" });
    await clock.advance(30_000);
    expect(events(follow(["leases", "tasks"], id))).toEqual([]);
    const [all, ofLeases] = [follow(["leases", "tasks"], id), follow(["leases"], id)];
    await clock.settle();
    expect(events(all)).toEqual(["lease b", "task q"]);
    expect(events(ofLeases)).toEqual(["lease b"]);
    const upToDate = follow(["leases"], lastId(all));
    changed("c");
    await clock.settle();
    expect(events(upToDate)).toEqual(["lease c"]);
  });

  test("sends a resync for an id of another feed, a position too far back, or one ahead", async () => {
    const { clock, changed, follow, establish } = setUp();
    const first = follow();
    await establish();
    const start = lastId(first);
    for (let count = 0; count < 990; count++) changed("x");
    await clock.settle();
    const early = follow(["leases", "tasks"], start);
    // They come in two pieces, perhaps in two turns of the event loop.
    await clock.settle();
    await clock.settle();
    expect(events(early)).toHaveLength(990);
    for (let count = 0; count < 100; count++) changed("x");
    await clock.settle();
    const epoch = start.split(".")[0];
    const other = newLeaseId(systemRandom).slice(0, 16);
    for (const id of [start, `${epoch}.999999`, `${other}.2`, `${epoch}.-1`, "nonsense", ""]) {
      const late = follow(["leases", "tasks"], id);
      changed(`after ${id}`);
      await clock.settle();
      expect(events(late), id).toEqual(
        ["resync", `lease after ${id}`].slice(0, events(late).length),
      );
      expect(events(late)[0], id).toBe("resync");
      expect(Number(lastId(late).split(".")[1])).toBeGreaterThanOrEqual(1_090);
    }
  });

  test("drops its events when it stops watching", async () => {
    const { clock, follow, establish, changed } = setUp();
    const first = follow();
    await establish();
    changed("a");
    await clock.settle();
    await first.cancel();
    await clock.advance(61_000);
    const second = follow(["leases", "tasks"], lastId(first));
    await establish();
    expect(events(second)).toEqual(["resync"]);
  });

  test("sends a resync to its streams when a broken watch is re-established", async () => {
    const { clock, leases, tasks, changed, follow, establish } = setUp();
    const [both, ofTasks] = [follow(), follow(["tasks"])];
    await establish();
    leases.fail(new Error("lost"));
    await clock.settle();
    const newcomer = follow(["leases"]);
    tasks.push({ type: "ready", queue: "q" });
    await clock.advance(2_000);
    expect([leases.watches, events(newcomer)]).toEqual([2, []]);
    leases.push({ type: "resync" });
    await clock.settle();
    changed("a");
    await clock.settle();
    expect(events(both)).toEqual(["resync", "task q", "resync", "lease a"]);
    expect(events(newcomer)).toEqual(["resync", "lease a"]);
    expect(events(ofTasks)).toEqual(["resync", "task q"]);
  });

  test("sends a comment every 15 s of silence", async () => {
    const { clock, changed, follow, establish } = setUp();
    const first = follow();
    await establish();
    first.text = "";
    await clock.advance(44_000);
    expect(first.text).toBe(": alive\n\n".repeat(2));
    changed("a");
    await clock.advance(14_000);
    expect(events(first)).toEqual(["lease a"]);
    await clock.advance(2_000);
    expect(first.text.match(/: alive/g)).toHaveLength(3);
  });

  test("buffers nothing for a slow reader, which then gets a resync", async () => {
    const { clock, hub, changed, establish } = setUp();
    const reader = hub.stream(["leases"], undefined).getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value as Uint8Array);
    await read();
    await establish();
    expect(await read()).toContain("event: resync");
    for (let count = 0; count < 5_000; count++) changed("x");
    await clock.settle();
    const text = await read();
    expect(events({ text })).toEqual(["resync"]);
    changed("y");
    expect(events({ text: await read() })).toEqual(["lease y"]);
    await reader.cancel();
  });

  test("ends all streams when it closes, and opens no new ones", async () => {
    const { clock, hub, leases, tasks, follow, establish } = setUp();
    const streams = [follow(), follow(["tasks"])];
    await establish();
    await hub.close();
    await clock.settle();
    expect(streams.map(({ ended }) => ended)).toEqual([true, true]);
    expect([leases.ended, tasks.ended]).toEqual([1, 1]);
    const late = follow();
    await clock.settle();
    expect([late.ended, late.text]).toEqual([true, ""]);
    expect(clock.pendingTimers).toBe(0);
    await hub.close();
  });

  test("leaves no timer when it closes within the minute after its last stream", async () => {
    const { clock, hub, follow, establish } = setUp();
    const stream = follow();
    await establish();
    await stream.cancel();
    await hub.close();
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("GET /v1/events", () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });
  async function open() {
    const app = await openApp();
    closing.push(() => app.close());
    return app;
  }

  test("forbids proxies to cache or buffer the stream", async () => {
    const { app, ask } = await open();
    const headers = { "leasehold-budget-ms": "1" };
    const request = new Request("http://localhost/v1/events?of=tasks", { headers });
    const { status, headers: answered, body } = await app.fetch(request);
    expect(status).toBe(200);
    expect(Object.fromEntries(answered)).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-store, no-transform",
      "x-accel-buffering": "no",
      "x-request-id": expect.any(String),
    });
    const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const until = async (what: string) => {
      while (!text.includes(what)) text += (await reader.read()).value;
    };
    await until("event: resync\ndata: {}\n\n");
    await ask("POST", "/api/tasks", { task_data: 1, queue: "q" });
    await until('event: task\ndata: {"queue":"q"}\n\n');
    await app.close();
    expect((await reader.read()).done).toBe(true);
    expectProblem(await ask("GET", "/v1/events"), 503, "CLOSING");
  });

  test("ends at once when the server closes, and frees the streams of disconnected callers", async () => {
    const env = manualEnv();
    const leases = watched<WatchEvent>();
    const stores = await memory().open(env);
    stores.leases.watch = leases.watch;
    const app = createApp({ ...stores, env, auth: "ifAny", version: "test" });
    const server = await listen({ app, port: 0, graceMs: 600_000 });
    closing.push(
      () => server.close(),
      () => stores.close(),
    );
    const follow = async (signal?: AbortSignal) => {
      const { body } = await fetch(`${server.url}/v1/events`, { signal: signal ?? null });
      const reader = body!.getReader();
      expect((await reader.read()).done).toBe(false);
      return reader;
    };
    const gone = new AbortController();
    await follow(gone.signal);
    expect(leases.state.watches).toBe(1);
    gone.abort();
    // The server notices the disconnect later.
    while (leases.state.ended === 0) await env.clock.advance(60_000);
    const reader = await follow();
    expect(leases.state.watches).toBe(2);
    await server.close();
    expect((await reader.read()).done).toBe(true);
    expect(leases.state.ended).toBe(2);
  });

  test("validates its query", async () => {
    const { app, ask } = await open();
    for (const query of ["of=locks", "of=leases&of=tasks", "off=leases"]) {
      expectProblem(await ask("GET", `/v1/events?${query}`), 422, "INVALID_REQUEST");
    }
    expectProblem(await ask("POST", "/v1/events", {}), 405, "METHOD_NOT_ALLOWED");
    const head = await app.fetch(new Request("http://localhost/v1/events", { method: "HEAD" }));
    expect([head.status, head.body]).toEqual([200, null]);
  });
});
