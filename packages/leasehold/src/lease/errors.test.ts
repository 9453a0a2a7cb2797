/** What the errors of the public API say of themselves: callers decide by it. */
import { expect, it } from "vitest";
import {
  ClosedError,
  InvalidOptionError,
  LeaseholdError,
  LeaseLostError,
  LeaseUnavailableError,
  NoTokenError,
  NotLeaderError,
  StaleTokenError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "./errors.js";
import { OnceDoneError, OnceFailedError } from "./once-errors.js";
import { PAUSED_HOLDER } from "./paused-holder.js";
import { NestedRunError, StillRunningError } from "./run-errors.js";
import { asStoreError } from "./store-errors.js";
import { TimedOutError } from "./timed-out.js";

type Says = [code: string, retryable: boolean, outcome: "none" | "unknown"];

// Made in the test, so that a run of mutants knows that the test runs their constructors.
it.each<[...Says, make: () => LeaseholdError]>([
  ["LEASE_LOST", true, "unknown", () => new LeaseLostError("r", "taken")],
  ["LEASE_UNAVAILABLE", true, "none", () => new LeaseUnavailableError("r", 5, "web-1")],
  [
    "STORE_UNAVAILABLE",
    true,
    "unknown",
    () => new StoreUnavailableError("m", { outcome: "unknown" }),
  ],
  ["STORE_UNAVAILABLE", true, "none", () => new StoreUnavailableError("m", { outcome: "none" })],
  ["STORE_MISCONFIGURED", false, "none", () => new StoreMisconfiguredError("m")],
  ["INVALID_OPTION", false, "none", () => new InvalidOptionError("ttlMs", "is wrong")],
  ["STALE_TOKEN", false, "none", () => new StaleTokenError("r", 1, 2)],
  ["NOT_LEADER", true, "none", () => new NotLeaderError("e")],
  ["NO_TOKEN", false, "none", () => new NoTokenError("r")],
  ["STILL_RUNNING", true, "unknown", () => new StillRunningError("r", 5)],
  ["NESTED_RUN", false, "none", () => new NestedRunError("r")],
  ["ONCE_DONE", false, "none", () => new OnceDoneError("k", "web-1", "2026-01-01T00:00:00.000Z")],
  ["ONCE_FAILED", false, "none", () => new OnceFailedError("k", 3, "m")],
  ["TIMED_OUT", true, "none", () => new TimedOutError("the task has not ended", 5)],
  ["CLOSED", false, "none", () => new ClosedError()],
])("%s says whether to retry (%s), and what has changed (%s)", (code, retryable, outcome, make) => {
  const error = make();
  expect(error).toBeInstanceOf(LeaseholdError);
  expect(error).toMatchObject({ code, retryable, outcome, name: error.constructor.name });
  expect(error.docs).toBe(`node_modules/leasehold/docs/errors.md#${code.toLowerCase()}`);
});

it("names the holder of a resource, or who has paused it", () => {
  const messageOf = (holder: string, pausedBy?: string) =>
    new LeaseUnavailableError("r", 300, holder, pausedBy).message;
  expect(messageOf("web-1")).toMatch(/^"r" is held by web-1; /);
  expect(messageOf(PAUSED_HOLDER)).toMatch(/^"r" is paused by an operator; /);
  expect(messageOf(PAUSED_HOLDER, "anna")).toMatch(/^"r" is paused by anna; /);
});

it("advises once, by its own outcome, if it passes a message on", () => {
  const none = new StoreUnavailableError("down", { outcome: "none" });
  const unknown = new StoreUnavailableError("down", { outcome: "unknown" });
  expect(none.message).not.toBe(unknown.message);
  for (const inner of [none, unknown]) {
    const passOn = (outcome: "none" | "unknown") =>
      new StoreUnavailableError(inner.message, { outcome }).message;
    expect(passOn("none")).toBe(none.message);
    expect(passOn("unknown")).toBe(unknown.message);
  }
});

it("has a delay before a retry only if the store named one, and a limit only if one refused", () => {
  const init = { outcome: "none" } as const;
  expect(new StoreUnavailableError("down", init)).not.toHaveProperty("refusedBy");
  expect(new StoreUnavailableError("down", init)).not.toHaveProperty("retryAfterMs");
  expect(new StoreUnavailableError("down", { ...init, retryAfterMs: 0 }).retryAfterMs).toBe(0);
});

it("names whole milliseconds, and keeps the exact ones beside the message", () => {
  const error = new LeaseUnavailableError("r", 299.98, "web-1");
  expect(error.message).toContain("gave up after waitMs = 300:");
  expect(error.waitedMs).toBe(299.98);
});

it("becomes JSON with what it knows, and without its cause", () => {
  const cause = new Error("password=secret");
  const error = new StoreUnavailableError("down", { outcome: "none", cause });
  expect(error.cause).toBe(cause);
  expect(new ClosedError()).not.toHaveProperty("cause");
  const text = JSON.stringify(error);
  expect(JSON.parse(text)).toMatchObject({
    name: "StoreUnavailableError",
    code: "STORE_UNAVAILABLE",
    message: expect.stringMatching(/^down/),
    retryable: true,
    outcome: "none",
  });
  expect(text).not.toContain("secret");
});

it("is of the store if it is none of ours", () => {
  const own = new ClosedError();
  expect(asStoreError(own, "maybe")).toBe(own);
  const cause = new Error("boom");
  expect(asStoreError(cause, "no")).toMatchObject({
    code: "STORE_UNAVAILABLE",
    message: expect.stringMatching(/^the store failed: boom/),
    outcome: "none",
    cause,
  });
  expect(asStoreError(null, "maybe")).toMatchObject({
    message: expect.stringMatching(/^the store failed: null/),
    outcome: "unknown",
  });
});

it("is distinguished from any value that was thrown, even one for which instanceof throws", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(proxy instanceof LeaseholdError).toBe(false);
  expect(proxy instanceof TimedOutError).toBe(false);
  expect(new ClosedError() instanceof LeaseholdError).toBe(true);
  expect(new ClosedError() instanceof ClosedError).toBe(true);
  expect(new ClosedError() instanceof StaleTokenError).toBe(false);
  const { message } = asStoreError(proxy, "maybe");
  expect(message).toContain("the store failed: [a value that cannot be read]");
});

