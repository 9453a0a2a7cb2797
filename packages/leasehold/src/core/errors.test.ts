/** What the errors of the public API say of themselves: callers decide by it. */
import { expect, it } from "vitest";
import {
  asStoreError,
  ClosedError,
  InvalidOptionError,
  LeaseholdError,
  LeaseLostError,
  LeaseUnavailableError,
  NestedRunError,
  NoTokenError,
  NotLeaderError,
  StaleTokenError,
  StillRunningError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "./errors.js";

it.each<[LeaseholdError, string, retryable: boolean, outcome: "none" | "unknown"]>([
  [new LeaseLostError("r", "taken"), "LEASE_LOST", true, "unknown"],
  [new LeaseUnavailableError("r", 5, "web-1"), "LEASE_UNAVAILABLE", true, "none"],
  [new StoreUnavailableError("m", { outcome: "unknown" }), "STORE_UNAVAILABLE", true, "unknown"],
  [new StoreUnavailableError("m", { outcome: "none" }), "STORE_UNAVAILABLE", true, "none"],
  [new StoreMisconfiguredError("m"), "STORE_MISCONFIGURED", false, "none"],
  [new InvalidOptionError("ttlMs", "is wrong"), "INVALID_OPTION", false, "none"],
  [new StaleTokenError("r", 1, 2), "STALE_TOKEN", false, "none"],
  [new NotLeaderError("e"), "NOT_LEADER", true, "none"],
  [new NoTokenError("r"), "NO_TOKEN", false, "none"],
  [new StillRunningError("r", 5), "STILL_RUNNING", true, "unknown"],
  [new NestedRunError("r"), "NESTED_RUN", false, "none"],
  [new ClosedError(), "CLOSED", false, "none"],
])("%s says whether to retry, and whether it may have taken effect", (error, code, ...says) => {
  const [retryable, outcome] = says;
  expect(error).toBeInstanceOf(LeaseholdError);
  expect(error).toMatchObject({ code, retryable, outcome, name: error.constructor.name });
  expect(error.docs).toBe(`node_modules/leasehold/docs/errors.md#${code.toLowerCase()}`);
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
    message: expect.stringMatching(/^the store failed: threw object/),
    outcome: "unknown",
  });
});
