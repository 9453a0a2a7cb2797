/**
 * Leases in PostgreSQL by the rules: a lean statement decides what is simple of a batch, and the rest is loaded, decided and saved.
 *
 *   batch ─▶ lean statement ─▶ granted, renewed, released
 *               ├─ loaded by the same statement ─▶ rules ─▶ held, granted again; a save is rare
 *               └─ the rest ─▶ load ─▶ rules ─▶ save
 */
import {
  allDiffer,
  type CallOptions,
  type Failed,
  type Grant,
  type Key,
} from "../../core/index.js";
import { isoTime } from "../../env/index.js";
import {
  type Change,
  type Engine,
  type LeaseOperations,
  type LoadedKeys,
  operationsOn,
} from "../../store-kit/index.js";
import { DEFAULT_TIMEOUT_MS, type Sql } from "./connection.js";
import { CONFIRM } from "./connection-pool.js";
import { failedOutcome } from "./failures.js";
import { keyText } from "./keys.js";
import {
  type LeanAnswers,
  type LeanLeases,
  leanAcquire,
  leanRenew,
} from "./lease-lean-outcomes.js";
import { loading, type Version } from "./lease-load.js";
import { acquireOrJoin, releaseAndWake } from "./lease-queue-statements.js";
import { saving } from "./lease-save.js";
import type { Connections } from "./shared.js";

/** Times are exact to the microsecond, which a double is not in milliseconds. */
const textOf = (ms: number) => isoTime(Math.floor(ms + 0.0005));

/** @param assertOpen throws once the store is closed */
export function operationsByRules(
  { backend: { general, control }, env: { clock } }: Connections,
  assertOpen: () => void,
): LeaseOperations {
  const options = { textOf, clock, timeoutMs: DEFAULT_TIMEOUT_MS };
  const engine = leaseEngine(general, assertOpen);
  // What keeps or ends a lease has connections of its own.
  const keepingEngine = leaseEngine(control, assertOpen);
  const [rules, keeping] = [operationsOn(engine, options), operationsOn(keepingEngine, options)];

  /** @param lean null: it suits none of the requests */
  async function decided<Request extends Grant, Outcome extends { readonly status: string }>(
    sql: Sql,
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS, ...more }: CallOptions = {},
    lean: LeanLeases<Outcome> | null,
    rest: (
      some: readonly Request[],
      options: CallOptions,
      loaded: Begun | null,
    ) => Promise<(Outcome | Failed)[]>,
  ): Promise<(Outcome | Failed)[]> {
    // A lean statement has each key once.
    if (!lean || !haveEachKeyOnce(requests)) {
      return rest(requests, { timeoutMs, ...more }, null);
    }
    const sinceMs = clock.monotonic();
    let answers: LeanAnswers<Outcome>;
    try {
      assertOpen();
      answers = lean.answersOf(await sql.query(lean.text, lean.values, { timeoutMs }));
    } catch (error) {
      const failed = failedOutcome(error);
      return requests.map(() => failed);
    }
    const { nowMs, outcomes, loaded, joined } = answers;
    const open = outcomes.flatMap((outcome, at) => (outcome === null ? [at] : []));
    if (open.length > 0) {
      const leftMs = Math.max(0, timeoutMs - (clock.monotonic() - sinceMs));
      const asked = open.map((at) => requests[at] as Request);
      const keys = open.flatMap((at) => loaded[at] ?? []);
      const first = keys.length === open.length ? { nowMs, keys, joined } : null;
      const decided = await rest(asked, { timeoutMs: leftMs, ...more }, first);
      for (const [nth, at] of open.entries()) {
        outcomes[at] = decided[nth] as Outcome | Failed;
      }
    }
    return outcomes as (Outcome | Failed)[];
  }

  return {
    acquire(requests, given) {
      const replaced = given?.returnReplaced ?? false;
      const waits = requests.some(({ queueMs }) => queueMs);
      const lean = waits
        ? acquireOrJoin(requests, textOf, replaced)
        : leanAcquire(requests, replaced);
      return decided(general, requests, given, lean, (some, left, loaded) => {
        const { acquire } = loaded ? operationsOn(startingWith(loaded, engine), options) : rules;
        return acquire(some, left);
      });
    },
    renew: (requests, given) =>
      decided(control, requests, given, leanRenew(requests), keeping.renew),
    release: (requests, given) =>
      decided(control, requests, given, releaseAndWake(requests), keeping.release),
    revoke: rules.revoke,
  };
}

function haveEachKeyOnce(requests: readonly Key[]): boolean {
  return allDiffer(requests.map(({ resource }) => resource)) || allDiffer(requests.map(keyText));
}

interface Begun extends LoadedKeys<Version> {
  /** Those of its requests that have joined since. */
  readonly joined: readonly Grant[];
}

/** The engine where a lean statement has done the first load, and what has joined need not be saved. */
function startingWith(begun: Begun, engine: Engine<Version>): Engine<Version> {
  let first: Begun | null = begun;
  const joined = new Map(begun.joined.map((request) => [keyText(request), request.leaseId]));
  return {
    ...engine,
    async load(...asked) {
      const known = first ?? (await engine.load(...asked));
      if (known !== first) joined.clear();
      first = null;
      return known;
    },
    async save(changes, ...more) {
      const rest = changes.map((change) => withoutJoined(change, joined.get(keyText(change))));
      const asked = rest.flatMap((change, at) => (change ? [{ change, at }] : []));
      const saved = changes.map(() => true);
      if (asked.length === 0) return saved;
      const answers = await engine.save(
        asked.map(({ change }) => change),
        ...more,
      );
      for (const [nth, { at }] of asked.entries()) saved[at] = answers[nth] ?? false;
      return saved;
    },
  };
}

/**
 * What is left to save of a key where this lease id has joined: a request that has the resource after all has no position.
 * @returns null: nothing
 */
function withoutJoined(
  change: Change<Version>,
  leaseId: string | undefined,
): Change<Version> | null {
  if (leaseId === undefined) return change;
  if (change.record === null) return null;
  const isNew = change.served !== leaseId;
  return { ...change, joins: [], withdrawn: isNew ? [leaseId] : [] };
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