it("says of a taken lease what the store knows: another grant, or never one under this id", () => {
  // Nothing may hold the resource: it can have been released, and this id can be one that never held it.
  const { message } = new LeaseLostError("r", "taken");
  expect(message).toContain("the resource was granted again, or never under this lease id");
  expect(message).not.toContain("another holder");
});

it.each([
  [
    "connect ECONNREFUSED 127.0.0.1:5432",
    "none",
    "; nothing has changed: check that a server runs there, or try again",
  ],
  [
    "getaddrinfo ENOTFOUND db",
    "none",
    "; nothing has changed: check that a server runs there, or try again",
  ],
  [
    "connect ENOENT /tmp/none/.s.PGSQL.5432",
    "none",
    "; nothing has changed: check that a server runs there, or try again",
  ],
  ["open ENOENT /tmp/none", "none", "; nothing has changed: try again"],
  [
    "connect ECONNREFUSED 127.0.0.1:5432",
    "unknown",
    "; the call may have taken effect: check that, or repeat it",
  ],
] as const)("says what to do about %s, outcome %s", (message, outcome, advice) => {
  const failed = new StoreUnavailableError(message, { outcome });
  expect(failed.message).toBe(message + advice);
  // Once, where the message is passed on.
  expect(new StoreUnavailableError(failed.message, { outcome }).message).toBe(failed.message);
});

it("advises to try again once, and not where a limit was reached", () => {
  const message = "the store has no room";
  const failed = new StoreUnavailableError(message, { outcome: "none" });
  expect(failed.message).toBe(`${message}; nothing has changed: try again`);
  const refused = new StoreUnavailableError(failed.message, {
    outcome: "none",
    refusedBy: "limit",
  });
  expect(refused.message).toBe(`${message}; nothing has changed`);
  const passedOn = new StoreUnavailableError(refused.message, {
    outcome: "none",
    refusedBy: "limit",
  });
  expect(passedOn.message).toBe(refused.message);
});
