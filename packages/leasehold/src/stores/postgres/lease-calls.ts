/**
 * How the lease store runs a batch. A key may occur several times in a batch, but only once in each
 * statement.
 *
 *   batch ─ rounds of different keys ─▶ statement ─ each returned row is a decision
 *                                          ▲  └─ no row: another transaction held the lock
 *                                          └──────── retry with a new read
 */

import {
  type CallOptions,
  ClosedError,
  type Decide,
  type Failed,
  inRounds,
  type Key,
  StoreUnavailableError,
} from "../../core/index.js";
import { type Clock, invariant, zip } from "../../env/index.js";
import { DEFAULT_TIMEOUT_MS, type Parameter, type Sql } from "./connection.js";
import { CONFIRM } from "./connection-pool.js";
import { failedOutcome } from "./failures.js";
import { keyText } from "./keys.js";
import { askAgain } from "./locked-rows.js";

/** A statement for requests on different keys: its values, and the meaning of its rows. */
export interface Statement<Request, Outcome, Row> {
  readonly sql: Sql;
  text(requests: readonly Request[]): string;
  /** The values, one array per column. */
  values(requests: readonly Request[]): Parameter[];
  /** A cheaper statement to try first for a lone request; it may return no row. */
  one?(request: Request): [text: string, values: Parameter[]] | null;
  outcome(row: Row, request: Request): Outcome;
  /**
   * Whether the row reports a grant of another statement, which a standby may not have confirmed yet.
   */
  isRepeated?(row: Row): boolean;
}
/** The rows, at most one per request. Requests without a row are undecided. */
interface Row {
  /** The number of the request, from 1; if absent, the key identifies it. */
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
    statement: Statement<Request, Outcome, Answer>,
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
    next?: Decide<Request, Outcome>,
  ): Promise<(Outcome | Failed)[]> {
    const deadlineMs = this.#clock.monotonic() + timeoutMs;
    const send = async (round: readonly Request[]) => {
      const outcomes = new Array<Outcome | Failed | null>(round.length).fill(null);
      const entries = round.map((request, index) => ({ request, index }));
      let isFirst = true;
      await askAgain(this.#clock, entries, async (open) => {
        const asked = open.map(({ request }) => request);
        const answers = await this.#ask(statement, asked, deadlineMs, isFirst);
        isFirst = false;
        for (const [{ index }, outcome] of zip(open, answers)) outcomes[index] = outcome;
        return open.filter(({ index }) => outcomes[index] === null);
      });
      return zip(round, outcomes).map(([request, outcome]) => outcome ?? rowLocked(request));
    };
    return inRounds(requests, keyText, send, next);
  }

  /** Runs one statement. The outcome of a request that it did not decide is null. */
  async #ask<Request extends Key, Outcome, Answer extends Row>(
    statement: Statement<Request, Outcome, Answer>,
    requests: readonly Request[],
    deadlineMs: number,
    isFirst: boolean,
  ): Promise<(Outcome | Failed | null)[]> {
    const { sql } = statement;
    const [only] = requests;
    const one = isFirst && only && requests.length === 1 ? statement.one?.(only) : null;
    const options = () => ({ timeoutMs: Math.max(0, deadlineMs - this.#clock.monotonic()) });
    try {
      this.assertOpen();
      const [text, values] = one ?? [statement.text(requests), statement.values(requests)];
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
 * a number; the first such row creates the map by key.
 */
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

/** The row is still locked; waiting would tie this batch to another transaction. */
function rowLocked({ namespace, resource }: Key): Failed {
  const error = new StoreUnavailableError(
    `another transaction holds the row of "${resource}" in namespace "${namespace}"`,
    { outcome: "none" },
  );
  return { status: "failed", applied: "no", retryable: true, error };
}
