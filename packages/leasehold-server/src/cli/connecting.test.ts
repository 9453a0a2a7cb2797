/** When a command that connects says so, and when it gives up. */

import type * as Library from "leasehold";
import { StoreUnavailableError } from "leasehold";
import { silentLogger } from "leasehold/internal";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { connecting, type Open } from "./connecting.js";
import type { Notice } from "./notices.js";
import { loadProgram } from "./program.js";

/** What commands open a store with. */
const opening = vi.hoisted(() => ({ open: (): Promise<never> => Promise.reject(new Error()) }));
vi.mock("leasehold", async (original) => ({
  ...(await original<typeof Library>()),
  connect: () => opening.open(),
}));
vi.mock("leasehold/internal/open", async (original) => ({
  ...(await original<object>()),
  openBy: () => opening.open(),
}));
// It would listen until this process ends.
vi.mock("./shutdown.js", () => ({
  listenForShutdown: () => ({ signal: new AbortController().signal }),
}));

const URL = "redis://127.0.0.1:1";
const down = () => new StoreUnavailableError("down", { outcome: "none" });

let said: Notice[];
let listeners: Map<string | symbol, unknown[]>;
const notify = (notice: Notice) => void said.push(notice);
beforeEach(() => {
  said = [];
  vi.useFakeTimers();
  const names = process.eventNames();
  listeners = new Map(names.map((name) => [name, process.listeners(name as "exit")]));
});
afterEach(() => {
  vi.useRealTimers();
  // Commands listen for signals until their process ends.
  for (const name of process.eventNames()) {
    for (const listener of process.listeners(name as "exit")) {
      if (!listeners.get(name)?.includes(listener)) process.off(name, listener);
    }
  }
});

it("says nothing of a connection that a busy machine makes late", async () => {
  const open = () => new Promise((resolve) => setTimeout(() => resolve("opened"), 2_500));
  const opened = connecting([URL], open, notify);
  await vi.advanceTimersByTimeAsync(2_500);
  expect([await opened, said]).toEqual(["opened", []]);
});

it("says that it retries and until when, and that it has connected", async () => {
  const open = () => new Promise((resolve) => setTimeout(() => resolve("opened"), 10_000));
  const opened = connecting([URL], open, notify, { waitMs: 20_000 });
  const until = new Date(Date.now() + 20_000).toISOString();
  await vi.advanceTimersByTimeAsync(10_000);
  expect([await opened, said]).toEqual([
    "opened",
    [
      { event: "retrying", message: `no connection to ${URL} yet`, until },
      { event: "answering", message: `connected to ${URL}` },
    ],
  ]);
});

it.each([
  ["no connection", down()],
  ["no access", new StoreUnavailableError("too many", { outcome: "none", refusedBy: "rate" })],
])("says why there is %s yet", async (what, err) => {
  const open: Open<never> = (_, noting) => {
    noting(silentLogger).debug({ err }, "the store failed; asking it again");
    return new Promise(() => {});
  };
  void connecting([URL], open, notify, { waitMs: 20_000 });
  await vi.advanceTimersByTimeAsync(3_000);
  expect(said).toMatchObject([{ message: `${what} to ${URL} yet: ${err.message}` }]);
});

it("retries what fails at once only for a command that waits", async () => {
  const open = vi.fn(async () => Promise.reject(down()));
  await expect(connecting([URL], open, notify)).rejects.toThrow("down");
  expect([open.mock.calls.length, said]).toEqual([1, []]);
  const waiting = connecting([URL], open, notify, { isPatient: true, waitMs: 2_000 });
  const rejected = expect(waiting).rejects.toThrow("down");
  const until = new Date(Date.now() + 2_000).toISOString();
  await vi.advanceTimersByTimeAsync(2_000);
  await rejected;
  expect(open.mock.calls.length).toBeGreaterThan(2);
  expect(said).toEqual([
    { event: "retrying", message: `no connection to ${URL} yet: ${down().message}`, until },
  ]);
});

it("ends with the signal, unless an embedded database is starting", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const never = () => new Promise<never>(() => {});
  const stopped = expect(connecting([URL], never, notify, { signal })).rejects.toThrow("stop");
  const open = () => new Promise((resolve) => setTimeout(() => resolve("opened"), 100));
  const embedded = connecting(["pglite:x"], open, notify, { signal });
  stop.abort(new Error("stop"));
  await stopped;
  await vi.advanceTimersByTimeAsync(100);
  expect(await embedded).toBe("opened");
});

it.each([["watch"], ["elect", "n", "--observe"], ["elect", "n"], ["run", "n", "--", "true"]])(
  "%s tries for 30 s, even if the store refuses connections",
  async (...args) => {
    const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const asked = new Promise<void>((resolve) => {
      opening.open = async () => {
        resolve();
        throw down();
      };
    });
    const words = [args[0] ?? "", "--store", URL, ...args.slice(1)];
    const { program } = await loadProgram(words);
    let isOver = false;
    const ended = program.parseAsync(["node", "leasehold", ...words]).catch((error: unknown) => {
      isOver = true;
      return error;
    });
    const until = new Date(Date.now() + 30_000).toISOString();
    await asked;
    await vi.advanceTimersByTimeAsync(29_000);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await ended).toBeInstanceOf(StoreUnavailableError);
    expect(write.mock.calls.map(([line]) => line)).toEqual([
      expect.stringContaining(`retrying until ${until}`),
    ]);
    write.mockRestore();
  },
);
