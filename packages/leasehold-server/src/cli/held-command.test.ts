/** The options with which commands that run under a lease ask for it. */
import type { AnyLease, Leasehold } from "leasehold";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { runUnder, Signals, termsOf } from "./held-command.js";
import { loadProgram } from "./program.js";
import type * as stores from "./stores.js";
import { connectTo } from "./stores.js";

vi.mock("./stores.js", async (original) => ({
  ...(await original<typeof stores>()),
  connectTo: vi.fn(),
}));

const TTL = { minMs: 1, maxMs: 2 ** 31 - 1, stepMs: 1 };
const OPTIONS = ["--store", "postgres://127.0.0.1/none", "--ttl", "10s"];

/** The options of each request for a lease. */
let asked: object[] = [];
let listeners: Map<string | symbol, unknown[]>;

beforeEach(() => {
  asked = [];
  listeners = new Map(
    process.eventNames().map((name) => [name, process.listeners(name as "exit")]),
  );
  const leasehold = {
    capabilities: { tokens: true, ttl: TTL },
    namespace: "default",
    elector: (_: string, options: object) => {
      asked.push(options);
      return { lead: async () => Promise.reject(new Error("enough")) };
    },
    run: async (_: string, options: object) => {
      asked.push(options);
      throw new Error("enough");
    },
    once: async (_: string, options: object) => {
      asked.push(options);
      throw new Error("enough");
    },
    close: async () => {},
  };
  vi.mocked(connectTo).mockResolvedValue(leasehold as unknown as Leasehold<AnyLease>);
});

// The commands listen for signals until their process ends.
afterEach(() => {
  for (const name of process.eventNames()) {
    for (const listener of process.listeners(name as "exit")) {
      if (!listeners.get(name)?.includes(listener)) process.off(name, listener);
    }
  }
});

function storeWith(ttl: Partial<typeof TTL>) {
  return { capabilities: { ttl: { ...TTL, ...ttl } } } as unknown as Leasehold<AnyLease>;
}

async function start(...args: string[]): Promise<void> {
  const { program } = await loadProgram(args);
  await expect(program.parseAsync(["node", "leasehold", ...args])).rejects.toThrow("enough");
}

test("elect gives the leadership up early enough to stop the command", async () => {
  await start("elect", "n", ...OPTIONS, "--", "true");
  await start("elect", "n", ...OPTIONS, "--grace", "4s", "--", "true");
  // The elector waits for the end of the killed processes too.
  expect(asked).toEqual([
    { ttlMs: 10_000, marginMs: 2_050, graceMs: 7_000 },
    { ttlMs: 10_000, marginMs: 4_050, graceMs: 9_000 },
  ]);
});

test.each(["run", "once"])(
  "%s gives the lease up early enough to stop the command",
  async (command) => {
    await start(command, "r", ...OPTIONS, "--", "true");
    await start(command, "r", ...OPTIONS, "--grace", "4s", "--", "true");
    expect(asked).toMatchObject([
      { ttlMs: 10_000, marginMs: 2_050 },
      { ttlMs: 10_000, marginMs: 4_050 },
    ]);
  },
);

test("the grace is at most half of the TTL, and a short TTL has a smaller margin", () => {
  const of = (given: Parameters<typeof termsOf>[0]) => termsOf(given, storeWith({}));
  expect(of({ ttl: 10_000, grace: 5_000 })).toEqual({
    ttlMs: 10_000,
    graceMs: 5_000,
    marginMs: 5_050,
  });
  expect(() => of({ ttl: 10_000, grace: 5_001 })).toThrow("--grace must be at most half");
  expect(of({ ttl: 100 })).toEqual({ ttlMs: 100, graceMs: 20, marginMs: 30 });
});

test("without --ttl, a store gets what it allows that is nearest to 30 s", () => {
  const of = (ttl: Partial<typeof TTL>) => termsOf({}, storeWith(ttl)).ttlMs;
  expect([of({}), of({ maxMs: 60_000 }), of({ maxMs: 15_000 }), of({ minMs: 45_000 })]).toEqual([
    30_000, 30_000, 15_000, 45_000,
  ]);
});

test("no command is started if the lease has expired while the process wrote that it holds it", async () => {
  const right = {
    holder: "me",
    token: 1,
    signal: AbortSignal.abort(new Error("expired")),
    remainingMs: () => 0,
    checkAlive: () => false,
  };
  const events: string[] = [];
  const started = runUnder(right, "r", ["true"], {
    graceMs: 100,
    marginMs: 150,
    signals: new Signals(),
    notify: ({ event }) => events.push(event),
  });
  await expect(started).rejects.toThrow("expired");
  // A command that is started and stopped at once has a "stopping" too.
  expect(events).toEqual(["acquired"]);
});
