/**
 * Leases in PostgreSQL by the rules: a lean statement decides what is simple of a batch, and the rest is loaded, decided and saved.
 *
 *   batch ─▶ lean statement ─▶ granted, renewed, released
 *               ├─ loaded by the same statement ─▶ rules ─▶ held, granted again; a save is rare
 *               └─ the rest ─▶ load ─▶ rules ─▶ save
 */
import type { Grant } from "../../lease/index.js";
import {
  type Engine,
  type Lean,
  type LeanOperations,
  type LeaseOperations,
  operationsOn,
} from "../../store-kit/index.js";
import { DEFAULT_TIMEOUT_MS, type Sql } from "./connection.js";
import { CONFIRM } from "./connection-pool.js";
import { failedOutcome } from "./failures.js";
import { type LeanLeases, leanAcquire, leanRenew } from "./lease-lean-outcomes.js";
import { loading, type Version } from "./lease-load.js";
import { acquireOrJoin, releaseAndWake } from "./lease-queue-statements.js";
import { saving } from "./lease-save.js";
import type { Connections } from "./shared.js";

/** @param assertOpen throws once the store is closed */
export function operationsByRules(
  { backend: { general, control }, env: { clock } }: Connections,
  assertOpen: () => void,
): LeaseOperations {
  const options = { clock, timeoutMs: DEFAULT_TIMEOUT_MS };
  const leanOn =
    <Request extends Grant, Outcome>(
      sql: Sql,
      statementOf: (requests: readonly Request[]) => LeanLeases<Outcome>,
    ): Lean<Request, Outcome, Version> =>
    async (requests, timeoutMs) => {
      assertOpen();
      const { text, values, answersOf } = statementOf(requests);
      return answersOf(await sql.query(text, values, { timeoutMs }));
    };
  const lean: LeanOperations<Version> = {
    acquire(requests, { returnReplaced = false } = {}) {
      const waits = requests.some(({ queueMs }) => queueMs);
      const statementOf = waits
        ? (some: typeof requests) => acquireOrJoin(some, returnReplaced)
        : (some: typeof requests) => leanAcquire(some, returnReplaced);
      return leanOn(general, statementOf);
    },
    renew: leanOn(control, leanRenew),
    release: leanOn(control, releaseAndWake),
  };
  const { acquire, revoke } = operationsOn(leaseEngine(general, assertOpen), options, lean);
  // What keeps or ends a lease has connections of its own.
  const { renew, release } = operationsOn(leaseEngine(control, assertOpen), options, lean);
  return { acquire, renew, release, revoke };
}

/**
 * @param assertOpen throws once the store is closed
 * @internal
 */
export function leaseEngine(sql: Sql, assertOpen: () => void): Engine<Version> {
  return {
    async load(keys, needsQueue, timeoutMs) {
      assertOpen();
      const { text, values, loadedOf } = loading(keys, needsQueue);
      return loadedOf(await sql.query(text, values, { timeoutMs }));
    },
    async save(changes, _, timeoutMs) {
      assertOpen();
      const { text, values, savedOf } = saving(changes);
      return savedOf(await sql.query(text, values, { timeoutMs }));
    },
    // A read may see a grant that no synchronous standby has confirmed, after a crash or a cancelled wait.
    async confirm(timeoutMs) {
      await sql.query(CONFIRM, [], { timeoutMs });
    },
    failed: failedOutcome,
  };
}
