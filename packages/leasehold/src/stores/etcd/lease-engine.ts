/**
 * Leases in etcd by the rules: many resources in each transaction, none waiting for another.
 *
 *   known or guessed ──▶ rules ──▶ changes ──▶ one transaction of nested ones, each
 *          ▲               ▲                      if the compared state is unchanged: puts, and the written state is known
 *          │               └── found ◀────────────else: reads
 *          └────────── read, where nothing is known or written
 *
 * A resource occurs once in a transaction, because nested ones compare before any of them writes. A lost race means that another
 * client made progress, so contention resolves.
 *
 * If the response to a renewal or release is lost, the caller repeats it, because twice has the same effect as once. The repetition
 * is decided on a new read. If the first one arrives late, it finds the record changed, or the second finds its change. A repeated
 * acquire might meet a lock of etcd's own clients, which leaves the record unchanged: its outcome stays unknown.
 */
import { chunked, isoTime, zip } from "../../env/index.js";
import type { Failed } from "../../lease/index.js";
import type {
  Change,
  Engine,
  Found,
  KeyToLoad,
  Loaded,
  LoadedKeys,
  SaveResult,
} from "../../store-kit/index.js";
import { Sightings } from "../../store-kit/sightings.js";
import type { EtcdClient } from "./connection.js";
import { type Operation, type Response, revisionOf } from "./connection-api.js";
import type { EngineLease, EngineLeases } from "./engine-leases.js";
import { CallFailure, failedOutcome } from "./failures.js";
import type { Place } from "./keys.js";
import { KnownEntries } from "./known-entries.js";
import { type Asked, askedFor, entryIn, loadedOf, readingOf, type Version } from "./lease-load.js";
import {
  entryAfter,
  lockChange,
  MOST_LEAVING,
  MOST_OPERATIONS,
  operationOf,
  type Prepared,
  shared,
  type TimeText,
  writtenOf,
} from "./lease-save.js";
import { type Entry, excludesOthers, type GrantRecord, NOTHING } from "./records.js";
import { countBefore, deleteWaiter, findWaiter, putWaiter, type Waiter } from "./wait-queue.js";

/** A record, the locks, the queue, and queue positions. */
const MOST_READS = Math.floor(MOST_OPERATIONS / 7);

export class EtcdEngine implements Engine<Version> {
  readonly #client: EtcdClient;
  readonly #leases: EngineLeases;
  readonly #prefix: string;
  readonly #known: KnownEntries;
  readonly #sightings = new Sightings();

  /** @param prefix of all keys */
  constructor(client: EtcdClient, leases: EngineLeases, prefix: string) {
    this.#client = client;
    this.#leases = leases;
    this.#prefix = prefix;
    this.#known = new KnownEntries(client.connection.env.clock);
  }

  readonly failed = failedOutcome;

