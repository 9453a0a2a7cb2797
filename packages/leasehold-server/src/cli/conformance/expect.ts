/** Vitest's matchers, so that a project can run the suite with the CLI and without vitest installed. */
import { AssertionError } from "node:assert";
import { type ExpectStatic, JestChaiExpect } from "@vitest/expect";
import * as chai from "chai";
import type { Expect } from "leasehold/testing";

chai.use(JestChaiExpect);

export const expect: Expect = chai.expect as ExpectStatic;

/** The lines that show how two values differ; none if the error does not compare two values. */
export function differenceIn(error: unknown): string[] {
  if (!(error instanceof chai.AssertionError) || error.showDiff !== true) return [];
  const { actual, expected } = error;
  const { message } = new AssertionError({ actual, expected, operator: "deepStrictEqual" });
  return message.split("\n");
}
