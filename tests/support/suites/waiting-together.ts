/**
 * Lets the tests of a suite wait at the same time, on an engine where a grant lasts for seconds at least. Not where all
 * grants of a client share a session: a test that renews it would change what the views of others show.
 */
import { it } from "vitest";
import type { TestFramework } from "../../../packages/leasehold/src/testing/index.js";

/** Sections of the suite of leases whose tests wait for expiries, each in a namespace of its own. */
const WAITING: ReadonlySet<string> = new Set([
  "acquire",
  "tokens",
  "renew",
  "release",
  "revoke",
  "get and list",
  "wait queue",
]);
/** Tests that collect the ended records of all namespaces, or restart the engine of all. */
const ALONE = /collection|young ended records|restart/;

export function waitingTogether(vitest: TestFramework): TestFramework {
  let section = "";
  return {
    ...vitest,
    describe: (name, define) =>
      vitest.describe(name, () => {
        section = name;
        define();
      }),
    it(name, body, timeoutMs) {
      const test = WAITING.has(section) && !ALONE.test(name) ? it.concurrent : vitest.it;
      return test(name, body, timeoutMs);
    },
  };
}
