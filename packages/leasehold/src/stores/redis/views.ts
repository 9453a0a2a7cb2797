/** Reads single leases and pages of a namespace, and collects grants that ended long ago. */

import { chunked, isoTime, zip } from "../../env/index.js";
import {
  cursorAfter,
  type Key,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
  viewOf,
} from "../../lease/index.js";
import type { Engine } from "../../store-kit/index.js";
import type { Servers } from "./connection-servers.js";
import type { Keys } from "./keys.js";
import { leaseEngine } from "./lease-engine.js";
import type { Version } from "./lease-load.js";
import { byGroup, type ScriptCalls } from "./scripts-call.js";
import { type Waiting, waitersOf } from "./wait-queue.js";

const TIMEOUT_MS = 10_000;
/** The number of names that a collection reads from an index at a time. */
const NAMES_AT_ONCE = 500;
/** Records that one script reads. Renewals wait for it, in Redis and then in this process, and a record may have 4 KB. */
const READ_AT_ONCE = 100;

export class Views {
  readonly #calls: ScriptCalls;
  readonly #servers: Servers;
  readonly #keys: Keys;
  readonly #engine: Engine<Version>;

  constructor(calls: ScriptCalls) {
    this.#calls = calls;
    this.#servers = calls.servers;
    this.#keys = calls.keys;
    this.#engine = leaseEngine(calls, "general", () => {});
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    const views: (LeaseView | null)[] = [];
    for (const some of chunked(keys, READ_AT_ONCE)) views.push(...(await this.#read(some)));
    return views;
  }

  #read(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    const read = async (some: readonly Key[]): Promise<(LeaseView | null)[]> => {
      const { nowMs, keys: loaded } = await this.#load(some);
      return zip(some, loaded).map(([key, found]) => {
        if ("status" in found) throw found.error;
        return found.record && viewOf(key, found.record, nowMs, isoTime);
      });
    };
    return byGroup(this.#servers, keys, (key) => this.#keys.indexOf(key), read);
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    const { namespace, prefix = "", cursor, states, renewedOnly = false, limit = 100 } = query;
    const after = cursor === undefined ? undefined : resourceOfCursor(cursor);
    const deadlineMs = this.#deadline();
    const range = (key: string, from: Buffer, to: Buffer, count: number) =>
      this.#names(key, deadlineMs, from, to, count);
    const items: LeaseView[] = [];
    const indexes = this.#keys.indexes(namespace);
    for await (const names of namesOf(indexes, { prefix, after }, range, limit + 1)) {
      // The indexes together have many times as many names as the page takes.
      for (const some of chunked(names, Math.min(limit + 1, READ_AT_ONCE))) {
        for (const view of await this.#read(some.map((resource) => ({ namespace, resource })))) {
          if (!view || (states && !states.includes(view.state))) continue;
          if (renewedOnly && view.renewedAt === null) continue;
          const last = items.at(-1);
          if (last && items.length === limit) {
            return { items, nextCursor: cursorAfter(last.resource) };
          }
          items.push(view);
        }
      }
    }
    return { items, nextCursor: null };
  }

  async waiters(key: Key): Promise<Waiting[]> {
    const range = ["0", "-1", "WITHSCORES"] as const;
    const [{ nowMs }, entries] = await Promise.all([
      this.#load([key]),
      this.#servers.command(this.#deadline(), "zrange", this.#keys.queue(key), ...range),
    ]);
    return waitersOf(entries as string[], nowMs * 1_000);
  }

  /** Collects one namespace. @returns the number of deleted records */
  async collect(namespace: string, olderThanMs: number): Promise<number> {
    let collected = 0;
    for (const index of this.#keys.indexes(namespace)) {
      collected += await this.#collectFrom(namespace, index, olderThanMs);
    }
    return collected;
  }

  async #collectFrom(namespace: string, index: string, olderThanMs: number): Promise<number> {
    const { collect } = this.#calls.scripts;
    let collected = 0;
    for (let from = "-"; ; ) {
      const names = await this.#names(index, this.#deadline(), from, "+", NAMES_AT_ONCE);
      if (names.length === 0) return collected;
      const records = names.map((resource) => this.#keys.record({ namespace, resource }));
      const args = [`${Math.floor(olderThanMs * 1_000)}`, ...names];
      const places = [index, ...records];
      collected += Number(
        await this.#servers.run("general", collect, places, args, this.#deadline()),
      );
      from = `(${names.at(-1)}`;
    }
  }

  #load(keys: readonly Key[]) {
    const asked = keys.map((key) => ({ ...key, leaseIds: [] }));
    return this.#engine.load(asked, false, TIMEOUT_MS);
  }

  async #names(
    index: string,
    deadlineMs: number,
    from: string | Buffer,
    to: string | Buffer,
    count: number,
  ): Promise<string[]> {
    const range = [from, to, "LIMIT", 0, count] as const;
    const names = await this.#servers.command(deadlineMs, "zrangebylex", index, ...range);
    return names as string[];
  }

  #deadline(): number {
    return this.#servers.env.clock.monotonic() + TIMEOUT_MS;
  }
}

/** Returns up to `count` names of one index, between two bounds of ZRANGEBYLEX. */
type Range = (index: string, from: Buffer, to: Buffer, count: number) => Promise<readonly string[]>;

/**
 * Merges the names of several indexes into one list in UTF-8 byte order, returned in chunks. An index
 * that returned a full chunk may have more names that precede those of another index, so names beyond
 * its last one wait for the next chunk.
 */
async function* namesOf(
  indexes: readonly string[],
  { prefix, after }: { readonly prefix: string; readonly after: string | undefined },
  range: Range,
  count: number,
): AsyncGenerator<readonly string[], void, void> {
  // No UTF-8 byte is 0xff, so this bound sorts after all names with the prefix.
  const to = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.from([0xff])]);
  const from = (name: string | undefined) =>
    name === undefined || compareBytes(name, prefix) < 0 ? `[${prefix}` : `(${name}`;
  for (let last = after; ; ) {
    const start = Buffer.from(from(last));
    const lists = await Promise.all(indexes.map((index) => range(index, start, to, count)));
    const ends = lists.flatMap((list) => (list.length === count ? (list.at(-1) ?? []) : []));
    const end = ends.sort(compareBytes)[0];
    const names = lists.flat().sort(compareBytes);
    const sure = end === undefined ? names : names.filter((name) => compareBytes(name, end) <= 0);
    if (sure.length > 0) yield sure;
    if (end === undefined) return;
    last = end;
  }
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
