import { describe, expect, it } from "vitest";
import { PAUSED_HOLDER } from "./paused-holder.js";
import type { AcquireRequest } from "./port.js";
import {
  acquireInTurn,
  LONGEST_WAITER_MS,
  MOST_AWAITED,
  type QueuedWaiter,
  RESERVED_MS,
} from "./queue.js";
import { type LeaseRecord, rules } from "./rules.js";

const request = (leaseId: string, queueMs = 10_000): AcquireRequest => ({
  namespace: "default",
  resource: "r",
  leaseId,
  holder: `holder of ${leaseId}`,
  ttlMs: 1_000,
  queueMs,
});
const waiters = (...leaseIds: string[]): QueuedWaiter[] =>
  leaseIds.map((leaseId) => ({ leaseId, holder: `holder of ${leaseId}`, expiresAtMs: 60_000 }));
const held: LeaseRecord = {
  leaseId: "held",
  holder: "holder of held",
  token: 7,
  ttlMs: 1_000,
  grantedAtMs: 0,
  renewedAtMs: null,
  expiresAtMs: 1_000,
  ended: null,
  metadata: null,
};
const freed = rules.release(held, { ...request("held") }, 100).record;
const ids = (all: readonly QueuedWaiter[]) => all.map(({ leaseId }) => leaseId);
const ask = (
  record: LeaseRecord | null,
  before: readonly QueuedWaiter[],
  asked: AcquireRequest,
  nowMs: number,
  paused = false,
) => acquireInTurn(record, before, asked, nowMs, (last) => last + 1, paused);

describe("a refused request", () => {
  it("joins the queue at the end, and learns how long to wait", () => {
    const { outcome, waiters: after } = ask(held, waiters("a", "b"), request("c"), 400);
    expect(ids(after)).toEqual(["a", "b", "c"]);
    expect(outcome).toMatchObject({
      status: "held",
      holder: "holder of held",
      ahead: 2,
      remainingMs: 600 + 2 * RESERVED_MS,
    });
  });

  it("keeps its queue position when it polls, never for a shorter time", () => {
    const first = ask(held, waiters("a", "b"), request("c", 5_000), 400).waiters;
    const again = ask(held, [...first, ...waiters("d")], request("c", 1_000), 500).waiters;
    expect(ids(again)).toEqual(["a", "b", "c", "d"]);
    expect(again[2]?.expiresAtMs).toBe(5_400);
  });

  it("keeps its position at the head of the queue", () => {
    const again = ask(held, waiters("a", "b"), request("a"), 500).waiters;
    expect(ids(again)).toEqual(["a", "b"]);
  });

  it("joins the queue, and keeps its position, while the resource is reserved", () => {
    expect(ids(ask(freed, waiters("a"), request("b"), 100).waiters)).toEqual(["a", "b"]);
    expect(ids(ask(freed, waiters("a", "b"), request("b"), 100).waiters)).toEqual(["a", "b"]);
  });

  it("leaves the queue as it is if it waits no longer", () => {
    const { outcome, waiters: after } = ask(held, waiters("a", "b"), request("b", 0), 400);
    expect(outcome.status).toBe("held");
    expect(ids(after)).toEqual(["a", "b"]);
  });

  it("does not join the queue without queueMs while the resource is reserved", () => {
    const { outcome, waiters: after } = ask(freed, waiters("a"), request("x", 0), 100);
    expect(outcome).toMatchObject({ status: "held", ahead: 1 });
    expect(ids(after)).toEqual(["a"]);
  });

  it("does not join the queue without queueMs, and gets no queue position", () => {
    const { outcome, waiters: after } = ask(held, waiters("a"), request("c", 0), 400);
    expect(ids(after)).toEqual(["a"]);
    expect(outcome).toMatchObject({ status: "held", remainingMs: 600 });
    expect(outcome).not.toHaveProperty("ahead");
  });

  it("is not kept in mind for longer than a minute", () => {
    const [waiter] = ask(held, [], request("a", 10 * LONGEST_WAITER_MS), 400).waiters;
    expect(waiter?.expiresAtMs).toBe(400 + LONGEST_WAITER_MS);
  });
});

