/**
 * Decides the requests of a batch: all requests for a key in order, on one load.
 *
 *   requests ─ by key ─▶ load ─▶ fold ─▶ save ─▶ outcomes
 *                          ▲       │       │
 *                          └───────┴───────┘  a key that others have changed; a request that needs what is saved first
 *
 * Where each key has one request, a lean statement of the engine comes instead of the load, if it has one: it decides what is
 * simple, and loads the rest.
 *
 * Failure cases:
 *   the load fails              nothing was written: `applied: "no"`; so too where one key fails alone
 *   the save fails              `maybe`, for the requests of the keys that it was to change; the answers of the others stand
 *   others change a key         decided anew, a few times; then `failed`, `applied: "no"`, and the caller tries again
 *   the time is over            nothing more is saved: no one would know of the grant
 *   the client is paused        the save finds another version, or a grant that has expired, and changes no record
 * A waiter joins whether or not its change is saved. From then on, a failure of its request is `maybe`.
 */
import { type Clock, invariant, sleep, zip } from "../env/index.js";
import { type Failed, StoreUnavailableError } from "../lease/index.js";
import type {
  Change,
  Engine,
  Found,
  Lean,
  LeanAnswers,
  Loaded,
  LoadedKeys,
  Saved,
  Transaction,
} from "./engine.js";
import {
  byKey,
  type Entry,
  type Group,
  haveEachKeyOnce,
  nameOf,
  type Request,
  toLoad,
} from "./groups.js";
import { KeyFold } from "./key-fold.js";

/** Before each load. The first conflicts are those of short transactions. */
const BACKOFF_MS = [0, 0, 5, 10, 20, 40];

/** Decides a request and notes what becomes of its key; null: after the next load, which has the wait queues. */
export type Step<Asked, Outcome> = (request: Asked, key: KeyFold<unknown>) => Outcome | null;

/** A key that was loaded, and the requests for it. */
interface Readable<Asked, Version> extends Found<Version> {
  readonly group: Group<Asked>;
}

interface Deciding<Asked, Outcome, Version> {
  /** Whether the first load needs the queues; those after it always have them. */
  readonly needsQueue: boolean;
  readonly timeoutMs: number;
  readonly lean: Lean<Asked, Outcome, Version> | null;
}

interface Folded<Asked, Version> {
  readonly key: KeyFold<Version>;
  readonly decided: readonly Entry<Asked>[];
}

/** What is to be saved of a key, and the requests that it answers. */
interface Changed<Asked, Version> {
  readonly change: Change<Version>;
  readonly decided: readonly Entry<Asked>[];
  readonly nowMs: number;
}

const NO_KEYS: LoadedKeys<never> = { nowMs: 0, keys: [] };

/** Most batches end with their lean statement. */
export async function decide<Asked extends Request, Outcome extends { readonly status: string }, V>(
  engine: Engine<V>,
  clock: Clock,
  requests: readonly Asked[],
  how: Deciding<Asked, Outcome, V>,
  step: Step<Asked, Outcome>,
): Promise<(Outcome | Failed)[]> {
  if (requests.length === 0) return [];
  const deadlineMs = clock.monotonic() + how.timeoutMs;
  if (!how.lean || !haveEachKeyOnce(requests)) {
    return decideRest(engine, clock, requests, { ...how, deadlineMs, answers: null }, step);
  }
  let answers: LeanAnswers<Outcome, V>;
  try {
    answers = await how.lean(requests, how.timeoutMs);
  } catch (error) {
    const failed = engine.failed(error);
    return requests.map(() => failed);
  }
  const { outcomes } = answers;
  if (!outcomes.includes(null)) return outcomes as Outcome[];
  return decideRest(engine, clock, requests, { ...how, deadlineMs, answers }, step);
}

interface Rest<Asked, Outcome, Version> extends Deciding<Asked, Outcome, Version> {
  readonly deadlineMs: number;
  /** What the lean statement has said; null: it has not been asked. */
  readonly answers: LeanAnswers<Outcome, Version> | null;
}

