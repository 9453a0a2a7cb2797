/** What is counted and logged of refusals, and for how long a tenant is held back. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import type { Caller } from "./auth/caller.js";
import { ProblemError, tooMany } from "./problems.js";
import { Refusals } from "./refusals.js";

const FULL = tooMany("capacity", "this instance is overloaded", 1_000);
const TOO_OFTEN = tooMany("rate", "too often", 1_000);

function newRefusals() {
  const logged: object[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const load = { inFlight: 1, lateMs: 0 };
  return { env, logged, load, refusals: new Refusals(env, undefined, { load }) };
}

const callerOf = (namespace: string): Caller => ({
  namespace,
  role: "holder",
  prefixes: [""],
  actor: "key:1",
  keyId: "1",
});

it("logs an overload at once, and then at most every ten seconds, with the number of refusals", async () => {
  const { env, logged, load, refusals } = newRefusals();
  const line = { event: "overloaded", inFlight: 1, lateMs: 0 };
  for (let times = 0; times < 6; times += 1) refusals.note(FULL);
  await env.clock.advance(9_999);
  expect(logged).toEqual([{ ...line, refused: 1 }]);
  load.inFlight = 0;
  await env.clock.advance(1);
  expect(logged[1]).toEqual({ ...line, inFlight: 0, refused: 5 });
  refusals.note(FULL);
  expect(logged[2]).toEqual({ ...line, inFlight: 0, refused: 1 });
  refusals.close();
  expect(env.clock.pendingTimers).toBe(0);
});

it("says for how long a tenant has been held back, until it has not been refused for 15 s", async () => {
  const { env, refusals } = newRefusals();
  const refuse = (namespace: string) => refusals.note(TOO_OFTEN, callerOf(namespace));
  expect(refusals.longestMs).toBe(0);
  refuse("late");
  await env.clock.advance(14_999);
  refuse("late");
  refuse("new");
  expect(refusals.longestMs).toBe(14_999);
  await env.clock.advance(14_999);
  expect(refusals.longestMs).toBe(14_999);
  refuse("new");
  await env.clock.advance(1);
  expect(refusals.longestMs).toBe(14_999);
  await env.clock.advance(14_999);
  expect(refusals.longestMs).toBe(0);
  // It begins anew.
  refuse("late");
  await env.clock.advance(1_000);
  refuse("late");
  expect(refusals.longestMs).toBe(1_000);
});

it("names a tenant in the log once a minute, while it is held back", async () => {
  const { env, logged, refusals } = newRefusals();
  for (let second = 0; second < 150; second += 1) {
    refusals.note(TOO_OFTEN, callerOf("busy"));
    if (second % 20 === 0) refusals.note(TOO_OFTEN, callerOf("seldom"));
    // An instance that is overloaded says nothing of its tenants.
    refusals.note(FULL, callerOf("victim"));
    await env.clock.advance(1_000);
  }
  const line = { event: "tenant_held_back", namespace: "busy", reason: "rate" };
  const lines = logged.filter((fields) => "namespace" in fields);
  expect(lines).toEqual([
    { ...line, refused: 61, forSeconds: 60 },
    { ...line, refused: 60, forSeconds: 120 },
  ]);
  refusals.close();
});

it("takes no other problem for such a refusal", () => {
  const { logged, refusals } = newRefusals();
  refusals.note(undefined, callerOf("busy"));
  refusals.note(new Error("broken"), callerOf("busy"));
  refusals.note(new ProblemError("CLOSING", "this instance is closing"), callerOf("busy"));
  expect([logged, refusals.longestMs]).toEqual([[], 0]);
});
