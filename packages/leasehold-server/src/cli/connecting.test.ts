/** When a command that connects says so, and when it gives up. */
import { StoreUnavailableError } from "leasehold";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { connecting } from "./connecting.js";
import type { Notice } from "./notices.js";

const URL = "redis://127.0.0.1:1";
const down = () => new StoreUnavailableError("down", { outcome: "none" });

let said: Notice[];
const notify = (notice: Notice) => void said.push(notice);
beforeEach(() => {
  said = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

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
