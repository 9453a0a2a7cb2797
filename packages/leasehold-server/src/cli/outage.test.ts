/** What a waiting command says of a store that stops answering. */
import { StoreMisconfiguredError, StoreUnavailableError } from "leasehold";
import { manualClock } from "leasehold/testing";
import { expect, it, vi } from "vitest";
import type { Notice } from "./notices.js";
import { Outage } from "./outage.js";

/** How often a command asks a store that has not answered. */
const POLL_MS = 1_000;
/** How long a lease is held before a command says so. */
const HELD_MS = 1_000;

it("says of each outage when it began, and that the store answers again", async () => {
  const said: Notice["event"][] = [];
  const clock = manualClock();
  const outage = new Outage(({ event }) => void said.push(event), undefined, clock);
  let answers = true;
  const get = async () => {
    if (!answers) throw new Error("connection refused");
    return null;
  };
  outage.watch({ get }, "nightly");
  for (let outages = 1; outages <= 2; outages += 1) {
    answers = false;
    // The library warns of each retry.
    for (let tries = 0; tries < 3; tries += 1) outage.logger.warn({ err: "no answer" }, "retrying");
    await clock.settle();
    expect(said).toHaveLength(2 * outages - 1);
    answers = true;
    await clock.advance(POLL_MS);
    expect(said).toHaveLength(2 * outages);
  }
  expect(said).toEqual(["retrying", "answering", "retrying", "answering"]);
  outage.end();
  await clock.settle();
  expect(clock.pendingTimers).toBe(0);
});

it("says nothing of a store that answers by the time it is asked", async () => {
  const said: unknown[] = [];
  const outage = new Outage((notice) => void said.push(notice));
  const get = vi.fn(async () => null);
  outage.watch({ get }, "nightly");
  outage.logger.warn({ err: "no answer" }, "retrying");
  outage.logger.warn({}, "not about the store");
  await vi.waitFor(() => expect(get).toHaveBeenCalledTimes(1));
  expect(said).toEqual([]);
  outage.end();
});

/** A command that waits, and what it says. */
function waiting({ patienceMs, waitMs }: { patienceMs?: number; waitMs?: number } = {}) {
  const said: Notice[] = [];
  const clock = manualClock();
  const outage = new Outage((notice) => void said.push(notice), patienceMs, clock);
  const get = vi.fn(async (): Promise<null> => {
    throw new StoreUnavailableError("down", { outcome: "none" });
  });
  outage.watch({ get }, "nightly", waitMs);
  return { said, outage, get, clock };
}

const refusal = (refusedBy: "limit" | "rate" | "load") =>
  new StoreUnavailableError(`the ${refusedBy} is reached`, { outcome: "none", refusedBy });

it("says once of a server that refuses since when, and that it no longer does", () => {
  const { said, outage, get } = waiting();
  for (let tries = 0; tries < 3; tries += 1) outage.logger.warn({ err: refusal("limit") }, "no");
  outage.logger.info({}, "the store answers again");
  expect(said).toEqual([
    {
      event: "refused",
      message: expect.stringMatching(
        /^the server has refused since 2020-01-01T12:00:00.000Z: the limit is reached/,
      ),
      since: expect.any(String),
    },
    { event: "answering", message: "the server no longer refuses" },
  ]);
  // A limit of leases does not refuse a read.
  expect(get).not.toHaveBeenCalled();
  outage.end();
});

it("is hopeless at a limit of the tenant without an end of the wait, and at a refused key", () => {
  for (const [error, patience] of [
    [refusal("limit"), { patienceMs: 60_000 }],
    [new StoreMisconfiguredError("no such key"), {}],
  ] as const) {
    const { said, outage } = waiting(patience);
    outage.logger.warn({ err: error }, "no");
    expect(outage.hopeless.reason).toBe(error);
    expect(said).toEqual([]);
    outage.end();
  }
  const { said, outage } = waiting({ patienceMs: 60_000 });
  outage.logger.warn({ err: refusal("rate") }, "no");
  expect([outage.hopeless.aborted, said.length]).toEqual([false, 1]);
  outage.end();
});

it("is hopeless when the store has not answered for as long as the command is patient", async () => {
  const { said, outage, clock } = waiting({ patienceMs: 60_000 });
  outage.logger.warn({ err: "no answer" }, "retrying");
  await clock.advance(59_999);
  expect(outage.hopeless.aborted).toBe(false);
  await clock.advance(1);
  expect(outage.hopeless.reason).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(said).toMatchObject([{ event: "retrying", until: "2020-01-01T12:01:00.000Z" }]);
  outage.end();
});

it("says once who holds the lease that is waited for, and who has paused it", async () => {
  for (const [holder, message] of [
    ["web-3", /^"r" is held by web-3 for another 29s, unless it renews it$/],
    ["paused", /^"r" is paused by an operator$/],
  ] as const) {
    const { said, outage, clock } = waiting({ waitMs: 60_000 });
    const remainingMs = holder === "paused" ? null : 30_000;
    for (let tries = 0; tries < 2; tries += 1) {
      outage.logger.debug({ resource: "r", holder, remainingMs }, "the lease is held");
    }
    await clock.advance(HELD_MS - 1);
    expect(said).toEqual([]);
    await clock.advance(1);
    expect(said).toEqual([
      expect.objectContaining({
        event: "waiting",
        message: expect.stringMatching(message),
        until: "2020-01-01T12:01:00.000Z",
      }),
    ]);
    outage.end();
  }
});

it("announces no retry once the wait is over", () => {
  const { said, outage } = waiting({ waitMs: 0 });
  outage.logger.warn({ err: refusal("limit") }, "no");
  outage.failed(new StoreUnavailableError("down", { outcome: "none" }));
  expect(said).toEqual([]);
  outage.end();
});
