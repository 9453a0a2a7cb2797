/** The records of `once` in this process's memory. */
import { compareUtf8, invariant } from "../../env/index.js";
import {
  cursorAfter,
  InvalidOptionError,
  type LeaseStore,
  type Page,
  resourceOfCursor,
  rules,
} from "../../lease/index.js";
import {
  type FailOnceOutcome,
  type FailOnceRequest,
  type OnceGrant,
  type OnceKey,
  type OnceQuery,
  type OnceStore,
  type OnceView,
  resourceOf,
  type SucceedOptions,
  type SucceedOutcome,
  type SucceedRequest,
} from "../../once/port.js";
import type { Json } from "../../tasks/port.js";
import { encodeJson, storedError } from "../../tasks/record.js";
import { pageOf } from "./page.js";
import type { MemoryLeaseState } from "./store.js";

/** A success, or the failures so far. Times are the store's, in milliseconds. */
interface OnceRecord {
  readonly state: OnceView["state"];
  /** JSON as text, so that it comes back as it was. */
  readonly value: string;
  readonly holder: string;
  readonly token: number;
  readonly atMs: number;
  readonly failures: number;
  readonly error: string | null;
  readonly nextAtMs: number;
  readonly keepUntilMs: number;
}

/** By namespace and key; shared by all stores of one name. */
export type OnceRecords = Map<string, Map<string, OnceRecord>>;

export class MemoryOnceStore implements OnceStore {
  readonly leases: LeaseStore;
  readonly #records: OnceRecords;
  readonly #held: MemoryLeaseState;

  /** @param held the leases of `leases`, which are ended with a record in one step. Their clock is that of the records */
  constructor(records: OnceRecords, leases: LeaseStore, held: MemoryLeaseState) {
    [this.#records, this.leases, this.#held] = [records, leases, held];
  }

  async get({ namespace, key }: OnceKey): Promise<OnceView | null> {
    const record = this.#kept(namespace, key);
    return record ? this.#view(namespace, key, record) : null;
  }

  async list(query: OnceQuery): Promise<Page<OnceView>> {
    const { namespace, prefix = "", states, limit = 100, cursor } = query;
    const after = cursor === undefined ? "" : resourceOfCursor(cursor);
    const keys = [...this.#of(namespace).keys()]
      .filter((key) => key.startsWith(prefix) && compareUtf8(key, after) > 0)
      .sort(compareUtf8);
    const views = keys.flatMap((key) => {
      const record = this.#kept(namespace, key);
      return record ? this.#view(namespace, key, record) : [];
    });
    const { found, last } = pageOf(views, limit, ({ state }) => states?.includes(state) ?? true);
    return { items: found, nextCursor: last && cursorAfter(last.key) };
  }

  async succeed(request: SucceedRequest, options: SucceedOptions = {}): Promise<SucceedOutcome> {
    if (options.client) {
      throw new InvalidOptionError(
        "client",
        "needs records in the SQL database of the transaction: connect to PostgreSQL or PGlite itself",
      );
    }
    const { namespace, key, token, value, keepMs } = request;
    const nowMs = this.#held.clock.monotonic();
    const earlier = this.#kept(namespace, key);
    if (earlier?.state === "done") {
      if (earlier.token === token) return { status: "recorded" };
      return { status: "done", by: earlier.holder, at: this.#held.wallAt(earlier.atMs) };
    }
    const holder = this.#holderOf(request, nowMs);
    if (holder === null) return { status: "refused" };
    this.#of(namespace).set(key, {
      state: "done",
      value: encodeJson(value),
      holder,
      token,
      atMs: nowMs,
      failures: 0,
      error: null,
      nextAtMs: nowMs,
      keepUntilMs: nowMs + (keepMs ?? Number.POSITIVE_INFINITY),
    });
    await this.#release(request);
    return { status: "recorded" };
  }

  async fail(request: FailOnceRequest): Promise<FailOnceOutcome> {
    const { namespace, key, token, error, maxAttempts, retryDelayMs } = request;
    const nowMs = this.#held.clock.monotonic();
    const holder = this.#holderOf(request, nowMs);
    const earlier = this.#kept(namespace, key);
    if (earlier?.state === "done") return { status: "refused" };
    if (holder === null) {
      if (earlier?.token !== token) return { status: "refused" };
      return { status: "recorded", state: earlier.state, failures: earlier.failures };
    }
    const failures = (earlier?.failures ?? 0) + 1;
    const state = failures >= (maxAttempts ?? Number.POSITIVE_INFINITY) ? "failed" : "failing";
    this.#of(namespace).set(key, {
      state,
      value: encodeJson(null),
      holder,
      token,
      atMs: nowMs,
      failures,
      error: storedError(error),
      nextAtMs: nowMs + retryDelayMs,
      keepUntilMs: Number.POSITIVE_INFINITY,
    });
    await this.#release(request);
    return { status: "recorded", state, failures };
  }

  async retry({ namespace, key }: OnceKey): Promise<boolean> {
    const record = this.#kept(namespace, key);
    if (!record || record.state === "done") return false;
    return this.#of(namespace).delete(key);
  }

  async delete({ namespace, key }: OnceKey): Promise<boolean> {
    return this.#of(namespace).delete(key);
  }

  async collect(): Promise<number> {
    let collected = 0;
    for (const [namespace, records] of this.#records) {
      for (const key of records.keys()) {
        if (this.#kept(namespace, key) === undefined && records.delete(key)) collected += 1;
      }
    }
    return collected;
  }

  #of(namespace: string): Map<string, OnceRecord> {
    let records = this.#records.get(namespace);
    if (!records) {
      records = new Map();
      this.#records.set(namespace, records);
    }
    return records;
  }

  /** The record, unless its time is over. */
  #kept(namespace: string, key: string): OnceRecord | undefined {
    const record = this.#records.get(namespace)?.get(key);
    return record && record.keepUntilMs > this.#held.clock.monotonic() ? record : undefined;
  }

  /** Who holds the lease under this lease id and token; null: it has ended. */
  #holderOf({ namespace, key, leaseId, token }: OnceGrant, nowMs: number): string | null {
    const lease = this.#held.namespace(namespace).records.get(resourceOf(key));
    const isHeld =
      lease?.leaseId === leaseId && lease.token === token && rules.isLive(lease, nowMs);
    return isHeld ? lease.holder : null;
  }

  /** In the same turn as the record: a memory store decides before its first await. */
  async #release({ namespace, key, leaseId }: OnceGrant): Promise<void> {
    const [outcome] = await this.leases.release([
      { namespace, resource: resourceOf(key), leaseId },
    ]);
    invariant(outcome?.status === "released", "the lease was held in this turn");
  }

  #view(namespace: string, key: string, record: OnceRecord): OnceView {
    const { state, value, holder, token, atMs, failures, error, nextAtMs, keepUntilMs } = record;
    return {
      namespace,
      key,
      state,
      value: JSON.parse(value) as Json,
      by: holder,
      at: this.#held.wallAt(atMs),
      token,
      failures,
      error,
      nextInMs:
        state === "failing" ? Math.ceil(Math.max(0, nextAtMs - this.#held.clock.monotonic())) : 0,
      keepUntil: keepUntilMs === Number.POSITIVE_INFINITY ? null : this.#held.wallAt(keepUntilMs),
    };
  }
}
