/** Leases in PostgreSQL: requests to statements, rows to outcomes. What is decided stands in SQL. */
import { setMaxListeners } from "node:events";
import { type Clock, invariant } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  ClosedError,
  decideAcquire,
  decideRelease,
  decideRenew,
  type Failed,
  inRounds,
  type Key,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  StoreUnavailableError,
  type WatchEvent,
} from "../../lease/index.js";
import type { Connections } from "./connections.js";
import { failedOutcome } from "./failures.js";
import { ACQUIRE, ACQUIRE_ONE, ACQUIRE_OR_WAIT, type AcquireRow } from "./lease-acquire-sql.js";
import {
  RELEASE,
  RENEW,
  REVOKE,
  type ReleaseRow,
  type RenewRow,
  type RevokeRow,
  type ViewRow,
} from "./lease-sql.js";
import { COLLECT, COLLECT_WAITERS, GET, LIST } from "./lease-view-sql.js";
import { type Listener, watchEvents } from "./listen.js";
import { askAgain } from "./locked-rows.js";
import { CONFIRM, DEFAULT_TIMEOUT_MS, type Parameter, type Sql } from "./query.js";

/** Longer waits are noted anew meanwhile; the SQL has its own, smaller bound. */
const LONGEST_QUEUE_MS = 2 ** 31 - 1;
/** One statement deletes so many leases at most: it locks them. */
const COLLECTED_AT_ONCE = 1_000;
/** It may have to read a large table to its end. */
const COLLECT_TIMEOUT_MS = 60_000;

/** One statement for requests on different keys: what to send, and what an answered row means. */
interface Statement<Request, Outcome, Row> {
  readonly sql: Sql;
  text(requests: readonly Request[]): string;
  /** By column. */
  values(requests: readonly Request[]): Parameter[];
  /** What to try first for a lone request: it may leave it unanswered. */
  one?(request: Request): [text: string, values: Parameter[]] | null;
  outcome(row: Row, request: Request): Outcome;
  /** Whether it tells of a grant that somebody else's statement has made: perhaps not yet for good. */
  isRepeated?(row: Row): boolean;
}
/** What it answers: each request at most once. Those without an answer are undecided. */
interface Row {
  /** The number of the request, from 1; else the key says which it is. */
  readonly n: number | null;
  readonly namespace?: string | null;
  readonly resource?: string | null;
}

