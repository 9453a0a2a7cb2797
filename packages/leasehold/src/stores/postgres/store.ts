/** Leases in PostgreSQL: the port over the lease statements. */
import { setMaxListeners } from "node:events";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  cursorAfter,
  decideAcquire,
  type Key,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  longest,
  type Page,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  resourceOfCursor,
  type WatchEvent,
} from "../../core/index.js";
import type { LeaseOperations } from "../../store-kit/index.js";
import type { Sql } from "./connection.js";
import { endOfPrefix, keyColumns } from "./keys.js";
import { LeaseCalls } from "./lease-calls.js";
import { operationsByRules } from "./lease-engine.js";
import { acquiring, releasing, renewing, revoking } from "./lease-outcomes.js";
import { COLLECT } from "./lease-statements.js";
import type { Connections } from "./shared.js";
import { GET, LIST, type ViewRow, viewOf } from "./views.js";
import { COLLECT_WAITERS } from "./wait-queue.js";
import { type Listener, watchEvents } from "./watch.js";

/** Maximum number of leases that one statement deletes. It is bounded because the statement locks them. */
const COLLECTED_AT_ONCE = 1_000;
/** A collection may scan a large table. */
const COLLECT_TIMEOUT_MS = 60_000;

export class PostgresLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities;
  readonly #general: Sql;
  readonly #control: Sql;
  readonly #listener: Listener;
  readonly #closing = new AbortController();
  readonly #calls: LeaseCalls;
  /** Undefined: statements decide. */
  readonly #byRules: LeaseOperations | undefined;

  /**
   * @param options.byRules the rules decide on loaded keys what the lean statements leave undecided, instead of the general
   *   statements. Default false, until it is shown to be as fast
   */
  constructor(connections: Connections, { byRules = true }: { readonly byRules?: boolean } = {}) {
    const { backend, listener, env } = connections;
    this.#general = backend.general;
    this.#control = backend.control;
    this.#listener = listener;
    // Every watch adds a listener.
    setMaxListeners(0, this.#closing.signal);
    this.#calls = new LeaseCalls(env.clock, this.#closing.signal);
    this.#byRules = byRules
      ? operationsByRules(connections, () => this.#calls.assertOpen())
      : undefined;
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

  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]> {
    if (this.#byRules) return this.#byRules.acquire(requests, options);
    const statement = acquiring(this.#general, requests, options?.returnReplaced ?? false);
    return this.#calls.decide(statement, requests, options, decideAcquire);
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    if (this.#byRules) return this.#byRules.renew(requests, options);
    return this.#calls.decideGrants(renewing(this.#control), requests, options, longest(1));
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    if (this.#byRules) return this.#byRules.release(requests, options);
    return this.#calls.decideGrants(releasing(this.#control), requests, options);
  }

  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    if (this.#byRules) return this.#byRules.revoke(requests, options);
    return this.#calls.decide(revoking(this.#general), requests, options);
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#calls.assertOpen();
    const rows = await this.#general.query<ViewRow & { n: number }>(GET, keyColumns(keys));
    const views = new Array<LeaseView | null>(keys.length).fill(null);
    for (const { n, ...row } of rows) views[n - 1] = viewOf(row);
    return views;
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.#calls.assertOpen();
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
    this.#calls.assertOpen();
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
    this.#calls.assertOpen();
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

  /** Rejects further calls and ends watches. The database object closes the connections. */
  async close(): Promise<void> {
    this.#closing.abort();
  }
}
