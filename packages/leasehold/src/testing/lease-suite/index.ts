/**
 * The conformance suite of lease stores: every engine passes it, and so can yours. It holds a store
 * against the rules (lease/rules.ts) and the port (lease/port.ts), within the capabilities that the
 * store declares.
 */
import type { TestFramework } from "../framework.js";
import { defineSuite } from "../suite.js";
import { acquiring } from "./acquiring.js";
import { batches } from "./batches.js";
import { closing } from "./closing.js";
import { concurrency } from "./concurrency.js";
import { Fixture, type OpenedLeaseStore, type Section, type Subject } from "./fixture.js";
import { interleaving } from "./interleaving.js";
import { leaseIds } from "./lease-ids.js";
import { mixedBatches } from "./mixed-batches.js";
import { model } from "./model.js";
import { names } from "./names.js";
import { queueing } from "./queueing.js";
import { releasing } from "./releasing.js";
import { renewing } from "./renewing.js";
import { revoking } from "./revoking.js";
import { successors } from "./successors.js";
import { tokens } from "./tokens.js";
import { views } from "./views.js";
import { watching } from "./watching.js";

export type { OpenedLeaseStore };

/** What the suite needs to know of an engine. */
export interface LeaseHarness {
  /** The prefix of the test names. */
  readonly name: string;
  readonly vitest: TestFramework;
  /** Called once; all tests share the store, each in a namespace of its own. */
  open(): Promise<OpenedLeaseStore>;
}

/** In this order; the last one closes the store. */
const SECTIONS: readonly (readonly [string, Section])[] = [
  ["acquire", acquiring],
  ["tokens", tokens],
  ["renew", renewing],
  ["release", releasing],
  ["revoke", revoking],
  ["lease ids", leaseIds],
  ["batches", batches],
  ["large batches", mixedBatches],
  ["concurrency", concurrency],
  ["between load and save", interleaving],
  ["names", names],
  ["get and list", views],
  ["successors", successors],
  ["watch", watching],
  ["wait queue", queueing],
  ["the rules as a model", model],
  ["close", closing],
];

/**
 * Defines the conformance tests of a lease store. Call it where tests are defined. A test that does not apply to the
 * store's capabilities is skipped with its reason.
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { exerciseLeaseStore } from "leasehold/testing";
 * import * as vitest from "vitest";
 *
 * exerciseLeaseStore({
 *   name: "memory",
 *   vitest,
 *   open: async () => {
 *     const { leases, close } = await openStores("memory:");
 *     return { store: leases, close };
 *   },
 * });
 * ```
 */
export function exerciseLeaseStore(harness: LeaseHarness): void {
  defineSuite<Subject, Fixture>({
    name: harness.name,
    kind: "lease store",
    vitest: harness.vitest,
    sections: SECTIONS,
    async open() {
      const opened = await harness.open();
      return { opened, store: opened.store };
    },
    close: ({ opened }) => opened.close(),
    fixtureOf: (subject, expect) => new Fixture(subject, expect),
  });
}
