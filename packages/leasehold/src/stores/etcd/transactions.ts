/**
 * Turns decisions into transactions: many resources in each, none waiting for another.
 *
 *   known or guessed ──▶ decide ──▶ a change ──▶ one transaction of nested ones, each
 *          ▲               │                        if the compared state is unchanged: puts
 *          │               └─▶ an outcome,          else: reads
 *          │                   if it was read         │
 *          ├────────────────── else read ◀────────────┤ (read: decide again)
 *          └── the written state is known ◀────────────┘
 *
 * A refused waiter is added in a transaction that also reads. The decision rests on that read: the
 * waiter's queue position, and whether the resource is still held.
 *
 * A resource occurs once in a transaction, because nested ones compare before any of them writes. A
 * lost race means that another client made progress, so contention resolves.
 *
 * If the response to a renewal or release is lost, the caller repeats it, because twice has the same
 * effect as once. The repetition is decided on a new read. If the first one arrives late, it finds the
 * record changed, or the second finds its change. A repeated acquire might meet a lock of etcd's own
 * clients, which leaves the record unchanged: its outcome stays unknown.
 */

import { type CallOptions, type Failed, type Key, MOST_AWAITED } from "../../core/index.js";
import { Sightings } from "../../core/sightings.js";
import { chunked, zip } from "../../env/index.js";
import { DEFAULT_TIMEOUT_MS, type EtcdClient } from "./connection.js";
import {
  COMPARE,
  type Operation,
  type Response,
  revisionOf,
  type TransactionAnswer,
} from "./connection-api.js";
import type { Step, Surroundings } from "./decide.js";
import type { EngineLeases } from "./engine-leases.js";
import { CallFailure, failedOutcome } from "./failures.js";
import { Place } from "./keys.js";
import { KnownEntries } from "./known-entries.js";
import { type Entry, entryOf, NOTHING, readEntry } from "./records.js";
import {
  changeOf,
  entryAfter,
  leaseOf,
  type Open,
  type Pending,
  readingOf,
  UNDISTURBED,
} from "./transactions-parts.js";
import { countBefore, queueOf } from "./wait-queue.js";

/** etcd's default limit of operations in a transaction (--max-txn-ops). */
const MOST_OPERATIONS = 128;
/**
 * The operations of a nested transaction count in addition to those beside it: a record, a lock, a
 * waiter and its bell, and the waiters passed over.
 */
const MOST_CHANGES = MOST_OPERATIONS - 4 - MOST_AWAITED;
/**
 * Parsing a transaction's JSON takes etcd much longer than committing it, and uses one processor each.
 * So more changes than this are split between two transactions.
 */
const ENOUGH_CHANGES = 32;
/** etcd refuses requests above 1.5 MiB by default (--max-request-bytes), with all changes in them. */
const MOST_CHARACTERS = 1_000_000;
/** Of a change without its metadata, and of a character of metadata: JSON has 6 for a control character. */
const [CHANGE_CHARACTERS, METADATA_CHARACTERS] = [2_000, 6];
/** A waiter and its bell, a record, the locks, the queue, and a queue position. */
const MOST_READS = Math.floor(MOST_OPERATIONS / 6);

export interface Rules<Request, Outcome> {
  decide(entry: Entry, request: Request, world: Surroundings, place: Place): Promise<Step<Outcome>>;
  /** Whether to start from the guess that nothing is stored. */
  readonly guess: boolean;
}

export class Transactor {
  readonly #known: KnownEntries;
  readonly #sightings = new Sightings();

  constructor(
    readonly client: EtcdClient,
    readonly leases: EngineLeases,
    /** Prefix of all keys. */
    readonly prefix: string,
  ) {
    this.#known = new KnownEntries(client.connection.env.clock);
  }

