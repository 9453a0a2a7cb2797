/**
 * From decisions to transactions: many resources in each, none waiting for another.
 *
 *   known or guessed ──▶ decide ──▶ a change ──▶ one transaction of transactions, each
 *          ▲               │                        if what it rests on is unchanged: puts
 *          │               └─▶ an outcome,          else: reads
 *          │                   if it was read         │
 *          ├────────────────── else read ◀────────────┤ (read: decide again)
 *          └── what was written is known ◀────────────┘
 *
 * Whoever waits and is refused leaves a ticket in a transaction that reads: what is read beside it, its
 * place in line and whether the resource is still held, is decided on.
 *
 * A resource stands once in a transaction, because a nested one compares before any has written. Each
 * loss of a race is somebody else's gain, so that a crowd comes to an end.
 *
 * A change whose answer was lost may be made twice where that is the same as once, renewals and
 * releases: it is decided anew by what is read then, and the first, should it arrive late, finds the
 * record changed, or changes what the second then finds. An acquire might meet a lock of etcd's own,
 * which leaves the record alone: its outcome stays unknown.
 */
import { grantIdOf } from "../../env/index.js";
import { type CallOptions, type Failed, type Key, queue } from "../../lease/index.js";
import {
  type Operation,
  type RangeAnswer,
  type Response,
  revisionOf,
  type TransactionAnswer,
} from "./api.js";
import { DEFAULT_TIMEOUT_MS, type EtcdClient } from "./client.js";
import type { Change, Changing, Step, Surroundings } from "./decide.js";
import { type Entry, encodeRecord, entryOf, NOTHING, readEntry, unchanged } from "./entry.js";
import { CallFailure, failedOutcome } from "./failures.js";
import { type Place, placeOf, toBase64 } from "./keys.js";
import type { EngineLease, EngineLeases } from "./leases.js";
import { countBefore, lineOf, putTicket, readLine, without } from "./line.js";
import { Recent, Sightings } from "./recent.js";

/** etcd's default limit of operations in a transaction (--max-txn-ops). */
const MOST_OPERATIONS = 128;
/**
 * The operations of a nested transaction count on top of all that stand beside it: a record, a lock,
 * a ticket and its bell, and those who are passed over.
 */
const MOST_CHANGES = MOST_OPERATIONS - 4 - queue.MOST_AWAITED;
/**
 * Members take much longer to read the JSON of a transaction than to commit it, on one processor each.
 * So more changes than this are shared between two transactions, rather than fill one.
 */
const ENOUGH_CHANGES = 32;
/** After so many changes in a row, by us alone, the next one expects no other hand either. */
const UNDISTURBED = 3;
/** A ticket and its bell, a record, the locks, the line, and a place in it. */
const MOST_READS = Math.floor(MOST_OPERATIONS / 6);

export interface Rules<Request, Outcome> {
  decide(entry: Entry, request: Request, world: Surroundings, place: Place): Promise<Step<Outcome>>;
  /** Whether to begin with the guess that there is nothing. */
  readonly guess: boolean;
  /** Doing it twice does no more than doing it once. */
  readonly repeatable: boolean;
}

interface Open<Request, Outcome> {
  readonly request: Request;
  readonly place: Place;
  /** Of the lease id that asks, which may have a ticket. */
  readonly grantId: string | null;
  entry: Entry | undefined;
  /** As in {@link Known}. */
  changes: number;
  /** In this call. */
  read: boolean;
  /** A change was sent, and nobody knows what came of it. */
  maybe: boolean;
  step?: Changing<Outcome>;
  /** To be left with the next read. */
  ticket?: { readonly holder: string; readonly lease: EngineLease };
  /** It was left in this call. */
  inLine: boolean;
  outcome?: Outcome | Failed;
}

interface Known {
  readonly entry: Entry;
  /** That we have made since it was read. */
  readonly changes: number;
}

export class Transactor {
  /** A change that rests on what is known needs no reading first. */
  readonly #known = new Recent<Known>();
  readonly #sightings = new Sightings();

  constructor(
    readonly client: EtcdClient,
    readonly leases: EngineLeases,
    /** What stands before all keys. */
    readonly prefix: string,
  ) {}

