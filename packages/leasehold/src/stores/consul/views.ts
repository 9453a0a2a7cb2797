/** Reads single leases and pages of a namespace, and collects grants that ended long ago. */

import { compareUtf8, zip } from "../../env/index.js";
import {
  cursorAfter,
  type Key,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
} from "../../lease/index.js";
import type { ConsulClient } from "./connection.js";
import type { Operation, Pair } from "./connection-api.js";
import { keyOfFolder, type Place, placeOf, recordsBelow, renewalsFolder } from "./keys.js";
import { put } from "./lease-save.js";
import type { OwnGrants } from "./own-grants.js";
import {
  byFolder,
  type Entry,
  entryOf,
  excludesOthers,
  type GrantRecord,
  renewedAtOf,
  stateOf,
  viewOf,
} from "./records.js";
import type { Transactor } from "./transactions.js";

/** Timeout of reads of many resources. */
const READ_TIMEOUT_MS = 15_000;

interface Known {
  readonly key: Key;
  readonly place: Place;
  readonly entry: Entry & { readonly record: GrantRecord };
}

export class Views {
  constructor(
    readonly client: ConsulClient,
    readonly transactor: Transactor,
    readonly own: OwnGrants,
  ) {}

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.client.checkOpen();
    if (keys.length === 0) return [];
    const deadlineMs = this.client.deadline(READ_TIMEOUT_MS);
    const [entries, pairs] = await Promise.all([
      this.transactor.entries(keys, deadlineMs),
      this.transactor.tree([this.#renewals], deadlineMs),
    ]);
    const renewals = this.#renewalsIn(pairs);
    return zip(keys, entries).map(([key, entry]) => {
      const known = this.#known(key, entry);
      return known && this.#view(known, renewals);
    });
  }

  /** Consul has no pages: this reads all resources with the prefix. */
  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.client.checkOpen();
    const { namespace, prefix = "", states, renewedOnly = false, limit = 100, cursor } = query;
    const after = cursor === undefined ? null : resourceOfCursor(cursor);
    const texts = [recordsBelow(this.#prefix, namespace, prefix), this.#renewals];
    const pairs = await this.transactor.tree(texts, this.client.deadline(READ_TIMEOUT_MS));
    const renewals = this.#renewalsIn(pairs);
    const found = this.#all(pairs)
      .filter(({ key }) => key.namespace === namespace && key.resource.startsWith(prefix))
      .filter(({ entry }) => !states || states.includes(stateOf(entry)))
      .filter(({ entry }) => !renewedOnly || renewedAtOf(entry, renewals) !== null)
      .filter(({ key }) => after === null || compareUtf8(key.resource, after) > 0)
      .sort((a, b) => compareUtf8(a.key.resource, b.key.resource));
    const items = found.slice(0, limit);
    const last = found.length > limit ? items.at(-1) : undefined;
    return {
      items: items.map((known) => this.#view(known, renewals)),
      nextCursor: last ? cursorAfter(last.key.resource) : null,
    };
  }

  /**
   * If a session's end freed a grant, no client recorded when: the first collection records it, and the age counts
   * from then.
   */
  async collect(olderThanMs: number): Promise<number> {
    this.client.checkOpen();
    const wallMs = this.client.connection.env.clock.wall();
    const endedAt = new Date(wallMs).toISOString();
    const deadlineMs = this.client.deadline(READ_TIMEOUT_MS);
    const all = this.#all(await this.transactor.tree([this.#prefix], deadlineMs));
    const free = all.filter(({ entry }) => !excludesOthers(entry));
    const changes = free.flatMap(({ place, entry }) => {
      const { record, recordIndex: index } = entry;
      if (record.ended === null) {
        const operations = [put(place, entry, { ...record, ended: "expired", endedAt })];
        return [{ place, operations, deletes: false }];
      }
      if (Date.parse(record.endedAt ?? endedAt) > wallMs - olderThanMs) return [];
      const operations: Operation[] = [{ verb: "delete-cas", key: place.record, index }];
      return [{ place, operations, deletes: true }];
    });
    const applied = await this.transactor.each(changes, this.client.deadline(READ_TIMEOUT_MS));
    return zip(changes, applied).filter(([{ deletes }, done]) => deletes && done).length;
  }

  get #prefix(): string {
    return this.client.connection.prefix;
  }

  get #renewals(): string {
    return renewalsFolder(this.#prefix);
  }

  #renewalsIn(pairs: readonly Pair[]): ReadonlyMap<string, string> {
    const start = this.#renewals;
    const some = pairs.filter(({ Key: key }) => key.startsWith(start));
    return new Map(some.map(({ Key: key, Value }) => [key.slice(start.length), Value ?? ""]));
  }

  #all(pairs: readonly Pair[]): Known[] {
    return [...byFolder(this.#prefix, pairs)].flatMap(([folder, some]) => {
      const key = keyOfFolder(this.#prefix, folder);
      if (!key) return [];
      return this.#known(key, entryOf(placeOf(this.#prefix, key), some)) ?? [];
    });
  }

  #known(key: Key, entry: Entry): Known | null {
    const { record } = entry;
    return record && { key, place: placeOf(this.#prefix, key), entry: { ...entry, record } };
  }

  #view({ key, entry }: Known, renewals: ReadonlyMap<string, string>): LeaseView {
    const own = this.own.get(key, entry.record.identity);
    const leftMs = own ? own.untilMs - this.client.connection.env.clock.monotonic() : null;
    return viewOf(key, entry, leftMs, renewals);
  }
}
