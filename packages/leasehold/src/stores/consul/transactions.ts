/**
 * Runs decisions as transactions. A transaction applies all of its operations or none, and names those that
 * failed:
 *
 *   applied ──▶ the outcome of each request
 *   409     ──▶ requests whose operations failed are read, and decided again; the others are sent again
 *   no answer ▶ `failed`, `maybe`. A request that is sent late finds the record changed, or its repetition
 *               finds its change
 *
 * The client remembers the last state of a resource, so most changes need no read first.
 */

import type { Failed, Key } from "../../core/index.js";
import { MOST_KNOWN } from "../../core/sightings.js";
import { Recent } from "../../env/index.js";
import type { ConsulClient } from "./connection.js";
import {
  type FailedOperation,
  MOST_OPERATIONS,
  type Operation,
  type Pair,
  transactionOf,
} from "./connection-api.js";
import type { Change, Changing, Step, Surroundings } from "./decide.js";
import { failedOutcome } from "./failures.js";
import { type Place, placeOf } from "./keys.js";
import { byFolder, type Entry, entryOf, NOTHING } from "./records.js";
import { ring } from "./wait-queue.js";

/** Consul rejects more than 512 KiB of JSON. */
const MOST_BYTES = 400_000;
/** The text of a value grows by this in base64, in bytes of a character. */
const BYTES_PER_CHARACTER = 4;

export interface Rules<Request, Outcome> {
  decide(entry: Entry, request: Request, world: Surroundings, place: Place): Step<Outcome>;
  /** Whether to start from the guess that nothing is stored. */
  readonly guess: boolean;
  /** The outcome where Consul delays locks after the end of a session of another program. */
  readonly delayed?: Outcome;
}

/** Of these an applied transaction has no result. */
const SILENT = new Set<Operation["verb"]>(["delete", "delete-cas", "check-not-exists"]);

interface Open<Request, Outcome> {
  readonly request: Request;
  readonly place: Place;
  entry: Entry | undefined;
  /** Whether the state was read in this call. */
  isRead: boolean;
  step?: Changing<Outcome>;
  outcome?: Outcome | Failed;
}

/** A change that is about to be sent. */
interface Sent<Request, Outcome> {
  readonly one: Open<Request, Outcome>;
  readonly step: Changing<Outcome>;
  readonly operations: readonly Operation[];
}

export class Transactor {
  /** A change based on a known state needs no read first. */
  readonly #known = new Recent<Entry>(MOST_KNOWN);

  constructor(
    readonly client: ConsulClient,
    /** Called when Consul says that a session has ended. */
    readonly sessionLost: (session: string) => void,
  ) {}

