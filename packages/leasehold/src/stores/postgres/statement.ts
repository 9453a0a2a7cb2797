/**
 * The statements that decide batches. A lean one decides what is simple of a batch, and leaves the rest to the general
 * one (decision 0022).
 */
import type { Failed, Grant } from "../../core/index.js";
import { invariant } from "../../env/index.js";
import type { Loaded } from "../../store-kit/index.js";
import type { Parameter, Scalar, Sql } from "./connection.js";
import { failedOutcome } from "./failures.js";
import type { Version } from "./lease-load.js";

type Row = Readonly<Record<string, Scalar>>;

/** How a batch is sent as one statement. lease-calls.ts and task-calls.ts say what its rows mean. */
export interface Statement<Item, Request, Outcome> {
  readonly sql: Sql;
  text(items: readonly Item[]): string;
  /** The values, one array per column. */
  values(items: readonly Item[]): Parameter[];
  /** A cheaper statement to try first; null if it does not suit the requests. */
  lean?(requests: readonly Request[]): LeanStatement<Outcome> | null;
}

/** A statement with one row, which decides what is simple of a batch. */
export interface LeanStatement<Outcome> {
  readonly text: string;
  readonly values: readonly Parameter[];
  /** The outcome of each request; null: the general statement decides it. */
  outcomes(row: Row): (Outcome | null)[];
}

/** A statement that decides what is simple of a batch with each key once, and may load what it leaves to the rules. */
export interface FastStatement<Outcome> {
  readonly text: string;
  readonly values: readonly Parameter[];
  answersOf(rows: readonly Row[]): FastAnswers<Outcome>;
}

export interface FastAnswers<Outcome> {
  /** The time of what it has loaded. */
  readonly nowMs: number;
  /** Null: the rules decide. */
  readonly outcomes: (Outcome | Failed | null)[];
  /** Null: it is not loaded. */
  readonly loaded: readonly (Loaded<Version> | null)[];
  /** Requests that have joined the queue of a key that was loaded before. */
  readonly joined: readonly Grant[];
}

/**
 * The outcome of a request that the statement did not decide is null.
 * @param count of the requests
 */
export async function askLean<Outcome>(
  lean: LeanStatement<Outcome>,
  count: number,
  run: (text: string, values: readonly Parameter[]) => Promise<readonly Row[]>,
): Promise<(Outcome | Failed | null)[]> {
  try {
    const [row] = await run(lean.text, lean.values);
    invariant(row, "a lean statement has one row");
    return lean.outcomes(row);
  } catch (error) {
    return new Array<Failed>(count).fill(failedOutcome(error));
  }
}

/** The items of a row's list, as `string_agg` makes them; null: there is none. */
export function listOf(text: string | null): readonly string[] {
  return text === null ? [] : text.split(",");
}