async function decideRest<Asked extends Request, Outcome extends { readonly status: string }, V>(
  engine: Engine<V>,
  clock: Clock,
  requests: readonly Asked[],
  { needsQueue, deadlineMs, lean, answers }: Rest<Asked, Outcome, V>,
  step: Step<Asked, Outcome>,
): Promise<(Outcome | Failed)[]> {
  const leftMs = () => Math.max(0, deadlineMs - clock.monotonic());
  const outcomes = new Array<Outcome | Failed | null>(requests.length).fill(null);
  /** The numbers of the requests whose waiters may have joined. */
  const joined = new Set<number>();
  const fail = (entries: readonly Entry<Asked>[], failed: Failed) => {
    for (const { index } of entries) {
      outcomes[index] = joined.has(index) ? { ...failed, applied: "maybe" } : failed;
    }
  };
  /** Keys as saves have found them. */
  const found = new Map<string, Found<V>>();
  /** @returns the requests that are decided anew */
  const save = async (changed: readonly Changed<Asked, V>[], isLast: boolean) => {
    if (changed.length === 0) return [];
    if (leftMs() === 0) return changed.flatMap(({ decided }) => decided);
    const unsaved: Entry<Asked>[] = [];
    const noteJoins = ({ change, decided }: Changed<Asked, V>) => {
      if (change.joins.length > 0) for (const { index } of decided) joined.add(index);
    };
    const changes = changed.map(({ change }) => change);
    const nowMs = Math.min(...changed.map((one) => one.nowMs));
    try {
      for (const [one, result] of zip(changed, await engine.save(changes, nowMs, leftMs()))) {
        const { change, decided } = one;
        if (typeof result === "object" && "status" in result) {
          if (result.applied !== "no") noteJoins(one);
          fail(decided, result);
          continue;
        }
        noteJoins(one);
        if (result === true) continue;
        if (typeof result === "object" && !("loaded" in result)) {
          amend(outcomes, decided, result);
          continue;
        }
        if (result) found.set(nameOf(change), result);
        const isRefused = decided.every(({ index }) => outcomes[index]?.status === "held");
        // A waiter has joined all the same: in the end its refusal is the answer, and it asks again.
        if (!(isLast && isRefused)) unsaved.push(...decided);
      }
    } catch (error) {
      const failed = engine.failed(error);
      for (const one of changed) {
        noteJoins(one);
        fail(one.decided, failed);
      }
    }
    return unsaved;
  };
  let open: readonly Entry<Asked>[] = requests.map((request, index) => ({ request, index }));
  /** The open requests by their keys; null: they must be grouped anew. */
  let openGroups: readonly Group<Asked>[] | null = null;
  if (engine.guess) {
    openGroups = byKey(open);
    const guessed: Readable<Asked, V>[] = [];
    for (const group of openGroups) {
      const guess = engine.guess(toLoad(group));
      if (guess) guessed.push({ group, nowMs: guess.nowMs, loaded: guess.loaded });
    }
    const { folded } = fold(guessed, outcomes, step);
    // Waiters would join in any case, behind a guess that fails.
    const changed = changesOf(folded, NONE).filter(
      ({ change: { record, joins } }) => record !== null && joins.length === 0,
    );
    const rests = new Set(changed.flatMap(({ decided }) => decided));
    // What is not written rests on a load.
    for (const entry of open) if (!rests.has(entry)) outcomes[entry.index] = null;
    if (changed.length > 0) {
      for (const { index } of await save(changed, false)) outcomes[index] = null;
      open = open.filter(({ index }) => outcomes[index] === null);
      openGroups = null;
    }
  }
  /** These requests need the queue of their key, which a lean statement may not load. */
  let later: readonly Entry<Asked>[] = [];
  for (const [attempt, backoffMs] of BACKOFF_MS.entries()) {
    if (open.length === 0) break;
    if (backoffMs > 0) await sleep(clock, backoffMs);
    if (attempt > 0 && leftMs() === 0) break;
    let begun: Begun<Asked, V> | null = null;
    const asked = open.map(({ request }) => request);
    if (lean && later.length === 0 && haveEachKeyOnce(asked)) {
      try {
        const known = attempt === 0 ? answers : null;
        begun = begin(open, known ?? (await lean(asked, leftMs())), outcomes);
      } catch (error) {
        fail(open, engine.failed(error));
        break;
      }
      for (const index of begun.joined) joined.add(index);
      open = begun.open;
      openGroups = null;
      if (open.length === 0) break;
    }
    const groups = openGroups ?? byKey(open);
    openGroups = null;
    const unknown = groups.filter(([{ request }]) => !found.has(nameOf(request)));
    let loaded = begun?.loaded;
    try {
      loaded ??=
        unknown.length === 0
          ? NO_KEYS
          : await engine.load(unknown.map(toLoad), needsQueue || attempt > 0, leftMs());
    } catch (error) {
      fail(open, { ...engine.failed(error), applied: "no" });
      break;
    }
    const isLoaded = begun?.loaded === undefined;
    const readable: Readable<Asked, V>[] = [];
    for (const [group, key] of zip(unknown, loaded.keys)) {
      if ("status" in key) fail(group, { ...key, applied: "no" });
      else readable.push({ group, nowMs: loaded.nowMs, loaded: key });
    }
    for (const group of groups) {
      const state = found.get(nameOf(group[0].request));
      if (state) readable.push({ group, ...state });
    }
    found.clear();
    invariant(
      !isLoaded || attempt === 0 || readable.every(({ loaded: { queue } }) => queue),
      "queues were loaded",
    );
    let folded: readonly Folded<Asked, V>[];
    ({ folded, later } = fold(readable, outcomes, step));
    const hasJoined = isLoaded ? NONE : (begun?.joined ?? NONE);
    const isLast = attempt === BACKOFF_MS.length - 1;
    const unsaved = await save(changesOf(folded, hasJoined), isLast);
    await confirmReads(engine, folded, outcomes, leftMs);
    for (const { index } of unsaved) outcomes[index] = null;
    open = [...unsaved, ...later].sort((a, b) => a.index - b.index);
  }
  return outcomes.map((outcome, at) => outcome ?? undecided(joined.has(at) ? "maybe" : "no"));
}

