/** Defines a suite of sections on one store, for lease stores and for task stores. */
import type { Expect, TestFramework } from "./framework.js";

/** Returns why a test does not apply to a store, or null if it does. */
export type Need<Fixture> = (fixture: Fixture) => string | null;
export type Test<Fixture> = (
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  need?: Need<Fixture>,
) => void;
/** A group of tests. */
export type Section<Fixture> = (test: Test<Fixture>, expect: Expect) => void;

interface Suite<Subject, Fixture> {
  /** The prefix of the test names. */
  readonly name: string;
  readonly kind: string;
  readonly vitest: TestFramework;
  /** The sections, in the order in which they run. */
  readonly sections: readonly (readonly [string, Section<Fixture>])[];
  open(): Promise<Subject>;
  close(subject: Subject): Promise<void>;
  /** Creates the fixture of a test. */
  fixtureOf(subject: Subject, expect: Expect): Fixture;
}

const TEST_TIMEOUT_MS = 60_000;

export function defineSuite<Subject, Fixture>(suite: Suite<Subject, Fixture>): void {
  const { describe, it, beforeAll, afterAll, expect, tell = console.info } = suite.vitest;
  describe(`${suite.name}: ${suite.kind}`, () => {
    let subject: Subject | undefined;
    beforeAll(async () => {
      subject = await suite.open();
    }, TEST_TIMEOUT_MS);
    afterAll(async () => {
      if (subject) await suite.close(subject);
    }, TEST_TIMEOUT_MS);

    for (const [title, section] of suite.sections) {
      describe(title, () => {
        const test: Test<Fixture> = (name, body, need) => {
          it(
            name,
            async (context) => {
              if (!subject) throw new Error("the store did not open");
              const fixture = suite.fixtureOf(subject, expect);
              const reason = need?.(fixture);
              if (!reason) return body(fixture);
              tell(`skipped, ${suite.name}, ${title}, ${name}: ${reason}`);
              context.skip(reason);
            },
            TEST_TIMEOUT_MS,
          );
        };
        section(test, expect);
      });
    }
  });
}
