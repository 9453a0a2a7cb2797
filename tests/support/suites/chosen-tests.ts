/** Runs some tests of a suite: those that say something of an engine which another engine does not prove already. */
import type { TestFramework } from "../../../packages/leasehold/src/testing/index.js";

/** By section of a suite: the names of its tests, or all of them. */
export type Chosen = Readonly<Record<string, readonly string[] | "all">>;

/**
 * The framework, for one suite, of which it defines the chosen tests.
 * @throws where the suite has no such section or test, because it was renamed: then what it proved would be lost
 */
export function onlyTests(vitest: TestFramework, chosen: Chosen): TestFramework {
  let inSuite = false;
  const sections = new Set(Object.keys(chosen));
  let tests = new Set<string>();
  let all = false;
  const describeSection = (title: string, define: () => void): unknown => {
    const names = chosen[title];
    if (!names) return;
    sections.delete(title);
    return vitest.describe(title, () => {
      all = names === "all";
      tests = new Set(all ? [] : names);
      define();
      expectNone(`the section ${title} has no test`, tests);
    });
  };
  return {
    ...vitest,
    describe(name, define) {
      if (inSuite) return describeSection(name, define);
      return vitest.describe(name, () => {
        inSuite = true;
        define();
        inSuite = false;
        expectNone(`${name} has no section`, sections);
      });
    },
    it: (name, body, timeoutMs) => (all || tests.delete(name)) && vitest.it(name, body, timeoutMs),
  };
}

function expectNone(what: string, names: ReadonlySet<string>): void {
  if (names.size > 0) throw new Error(`${what} ${[...names].join(", ")}`);
}
