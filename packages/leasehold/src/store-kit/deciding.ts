/**
 * Decides the requests of a batch: all requests for a key in order, on one load.
 *
 *   requests ─ by key ─▶ load ─▶ fold ─▶ save ─▶ outcomes
 *                          ▲       │       │
 *                          └───────┴───────┘  a key that others have changed; a request that needs what is saved first
 *
 * Failure cases:
 *   the load fails              nothing was written: `applied: "no"`
 *   the save fails              `maybe`, for the requests of the keys that it was to change; the answers of the others stand
 *   others change a key         decided anew, a few times; then `failed`, `applied: "no"`, and the caller tries again
 *   the client is paused        the save finds another version, or a grant that has expired, and changes nothing
 */
import { type Failed, type Key, StoreUnavailableError } from "../core/index.js";
import { type Clock, invariant, sleep } from "../env/index.js";
import type { Ask, Engine, LoadedKeys, Transaction } from "./engine.js";
import { KeyFold } from "./key-fold.js";

/** Before each load. The first conflicts are those of short transactions. */
const PAUSES_MS = [0, 0, 5, 10, 20, 40];

export interface Request extends Key {
  /** Undefined: it names no grant. */
  readonly leaseId?: string;
}

/** Decides a request and notes what becomes of its key; null: after the next load, which has the wait queues. */
export type Step<Asked, Outcome> = (request: Asked, key: KeyFold<unknown>) => Outcome | null;

interface Entry<Asked> {
  readonly request: Asked;
  readonly index: number;
}

/** The requests for one key. */
type Group<Asked> = readonly [Entry<Asked>, ...Entry<Asked>[]];

interface Folded<Asked, Version> {
  readonly key: KeyFold<Version>;
  readonly decided: readonly Entry<Asked>[];
}

/** @param needsQueue of the first load; those after it always have the queues */
export async function decide<Asked extends Request, Outcome extends { readonly status: string }, V>(
  engine: Engine<V>,
  clock: Clock,
  requests: readonly Asked[],
  { needsQueue, timeoutMs }: { readonly needsQueue: boolean; readonly timeoutMs: number },
  step: Step<Asked, Outcome>,
): Promise<(Outcome | Failed)[]> {
  const deadlineMs = clock.monotonic() + timeoutMs;
  const leftMs = () => Math.max(0, deadlineMs - clock.monotonic());
  const outcomes = new Array<Outcome | Failed | null>(requests.length).fill(null);
  let open: readonly Entry<Asked>[] = requests.map((request, index) => ({ request, index }));
  for (const [attempt, pauseMs] of PAUSES_MS.entries()) {
    if (pauseMs > 0) await sleep(clock, pauseMs);
    const groups = byKey(open);
    let loaded: LoadedKeys<V>;
    try {
      loaded = await engine.load(groups.map(askOf), needsQueue || attempt > 0, leftMs());
    } catch (error) {
      const failed: Failed = { ...engine.failed(error), applied: "no" };
      for (const { index } of open) outcomes[index] = failed;
      break;
    }
    const { folded, later } = fold(groups, loaded, outcomes, step);
    const changed = folded.filter(({ key }) => key.isChanged);
    const conflicts: Entry<Asked>[] = [];
    try {
      const saved =
        changed.length > 0
          ? await engine.save(
              changed.map(({ key }) => key),
              loaded.nowMs,
              leftMs(),
            )
          : [];
      for (const [at, { decided }] of changed.entries()) if (!saved[at]) conflicts.push(...decided);
    } catch (error) {
      const failed = engine.failed(error);
      for (const { decided } of changed) for (const { index } of decided) outcomes[index] = failed;
    }
    await confirmReads(engine, folded, outcomes, leftMs);
    for (const { index } of conflicts) outcomes[index] = null;
    open = [...conflicts, ...later].sort((a, b) => a.index - b.index);
    if (open.length === 0) break;
  }
  return outcomes.map((outcome, at) => outcome ?? conflicted(requests[at] as Asked));
}

/** The same where no one else changes the keys meanwhile: each request is decided on what those before it have saved. */
export function decideAlone<Asked extends Request, Outcome>(
  transaction: Transaction,
  requests: readonly Asked[],
  step: Step<Asked, Outcome>,
): Outcome[] {
  const outcomes: Outcome[] = [];
  for (const request of requests) {
    const loaded = transaction.load(request, request.leaseId);
    const key = new KeyFold(request, loaded, transaction.nowMs);
    const outcome = step(request, key);
    invariant(outcome !== null, "a transaction has loaded the queue");
    if (key.isChanged) transaction.save(key);
    outcomes.push(outcome);
  }
  return outcomes;
}

function fold<Asked extends Request, Outcome, V>(
  groups: readonly Group<Asked>[],
  { nowMs, keys }: LoadedKeys<V>,
  outcomes: (Outcome | null)[],
  step: Step<Asked, Outcome>,
): { readonly folded: Folded<Asked, V>[]; readonly later: Entry<Asked>[] } {
  const later: Entry<Asked>[] = [];
  const folded = groups.map((group, at) => {
    const key = new KeyFold(group[0].request, keys[at] as LoadedKeys<V>["keys"][number], nowMs);
    let decided = 0;
    for (const { request, index } of group) {
      const outcome = step(request, key);
      if (outcome === null) break;
      outcomes[index] = outcome;
      decided += 1;
    }
    // Those behind one that waits are decided behind it.
    later.push(...group.slice(decided));
    return { key, decided: group.slice(0, decided) };
  });
  return { folded, later };
}

function byKey<Asked extends Request>(open: readonly Entry<Asked>[]): readonly Group<Asked>[] {
  const [only] = open;
  if (only && open.length === 1) return [[only]];
  const groups = new Map<string, [Entry<Asked>, ...Entry<Asked>[]]>();
  for (const entry of open) {
    const name = `${entry.request.namespace}\0${entry.request.resource}`;
    const group = groups.get(name);
    if (group) group.push(entry);
    else groups.set(name, [entry]);
  }
  return [...groups.values()];
}

function askOf<Asked extends Request>(group: Group<Asked>): Ask {
  const { namespace, resource } = group[0].request;
  const ids = group.flatMap(({ request: { leaseId } }) => (leaseId === undefined ? [] : [leaseId]));
  return { namespace, resource, leaseIds: ids.length > 1 ? [...new Set(ids)] : ids };
}

/** A grant that was read, and is not written by the same key's change, may not be confirmed yet. */
async function confirmReads<Asked, Outcome extends { readonly status: string }, V>(
  engine: Engine<V>,
  folded: readonly Folded<Asked, V>[],
  outcomes: (Outcome | Failed | null)[],
  leftMs: () => number,
): Promise<void> {
  if (!engine.confirm) return;
  const read = folded
    .filter(({ key }) => key.record === null)
    .flatMap(({ decided }) => decided)
    .filter(({ index }) => outcomes[index]?.status === "acquired");
  if (read.length === 0) return;
  try {
    await engine.confirm(leftMs());
  } catch (error) {
    const failed = engine.failed(error);
    for (const { index } of read) outcomes[index] = failed;
  }
}

function conflicted({ namespace, resource }: Key): Failed {
  const error = new StoreUnavailableError(
    `other transactions change "${resource}" in namespace "${namespace}" all the time`,
    { outcome: "none" },
  );
  return { status: "failed", applied: "no", retryable: true, error };
}