  /** Returns one outcome per request, in order. No two requests have the same key. */
  async settle<Request extends Key & { readonly leaseId?: string }, Outcome>(
    requests: readonly Request[],
    rules: Rules<Request, Outcome>,
    deadlineMs: number,
  ): Promise<(Outcome | Failed)[]> {
    const all = requests.map((request): Open<Request, Outcome> => {
      const place = new Place(this.prefix, request);
      // A client that guesses an empty state correctly is the only writer so far.
      const { entry = rules.guess ? NOTHING : undefined, changes = UNDISTURBED - 1 } =
        this.#known.get(place.record) ?? {};
      const { leaseId = null } = request;
      return { request, place, leaseId, entry, changes, read: false, inQueue: false };
    });
    const world = this.#surroundings(deadlineMs);
    for (let open = all; open.length > 0; open = open.filter(({ outcome }) => !outcome)) {
      await Promise.all(open.map((one) => this.#decide(one, rules, world)));
      const undecided = open.filter(({ outcome }) => !outcome);
      const changes = undecided.flatMap((one) =>
        one.change ? [{ one, pending: one.change }] : [],
      );
      const reads = undecided.filter(({ change }) => !change);
      await Promise.all([
        ...shared(changes).map((some) => this.#change(some, deadlineMs)),
        ...chunked(reads, MOST_READS).map((some) => this.#read(some, deadlineMs)),
      ]);
    }
    return all.map(({ outcome }) => outcome as Outcome | Failed);
  }

  /** Reads the state of each key in one transaction. @throws CallFailure */
  async entries(keys: readonly Key[], revision?: string): Promise<Entry[]> {
    const places = keys.map((key) => new Place(this.prefix, key));
    const deadlineMs = deadlineOf(this.client);
    const answers = await Promise.all(
      chunked(places, MOST_OPERATIONS / 2).map((some) =>
        this.#transaction(
          some.flatMap((place) => readEntry(place, revision)),
          true,
          deadlineMs,
        ),
      ),
    );
    return answers.flatMap(pairs);
  }

  /**
   * Deletes records that are unchanged since they were read; returns their number. @throws CallFailure
   */
  async forget(seen: readonly (Key & { readonly modRevision: number })[]): Promise<number> {
    let deleted = 0;
    for (const some of chunked(seen, MOST_CHANGES)) {
      const operations = some.map((one): Operation => {
        const { record } = new Place(this.prefix, one);
        this.#known.delete(record);
        const { modRevision: mod_revision } = one;
        return {
          request_txn: {
            compare: [{ key: record, target: COMPARE.MOD, result: COMPARE.EQUAL, mod_revision }],
            success: [{ request_delete_range: { key: record } }],
          },
        };
      });
      const { responses = [] } = await this.#transaction(operations, true, deadlineOf(this.client));
      deleted += responses.filter((one) => one.response_txn?.succeeded).length;
    }
    return deleted;
  }

  async #decide<Request, Outcome>(
    one: Open<Request, Outcome>,
    rules: Rules<Request, Outcome>,
    world: Surroundings,
  ): Promise<void> {
    delete one.change;
    delete one.waiter;
    const { entry } = one;
    if (!entry) return;
    try {
      const step = await rules.decide(entry, one.request, world, one.place);
      if ("change" in step) one.change = { entry, step };
      else if ("outcome" in step) {
        if (one.read) one.outcome = step.outcome;
      } else if (step.waiter && !one.inQueue && (one.read || step.waiter.isAgain)) {
        const { holder, ttlMs } = step.waiter;
        one.waiter = { holder, lease: await world.take(ttlMs) };
      } else if (one.read) one.outcome = await step.refusal();
    } catch (error) {
      // These calls concern only engine leases: no key has changed.
      one.outcome = failedOutcome(error, "no");
    }
  }

  async #read<Request, Outcome>(
    some: readonly Open<Request, Outcome>[],
    deadlineMs: number,
  ): Promise<void> {
    const reads = some.map(readingOf);
    try {
      const answer = await this.#transaction(reads.flat(), true, deadlineMs);
      const { responses = [], header } = answer;
      let end = 0;
      for (const [one, { length }] of zip(some, reads)) {
        const start = end;
        end += length;
        this.#saw(one, responses.slice(start, end), header.revision);
        one.inQueue ||= one.waiter !== undefined;
      }
    } catch (error) {
      if (error instanceof CallFailure && error.reason === "noLease") {
        this.leases.forget(some.flatMap(({ waiter }) => waiter?.lease.id ?? []));
        return;
      }
      for (const one of some) one.outcome = failedOutcome(error, "no");
    }
  }

  async #change<Request, Outcome>(
    some: readonly { readonly one: Open<Request, Outcome>; readonly pending: Pending<Outcome> }[],
    deadlineMs: number,
  ): Promise<void> {
    try {
      const changes = some.map(({ one, pending }) => changeOf(one, pending));
      const answer = await this.#transaction(changes, false, deadlineMs);
      const revision = revisionOf(answer.header.revision);
      for (const [at, { one, pending }] of some.entries()) {
        const part = answer.responses?.[at]?.response_txn;
        if (part?.succeeded) {
          one.outcome = pending.step.outcomeAt(revision);
          const entry = entryAfter(one.place, pending, revision);
          this.#known.set(one.place.record, { entry, changes: one.changes + 1 });
        } else if (one.changes < UNDISTURBED) {
          this.#saw(one, part?.responses ?? [], answer.header.revision);
        } else {
          one.entry = undefined;
        }
      }
    } catch (error) {
      if (error instanceof CallFailure && error.reason === "noLease") {
        this.leases.forget(some.flatMap(({ pending }) => leaseOf(pending.step.change)));
        return;
      }
      const failed = failedOutcome(error);
      for (const { one } of some) {
        this.#known.delete(one.place.record);
        one.outcome = failed;
      }
    }
  }

