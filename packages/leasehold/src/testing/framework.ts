/** The part of vitest that the suites use. The caller passes it in; the suites import nothing of vitest. */

export interface Matchers {
  readonly not: Matchers;
  toBe(expected: unknown): void;
  toEqual(expected: unknown): void;
  toMatchObject(expected: object): void;
  toContain(expected: unknown): void;
  toMatch(expected: RegExp): void;
  toHaveLength(expected: number): void;
  toBeGreaterThan(expected: number): void;
  toBeGreaterThanOrEqual(expected: number): void;
  toBeLessThan(expected: number): void;
  toBeLessThanOrEqual(expected: number): void;
}

/** The `expect` of a test framework, as far as the suites use it. */
export type Expect = (value: unknown, message?: string) => Matchers;

/** `import { afterAll, beforeAll, describe, expect, it } from "vitest"` is one. */
export interface TestFramework {
  readonly describe: (name: string, body: () => void) => unknown;
  readonly it: (
    name: string,
    body: (context: TestContext) => Promise<void>,
    timeoutMs: number,
  ) => unknown;
  readonly beforeAll: (body: () => Promise<void>, timeoutMs: number) => unknown;
  readonly afterAll: (body: () => Promise<void>, timeoutMs: number) => unknown;
  readonly expect: Expect;
  /** Takes a line on each test that does not apply, beside the framework's report. Default: console.info. */
  readonly tell?: (line: string) => void;
}

/** What a test receives from its framework. */
export interface TestContext {
  skip(reason: string): unknown;
}