  /** A client that guesses a free resource correctly is the only writer so far. */
  guess(key: KeyToLoad): Found<Version> | null {
    const asked = askedFor(this.#prefix, key);
    const { entry, changes } = this.#known.get(asked.place.record) ?? GUESS;
    const nowMs = this.#nowMs();
    const { owner, record, waiters } = entry;
    const leftMs = owner ? this.#leases.knownMs(owner.lease) : null;
    // What others hold changes nothing, and what is promised counts from what is left.
    if (owner && (leftMs === null || !isOf(key, record))) return null;
    const { place } = asked;
    const freeForMs = this.#freeForMs(asked, entry, nowMs);
    const aheadOf = () => waiters.first.length;
    const version = { place, key, entry, changes, nowMs };
    const terms = { leftMs, freeForMs, waitersMs: NO_TERMS, aheadOf };
    return { nowMs, loaded: loadedOf(version, terms) };
  }

  async load(
    keys: readonly KeyToLoad[],
    _needsQueue: boolean,
    timeoutMs: number,
  ): Promise<LoadedKeys<Version>> {
    const nowMs = this.#nowMs();
    const deadlineMs = nowMs + timeoutMs;
    const asked = keys.map((key) => askedFor(this.#prefix, key));
    const loaded = await Promise.all(
      chunked(asked, MOST_READS).map((some) => this.#read(some, nowMs, deadlineMs)),
    );
    return { nowMs, keys: loaded.flat() };
  }

  async save(
    changes: readonly Change<Version>[],
    _nowMs: number,
    timeoutMs: number,
  ): Promise<SaveResult<Version>[]> {
    const deadlineMs = this.#nowMs() + timeoutMs;
    const wallMs = this.#client.connection.env.clock.wall();
    const textAt = (inMs: number) => isoTime(wallMs + inMs);
    const ready: Prepared[] = [];
    const preparing = changes.flatMap((change) => {
      const prepared = this.#prepareNow(change, textAt);
      if (prepared) ready.push(prepared);
      return prepared ? [] : [this.#prepare(change, textAt, deadlineMs)];
    });
    const results = new Map<Change<Version>, SaveResult<Version>>();
    for (const prepared of preparing.length === 0 ? NONE : await Promise.all(preparing)) {
      if ("failed" in prepared) results.set(prepared.change, prepared.failed);
      else ready.push(prepared);
    }
    const shares = shared(ready);
    // Most of the time all are sent at once, in their order.
    if (preparing.length === 0 && shares.length === 1) return this.#send(ready, deadlineMs);
    await Promise.all(
      shares.map(async (some) => {
        const saved = await this.#send(some, deadlineMs);
        for (const [{ change }, result] of zip(some, saved)) results.set(change, result);
      }),
    );
    return changes.map((change) => results.get(change) ?? false);
  }

  /** The record of a key is about to be deleted. */
  forget({ record }: Place): void {
    this.#known.delete(record);
  }

  async #read(
    some: readonly Asked[],
    nowMs: number,
    deadlineMs: number,
  ): Promise<(Loaded<Version> | Failed)[]> {
    const reads = some.map(readingOf);
    try {
      const { responses, revision } = await this.#transaction(reads.flat(), true, deadlineMs);
      let end = 0;
      const parts = reads.map(({ length }) => {
        end += length;
        return responses.slice(end - length, end);
      });
      const loading = zip(some, parts).map(([asked, part]) =>
        this.#saw(asked, part, revision, nowMs, deadlineMs),
      );
      return await Promise.all(loading);
    } catch (error) {
      const failed = failedOutcome(error, "no");
      return some.map(() => failed);
    }
  }

  /** Prepares a change that needs no call, as most do, without a promise, which would cost as much. Null: it needs one. */
  #prepareNow(change: Change<Version>, textAt: TimeText): Prepared | null {
    const { record, version, joins, withdrawn } = change;
    if (joins.length > 0 || withdrawn.length > MOST_LEAVING) return null;
    const lock = lockChange(change);
    const written = writtenOf(change, lock === "freed", textAt);
    let lease: EngineLease | null = null;
    if (record && (lock === "granted" || lock === "renewed")) {
      const { owner } = version.entry;
      lease = this.#leases.current(record.ttlMs);
      if (!lease || (lock === "renewed" && owner && !this.#leases.outlasts(lease, owner.lease))) {
        return null;
      }
    }
    return { change, lease, leftMs: null, joins: NONE, withdrawn, record: written };
  }

  /** Takes the engine leases of a change. */
  async #prepare(
    change: Change<Version>,
    textAt: TimeText,
    deadlineMs: number,
  ): Promise<Prepared | Unprepared> {
    const { record, version } = change;
    const lock = lockChange(change);
    try {
      let lease: EngineLease | null = null;
      let leftMs: number | null = null;
      if (record && (lock === "granted" || lock === "renewed")) {
        lease = await this.#leases.take(record.ttlMs, deadlineMs);
        const { owner, record: before } = version.entry;
        if (lock === "renewed" && owner) {
          // Never shortens a grant: not by its last TTL, as one before may have promised more.
          const keptMs = await this.#leases.leftAfter(lease, owner.lease, deadlineMs);
          if (keptMs !== null) {
            lease = null;
            leftMs = Math.min(Math.max(record.ttlMs, before?.ttlMs ?? 0), keptMs);
          }
        }
      }
      const waiting = await this.#waiting(change, deadlineMs);
      const written = writtenOf(change, lock === "freed", textAt);
      return { change, lease, leftMs, ...waiting, record: written };
    } catch (error) {
      // Most of these calls concern only engine leases: no key has changed. But some of many waiters may have joined, or left.
      const isAlone = change.joins.length <= 1 && change.withdrawn.length <= MOST_LEAVING;
      return { change, failed: failedOutcome(error, isAlone ? "no" : "maybe") };
    }
  }

  /**
   * Where many waiters join or leave at once, all but the last ones do so before the change.
   * @returns the others
   */
  async #waiting(
    { joins, withdrawn, version: { place, nowMs } }: Change<Version>,
    deadlineMs: number,
  ): Promise<Pick<Prepared, "joins" | "withdrawn">> {
    const joining = await Promise.all(
      joins.map(async (waiter) => {
        const { id } = await this.#leases.take(waiter.expiresAtMs - nowMs, deadlineMs);
        return { waiter, lease: id };
      }),
    );
    const gone = withdrawn.slice(0, -MOST_LEAVING).map((leaseId) => deleteWaiter(place, leaseId));
    for (const some of chunked(gone.flat(), MOST_OPERATIONS)) {
      await this.#transaction(some, true, deadlineMs);
    }
    // What is created in one transaction has no order.
    for (const one of joining.slice(0, -1)) {
      await this.#transaction(putWaiter(place, one), true, deadlineMs);
    }
    return { joins: joining.slice(-1), withdrawn: withdrawn.slice(-MOST_LEAVING) };
  }

  async #send(some: readonly Prepared[], deadlineMs: number): Promise<SaveResult<Version>[]> {
    try {
      const operations = some.map(operationOf);
      const { responses, revision } = await this.#transaction(operations, false, deadlineMs);
      const results: SaveResult<Version>[] = [];
      const finding = some.flatMap((one, at) => {
        const { response_txn: part } = responses[at] ?? {};
        if (part?.succeeded) {
          results[at] = this.#saved(one, revision);
          return [];
        }
        const found = this.#found(one, part?.responses ?? [], revision, deadlineMs);
        return [found.then((result) => (results[at] = result))];
      });
      await Promise.all(finding);
      return results;
    } catch (error) {
      for (const { change } of some) this.#known.delete(change.version.place.record);
      if (error instanceof CallFailure && error.reason === "noLease") {
        this.#leases.forget(some.flatMap(leasesOf));
        return some.map(() => false);
      }
      const failed = failedOutcome(error);
      return some.map(() => failed);
    }
  }

  #saved(one: Prepared, revision: number): SaveResult<Version> {
    const { version } = one.change;
    const { place, changes } = version;
    const entry = entryAfter(one, revision);
    this.#known.set(place.record, { entry, changes: changes + 1 });
    if (one.leftMs !== null) return { remainingMs: Math.floor(one.leftMs) };
    return one.record?.token === 0 ? { token: revision } : true;
  }

