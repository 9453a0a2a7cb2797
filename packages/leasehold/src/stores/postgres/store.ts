/** Leases in PostgreSQL: what changes them is in lease-engine.ts, and what reads them is here. */
import { setMaxListeners } from "node:events";
import {
  type Capabilities,
  ClosedError,
  cursorAfter,
  type Key,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  resourceOfCursor,
  type WatchEvent,
} from "../../lease/index.js";
import type { Sql } from "./connection.js";
import { endOfPrefix, keyColumns } from "./keys.js";
import { COLLECT, COLLECT_WAITERS } from "./lease-collect.js";
import { operationsByRules } from "./lease-engine.js";
import type { Connections } from "./shared.js";
import { GET, LIST, type ViewRow, viewOf } from "./views.js";
import { type Listener, watchEvents } from "./watch.js";

/** Maximum number of leases that one statement deletes. It is bounded because the statement locks them. */
const COLLECTED_AT_ONCE = 1_000;
/** A collection may scan a large table. */
const COLLECT_TIMEOUT_MS = 60_000;

export class PostgresLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities;
  readonly #general: Sql;
  readonly #listener: Listener;
  readonly #closing = new AbortController();
  readonly acquire: LeaseStore["acquire"];
  readonly renew: LeaseStore["renew"];
  readonly release: LeaseStore["release"];
  readonly revoke: LeaseStore["revoke"];

  constructor(connections: Connections) {
    const { backend, listener } = connections;
    this.#general = backend.general;
    this.#listener = listener;
    // Every watch adds a listener.
    setMaxListeners(0, this.#closing.signal);
    const operations = operationsByRules(connections, () => this.#assertOpen());
    this.acquire = operations.acquire;
    this.renew = operations.renew;
    this.release = operations.release;
    this.revoke = operations.revoke;
    this.capabilities = {
      clock: "store",
      grants: "portable",
      ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
      queue: true,
      watch: listener.mode,
      // A lease is free from the microsecond of its expiry; results are rounded to milliseconds.
      epsilonMs: 1,
    };
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#assertOpen();
    const rows = await this.#general.query<ViewRow & { n: number }>(GET, keyColumns(keys));
    const views = new Array<LeaseView | null>(keys.length).fill(null);
    for (const { n, ...row } of rows) views[n - 1] = viewOf(row);
    return views;
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.#assertOpen();
    const { namespace, prefix = "", states = null, limit = 100, cursor } = query;
    const rows = await this.#general.query<ViewRow>(LIST, [
      namespace,
      prefix,
      endOfPrefix(prefix),
      cursor === undefined ? "" : resourceOfCursor(cursor),
      states,
      query.renewedOnly ?? false,
      limit + 1,
      query.holder ?? null,
      query.expiringWithinMs ?? null,
      query.heldForMs ?? null,
    ]);
    const items = rows.slice(0, limit).map(viewOf);
    const last = rows.length > limit ? items.at(-1) : undefined;
    return { items, nextCursor: last ? cursorAfter(last.resource) : null };
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, undefined> {
    this.#assertOpen();
    yield* watchEvents(
      this.#listener,
      ([topic, changedNamespace, resource, wakes]): WatchEvent | null =>
        topic === "lease" && changedNamespace === namespace
          ? { type: "changed", namespace, resource, ...(wakes !== undefined && { wakes }) }
          : null,
      [signal, this.#closing.signal],
    );
  }

  async collect(olderThanMs: number): Promise<number> {
    this.#assertOpen();
    const options = { timeoutMs: COLLECT_TIMEOUT_MS };
    await this.#general.query(COLLECT_WAITERS, [], options);
    let collected = 0;
    let last: Key = { namespace: "", resource: "" };
    for (;;) {
      const rows = await this.#general.query<Key & Record<string, string>>(
        COLLECT,
        [olderThanMs, last.namespace, last.resource, COLLECTED_AT_ONCE],
        options,
      );
      collected += rows.length;
      const next = rows.at(-1);
      if (!next || rows.length < COLLECTED_AT_ONCE) return collected;
      last = next;
    }
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the PostgreSQL lease store");
  }

  /** Rejects further calls and ends watches. The database object closes the connections. */
  async close(): Promise<void> {
    this.#closing.abort();
  }
}