export class PostgresLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities;
  readonly #general: Sql;
  readonly #control: Sql;
  readonly #listener: Listener;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor({ backend, listener, env }: Connections) {
    this.#general = backend.general;
    this.#control = backend.control;
    this.#listener = listener;
    this.#clock = env.clock;
    // Every watch listens to it.
    setMaxListeners(0, this.#closing.signal);
    this.capabilities = {
      clock: "store",
      grants: "portable",
      ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
      queue: true,
      watch: listener.mode,
      // Free from the microsecond of its expiry on; answers are rounded to milliseconds.
      epsilonMs: 1,
    };
  }

  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]> {
    const statement: Statement<AcquireRequest, AcquireOutcome, AcquireRow> = {
      sql: this.#general,
      text: (batch) => (batch.some(({ queueMs }) => queueMs) ? ACQUIRE_OR_WAIT : ACQUIRE),
      values: (batch) => [
        ...keyColumns(batch),
        batch.map(({ leaseId }) => leaseId),
        batch.map(({ holder }) => holder),
        batch.map(({ ttlMs }) => ttlMs),
        batch.map(({ queueMs = 0 }) => Math.min(Math.ceil(queueMs), LONGEST_QUEUE_MS)),
        batch.map(({ metadata = null }) => metadata),
      ],
      one: ({ namespace, resource, leaseId, holder, ttlMs, queueMs, metadata = null }) =>
        queueMs ? null : [ACQUIRE_ONE, [namespace, resource, leaseId, holder, ttlMs, metadata]],
      outcome: acquireOutcome,
      isRepeated: ({ n, status, oldToken }) =>
        status === "acquired" && n !== null && oldToken === null,
    };
    return inRounds(requests, keyText, this.#sender(statement, options), decideAcquire);
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    const statement: Statement<RenewRequest, RenewOutcome, RenewRow> = {
      sql: this.#control,
      text: () => RENEW,
      values: (batch) => [
        ...keyColumns(batch),
        batch.map(({ leaseId }) => leaseId),
        batch.map(({ ttlMs }) => ttlMs),
      ],
      outcome: (row) =>
        row.status === "lost"
          ? { status: row.status, reason: row.reason ?? "gone" }
          : { status: row.status, token: safeToken(row.token), ...term(row) },
    };
    return inRounds(requests, keyText, this.#sender(statement, options), decideRenew);
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    const statement: Statement<ReleaseRequest, ReleaseOutcome, ReleaseRow> = {
      sql: this.#control,
      text: () => RELEASE,
      values: (batch) => [...keyColumns(batch), batch.map(({ leaseId }) => leaseId)],
      outcome: ({ status }) => ({ status }),
    };
    return inRounds(requests, keyText, this.#sender(statement, options), decideRelease);
  }

  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    const statement: Statement<RevokeRequest, RevokeOutcome, RevokeRow> = {
      sql: this.#general,
      text: () => REVOKE,
      values: (batch) => [
        ...keyColumns(batch),
        batch.map(({ expectedToken = null }) => expectedToken),
        batch.map(({ free }) => free === "now"),
      ],
      outcome: ({ status, token, freeInMs }) =>
        status === "revoked"
          ? { status, token: safeToken(token), freeInMs: Math.ceil(freeInMs) }
          : { status },
    };
    return inRounds(requests, keyText, this.#sender(statement, options));
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#assertOpen();
    const rows = await this.#general.query<ViewRow & { n: number }>(GET, keyColumns(keys));
    const views = new Array<LeaseView | null>(keys.length).fill(null);
    for (const { n, ...row } of rows) views[n - 1] = view(row);
    return views;
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.#assertOpen();
    const { namespace, prefix = "", states = null, limit = 100, cursor = "" } = query;
    const rows = await this.#general.query<ViewRow>(LIST, [
      namespace,
      prefix,
      endOfPrefix(prefix),
      cursor,
      states,
      query.renewedOnly ?? false,
      limit + 1,
      query.holder ?? null,
      query.expiringWithinMs ?? null,
      query.heldForMs ?? null,
    ]);
    const items = rows.slice(0, limit).map(view);
    return { items, nextCursor: rows.length > limit ? (items.at(-1)?.resource ?? null) : null };
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, undefined> {
    this.#assertOpen();
    yield* watchEvents(
      this.#listener,
      ([topic, place, resource, wakes]): WatchEvent | null =>
        topic === "lease" && place === namespace
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

  /** Refuses calls and ends watches. The connections belong to the database that it is part of. */
  async close(): Promise<void> {
    this.#closing.abort();
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the PostgreSQL lease store");
  }

  /** Sends rounds of a batch, all of them within its timeout. */
  #sender<Request extends Key, Outcome, Answer extends Row>(
    statement: Statement<Request, Outcome, Answer>,
    { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
  ): (round: readonly Request[]) => Promise<(Outcome | Failed)[]> {
    const deadline = this.#clock.monotonic() + timeoutMs;
    const ask = async (requests: readonly Request[], isFirst: boolean) => {
      const { sql } = statement;
      const [only] = requests;
      const one = isFirst && only && requests.length === 1 ? statement.one?.(only) : null;
      const options = () => ({ timeoutMs: Math.max(0, deadline - this.#clock.monotonic()) });
      try {
        this.#assertOpen();
        const [text, values] = one ?? [statement.text(requests), statement.values(requests)];
        const rows = await sql.query<Answer>(text, values, options());
        // A read sees what a synchronous standby may not have, after a crash or a wait that was cancelled.
        if (rows.some((row) => statement.isRepeated?.(row))) {
          await sql.query(CONFIRM, [], options());
        }
        const outcomes = new Array<Outcome | null>(requests.length).fill(null);
        const indexOf = indexIn(requests);
        for (const row of rows) {
          const index = indexOf(row);
          outcomes[index] = statement.outcome(row, requests[index] as Request);
        }
        return outcomes;
      } catch (error) {
        return requests.map(() => failedOutcome(error));
      }
    };
    return async (round) => {
      const outcomes = new Array<Outcome | Failed | null>(round.length).fill(null);
      let isFirst = true;
      await askAgain(this.#clock, [...round.keys()], async (undecided) => {
        const requests = undecided.map((index) => round[index] as Request);
        const answers = await ask(requests, isFirst);
        isFirst = false;
        for (const [position, index] of undecided.entries()) {
          outcomes[index] = answers[position] ?? null;
        }
        return undecided.filter((index) => outcomes[index] === null);
      });
      return outcomes.map((outcome, index) => outcome ?? inTheWay(round[index] as Request));
    };
  }
}

/** Which request a row answers. Only acquires answer by key, and then most of a batch. */
function indexIn(requests: readonly Key[]): (row: Row) => number {
  let byKey: Map<string, number> | undefined;
  return ({ n, namespace, resource }) => {
    if (n !== null) return n - 1;
    byKey ??= new Map(requests.map((request, index) => [keyText(request), index]));
    const index = byKey.get(keyText({ namespace: namespace ?? "", resource: resource ?? "" }));
    invariant(index !== undefined, "rows of requests");
    return index;
  };
}

/** Its row is still locked: waiting would tie this batch to somebody else's transaction. */
function inTheWay({ namespace, resource }: Key): Failed {
  const error = new StoreUnavailableError(
    `another transaction holds the row of "${resource}" in namespace "${namespace}"`,
    { outcome: "none" },
  );
  return { status: "failed", applied: "no", retryable: true, error };
}

function keyColumns(keys: readonly Key[]): string[][] {
  return [keys.map(({ namespace }) => namespace), keys.map(({ resource }) => resource)];
}

/** Names contain no NUL. */
function keyText({ namespace, resource }: Key): string {
  return `${namespace}\0${resource}`;
}

function acquireOutcome(row: AcquireRow, { namespace, resource }: Key): AcquireOutcome {
  const { status, holder, grantId, remainingMs } = row;
  if (status === "held") {
    const place = row.ahead === null ? {} : { ahead: row.ahead };
    const leftMs = remainingMs === null ? null : Math.ceil(remainingMs);
    return { status, holder, grantId, remainingMs: leftMs, ...place };
  }
  if (status === "ended") return { status };
  invariant(remainingMs !== null, "a grant has an end");
  const granted = { status, token: safeToken(row.token), ...term({ ...row, remainingMs }) };
  if (row.oldToken === null || grantId === null) return granted;
  const replaced = view({
    ...{ namespace, resource, holder, grantId, token: row.oldToken, state: row.oldState },
    ...{ ttlMs: row.oldTtlMs, remainingMs: 0, grantedAt: row.oldGrantedAt },
    ...{ renewedAt: row.oldRenewedAt, expiresAt: row.oldExpiresAt, metadata: row.oldMetadata },
  });
  return { ...granted, replaced };
}

/** Rounded to the side on which the holder stops too early. */
function term({
  ttlMs,
  remainingMs,
  expiresAt,
}: Pick<ViewRow, "ttlMs" | "remainingMs" | "expiresAt">) {
  return { ttlMs, remainingMs: Math.floor(remainingMs), expiresAt: isoOf(expiresAt) };
}

function view(row: ViewRow): LeaseView {
  return {
    ...{ ...row, token: safeToken(row.token), remainingMs: Math.ceil(row.remainingMs) },
    grantedAt: isoOf(row.grantedAt),
    renewedAt: row.renewedAt === null ? null : isoOf(row.renewedAt),
    expiresAt: isoOf(row.expiresAt),
  };
}

/** Cut to milliseconds; times are exact to the microsecond, of which a float misses a little. */
function isoOf(epochMs: number): string {
  return new Date(Math.floor(epochMs + 0.0005)).toISOString();
}

function safeToken(token: number): number {
  invariant(Number.isSafeInteger(token) && token > 0, `token ${token} is a safe integer`);
  return token;
}

const LAST_CODE_POINT = 0x10ffff;

/**
 * The first text, in the order of code points, behind all that begin with the prefix; null if there
 * is none. A range needs no wildcards, so that no character of a prefix is one.
 * @internal
 */
export function endOfPrefix(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    if (last === LAST_CODE_POINT) continue;
    // Surrogates are no code points of texts.
    const next = last === 0xd7ff ? 0xe000 : last + 1;
    return String.fromCodePoint(...points, next);
  }
  return null;
}
