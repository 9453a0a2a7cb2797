/**
 * Reads and changes of many resources as transactions. A transaction applies all of its operations or none, and names those
 * that failed: the changes that share it with them are sent again.
 */
import { chunked, Recent } from "../../env/index.js";
import type { Key } from "../../lease/index.js";
import { MOST_KNOWN, Sightings } from "../../store-kit/sightings.js";
import type { ConsulClient } from "./connection.js";
import {
  type FailedOperation,
  MOST_OPERATIONS,
  type Operation,
  type Pair,
  transactionOf,
} from "./connection-api.js";
import { type Place, placeOf } from "./keys.js";
import { byFolder, type Entry, entryOf } from "./records.js";

/** Consul rejects more than 512 KiB of JSON. */
const MOST_BYTES = 400_000;
/** The text of a value grows by this in base64, in bytes of a character. */
const BYTES_PER_CHARACTER = 4;

/** Of these an applied transaction has no result. */
const SILENT = new Set<Operation["verb"]>(["delete", "delete-cas", "check-not-exists"]);

/** Operations on a resource that apply together, if all their conditions hold. */
export interface Writing {
  readonly place: Place;
  readonly operations: readonly Operation[];
}

/** What became of a change: applied, at an index, with the pairs that its last operation read; or why it was rejected. */
export type Applied =
  | { readonly index: number; readonly read: readonly Pair[] }
  | { readonly rejected: readonly string[] }
  | { readonly error: unknown };

export class Transactor {
  /** The last state of a resource. A change based on it needs no read first. */
  readonly known = new Recent<Entry>(MOST_KNOWN);

  readonly #sightings = new Sightings();

  constructor(readonly client: ConsulClient) {}

  /** Remembers a state that was read or made. */
  saw({ folder }: Place, entry: Entry): void {
    if (entry.owner) this.#sightings.taken(folder);
    this.known.set(folder, entry);
  }

  /** How long this client has seen the resource free. */
  freeForMs({ folder }: Place, { recordIndex }: Entry): number {
    const nowMs = this.client.connection.env.clock.monotonic();
    return this.#sightings.freeForMs(folder, recordIndex, 0, nowMs);
  }

  /** Reads the state of each key. @throws LeaseholdError */
  async entries(keys: readonly Key[], deadlineMs: number): Promise<Entry[]> {
    const { prefix } = this.client.connection;
    const places = keys.map((key) => placeOf(prefix, key));
    const folders = places.map(({ folder }) => folder);
    const found = byFolder(prefix, await this.tree(folders, deadlineMs));
    return places.map((place) => entryOf(place, found.get(place.folder)));
  }

  /** Reads everything that begins with one of these texts. @throws LeaseholdError */
  async tree(texts: readonly string[], deadlineMs: number): Promise<readonly Pair[]> {
    const answers = await Promise.all(
      chunked(texts, MOST_OPERATIONS).map((some) => {
        const operations = some.map((key): Operation => ({ verb: "get-tree", key }));
        return this.client.transaction(transactionOf(operations), deadlineMs);
      }),
    );
    return answers.flatMap(({ pairs }) => pairs);
  }

  /** Applies each change unless its resource has changed meanwhile; returns which were. @throws LeaseholdError */
  async each(writings: readonly Writing[], deadlineMs: number): Promise<boolean[]> {
    const applied: boolean[] = [];
    for (const chunk of inTransactions(writings)) {
      for (const one of await this.apply(chunk, deadlineMs)) {
        if ("error" in one) throw one.error;
        applied.push("index" in one);
      }
    }
    return applied;
  }

  /** @param writings for one transaction; what becomes of one is nothing to the others, unless the answer is lost */
  async apply(writings: readonly Writing[], deadlineMs: number): Promise<Applied[]> {
    for (const { place } of writings) this.known.delete(place.folder);
    const applied = new Map<Writing, Applied>();
    for (let open = writings; open.length > 0; open = open.filter((one) => !applied.has(one))) {
      try {
        const transaction = transactionOf(open.flatMap(({ operations }) => operations));
        const { failed, pairs } = await this.client.transaction(transaction, deadlineMs);
        for (const [one, rejected] of failedOf(open, failed)) applied.set(one, { rejected });
        if (failed.length === 0) noteApplied(open, pairs, applied);
      } catch (error) {
        for (const one of open) applied.set(one, { error });
      }
    }
    return writings.map((one) => applied.get(one) as Applied);
  }
}

function noteApplied(
  open: readonly Writing[],
  pairs: readonly Pair[],
  applied: Map<Writing, Applied>,
): void {
  // All writes of a transaction have its index, the newest.
  const index = Math.max(0, ...pairs.map(({ ModifyIndex }) => ModifyIndex));
  let next = 0;
  for (const one of open) {
    const { place, operations } = one;
    const isRead = operations.at(-1)?.verb === "get-tree";
    next += operations.filter(({ verb }) => verb !== "get-tree" && !SILENT.has(verb)).length;
    const start = next;
    // What the change reads comes last, and is all that is left of its resource.
    while (isRead && pairs[next]?.Key.startsWith(place.folder)) next += 1;
    applied.set(one, { index, read: pairs.slice(start, next) });
  }
}

/** The changes whose operations failed, and why. */
function failedOf(
  some: readonly Writing[],
  failed: readonly FailedOperation[],
): Map<Writing, string[]> {
  const owners = some.flatMap((one) => one.operations.map(() => one));
  const wrong = new Map<Writing, string[]>();
  for (const { at, what } of failed) {
    const one = owners[at];
    if (one) wrong.set(one, [...(wrong.get(one) ?? []), what]);
  }
  return wrong;
}

/** Splits changes into transactions that Consul accepts. */
export function inTransactions<One extends Writing>(items: readonly One[]): One[][] {
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