  /**
   * Returns one outcome per request, in order. No two requests have the same key.
   * @param surroundings of each round: the session may change between two
   */
  async settle<Request extends Key, Outcome>(
    requests: readonly Request[],
    rules: Rules<Request, Outcome>,
    surroundings: () => Promise<Surroundings>,
    deadlineMs: number,
  ): Promise<(Outcome | Failed)[]> {
    const all = requests.map((request): Open<Request, Outcome> => {
      const place = placeOf(this.client.connection.prefix, request);
      const entry = this.#known.get(place.folder) ?? (rules.guess ? NOTHING : undefined);
      return { request, place, entry, isRead: false };
    });
    for (let open = all; open.length > 0; open = open.filter(({ outcome }) => !outcome)) {
      try {
        const world = await surroundings();
        for (const one of open) decide(one, rules, world);
        const undecided = open.filter(({ outcome }) => !outcome);
        const changes = undecided.flatMap((one) => (one.step ? [sentOf(one, one.step)] : []));
        const reads = undecided.filter(({ step }) => !step);
        await Promise.all([
          ...chunked(changes).map((some) => this.#change(some, rules, world, deadlineMs)),
          this.#read(reads, world, deadlineMs),
        ]);
      } catch (error) {
        // Nothing of these was sent, or their changes were rejected.
        for (const one of open) one.outcome ??= failedOutcome(error, "no");
      }
    }
    return all.map(({ outcome }) => outcome as Outcome | Failed);
  }

  /** Reads the state of each key. @throws LeaseholdError */
  async entries(keys: readonly Key[], deadlineMs: number): Promise<Entry[]> {
    const { prefix } = this.client.connection;
    const places = keys.map((key) => placeOf(prefix, key));
    const found = byFolder(
      prefix,
      await this.tree(
        places.map(({ folder }) => folder),
        deadlineMs,
      ),
    );
    return places.map((place) => entryOf(place, found.get(place.folder)));
  }

  /** Reads everything that begins with one of these texts. @throws LeaseholdError */
  async tree(texts: readonly string[], deadlineMs: number): Promise<readonly Pair[]> {
    const chunks: string[][] = [];
    for (let at = 0; at < texts.length; at += MOST_OPERATIONS) {
      chunks.push(texts.slice(at, at + MOST_OPERATIONS));
    }
    const answers = await Promise.all(
      chunks.map((some) => {
        const operations = some.map((key): Operation => ({ verb: "get-tree", key }));
        return this.client.transaction(transactionOf(operations), deadlineMs);
      }),
    );
    return answers.flatMap(({ pairs }) => pairs);
  }

  /** Applies each change unless its resource has changed meanwhile; returns which were. @throws LeaseholdError */
  async each(
    changes: readonly { readonly place: Place; readonly operations: readonly Operation[] }[],
    deadlineMs: number,
  ): Promise<boolean[]> {
    for (const { place } of changes) this.#known.delete(place.folder);
    const applied = changes.map(() => true);
    const open = changes.map(({ operations }, at) => ({ at, operations }));
    for (const chunk of chunked(open)) {
      for (let some = chunk; some.length > 0; ) {
        const transaction = transactionOf(some.flatMap(({ operations }) => operations));
        const { failed } = await this.client.transaction(transaction, deadlineMs);
        if (failed.length === 0) break;
        const wrong = failedOf(some, failed);
        for (const { at } of wrong.keys()) applied[at] = false;
        some = some.filter((one) => !wrong.has(one));
      }
    }
    return applied;
  }

  async #read<Request extends Key, Outcome>(
    some: readonly Open<Request, Outcome>[],
    world: Surroundings,
    deadlineMs: number,
  ): Promise<void> {
    try {
      const entries = await this.entries(
        some.map(({ request }) => request),
        deadlineMs,
      );
      for (const [at, one] of some.entries()) {
        const entry = entries[at] as Entry;
        world.seen(one.place, entry);
        this.#saw(one, entry, true);
      }
    } catch (error) {
      for (const one of some) one.outcome = failedOutcome(error, "no");
    }
  }

