/** The checkers beside the rules, and beside a search that spares nothing. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  acquired,
  ended,
  entryOf,
  held,
  KEY,
  lost,
  notHeld,
  released,
  renewed,
  revoked,
  type Window,
} from "../../../../../tests/support/worlds/history-entries.js";
import { type Decision, type LeaseRecord, rules } from "../../lease/index.js";
import type { HistoryEntry } from "./entry.js";
import { checkGrants } from "./grants.js";
import { checkLinearizability } from "./linearizability.js";
import { NOTHING, step } from "./model.js";

const verdict = (history: HistoryEntry[]) => checkLinearizability(history).verdict;

/** What a run of the rules is made of; lease ids and clients are few, so that they meet. */
const commands = fc.array(
  fc.record({
    operation: fc.constantFrom("acquire" as const, "acquire", "renew", "release", "revoke"),
    lease: fc.nat(3),
    ttlMs: fc.constantFrom(50, 100, 150),
    free: fc.constantFrom("now" as const, "atExpiry"),
    expected: fc.constantFrom("none", "last", "wrong"),
    /** Until the step is decided; then how long before it was sent, and the answer came after. */
    waitMs: fc.nat(60),
    beforeMs: fc.nat(40),
    afterMs: fc.nat(40),
    fate: fc.constantFrom("ok", "ok", "ok", "ok", "applied unseen", "never applied", "fail"),
  }),
  { minLength: 1, maxLength: 40 },
);
type Command = typeof commands extends fc.Arbitrary<(infer Each)[]> ? Each : never;

/** Runs the rules on a clock of their own and notes what clients would see. */
function run(list: readonly Command[], { wide }: { wide: boolean }): HistoryEntry[] {
  let record: LeaseRecord | null = null;
  let nowMs = 0;
  return list.map((command): HistoryEntry => {
    // Never two steps at one instant, nor one at an expiry: their order would be open.
    nowMs += command.waitMs + 1.001;
    const { operation, free, ttlMs, fate } = command;
    const leaseId = `lease ${command.lease}`;
    const last: number = record?.token ?? 0;
    const expectedToken = { none: undefined, last, wrong: last + 1 }[command.expected];
    const request = {
      acquire: { leaseId, holder: `holder ${leaseId}`, ttlMs },
      renew: { leaseId, ttlMs },
      release: { leaseId },
      revoke: { free, ...(expectedToken !== undefined && { expectedToken }) },
    }[operation];
    const whole = { ...KEY, ...request } as never;
    const token = (before: number) => before + 1;
    const decided: Decision<object> =
      operation === "acquire"
        ? rules.acquire(record, whole, nowMs, token)
        : rules[operation](record, whole, nowMs);
    if (fate === "ok" || fate === "applied unseen") record = decided.record;
    const answered = fate === "ok" ? decided.outcome : fate === "fail" ? "fail" : "unknown";
    const window: Window = wide
      ? [nowMs - command.beforeMs, nowMs + command.afterMs]
      : [nowMs, nowMs];
    return entryOf(operation, window, request, answered);
  });
}

describe("random runs of the rules", () => {
  it("check out, however their requests overlap", () => {
    fc.assert(
      fc.property(commands, (list) => {
        const history = run(list, { wide: true });
        expect(verdict(history)).toBe("linearizable");
        expect(checkGrants(history).violations).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it("are found out when an answer is changed", () => {
    let changed = 0;
    fc.assert(
      fc.property(commands, fc.nat(), (list, at) => {
        const history = run(
          list.map((command) => ({ ...command, fate: "ok" })),
          { wide: false },
        );
        const index = at % history.length;
        const entry = history[index] as HistoryEntry & { result: "ok" };
        for (const outcome of otherOutcomes(entry)) {
          const mutated = [...history];
          mutated[index] = { ...entry, outcome } as HistoryEntry;
          // The zone allows for a tolerance at each end of a grant: requests must not be so close.
          expect(checkLinearizability(mutated, { toleranceMs: 0 }).verdict).toBe("not");
          changed += 1;
        }
      }),
      { numRuns: 300 },
    );
    expect(changed).toBeGreaterThan(300);
  });
});

it("finds what trying every order finds", () => {
  const verdicts = { linearizable: 0, not: 0 };
  const few = commands.map((list) => list.slice(0, 5));
  fc.assert(
    fc.property(few, fc.nat(), fc.boolean(), (list, at, wrong) => {
      const history = run(list, { wide: true });
      const index = at % history.length;
      const entry = history[index];
      if (wrong && entry?.result === "ok") {
        const outcome = otherOutcomes(entry)[at % 3];
        if (outcome) history[index] = { ...entry, outcome } as HistoryEntry;
      }
      const expected = explainedBySomeOrder(history) ? "linearizable" : "not";
      verdicts[expected] += 1;
      expect(verdict(history)).toBe(expected);
    }),
    { numRuns: 500 },
  );
  expect(Math.min(verdicts.linearizable, verdicts.not)).toBeGreaterThan(50);
});

/** Without a cache, without looking at tokens ahead, and with nothing preferred. */
function explainedBySomeOrder(history: readonly HistoryEntry[], state = NOTHING): boolean {
  const untilMs = Math.min(
    ...history.map(({ result, returnMs }) => (result === "ok" ? (returnMs ?? 0) : Infinity)),
  );
  if (untilMs === Infinity) return true;
  return history.some((entry, index) => {
    if (entry.result === "fail" || entry.invokeMs > untilMs) return false;
    const rest = history.filter((_, other) => other !== index);
    const after = step(state, entry, untilMs, {
      toleranceMs: 1,
      ttl: { minMs: 1, stepMs: 1 },
      lateMs: 0,
    });
    return after.some((reached) => explainedBySomeOrder(rest, reached));
  });
}

/** Answers of the same operation that cannot be true where this one is. */
function otherOutcomes({ operation, outcome }: HistoryEntry & { result: "ok" }): object[] {
  const statuses = {
    acquire: [acquired(1_000_000), held("another holder"), ended],
    renew: [renewed(1_000_000), lost("taken"), lost("gone"), lost("revoked"), lost("expired")],
    release: [released, notHeld],
    revoke: [revoked(1_000_000), notHeld, { status: "otherToken" }],
  }[operation] as { status: string; reason?: string }[];
  const others: object[] = statuses.filter(
    ({ status, reason }) =>
      status !== outcome.status || ("reason" in outcome && reason !== outcome.reason),
  );
  if ("token" in outcome) others.push({ ...outcome, token: outcome.token - 1 });
  if ("remainingMs" in outcome && outcome.remainingMs !== null) {
    others.push({ ...outcome, remainingMs: outcome.remainingMs + 3 });
  }
  return others;
}