describe("a free resource", () => {
  it.each([
    ["is granted to the head of the queue at once", "a", 100, "acquired"],
    ["is not yet granted to the second waiter", "b", 100 + RESERVED_MS - 1, "held"],
    [
      "is granted to the second waiter if the first does not poll",
      "b",
      100 + RESERVED_MS,
      "acquired",
    ],
    [
      "is not granted to the third waiter before both had their time",
      "c",
      100 + 2 * RESERVED_MS - 1,
      "held",
    ],
    ["is then granted to the third waiter", "c", 100 + 2 * RESERVED_MS, "acquired"],
    [
      "is not granted to a newcomer before all waiters had their time",
      "x",
      100 + 3 * RESERVED_MS - 1,
      "held",
    ],
    ["is then granted to a newcomer", "x", 100 + 3 * RESERVED_MS, "acquired"],
    ["is granted to any request if the clock was set back", "x", 99, "acquired"],
  ])("%s", (_, leaseId, nowMs, status) => {
    expect(ask(freed, waiters("a", "b", "c"), request(leaseId), nowMs).outcome.status).toBe(status);
  });

  it("names the waiter that it is reserved for, and for how long", () => {
    expect(ask(freed, waiters("a", "b"), request("b"), 150).outcome).toEqual({
      status: "held",
      holder: "holder of a",
      grantId: null,
      ahead: 1,
      remainingMs: RESERVED_MS - 50,
    });
  });

  it("is granted to any request if there was no grant before", () => {
    const { outcome, waiters: after } = ask(null, waiters("a"), request("x"), 100);
    expect(outcome).toMatchObject({ status: "acquired", token: 1 });
    expect(ids(after)).toEqual(["a"]);
  });

  it("is not reserved for waiters that have expired", () => {
    const late = waiters("a").map((waiter) => ({ ...waiter, expiresAtMs: 100 }));
    expect(ask(freed, late, request("x"), 100).outcome.status).toBe("acquired");
  });

  it("is reserved for a bounded number of waiters", () => {
    const crowd = waiters(...Array.from({ length: 100 }, (_, at) => `t${at}`));
    const lastMs = 100 + MOST_AWAITED * RESERVED_MS;
    expect(ask(freed, crowd, request("x"), lastMs - 1).outcome.status).toBe("held");
    expect(ask(freed, crowd, request("x"), lastMs).outcome.status).toBe("acquired");
  });

  it("is reserved after an expiry too", () => {
    expect(ask(held, waiters("a"), request("x"), 1_000).outcome.status).toBe("held");
    expect(ask(held, waiters("a"), request("a"), 1_000).outcome.status).toBe("acquired");
  });
});

describe("a granted request", () => {
  it("leaves the queue, and so do the waiters that were passed over", () => {
    const { waiters: after } = ask(freed, waiters("a", "b", "c"), request("b"), 100 + RESERVED_MS);
    expect(ids(after)).toEqual(["c"]);
  });

  it("without a position leaves the other waiters in the queue", () => {
    const { waiters: after } = ask(freed, waiters("a"), request("x"), 100 + RESERVED_MS);
    expect(ids(after)).toEqual(["a"]);
  });

  it("gets the same answer again, whichever waiters have joined", () => {
    const { record } = ask(freed, waiters("a"), request("a"), 100);
    expect(ask(record, waiters("b"), request("a"), 200).outcome).toMatchObject({
      status: "acquired",
      token: 8,
    });
  });

  it("is answered `ended` after its release, though the resource is reserved for others", () => {
    const { outcome, record } = ask(freed, waiters("a"), request("held"), 100);
    expect(outcome).toEqual({ status: "ended" });
    expect(record).toBe(freed);
  });
});

describe("a paused resource", () => {
  it("is one only if the store says so", () => {
    const { outcome } = acquireInTurn(null, [], request("a"), 100, (last) => last + 1);
    expect(outcome.status).toBe("acquired");
  });

  it("is granted to no request, even if it is free, and keeps the waiters", () => {
    const { outcome, record, waiters: after } = ask(freed, waiters("a"), request("b"), 100, true);
    expect(outcome).toEqual({
      status: "held",
      holder: PAUSED_HOLDER,
      grantId: null,
      remainingMs: null,
      ahead: 1,
    });
    expect(record).toBe(freed);
    expect(ids(after)).toEqual(["a", "b"]);
  });

  it("gives no queue position to a request without queueMs", () => {
    const { outcome, waiters: after } = ask(null, waiters("a"), request("b", 0), 100, true);
    expect(outcome).toEqual({
      status: "held",
      holder: PAUSED_HOLDER,
      grantId: null,
      remainingMs: null,
    });
    expect(ids(after)).toEqual(["a"]);
  });

  it("answers a repeated request with its grant", () => {
    expect(ask(held, [], request("held"), 400, true).outcome).toMatchObject({
      status: "acquired",
      token: 7,
      remainingMs: 600,
    });
  });
});
