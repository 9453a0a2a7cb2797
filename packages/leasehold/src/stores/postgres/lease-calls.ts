/**
 * How the lease store runs a batch. A key may occur several times in a batch. An acquire may change it for
 * the next one, so each statement has it once, but where acquires wait for it, once with each lease id. Of
 * renewals and releases only those of the current grant change it, so each statement has each grant once.
 *
 *   batch ─ rounds of different keys ─▶ lean statement, which decides what is simple
 *         └ the different grants ─────▶    └─▶ statement ─ each returned row is a decision
 *                                                 ▲  └─ no row: another transaction held the lock, or
 *                                                 │     this statement grants the key to another request
 *                                                 └──────── retry with a new read
 */

import {
  allDiffer,
  type CallOptions,
  ClosedError,
  type Decide,
  type Failed,
  type Grant,
  grantText,
  inRounds,
  type Key,
  type Merging,
  oncePerGrant,
  StoreUnavailableError,
} from "../../core/index.js";
import { type Clock, invariant, zip } from "../../env/index.js";
import { DEFAULT_TIMEOUT_MS } from "./connection.js";
import { CONFIRM } from "./connection-pool.js";
import { failedOutcome } from "./failures.js";
import { keyText } from "./keys.js";
import { askAgain } from "./locked-rows.js";
import { askLean, type Statement } from "./statement.js";

/** A statement for requests on different keys, and the meaning of its rows. */
export interface LeaseStatement<Request, Outcome, Row>
  extends Statement<Request, Request, Outcome> {
  /** A statement has one request for each such text. By default, this is the key. */
  readonly roundOf?: (request: Request) => string;
  outcome(row: Row, request: Request): Outcome;
  /**
   * Whether the row reports a grant of another statement, which a standby may not have confirmed yet.
   */
  isRepeated?(row: Row): boolean;
}
/** The rows, at most one per request. Requests without a row are undecided. */
interface Row {
  /** The number of the request, from 1; if absent, the row is that of the first request for the key. */
  readonly n: number | null;
  readonly namespace?: string | null;
  readonly resource?: string | null;
}

export class LeaseCalls {
  readonly #clock: Clock;
  readonly #closing: AbortSignal;

  /**
   * @param closing aborts when the store closes: no statement starts after that
   */
  constructor(clock: Clock, closing: AbortSignal) {
    this.#clock = clock;
    this.#closing = closing;
  }

  assertOpen(): void {
    if (this.#closing.aborted) throw new ClosedError("the PostgreSQL lease store");
  }

  /** Returns one outcome per request, in order, all within the timeout. */
  decide<Request extends Key, Outcome extends { readonly status: string }, Answer extends Row>(
    statement: LeaseStatement<Request, Outcome, Answer>,
    requests: readonly Request[],
    options?: CallOptions,
    next?: Decide<Request, Outcome>,
  ): Promise<(Outcome | Failed)[]> {
    const send = this.#sending(statement, options);
    // Then the keys differ, and need no texts to tell.
    if (allDiffer(requests.map(({ resource }) => resource))) return send(requests);
    return inRounds(requests, statement.roundOf ?? keyText, send, next);
  }

  /** The same for requests that change nothing but the grant that they name. */
  decideGrants<
    Request extends Grant,
    Outcome extends { readonly status: string },
    Answer extends Row,
  >(
    statement: LeaseStatement<Request, Outcome, Answer>,
    requests: readonly Request[],
    options?: CallOptions,
    merging?: Merging<Request, Outcome | Failed>,
  ): Promise<(Outcome | Failed)[]> {
    const send = this.#sending(statement, options);
    if (allDiffer(requests.map(({ leaseId }) => leaseId))) return send(requests);
    return oncePerGrant(requests, grantText, send, merging);
  }

  #sending<Request extends Key, Outcome extends { readonly status: string }, Answer extends Row>(
    statement: LeaseStatement<Request, Outcome, Answer>,
    { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
  ): (some: readonly Request[]) => Promise<(Outcome | Failed)[]> {
    const deadlineMs = this.#clock.monotonic() + timeoutMs;
    return async (round) => {
      const lean = statement.lean?.(round);
      const outcomes = lean
        ? await askLean(lean, round.length, async (text, values) => {
            this.assertOpen();
            return statement.sql.query(text, values, this.#leftMs(deadlineMs));
          })
        : new Array<Outcome | Failed | null>(round.length).fill(null);
      if (!outcomes.includes(null)) return outcomes as (Outcome | Failed)[];
      const entries = round.map((request, index) => ({ request, index }));
      const undecided = entries.filter(({ index }) => outcomes[index] === null);
      await askAgain(this.#clock, undecided, async (open) => {
        const asked = open.map(({ request }) => request);
        const answers = await this.#ask(statement, asked, deadlineMs);
        for (const [{ index }, outcome] of zip(open, answers)) outcomes[index] = outcome;
        return open.filter(({ index }) => outcomes[index] === null);
      });
      return zip(round, outcomes).map(([request, outcome]) => outcome ?? rowLocked(request));
    };
  }

  #leftMs(deadlineMs: number): CallOptions {
    return { timeoutMs: Math.max(0, deadlineMs - this.#clock.monotonic()) };
  }

  /** Runs the general statement. The outcome of a request that it did not decide is null. */
  async #ask<Request extends Key, Outcome, Answer extends Row>(
    statement: LeaseStatement<Request, Outcome, Answer>,
    requests: readonly Request[],
    deadlineMs: number,
  ): Promise<(Outcome | Failed | null)[]> {
    const { sql } = statement;
    const options = () => this.#leftMs(deadlineMs);
    try {
      this.assertOpen();
      const [text, values] = [statement.text(requests), statement.values(requests)];
      const rows = await sql.query<Answer>(text, values, options());
      // A read may see a grant that no synchronous standby has confirmed, after a crash or a cancelled
      // wait.
      if (rows.some((row) => statement.isRepeated?.(row))) {
        await sql.query(CONFIRM, [], options());
      }
      const answers = new Array<Answer | null>(requests.length).fill(null);
      const indexOf = indexIn(requests);
      for (const row of rows) answers[indexOf(row)] = row;
      return zip(requests, answers).map(([request, row]) => row && statement.outcome(row, request));
    } catch (error) {
      return requests.map(() => failedOutcome(error));
    }
  }
}

/**
 * Returns a function from a row to the index of its request. Only the rows of acquires carry a key instead of
 * a number: of those for one key only the first can create it. The first such row creates the map by key.
 */
function indexIn(requests: readonly Key[]): (row: Row) => number {
  let byKey: Map<string, number> | undefined;
  return ({ n, namespace, resource }) => {
    if (n !== null) return n - 1;
    if (!byKey) {
      byKey = new Map();
      for (const [index, request] of requests.entries()) {
        const key = keyText(request);
        if (!byKey.has(key)) byKey.set(key, index);
      }
    }
    const index = byKey.get(keyText({ namespace: namespace ?? "", resource: resource ?? "" }));
    invariant(index !== undefined, "rows of requests");
    return index;
  };
}

/** The row is still locked; waiting would tie this batch to another transaction. */
function rowLocked({ namespace, resource }: Key): Failed {
  const error = new StoreUnavailableError(
    `another transaction holds the row of "${resource}" in namespace "${namespace}"`,
    { outcome: "none" },
  );
  return { status: "failed", applied: "no", retryable: true, error };
}