  /** One outcome per request, in order. No two of them have the same key. */
  async settle<Request extends Key & { readonly leaseId?: string }, Outcome>(
    requests: readonly Request[],
    rules: Rules<Request, Outcome>,
    deadlineMs: number,
  ): Promise<(Outcome | Failed)[]> {
    const all = requests.map((request): Open<Request, Outcome> => {
      const place = placeOf(this.prefix, request);
      // Whoever finds nothing where nothing was expected has it for itself.
      const { entry = rules.guess ? NOTHING : undefined, changes = UNDISTURBED - 1 } =
        this.#known.get(place.record) ?? {};
      const grantId = request.leaseId === undefined ? null : grantIdOf(request.leaseId);
      return { request, place, grantId, entry, changes, read: false, maybe: false, inLine: false };
    });
    const world = this.#surroundings(deadlineMs);
    for (let open = all; open.length > 0; open = open.filter(({ outcome }) => !outcome)) {
      await Promise.all(open.map((one) => this.#decide(one, rules, world)));
      const undecided = open.filter(({ outcome }) => !outcome);
      const changes = undecided.filter(({ step }) => step);
      const reads = undecided.filter(({ step }) => !step);
      await Promise.all([
        ...chunked(changes, shareOf(changes.length)).map((some) =>
          this.#change(some, rules, deadlineMs),
        ),
        ...chunked(reads, MOST_READS).map((some) => this.#read(some, deadlineMs)),
      ]);
    }
    return all.map(({ outcome }) => outcome as Outcome | Failed);
  }

  /** What there is of each key, read together. @throws CallFailure */
  async entries(keys: readonly Key[], revision?: string): Promise<Entry[]> {
    const places = keys.map((key) => placeOf(this.prefix, key));
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

  /** Deletes records that are still as they were seen; how many. @throws CallFailure */
  async forget(seen: readonly (Key & { readonly modRevision: number })[]): Promise<number> {
    let deleted = 0;
    for (const some of chunked(seen, MOST_CHANGES)) {
      const operations = some.map((one): Operation => {
        const { record } = placeOf(this.prefix, one);
        this.#known.delete(record);
        const key = toBase64(record);
        const mod_revision = String(one.modRevision);
        return {
          request_txn: {
            compare: [{ key, target: "MOD", result: "EQUAL", mod_revision }],
            success: [{ request_delete_range: { key } }],
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
    delete one.step;
    delete one.ticket;
    if (!one.entry) return;
    try {
      const step = await rules.decide(one.entry, one.request, world, one.place);
      if ("change" in step) one.step = step;
      else if ("outcome" in step) {
        if (one.read) one.outcome = step.outcome;
      } else if (step.ticket && !one.inLine && (one.read || step.ticket.isAgain)) {
        const { holder, ttlMs } = step.ticket;
        one.ticket = { holder, lease: await world.take(ttlMs) };
      } else if (one.read) one.outcome = await step.refusal();
    } catch (error) {
      // Engine leases are asked for and about: nothing has been done to a key.
      one.outcome = failedOutcome(error, one.maybe ? "maybe" : "no");
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
      for (const [at, one] of some.entries()) {
        const start = end;
        end += reads[at]?.length ?? 0;
        this.#saw(one, responses.slice(start, end), header.revision);
        one.inLine ||= one.ticket !== undefined;
      }
    } catch (error) {
      if (error instanceof CallFailure && error.reason === "noLease") {
        this.leases.forget(some.flatMap(({ ticket }) => ticket?.lease.id ?? []));
        return;
      }
      for (const one of some) one.outcome = failedOutcome(error, one.maybe ? "maybe" : "no");
    }
  }

  async #change<Request, Outcome>(
    some: readonly Open<Request, Outcome>[],
    rules: Rules<Request, Outcome>,
    deadlineMs: number,
  ): Promise<void> {
    try {
      const answer = await this.#transaction(some.map(changeOf), false, deadlineMs);
      const revision = revisionOf(answer.header.revision);
      for (const [at, one] of some.entries()) {
        const part = answer.responses?.[at]?.response_txn;
        if (part?.succeeded) {
          one.outcome = one.step?.outcomeAt(revision) as Outcome;
          const entry = after(one, revision);
          this.#known.set(one.place.record, { entry, changes: one.changes + 1 });
        } else if (one.changes < UNDISTURBED) {
          this.#saw(one, part?.responses ?? [], answer.header.revision);
        } else {
          one.entry = undefined;
        }
      }
    } catch (error) {
      if (error instanceof CallFailure && error.reason === "noLease") {
        this.leases.forget(some.flatMap(({ step }) => leaseOf(step?.change)));
        return;
      }
      const failed = failedOutcome(error);
      for (const one of some) {
        this.#known.delete(one.place.record);
        one.maybe ||= failed.applied === "maybe";
        if (one.maybe && rules.repeatable && failed.retryable) {
          one.entry = undefined;
          one.read = false;
        } else {
          one.outcome = failedOutcome(error, one.maybe ? "maybe" : "no");
        }
      }
    }
  }

  #surroundings(deadlineMs: number): Surroundings {
    const { leases } = this;
    const { clock } = this.client.connection.env;
    return {
      wallMs: () => clock.wall(),
      monotonicMs: () => clock.monotonic(),
      take: (ttlMs) => leases.take(ttlMs, deadlineMs),
      remainingMs: (lease) => leases.remainingMs(lease, deadlineMs),
      knownMs: (lease) => leases.knownMs(lease),
      freeForMs: ({ record }, { modRevision, line }) =>
        this.#sightings.freeForMs(record, modRevision, line.revision, clock.monotonic()),
      countBefore: async (place, ticket) => {
        const body = countBefore(place, ticket);
        const { kvs = [] } = await this.client.call<RangeAnswer>({
          ...{ path: "/v3/kv/range", body, repeatable: true, deadlineMs },
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
    return this.client.call({ path: "/v3/kv/txn", body: { success }, repeatable, deadlineMs });
  }

  /** @param responses of {@link readingOf} */
  #saw<Request, Outcome>(
    one: Open<Request, Outcome>,
    responses: readonly Response[],
    revision: string,
  ): void {
    const { place } = one;
    const [record, locks, ...line] = responses.slice(one.ticket ? 2 : 0);
    const entry = entryOf(
      record?.response_range,
      locks?.response_range,
      lineOf(place, line, revisionOf(revision)),
    );
    if (entry.owner) this.#sightings.taken(place.record);
    one.entry = entry;
    one.changes = 0;
    one.read = true;
    this.#known.set(place.record, { entry, changes: 0 });
  }
}

/** Until when a call may take, by the monotonic clock. */
export function deadlineOf(
  { connection: { env } }: EtcdClient,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
): number {
  return env.clock.monotonic() + timeoutMs;
}

/** What it asks for, and before that the ticket that it leaves. */
function readingOf<Request, Outcome>({
  place,
  grantId,
  ticket,
}: Open<Request, Outcome>): Operation[] {
  const reads = [...readEntry(place), ...readLine(place, grantId)];
  if (!ticket || grantId === null) return reads;
  return [...putTicket(place, grantId, ticket.holder, ticket.lease.id), ...reads];
}

function changeOf<Request, Outcome>(one: Open<Request, Outcome>): Operation {
  const { place, entry, step } = one;
  const { record, lock, given = [], deleted = [] } = (step as Changing<Outcome>).change;
  const puts: Operation[] = deleted.map((key) => ({
    request_delete_range: { key: toBase64(key) },
  }));
  if (record) {
    puts.push({ request_put: { key: toBase64(place.record), value: encodeRecord(record) } });
  }
  if (lock !== "kept") {
    puts.push(
      "put" in lock
        ? {
            request_put: {
              ...{ key: toBase64(lock.put), value: toBase64(lock.value), lease: lock.lease },
            },
          }
        : { request_delete_range: { key: toBase64(lock.deleted) } },
    );
  }
  return {
    request_txn: {
      compare: [...unchanged(place, entry as Entry), ...given],
      success: puts,
      // Nearly half of what is sent.
      ...(one.changes < UNDISTURBED && { failure: readingOf(one) }),
    },
  };
}

/** What there is when the change has been made. */
function after<Request, Outcome>(one: Open<Request, Outcome>, revision: number): Entry {
  const { record, lock, deleted = [] } = (one.step as Changing<Outcome>).change;
  const before = one.entry as Entry;
  const { owner } = before;
  const line = without(one.place, before.line, deleted);
  if (!record) return { ...before, line };
  const token = record.token || revision;
  const entry = { record: { ...record, token }, modRevision: revision, line };
  if (lock === "kept") return { ...entry, owner };
  if ("deleted" in lock) return { ...entry, owner: null };
  const { put: key, lease, value } = lock;
  return { ...entry, owner: { key, createRevision: token, lease, value } };
}

function leaseOf(change: Change | undefined): string[] {
  const lock = change?.lock ?? "kept";
  return lock !== "kept" && "put" in lock ? [lock.lease] : [];
}

function pairs({ responses = [] }: TransactionAnswer): Entry[] {
  return Array.from({ length: responses.length / 2 }, (_, at) =>
    entryOf(responses[at * 2]?.response_range, responses[at * 2 + 1]?.response_range),
  );
}

function shareOf(changes: number): number {
  return Math.min(MOST_CHANGES, Math.max(ENOUGH_CHANGES, Math.ceil(changes / 2)));
}

function chunked<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) =>
    items.slice(at * size, (at + 1) * size),
  );
}