/** What a lean statement has left. */
interface Begun<Asked, Version> {
  readonly open: readonly Entry<Asked>[];
  /** Undefined: not all keys of those are loaded. */
  readonly loaded: LoadedKeys<Version> | undefined;
  /** The numbers of those that have joined since. */
  readonly joined: ReadonlySet<number>;
}

const NONE: ReadonlySet<number> = new Set();

/** Notes what a lean statement has decided. */
function begin<Asked, Outcome, V>(
  asked: readonly Entry<Asked>[],
  { nowMs, outcomes: decided, loaded, joined }: LeanAnswers<Outcome, V>,
  outcomes: (Outcome | Failed | null)[],
): Begun<Asked, V> {
  for (const [at, { index }] of asked.entries()) outcomes[index] = decided[at] ?? null;
  const isOpen = (at: number) => (decided[at] ?? null) === null;
  const open = asked.filter((_, at) => isOpen(at));
  if (open.length === 0) return { open, loaded: undefined, joined: NONE };
  const keys = loaded.filter((key, at): key is Loaded<V> => key !== null && isOpen(at));
  const waiting = asked.filter((_, at) => joined[at]).map(({ index }) => index);
  return {
    open,
    loaded: keys.length === open.length ? { nowMs, keys } : undefined,
    joined: new Set(waiting),
  };
}

/** @param joined the numbers of those whose waiters have joined since the load */
function changesOf<Asked extends Request, V>(
  folded: readonly Folded<Asked, V>[],
  joined: ReadonlySet<number>,
): Changed<Asked, V>[] {
  return folded.flatMap(({ key, decided }) => {
    const [first] = decided;
    const hasJoined = first !== undefined && joined.has(first.index);
    const change = changeOf(key, hasJoined ? first.request.leaseId : undefined);
    return change === null ? [] : [{ change, decided, nowMs: key.nowMs }];
  });
}

/** Adds what the engine alone knows to the outcomes of a grant that was saved. */
function amend<Asked, Outcome extends { readonly status: string }>(
  outcomes: (Outcome | null)[],
  decided: readonly Entry<Asked>[],
  { remainingMs: trustedMs = Infinity, ...saved }: Saved,
): void {
  for (const { index } of decided) {
    const outcome = outcomes[index];
    if (outcome?.status === "revoked") outcomes[index] = { ...outcome, ...saved };
    if (outcome?.status !== "acquired" && outcome?.status !== "renewed") continue;
    const { remainingMs } = outcome as Outcome & { readonly remainingMs: number };
    outcomes[index] = { ...outcome, ...saved, remainingMs: Math.min(remainingMs, trustedMs) };
  }
}

/**
 * Returns what is to be saved of a key, as a plain object, which an engine may copy; null: nothing. It is written
 * out, because an object that is made by spreading costs more.
 * @param joined the lease id that has joined since the load: if it has the resource after all, only its own position goes
 */
function changeOf<V>(key: KeyFold<V>, joined: string | undefined): Change<V> | null {
  if (!key.isChanged) return null;
  const { namespace, resource, version, record, changesGrant, served, wakes } = key;
  if (joined !== undefined && record === null) return null;
  const joins = joined === undefined ? key.joins : [];
  const withdrawn = joined === undefined || joined === served ? key.withdrawn : [joined];
  return {
    namespace,
    resource,
    version,
    record,
    changesGrant,
    joins,
    served,
    withdrawn,
    wakes,
  };
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
  readable: readonly Readable<Asked, V>[],
  outcomes: (Outcome | null)[],
  step: Step<Asked, Outcome>,
): { readonly folded: Folded<Asked, V>[]; readonly later: Entry<Asked>[] } {
  const later: Entry<Asked>[] = [];
  const folded = readable.map(({ group, loaded, nowMs }) => {
    const key = new KeyFold(group[0].request, loaded, nowMs);
    let decided = 0;
    for (const { request, index } of group) {
      const outcome = step(request, key);
      if (outcome === null) break;
      outcomes[index] = outcome;
      decided += 1;
    }
    // The requests behind one that waits for the next load are decided after it.
    later.push(...group.slice(decided));
    return { key, decided: group.slice(0, decided) };
  });
  return { folded, later };
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

function undecided(applied: Failed["applied"]): Failed {
  const error = new StoreUnavailableError(
    "the request was not decided in time: the store is slow, or other transactions change its resource all the time",
    { outcome: applied === "no" ? "none" : "unknown" },
  );
  return { status: "failed", applied, retryable: true, error };
}
