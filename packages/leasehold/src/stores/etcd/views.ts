/** Reads single leases and pages of a namespace, and collects grants that ended long ago. */

import { chunked, zip } from "../../env/index.js";
import {
  cursorAfter,
  type Key,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
} from "../../lease/index.js";
import { DEFAULT_TIMEOUT_MS, type EtcdClient } from "./connection.js";
import { COMPARE, type Operation, type TransactionAnswer } from "./connection-api.js";
import type { EngineLeases } from "./engine-leases.js";
import { CallFailure } from "./failures.js";
import { below, endOfPrefix, keyOfRecord, Place, recordFolder } from "./keys.js";
import {
  type Entry,
  entryOf,
  excludesOthers,
  type GrantRecord,
  readEntry,
  stateOf,
  viewOf,
} from "./records.js";

/** Together with their lock keys these are eight read-only transactions. */
const READ_AT_ONCE = 500;
/** Half of etcd's default limit of operations in a transaction (--max-txn-ops): two for each record, and one with one in it. */
const IN_TRANSACTION = 64;
/** Sequential calls would take long; all at once would delay others. */
const ASKED_AT_ONCE = 16;

type Known = Entry & { readonly record: GrantRecord };

export class Views {
  constructor(
    readonly client: EtcdClient,
    readonly leases: EngineLeases,
    readonly prefix: string,
    /** Called for each record that is about to be deleted. */
    readonly onForgotten: (place: Place) => void,
  ) {}

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.client.checkOpen();
    const entries = await this.#entries(keys);
    const known = zip(keys, entries).flatMap(([key, entry], at) =>
      entry.record ? [{ at, key, entry: { ...entry, record: entry.record } }] : [],
    );
    const views = new Array<LeaseView | null>(keys.length).fill(null);
    for (const [{ at }, view] of zip(known, await this.#views(known))) views[at] = view;
    return views;
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.client.checkOpen();
    const { namespace, prefix = "", states, renewedOnly = false, limit = 100, cursor } = query;
    const folder = recordFolder(this.prefix, namespace);
    const end = endOfPrefix(folder + prefix);
    let start = folder + prefix;
    const after = cursor === undefined ? null : resourceOfCursor(cursor);
    if (after !== null && folder + after >= start) start = `${folder}${after}\0`;
    const items: { readonly key: Key; readonly entry: Known }[] = [];
    for (;;) {
      const { read, next } = await this.#read(start, end);
      for (const one of read) {
        const { record } = one.entry;
        if (states && !states.includes(stateOf(one.entry))) continue;
        if (renewedOnly && record.renewedAt === null) continue;
        if (items.length === limit) {
          const last = items.at(-1);
          const nextCursor = last ? cursorAfter(last.key.resource) : null;
          return { items: await this.#views(items), nextCursor };
        }
        items.push(one);
      }
      if (next === null) return { items: await this.#views(items), nextCursor: null };
      start = next;
    }
  }

  /** Keeps records of grants that still exclude others, and records that changed meanwhile. */
  async collect(olderThanMs: number): Promise<number> {
    this.client.checkOpen();
    const folder = recordFolder(this.prefix);
    const end = below(folder).end;
    const { clock } = this.client.connection.env;
    let collected = 0;
    for (let start: string | null = folder; start !== null; ) {
      const { read, next } = await this.#read(start, end);
      const beforeMs = clock.wall() - olderThanMs;
      const old = read.filter(
        ({ entry }) => !excludesOthers(entry) && Date.parse(entry.record.expiresAt) <= beforeMs,
      );
      collected += await this.#forget(
        old.map(({ key, entry }) => ({ ...key, modRevision: entry.modRevision })),
      );
      start = next;
    }
    return collected;
  }

  /** Reads records and their lock keys as of one revision. */
  async #read(
    start: string,
    end: string,
  ): Promise<{ read: { key: Key; entry: Known }[]; next: string | null }> {
    for (;;) {
      const answer = await this.client.call({
        method: "Range",
        body: { key: start, range_end: end, limit: String(READ_AT_ONCE) },
        repeatable: true,
      });
      const { kvs = [], header } = answer;
      const found = kvs.flatMap((kv) => {
        const key = keyOfRecord(this.prefix, kv.key);
        return key ? [{ key, kv }] : [];
      });
      try {
        const keys = found.map(({ key }) => key);
        const entries = await this.#entries(keys, header.revision);
        const read = zip(found, entries).flatMap(([{ key }, entry]) =>
          entry.record ? [{ key, entry: { ...entry, record: entry.record } }] : [],
        );
        const last = kvs.at(-1);
        const more = kvs.length === READ_AT_ONCE && last;
        return { read, next: more ? `${last.key}\0` : null };
      } catch (error) {
        // The revision was compacted meanwhile: reads again at a newer one.
        if (!(error instanceof CallFailure) || error.reason !== "compacted") throw error;
      }
    }
  }

  /** Reads the state of each key. @throws CallFailure */
  async #entries(keys: readonly Key[], revision?: string): Promise<Entry[]> {
    const answers = await Promise.all(
      chunked(keys, IN_TRANSACTION).map((some) =>
        this.#transaction(some.flatMap((key) => readEntry(new Place(this.prefix, key), revision))),
      ),
    );
    return answers.flatMap(entriesIn);
  }

  /** Deletes records that are unchanged since they were read; returns their number. @throws CallFailure */
  async #forget(seen: readonly (Key & { readonly modRevision: number })[]): Promise<number> {
    let deleted = 0;
    for (const some of chunked(seen, IN_TRANSACTION)) {
      const operations = some.map((one): Operation => {
        const place = new Place(this.prefix, one);
        this.onForgotten(place);
        const { record: key } = place;
        const { modRevision: mod_revision } = one;
        return {
          request_txn: {
            compare: [{ key, target: COMPARE.MOD, result: COMPARE.EQUAL, mod_revision }],
            success: [{ request_delete_range: { key } }],
          },
        };
      });
      const { responses = [] } = await this.#transaction(operations);
      deleted += responses.filter((one) => one.response_txn?.succeeded).length;
    }
    return deleted;
  }

  #transaction(success: readonly Operation[]): Promise<TransactionAnswer> {
    return this.client.call({ method: "Txn", body: { success }, repeatable: true });
  }

  /** Asks for the remaining time of each engine lease once. */
  async #views(
    found: readonly { readonly key: Key; readonly entry: Known }[],
  ): Promise<LeaseView[]> {
    const { clock } = this.client.connection.env;
    const deadlineMs = clock.monotonic() + DEFAULT_TIMEOUT_MS;
    const excluding = found.filter(({ entry }) => excludesOthers(entry));
    const asked = [...new Set(excluding.map(({ entry }) => entry.owner?.lease ?? "0"))];
    const left = new Map<string, number>();
    for (let at = 0; at < asked.length; at += ASKED_AT_ONCE) {
      const some = asked.slice(at, at + ASKED_AT_ONCE);
      const all = await Promise.all(some.map((id) => this.leases.remainingMs(id, deadlineMs)));
      for (const [id, remainingMs] of zip(some, all)) left.set(id, remainingMs);
    }
    return found.map(({ key, entry }) =>
      viewOf(key, entry, left.get(entry.owner?.lease ?? "0") ?? 0),
    );
  }
}

function entriesIn({ responses = [] }: TransactionAnswer): Entry[] {
  return Array.from({ length: responses.length / 2 }, (_, at) =>
    entryOf(responses[at * 2]?.response_range, responses[at * 2 + 1]?.response_range),
  );
}
