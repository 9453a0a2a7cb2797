/**
 * The statements that decide batches. A lean one decides what is simple of a batch, and leaves the rest to the general
 * one (decision 0022).
 */
import { invariant } from "../../env/index.js";
import type { Failed } from "../../lease/index.js";
import type { Parameter, Scalar, Sql } from "./connection.js";
import { failedOutcome } from "./failures.js";

export type Row = Readonly<Record<string, Scalar>>;

/** How a batch is sent as one statement. task-calls.ts says what its rows mean. */
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
