/** Runs the tests of a suite one after the other, without a test framework. */

import { once } from "node:events";
import type { Clock } from "leasehold";
import { withTimeout } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import type { TestContext, TestFramework } from "leasehold/testing";
import { expect } from "./expect.js";

/** One test: the property that must hold, and the section of the suite that it belongs to. */
export interface Property {
  readonly section: string;
  readonly name: string;
  readonly body: (context: TestContext) => Promise<void>;
  readonly timeoutMs: number;
}

/** A suite that has been defined and not yet run. */
export interface Plan {
  readonly properties: readonly Property[];
  /** Hooks that open the store. `after` has those that close it. */
  readonly before: readonly (() => Promise<void>)[];
  readonly after: readonly (() => Promise<void>)[];
}

type Verdict =
  | { readonly verdict: "pass" }
  | { readonly verdict: "fail"; readonly error: unknown }
  | { readonly verdict: "not applicable"; readonly reason: string };
export type Result = Pick<Property, "section" | "name"> & { readonly ms: number } & Verdict;

export interface Run {
  /** Of the tests that have ended. */
  readonly results: readonly Result[];
  /** Why the store was not closed, if it was not. */
  readonly closeFailure?: Error;
}

/** For closing the store. */
const CLOSE_TIMEOUT_MS = 10_000;

/** Lets a suite define its tests. */
export function planOf(define: (framework: TestFramework) => void): Plan {
  const properties: Property[] = [];
  const before: (() => Promise<void>)[] = [];
  const after: (() => Promise<void>)[] = [];
  let section = "";
  define({
    describe(name, body) {
      const outer = section;
      section = name;
      body();
      section = outer;
    },
    it: (name, body, timeoutMs) => properties.push({ section, name, body, timeoutMs }),
    beforeAll: (body) => before.push(body),
    afterAll: (body) => after.push(body),
    expect,
    // The report has the same information.
    tell: () => {},
  });
  return { properties, before, after };
}

/**
 * Runs a plan. A test that fails or times out does not stop the others.
 * @param options.signal ends the run and drops the result of the running test, or ends the wait for the store to close
 * @param options.onBegin called before each test, with the number of finished tests
 * @throws the error of opening the store
 */
export async function runPlan(
  { properties, before, after }: Plan,
  options: {
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly onBegin: (next: Property, done: number) => void;
  },
): Promise<Run> {
  const { clock, signal, onBegin } = options;
  const results: Result[] = [];
  const aborted = signal.aborted ? Promise.resolve() : once(signal, "abort");
  const stopped = aborted.then(() => "stopped" as const);
  const opening = (async () => {
    for (const body of before) await body();
  })();
  if ((await Promise.race([stopped, opening])) === "stopped") return { results };
  for (const property of properties) {
    onBegin(property, results.length);
    const result = await Promise.race([stopped, runOne(property, clock)]);
    if (result === "stopped") break;
    results.push(result);
  }
  const closing = (async () => {
    for (const body of after) await body();
  })();
  try {
    await Promise.race([
      closed(closing, clock),
      ...(signal.aborted ? [] : [stopped.then(interrupt)]),
    ]);
    return { results };
  } catch (error) {
    const message = reasonOf(error);
    return {
      results,
      closeFailure: new Error(`the store was not closed: ${message}`, { cause: error }),
    };
  }
}

function interrupt(): never {
  throw new Error("interrupted");
}

/** @throws the error of closing */
function closed(closing: Promise<void>, clock: Clock): Promise<void> {
  return withTimeout(clock, CLOSE_TIMEOUT_MS, closing, () => {
    throw new Error(`its close has not settled after ${CLOSE_TIMEOUT_MS / 1_000} seconds`);
  });
}

async function runOne({ section, name, body, timeoutMs }: Property, clock: Clock): Promise<Result> {
  const beganMs = clock.monotonic();
  let reason: string | undefined;
  const ended = (verdict: Verdict): Result => ({
    section,
    name,
    ms: Math.round(clock.monotonic() - beganMs),
    ...verdict,
  });
  try {
    const giveUp = () => {
      throw new Error(`not done within ${timeoutMs / 1_000} seconds`);
    };
    await withTimeout(clock, timeoutMs, body({ skip: (why) => (reason = why) }), giveUp);
    return ended(
      reason === undefined ? { verdict: "pass" } : { verdict: "not applicable", reason },
    );
  } catch (error) {
    return ended({ verdict: "fail", error });
  }
}