  #surroundings(deadlineMs: number): Surroundings {
    const { leases } = this;
    const { clock } = this.client.connection.env;
    // Requests of one batch share their times.
    const texts = new Map<number, string>();
    return {
      wallMs: clock.wall(),
      textOf: (wallMs) => {
        const text = texts.get(wallMs) ?? new Date(wallMs).toISOString();
        texts.set(wallMs, text);
        return text;
      },
      monotonicMs: () => clock.monotonic(),
      take: (ttlMs) => leases.take(ttlMs, deadlineMs),
      remainingMs: (lease) => leases.remainingMs(lease, deadlineMs),
      knownMs: (lease) => leases.knownMs(lease),
      freeForMs: ({ record }, { modRevision, waiters }) =>
        this.#sightings.freeForMs(record, modRevision, waiters.revision, clock.monotonic()),
      countBefore: async (place, waiter) => {
        const body = countBefore(place, waiter);
        const { kvs = [] } = await this.client.call({
          method: "Range",
          body,
          repeatable: true,
          deadlineMs,
        });
        return kvs.length;
      },
    };
  }

  #transaction(
    success: readonly Operation[],
    repeatable: boolean,
    deadlineMs: number,
  ): Promise<TransactionAnswer> {
    return this.client.call({ method: "Txn", body: { success }, repeatable, deadlineMs });
  }

  /**
   * @param responses the responses to {@link readingOf}
   */
  #saw<Request, Outcome>(
    one: Open<Request, Outcome>,
    responses: readonly Response[],
    revision: string,
  ): void {
    const { place } = one;
    const [record, locks, ...waiters] = responses.slice(one.waiter ? 2 : 0);
    const entry = entryOf(
      record?.response_range,
      locks?.response_range,
      queueOf(place, waiters, revisionOf(revision)),
    );
    if (entry.owner) this.#sightings.taken(place.record);
    one.entry = entry;
    one.changes = 0;
    one.read = true;
    this.#known.set(place.record, { entry, changes: 0 });
  }
}

/** The deadline of a call, by the monotonic clock. */
export function deadlineOf(
  { connection: { env } }: EtcdClient,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
): number {
  return env.clock.monotonic() + timeoutMs;
}

function pairs({ responses = [] }: TransactionAnswer): Entry[] {
  return Array.from({ length: responses.length / 2 }, (_, at) =>
    entryOf(responses[at * 2]?.response_range, responses[at * 2 + 1]?.response_range),
  );
}

type Change = { readonly pending: Pending<unknown> };

/** The changes of each transaction: half of them, fewer if those were too many or too large. */
function shared<One extends Change>(changes: readonly One[]): One[][] {
  const half = Math.max(ENOUGH_CHANGES, Math.ceil(changes.length / 2));
  const most = Math.min(MOST_CHANGES, half);
  const shares: One[][] = [];
  let characters = 0;
  for (const change of changes) {
    const { record } = change.pending.step.change;
    const more = CHANGE_CHARACTERS + METADATA_CHARACTERS * (record?.metadata?.length ?? 0);
    const share = shares.at(-1);
    if (share && share.length < most && characters + more <= MOST_CHARACTERS) {
      share.push(change);
      characters += more;
    } else {
      shares.push([change]);
      characters = more;
    }
  }
  return shares;
}