  async #change<Request extends Key, Outcome>(
    some: readonly Sent<Request, Outcome>[],
    rules: Rules<Request, Outcome>,
    world: Surroundings,
    deadlineMs: number,
  ): Promise<void> {
    const operations = some.flatMap((sent) => sent.operations);
    try {
      const transaction = transactionOf(operations);
      const { failed, pairs } = await this.client.transaction(transaction, deadlineMs);
      if (failed.length > 0) return this.#onRejected(some, failed, rules, world);
      await this.#onApplied(some, pairs, deadlineMs);
    } catch (error) {
      for (const { one, step } of some) {
        this.#known.delete(one.place.folder);
        one.outcome = failedOutcome(error);
        if (one.outcome.applied === "maybe") step.change.inDoubt?.();
      }
    }
  }

  async #onApplied<Request extends Key, Outcome>(
    some: readonly Sent<Request, Outcome>[],
    pairs: readonly Pair[],
    deadlineMs: number,
  ): Promise<void> {
    // All writes of a transaction have its index, the newest.
    const index = Math.max(0, ...pairs.map(({ ModifyIndex }) => ModifyIndex));
    let next = 0;
    const woken: { readonly one: Open<Request, Outcome>; readonly entry: Entry }[] = [];
    for (const { one, step } of some) {
      const { entryAt, operations } = step.change;
      next += operations.filter(({ verb }) => !SILENT.has(verb)).length;
      const start = next;
      // What the change reads comes last, and is all that is left of its resource.
      while (!entryAt && pairs[next]?.Key.startsWith(one.place.folder)) next += 1;
      const entry = entryAt?.(index) ?? entryOf(one.place, pairs.slice(start, next));
      this.#saw(one, entry, entryAt === null);
      // A waiter that was added decides for itself.
      if (!step.outcomeAt) continue;
      one.outcome = step.outcomeAt(index);
      if (entryAt === null && entry.owner === null && entry.waiters.length > 0) {
        woken.push({ one, entry });
      }
    }
    await this.#wake(woken, deadlineMs);
  }

  /** Wakes the head of each queue; after that of a dead client, the next. */
  async #wake<Request extends Key, Outcome>(
    some: readonly { readonly one: Open<Request, Outcome>; readonly entry: Entry }[],
    deadlineMs: number,
  ): Promise<void> {
    let open = some.map(({ one, entry }) => ({ ...one, waiters: entry.waiters }));
    while (open.length > 0) {
      const rings = open.flatMap(({ place, request, waiters: [head] }) => {
        if (!head) return [];
        const { namespace, resource } = request;
        return [
          { place, operations: [ring(place, head, { namespace, resource, wakes: head.grantId })] },
        ];
      });
      try {
        const applied = await this.each(rings, deadlineMs);
        open = open
          .filter((_, at) => !applied[at])
          .map((one) => ({ ...one, waiters: one.waiters.slice(1) }))
          .filter(({ waiters }) => waiters.length > 0);
      } catch {
        // Waiters poll. The resources are free all the same.
        return;
      }
    }
  }

  #onRejected<Request extends Key, Outcome>(
    some: readonly Sent<Request, Outcome>[],
    failed: readonly FailedOperation[],
    { delayed }: Rules<Request, Outcome>,
    { session }: Surroundings,
  ): void {
    for (const [{ one }, whats] of failedOf(some, failed)) {
      // The state is not what it was taken for.
      this.#known.delete(one.place.folder);
      one.entry = undefined;
      one.isRead = false;
      if (whats.some((what) => what.includes("invalid session"))) this.sessionLost(session);
      if (delayed !== undefined && whats.some((what) => /lock.delay/i.test(what))) {
        one.outcome = delayed;
      }
    }
  }

  #saw<Request, Outcome>(one: Open<Request, Outcome>, entry: Entry, isRead: boolean): void {
    one.entry = entry;
    one.isRead = isRead;
    this.#known.set(one.place.folder, entry);
  }
}

function decide<Request, Outcome>(
  one: Open<Request, Outcome>,
  rules: Rules<Request, Outcome>,
  world: Surroundings,
): void {
  delete one.step;
  if (!one.entry) return;
  const step = rules.decide(one.entry, one.request, world, one.place);
  if ("change" in step) one.step = step;
  else if (one.isRead) one.outcome = step.outcome;
}

function sentOf<Request, Outcome>(
  one: Open<Request, Outcome>,
  step: Changing<Outcome>,
): Sent<Request, Outcome> {
  const { operations, entryAt }: Change = step.change;
  const reading: Operation[] = entryAt ? [] : [{ verb: "get-tree", key: one.place.folder }];
  return { one, step, operations: [...operations, ...reading] };
}

/** The changes whose operations failed, and why. */
function failedOf<One extends { readonly operations: readonly Operation[] }>(
  some: readonly One[],
  failed: readonly FailedOperation[],
): Map<One, string[]> {
  const owners = some.flatMap((one) => one.operations.map(() => one));
  const wrong = new Map<One, string[]>();
  for (const { at, what } of failed) {
    const one = owners[at];
    if (one) wrong.set(one, [...(wrong.get(one) ?? []), what]);
  }
  return wrong;
}

/** Splits changes into transactions that Consul accepts. */
function chunked<One extends { readonly operations: readonly Operation[] }>(
  items: readonly One[],
): One[][] {
  const chunks: One[][] = [];
  let [operations, bytes] = [MOST_OPERATIONS, 0];
  for (const item of items) {
    const size = item.operations.reduce(
      (sum, { key, value = "" }) => sum + 200 + (key.length + value.length) * BYTES_PER_CHARACTER,
      0,
    );
    operations += item.operations.length;
    bytes += size;
    if (operations > MOST_OPERATIONS || bytes > MOST_BYTES) {
      chunks.push([]);
      [operations, bytes] = [item.operations.length, size];
    }
    chunks.at(-1)?.push(item);
  }
  return chunks;
}
