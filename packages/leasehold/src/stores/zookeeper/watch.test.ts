/** One watch of a znode for all its waiters, and notifications for the watchers of a namespace. */
import { expect, it } from "vitest";
import type { WatchEvent } from "../../lease/index.js";
import { Watches } from "./watch.js";

/** Sets watches whose znodes the test lets change. */
function open() {
  const watches = new Watches();
  const fires: (() => void)[] = [];
  const fired: string[] = [];
  const set = (path: string, id: string, seen: string | null | Error = "first") =>
    watches.set(path, id, {
      set: async (fire) => {
        fires.push(fire);
        if (seen instanceof Error) throw seen;
        return seen;
      },
      fired: () => void fired.push(id),
    });
  return { watches, fires, fired, set };
}

it("sets one watch for all waiters of a znode, which fires once for each of them", async () => {
  const { watches, fires, fired, set } = open();
  expect(await set("/a", "1")).toBe("first");
  expect(await set("/a", "2")).toBe("first");
  expect(await set("/a", "3")).toBe("first");
  await set("/b", "4");
  expect(fires).toHaveLength(2);
  watches.leave("/a", "2");
  watches.leave("/c", "1");
  fires[0]?.();
  expect(fired).toEqual(["1", "3"]);
  // The next waiter needs a watch of its own.
  await set("/a", "5");
  expect(fires).toHaveLength(3);
  fires[2]?.();
  expect(fired).toEqual(["1", "3", "5"]);
  fires[1]?.();
  expect(fired.at(-1)).toBe("4");
});

it("sets a watch again where there was no znode, and where it could not be set", async () => {
  const { fires, set } = open();
  expect(await set("/a", "1", null)).toBeNull();
  await expect(set("/a", "2", new Error("no connection"))).rejects.toThrow("no connection");
  expect(await set("/a", "3")).toBe("first");
  await set("/a", "4");
  expect(fires).toHaveLength(3);
});

it("begins anew on each connection: what an earlier one reports ends no later watch", async () => {
  const { watches, fires, fired, set } = open();
  for (const round of [1, 2, 3]) {
    await set("/a", `${round}`);
    expect(fires).toHaveLength(round);
    watches.renewed();
  }
  await set("/a", "4");
  fires[0]?.();
  expect(fired).toEqual(["1"]);
  await set("/a", "5");
  expect(fires).toHaveLength(4);
  fires[3]?.();
  expect(fired).toEqual(["1", "4", "5"]);
});

/** Reads the events of a namespace until it is stopped. */
function follow(watches: Watches, namespace: string) {
  const events: WatchEvent[] = [];
  const stop = new AbortController();
  const ended = (async () => {
    for await (const event of watches.follow(namespace, stop.signal)) events.push(event);
  })();
  return { events, ended, stop: () => stop.abort() };
}
const settle = () => new Promise((resolve) => setImmediate(resolve));
const changed = (namespace: string): WatchEvent => ({ type: "changed", namespace, resource: "r" });
const RESYNC = { type: "resync" };

it("notifies all watchers of a namespace, and no other; after a connection all have to read anew", async () => {
  const watches = new Watches();
  const [first, second, other] = ["n", "n", "other"].map((name) => follow(watches, name));
  await settle();
  watches.notify("n", changed("n"));
  await settle();
  for (const each of [first, second]) expect(each?.events).toEqual([RESYNC, changed("n")]);
  expect(other?.events).toEqual([RESYNC]);
  first?.stop();
  await first?.ended;
  for (let connection = 0; connection < 3; connection += 1) {
    watches.renewed();
    watches.notify("n", changed("n"));
    await settle();
  }
  expect(first?.events).toHaveLength(2);
  expect(second?.events.filter(({ type }) => type === "resync")).toHaveLength(4);
  expect(other?.events).toEqual(Array(4).fill(RESYNC));
  second?.stop();
  await second?.ended;
  const late = follow(watches, "n");
  await settle();
  watches.notify("n", changed("n"));
  await settle();
  expect(late.events).toEqual([RESYNC, changed("n")]);
  watches.end();
  await Promise.all([late.ended, other?.ended]);
});
