/** The signals are emitted within this process, which a spy keeps alive. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Logger } from "./logger.js";
import { silentLogger } from "./logger.js";
import { type ClosingSignal, closeOnSignals } from "./signals.js";

const NAMES: ClosingSignal[] = ["SIGUSR2", "SIGHUP"];
const undo: (() => void)[] = [];
const kill = vi.spyOn(process, "kill");
const before = () => NAMES.map((name) => process.listenerCount(name));
let atFirst: number[] = [];
beforeEach(() => {
  kill.mockReset().mockReturnValue(true);
  atFirst = before();
});
afterEach(() => {
  for (const each of undo.splice(0)) each();
  expect(before()).toEqual(atFirst);
});

const send = (signal: ClosingSignal) => void process.emit(signal, signal);

/** A client whose close ends when the test lets it. */
function client(signals: readonly ClosingSignal[] = ["SIGUSR2"], logger: Logger = silentLogger) {
  const ends: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const close = vi.fn(() => new Promise<void>((resolve, reject) => ends.push({ resolve, reject })));
  const off = closeOnSignals({ signals, close, logger });
  undo.push(off);
  return { close, off, end: () => ends.shift()?.resolve(), fail: (e: Error) => ends[0]?.reject(e) };
}

const ended = async (times = 1) => await expect.poll(() => kill.mock.calls.length).toBe(times);

it("closes all that asked for the signal, then lets the process end by it", async () => {
  const [first, second, other] = [client(), client(["SIGHUP", "SIGUSR2"]), client(["SIGHUP"])];
  send("SIGUSR2");
  expect(first.close).toHaveBeenCalledTimes(1);
  expect(second.close).toHaveBeenCalledTimes(1);
  first.end();
  await new Promise((resolve) => setImmediate(resolve));
  expect(kill).not.toHaveBeenCalled();
  second.end();
  await ended();
  expect(kill.mock.calls).toEqual([[process.pid, "SIGUSR2"]]);
  expect(other.close).not.toHaveBeenCalled();
  // The client that asked for another signal still gets that one.
  send("SIGHUP");
  expect(other.close).toHaveBeenCalledTimes(1);
  expect(second.close).toHaveBeenCalledTimes(1);
  other.end();
  await ended(2);
});

it("takes a signal that follows at once for the same, and ends at once by a later one", async () => {
  const now = vi.spyOn(performance, "now");
  now.mockReturnValue(10_000);
  const held = client();
  send("SIGUSR2");
  now.mockReturnValue(10_400);
  send("SIGUSR2");
  expect(kill).not.toHaveBeenCalled();
  now.mockReturnValue(10_600);
  send("SIGUSR2");
  expect(kill.mock.calls).toEqual([[process.pid, "SIGUSR2"]]);
  expect(held.close).toHaveBeenCalledTimes(1);
  held.end();
  now.mockRestore();
  await ended(2);
});

it("logs a close that fails, closes the others, and ends", async () => {
  const error = vi.fn();
  const [broken, other] = [client(["SIGUSR2"], { ...silentLogger, error }), client()];
  const err = new Error("cannot be closed");
  send("SIGUSR2");
  broken.fail(err);
  other.end();
  await ended();
  expect(error.mock.calls).toMatchObject([[{ err, signal: "SIGUSR2" }, expect.any(String)]]);
});

it("closes what was opened while it closed", async () => {
  const first = client();
  send("SIGUSR2");
  const late = client();
  first.end();
  await expect.poll(() => late.close.mock.calls.length).toBe(1);
  expect(kill).not.toHaveBeenCalled();
  late.end();
  await ended();
  expect(first.close).toHaveBeenCalledTimes(1);
});

it("leaves the end to another handler, and closes at the next signal what was opened since", async () => {
  const others = vi.fn();
  process.on("SIGUSR2", others);
  try {
    for (let round = 1; round <= 3; round += 1) {
      const { close, end } = client();
      send("SIGUSR2");
      expect(close, `round ${round}`).toHaveBeenCalledTimes(1);
      end();
      // Its own handler is off: only that of the program is left.
      await expect.poll(() => process.listenerCount("SIGUSR2")).toBe((atFirst[0] ?? 0) + 1);
    }
    expect(others).toHaveBeenCalledTimes(3);
    expect(kill).not.toHaveBeenCalled();
  } finally {
    process.off("SIGUSR2", others);
  }
});

it("has one handler for all clients, as long as one of them is left", () => {
  const clients = [client(), client(), client()];
  const counts = () => process.listenerCount("SIGUSR2") - (atFirst[0] ?? 0);
  expect(counts()).toBe(1);
  clients[0]?.off();
  clients[1]?.off();
  clients[1]?.off();
  expect(counts()).toBe(1);
  clients[2]?.off();
  expect(counts()).toBe(0);
});