  /** @param responses what the change has read behind the waiters that joined; none if it expected no other writer */
  async #found(
    { change, joins }: Prepared,
    responses: readonly Response[],
    revision: number,
    deadlineMs: number,
  ): Promise<SaveResult<Version>> {
    const { place, key } = change.version;
    const read = responses.slice(2 * joins.length);
    if (read.length === 0) {
      this.#known.delete(place.record);
      return false;
    }
    const nowMs = this.#nowMs();
    try {
      const loaded = await this.#saw({ place, key }, read, revision, nowMs, deadlineMs);
      return { nowMs, loaded };
    } catch {
      // The rest of an engine lease is not known. The next load asks again.
      return false;
    }
  }

  /** @param responses to the reading of a key */
  async #saw(
    asked: Asked,
    responses: readonly Response[],
    revision: number,
    nowMs: number,
    deadlineMs: number,
  ): Promise<Loaded<Version>> {
    const entry = entryIn(asked, responses, revision);
    const { owner, record, waiters } = entry;
    const { leaseIds } = asked.key;
    if (owner) this.#sightings.taken(asked.place.record);
    this.#known.set(asked.place.record, { entry, changes: 0 });
    // Others learn when the grant ends only if this client knows it without asking.
    const leftMs = !excludesOthers(entry)
      ? null
      : isOf(asked.key, record)
        ? await this.#leases.remainingMs(entry.owner.lease, deadlineMs)
        : this.#leases.knownMs(entry.owner.lease);
    const freeForMs = this.#freeForMs(asked, entry, nowMs);
    const { place, key } = asked;
    const version = { place, key, entry, changes: 0, nowMs };
    const own =
      waiters.count === 0 ? NONE : leaseIds.flatMap((id) => findWaiter(waiters, id) ?? []);
    if (own.length === 0) return loadedOf(version, { leftMs, freeForMs, ...NO_WAITERS });
    const behind = own.filter((one) => !waiters.first.includes(one));
    const [waitersMs, ahead] = await Promise.all([
      this.#waitersMs(own, deadlineMs),
      this.#ahead(asked, behind, deadlineMs),
    ]);
    const aheadOf = (leaseId: string) => ahead.get(leaseId) ?? waiters.first.length;
    return loadedOf(version, { leftMs, freeForMs, waitersMs, aheadOf });
  }

  async #waitersMs(
    own: readonly Waiter[],
    deadlineMs: number,
  ): Promise<ReadonlyMap<string, number>> {
    const left = own.map(
      async ({ leaseId, lease }) =>
        [leaseId, await this.#leases.remainingMs(lease, deadlineMs)] as const,
    );
    return new Map(await Promise.all(left));
  }

  /** Counts the waiters before those that stand behind the ones that were read. */
  async #ahead(
    { place }: Asked,
    own: readonly Waiter[],
    deadlineMs: number,
  ): Promise<ReadonlyMap<string, number>> {
    const counts = own.map(async (waiter) => {
      const body = countBefore(place, waiter);
      const call = { method: "Range", body, repeatable: true, deadlineMs } as const;
      const { kvs = [] } = await this.#client.call(call);
      return [waiter.leaseId, kvs.length] as const;
    });
    return new Map(await Promise.all(counts));
  }

  #freeForMs({ place }: Asked, { owner, modRevision, waiters }: Entry, nowMs: number): number {
    if (owner || waiters.count === 0) return 0;
    return this.#sightings.freeForMs(place.record, modRevision, waiters.revision, nowMs);
  }

  async #transaction(success: readonly Operation[], repeatable: boolean, deadlineMs: number) {
    const body = { success };
    const answer = await this.#client.call({ method: "Txn", body, repeatable, deadlineMs });
    return { responses: answer.responses ?? [], revision: revisionOf(answer.header.revision) };
  }

  #nowMs(): number {
    return this.#client.connection.env.clock.monotonic();
  }
}

/** Nothing is stored, and the next conflict reads. */
const GUESS = { entry: NOTHING, changes: 2 };
const NONE: readonly never[] = [];
const NO_TERMS: ReadonlyMap<string, number> = new Map();
/** What is known of waiters where none of the requests waits. */
const NO_WAITERS = { waitersMs: NO_TERMS, aheadOf: () => 0 };

/** A change whose engine leases cannot be had. */
interface Unprepared {
  readonly change: Change<Version>;
  readonly failed: Failed;
}

/** Whether requests are about this grant: by its lease id, or as operators, who name none. */
function isOf({ leaseIds }: KeyToLoad, record: GrantRecord | null): boolean {
  return record !== null && (leaseIds.length === 0 || leaseIds.includes(record.leaseId));
}

/** The engine leases to which a change attaches keys. */
function leasesOf({ lease, joins }: Prepared): string[] {
  const own = lease ? [lease.id] : [];
  return [...own, ...joins.map((one) => one.lease)];
}
