/**
 * The few matchers that the suite uses, where no test framework is installed. They judge as vitest's
 * do (expect.test.ts compares them); what they say of a difference is Node's own.
 */
import { AssertionError } from "node:assert";
import { inspect, isDeepStrictEqual } from "node:util";
import type { Expect, Matchers } from "../../testing/index.js";

interface Verdict {
  readonly pass: boolean;
  /** As they are compared. */
  readonly actual: unknown;
  readonly expected: unknown;
  readonly operator: string;
  /** What is wanted, in words; a difference is shown where there are none. */
  readonly wanted?: string;
}

export const expect: Expect = (value, message) => matchers(value, message, false);

function matchers(value: unknown, message: string | undefined, negated: boolean): Matchers {
  const judge = (verdict: Verdict) => {
    if (verdict.pass === negated) throw failure(verdict, message, negated);
  };
  const compare = (sign: string, expected: number, pass: (actual: number) => boolean) =>
    judge({
      pass: typeof value === "number" && pass(value),
      ...{ actual: value, expected, operator: sign, wanted: `${sign} ${expected}` },
    });
  return {
    get not() {
      return matchers(value, message, !negated);
    },
    toBe: (expected) =>
      judge({ pass: Object.is(value, expected), actual: value, expected, operator: "strictEqual" }),
    toEqual: (expected) => judge(equality(defined(value), defined(expected))),
    toMatchObject: (expected) => judge(equality(pick(value, expected), expected)),
    toContain: (expected) =>
      judge({
        pass: contains(value, expected),
        ...{ actual: value, expected, operator: "contains", wanted: `with ${shown(expected)}` },
      }),
    toMatch: (expected) =>
      judge({
        pass: typeof value === "string" && expected.test(value),
        ...{ actual: value, expected, operator: "match", wanted: `like ${expected}` },
      }),
    toHaveLength: (expected) => {
      const { length } = value as { length: number };
      judge({
        pass: length === expected,
        ...{ actual: length, expected, operator: "length", wanted: `of length ${expected}` },
      });
    },
    toBeGreaterThan: (expected) => compare(">", expected, (actual) => actual > expected),
    toBeGreaterThanOrEqual: (expected) => compare(">=", expected, (actual) => actual >= expected),
    toBeLessThan: (expected) => compare("<", expected, (actual) => actual < expected),
    toBeLessThanOrEqual: (expected) => compare("<=", expected, (actual) => actual <= expected),
  };
}

function equality(actual: unknown, expected: unknown): Verdict {
  const pass = isDeepStrictEqual(actual, expected);
  return { pass, actual, expected, operator: "deepStrictEqual" };
}

function failure(
  { actual, expected, operator, wanted }: Verdict,
  message: string | undefined,
  negated: boolean,
): AssertionError {
  const words = wanted ?? (negated ? `equal to ${shown(expected)}` : undefined);
  const said =
    words === undefined
      ? new AssertionError({ actual, expected, operator }).message
      : `expected ${shown(actual)} ${negated ? "not " : ""}to be ${words}`;
  return new AssertionError({
    ...{ actual, expected, operator },
    message: message === undefined ? said : `${message}: ${said}`,
  });
}

function shown(value: unknown): string {
  return inspect(value, { breakLength: Infinity });
}

function contains(value: unknown, expected: unknown): boolean {
  if (typeof value === "string") return value.includes(String(expected));
  return Array.isArray(value) && value.includes(expected);
}

/** Without properties that are undefined: they count as absent. */
function defined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(defined);
  if (!isPlain(value)) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(entries.map(([name, item]) => [name, defined(item)]));
}

/** What `shape` asks for of `value`; of lists every entry. */
function pick(value: unknown, shape: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(shape)) {
    const items: readonly unknown[] = value;
    return items.map((item, index) => (index < shape.length ? pick(item, shape[index]) : item));
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || !isPlain(shape)) {
    return value;
  }
  const names = Object.keys(shape).filter((name) => name in value);
  return Object.fromEntries(
    names.map((name) => [name, pick((value as Record<string, unknown>)[name], shape[name])]),
  );
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
