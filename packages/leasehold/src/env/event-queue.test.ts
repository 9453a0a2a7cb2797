import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { EventQueue, eventsUntil, nextTurn } from "./index.js";

const RESYNC = { type: "resync" };

interface Numbered {
  readonly type: "numbered";
  readonly n: number;
}
const numbered = (n: number): Numbered => ({ type: "numbered", n });

/** Reads in the background; what has been read so far. */
function readAll<Event>(events: AsyncIterable<Event>) {
  const read: Event[] = [];
  const done = (async () => {
    for await (const event of events) read.push(event);
  })();
  return { read, done };
}

it("hands events to its reader in order, those pushed before it reads and while it waits", async () => {
  const queue = new EventQueue<Numbered>();
  queue.push(numbered(1));
  queue.push(numbered(2));
  const { read, done } = readAll(queue.read());
  await nextTurn();
  expect(read).toEqual([numbered(1), numbered(2)]);
  queue.push(numbered(3));
  await nextTurn();
  expect(read).toHaveLength(3);
  queue.end();
  await done;
});

it("drops what is unread when it ends, and throws the error that it ended with", async () => {
  const queue = new EventQueue<Numbered>();
  const reader = queue.read();
  queue.push(numbered(1));
  expect(await reader.next()).toMatchObject({ value: numbered(1) });
  queue.push(numbered(2));
  queue.end(new Error("refused"));
  await expect(reader.next()).rejects.toThrow("refused");
  expect(await reader.next()).toMatchObject({ done: true });
});

it("replaces unread events by one resync: on request, and when there are too many", async () => {
  const queue = new EventQueue<Numbered>();
  for (let n = 0; n < 10; n += 1) queue.push(numbered(n));
  queue.resync();
  queue.push(numbered(10));
  const { read, done } = readAll(queue.read());
  await nextTurn();
  expect(read).toEqual([RESYNC, numbered(10)]);
  for (let n = 0; n < 1_001; n += 1) queue.push(numbered(n));
  queue.push(numbered(2_000));
  await nextTurn();
  expect(read.slice(2)).toEqual([RESYNC, numbered(2_000)]);
  queue.end();
  await done;
});

it("ends with any of its signals, and leaves no listener and no subscription behind", async () => {
  for (const which of [0, 1]) {
    const controllers = [new AbortController(), new AbortController()];
    const signals = controllers.map(({ signal }) => signal);
    const queues = new Set<EventQueue<Numbered>>();
    const events = eventsUntil<Numbered>(signals, (queue) => {
      queues.add(queue);
      return () => queues.delete(queue);
    });
    const { read, done } = readAll(events);
    for (const queue of queues) queue.push(numbered(1));
    await nextTurn();
    expect(read).toEqual([numbered(1)]);
    controllers[which]?.abort();
    await done;
    expect(queues.size).toBe(0);
    for (const signal of signals) expect(getEventListeners(signal, "abort")).toEqual([]);
  }
});

it("cleans up when its reader leaves the loop", async () => {
  const { signal } = new AbortController();
  let subscribed = false;
  const events = eventsUntil<Numbered>([signal], (queue) => {
    subscribed = true;
    queue.push(numbered(1));
    return () => {
      subscribed = false;
    };
  });
  for await (const _ of events) {
    expect(subscribed).toBe(true);
    break;
  }
  expect(subscribed).toBe(false);
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

it("subscribes to nothing once a signal has aborted", async () => {
  const subscribe = () => {
    throw new Error("subscribed");
  };
  const { read, done } = readAll(eventsUntil([AbortSignal.abort()], subscribe));
  await done;
  expect(read).toEqual([]);
});
