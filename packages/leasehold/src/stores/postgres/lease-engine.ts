/**
 * Leases in PostgreSQL by the rules: a lean statement decides what is simple of a batch, and the rest is loaded, decided and saved.
 *
 *   batch ─▶ lean statement ─▶ granted, renewed, released
 *               └─ the rest ─▶ load ─▶ rules ─▶ save
 */
import { allDiffer, type CallOptions, type Failed, type Grant } from "../../core/index.js";
import { isoTime } from "../../env/index.js";
import { type Engine, type LeaseOperations, operationsOn } from "../../store-kit/index.js";
import { DEFAULT_TIMEOUT_MS, type Sql } from "./connection.js";
import { CONFIRM } from "./connection-pool.js";
import { failedOutcome } from "./failures.js";
import { leanAcquire, leanRenew } from "./lease-lean-outcomes.js";
import { loading, type Version } from "./lease-load.js";
import { acquireHead, releaseAndWake } from "./lease-queue-statements.js";
import { saving } from "./lease-save.js";
import type { Connections } from "./shared.js";
import { askLean, type LeanStatement } from "./statement.js";

/** Times are exact to the microsecond, which a double is not in milliseconds. */
const textOf = (ms: number) => isoTime(Math.floor(ms + 0.0005));

/** @param assertOpen throws once the store is closed */
export function operationsByRules(
  { backend: { general, control }, env: { clock } }: Connections,
  assertOpen: () => void,
): LeaseOperations {
  const options = { textOf, clock, timeoutMs: DEFAULT_TIMEOUT_MS };
  const rules = operationsOn(leaseEngine(general, assertOpen), options);
  // What keeps or ends a lease has connections of its own.
  const keeping = operationsOn(leaseEngine(control, assertOpen), options);

  /** @param lean null: it suits none of the requests */
  async function decided<Request extends Grant, Outcome>(
    sql: Sql,
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS, ...more }: CallOptions = {},
    lean: LeanStatement<Outcome> | null,
    rest: (some: readonly Request[], options: CallOptions) => Promise<(Outcome | Failed)[]>,
  ): Promise<(Outcome | Failed)[]> {
    // A lean statement has each key once.
    if (!lean || !allDiffer(requests.map(({ resource }) => resource))) {
      return rest(requests, { timeoutMs, ...more });
    }
    const sinceMs = clock.monotonic();
    const outcomes = await askLean(lean, requests.length, async (text, values) => {
      assertOpen();
      return sql.query(text, values, { timeoutMs });
    });
    const open = outcomes.flatMap((outcome, at) => (outcome === null ? [at] : []));
    if (open.length > 0) {
      const leftMs = Math.max(0, timeoutMs - (clock.monotonic() - sinceMs));
      const asked = open.map((at) => requests[at] as Request);
      const answers = await rest(asked, { timeoutMs: leftMs, ...more });
      for (const [nth, at] of open.entries()) outcomes[at] = answers[nth] as Outcome | Failed;
    }
    return outcomes as (Outcome | Failed)[];
  }

  return {
    acquire(requests, given) {
      const replaced = given?.returnReplaced ?? false;
      const waits = requests.some(({ queueMs }) => queueMs);
      const lean = waits && !replaced ? acquireHead(requests) : leanAcquire(requests, replaced);
      return decided(general, requests, given, lean, rules.acquire);
    },
    renew: (requests, given) =>
      decided(control, requests, given, leanRenew(requests), keeping.renew),
    release: (requests, given) =>
      decided(control, requests, given, releaseAndWake(requests), keeping.release),
    revoke: rules.revoke,
  };
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
