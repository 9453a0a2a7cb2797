/**
 * The conformance suite of task stores: every engine passes it, and so can yours. It holds a store
 * against the rules (tasks/rules.ts) and the port (tasks/port.ts), within the capabilities that the
 * store declares.
 */
import type { TestFramework } from "../framework.js";
import { defineSuite } from "../suite.js";
import { attempts } from "./attempts.js";
import { batches } from "./batches.js";
import { cancelling } from "./cancelling.js";
import { checkpoints } from "./checkpoints.js";
import { claiming } from "./claiming.js";
import { closing } from "./closing.js";
import { completing } from "./completing.js";
import { concurrency } from "./concurrency.js";
import { deleting } from "./deleting.js";
import { enqueueing } from "./enqueueing.js";
import { expiry } from "./expiry.js";
import { failing } from "./failing.js";
import { Fixture, type OpenedTaskStore, type Section } from "./fixture.js";
import { json } from "./json.js";
import { keys } from "./keys.js";
import { leases } from "./leases.js";
import { limitScopes } from "./limit-scopes.js";
import { limits } from "./limits.js";
import { mixedBatches } from "./mixed-batches.js";
import { model } from "./model.js";
import { payloads } from "./payloads.js";
import { rates } from "./rates.js";
import { results } from "./results.js";
import { retaining } from "./retaining.js";
import { statistics } from "./statistics.js";
import { timing } from "./timing.js";
import { versions } from "./versions.js";
import { views } from "./views.js";
import { watching } from "./watching.js";

export type { OpenedTaskStore };

/** What the suite needs to know of an engine. */
export interface TaskHarness {
  /** The prefix of the test names. */
  readonly name: string;
  readonly vitest: TestFramework;
  /** Called once; all tests share the store, each in a namespace of its own. */
  open(): Promise<OpenedTaskStore>;
}

/** In this order; the last one closes the store. */
const SECTIONS: readonly (readonly [string, Section])[] = [
  ["enqueue", enqueueing],
  ["claim", claiming],
  ["expiry and reap", expiry],
  ["complete", completing],
  ["fail and requeue", failing],
  ["limits of time", timing],
  ["cancel and retry", cancelling],
  ["delete", deleting],
  ["retention", retaining],
  ["tokens and attempts", attempts],
  ["checkpoints", checkpoints],
  ["batches", batches],
  ["large batches", mixedBatches],
  ["concurrency", concurrency],
  ["concurrency keys", keys],
  ["versions", versions],
  ["limits and rates", limits],
  ["changed rates", rates],
  ["limits of kinds and queues", limitScopes],
  ["JSON", json],
  ["get, list and counts", views],
  ["large payloads", payloads],
  ["leases", leases],
  ["watch", watching],
  ["results", results],
  ["statistics", statistics],
  ["the rules as a model", model],
  ["close", closing],
];

/**
 * Defines the conformance tests of a task store. Call it where tests are defined. A test that does not apply to the
 * store's capabilities is skipped with its reason.
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { exerciseTaskStore } from "leasehold/testing";
 * import * as vitest from "vitest";
 *
 * exerciseTaskStore({
 *   name: "memory",
 *   vitest,
 *   open: async () => {
 *     const { tasks, close } = await openStores("memory:");
 *     return { store: tasks, close };
 *   },
 * });
 * ```
 */
export function exerciseTaskStore(harness: TaskHarness): void {
  defineSuite<OpenedTaskStore, Fixture>({
    name: harness.name,
    kind: "task store",
    vitest: harness.vitest,
    sections: SECTIONS,
    open: () => harness.open(),
    close: (opened) => opened.close(),
    fixtureOf: (opened, expect) => new Fixture(opened, expect),
  });
}
