/**
 * How the task store asks: a batch about tasks, each of which may stand in it several times, as
 * statements that decide each task once.
 *
 *   batch ─ rounds of different tasks ─▶ statement ─ what it changed is answered
 *                                           └─ the rest ─▶ STANDING ─ refused, repeated ...
 *                                                             └─ only a lock was in the way: once more
 */

import {
  type CallOptions,
  ClosedError,
  type Decide,
  type Failed,
  inRounds,
  StoreUnavailableError,
} from "../../core/index.js";
import type { Clock } from "../../env/index.js";
import type { TaskGrant, TaskKey } from "../../tasks/port.js";
import { storedId } from "../../tasks/record.js";
import { DEFAULT_TIMEOUT_MS, type Parameter, type Sql } from "./connection.js";
import { failedOutcome, isUniqueViolation } from "./failures.js";
import { askAgain } from "./locked-rows.js";
import { type ChangedRow, STANDING, type StandingRow } from "./task-statements.js";

/** A statement that met another one in its way is sent again, so often in all. */
export const TRIES = 3;

/** Runs one statement within what is left of a call's time. */
export type Run = <Row>(text: string, values: readonly Parameter[]) => Promise<readonly Row[]>;

/** A request about one task, its names as they are stored. */
export interface Entry<Request> {
  readonly grant: TaskGrant;
  readonly request: Request;
}

/** A statement about different tasks, and what its answers mean. */
export interface Statement<Request, Outcome, Row extends ChangedRow> {
  readonly sql: Sql;
  readonly text: string;
  /** By column. */
  values(entries: readonly Entry<Request>[]): Parameter[];
  /** It changed the task. */
  changed(row: Row, request: Request): Outcome;
  /** It passed over the task, of which this is known; null: nothing but a lock was in its way. */
  passedOver(standing: StandingRow | null): Outcome | null;
  /** Of the next request for the same task, when this came of the one before. Default: ask the store. */
  readonly next?: (before: Outcome) => Outcome;
}

export class TaskCalls {
  readonly #clock: Clock;
  readonly #closing: AbortSignal;

  /** @param closing aborts when the store is closed: no statement begins after that */
  constructor(clock: Clock, closing: AbortSignal) {
    this.#clock = clock;
    this.#closing = closing;
  }

  assertOpen(): void {
    if (this.#closing.aborted) throw new ClosedError("the PostgreSQL task store");
  }

  /**
   * The statements of one call, all of them within its timeout. What somebody else has inserted at
   * the same moment (23505) is there to be read when the statement is sent again.
   */
  within(sql: Sql, { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {}): Run {
    const deadlineMs = this.#clock.monotonic() + timeoutMs;
    return async <Row>(text: string, values: readonly Parameter[]) => {
      for (let tries = 1; ; tries += 1) {
        this.assertOpen();
        const leftMs = Math.max(0, deadlineMs - this.#clock.monotonic());
        try {
          return await sql.query<Row>(text, values, { timeoutMs: leftMs });
        } catch (error) {
          if (tries === TRIES || !isUniqueViolation(error)) throw error;
        }
      }
    };
  }

  /** One outcome per request, in order; for each time that a task stands in the batch a statement. */
  decide<
    Request extends TaskKey & Partial<TaskGrant>,
    Outcome extends { readonly status: string },
    Row extends ChangedRow,
  >(
    statement: Statement<Request, Outcome, Row>,
    requests: readonly Request[],
    options?: CallOptions,
  ): Promise<(Outcome | Failed)[]> {
    const run = this.within(statement.sql, options);
    const { next } = statement;
    const decideNext: Decide<Request, Outcome> = (_, { outcome }) => next?.(outcome) ?? null;
    const send = async (round: readonly Request[]) => {
      const outcomes = new Array<Outcome | Failed>(round.length);
      const entries: (Entry<Request> & { index: number })[] = [];
      for (const [index, request] of round.entries()) {
        const grant = storedGrant(request);
        if (grant) entries.push({ grant, request, index });
        else outcomes[index] = statement.passedOver(null) ?? inTheWay(request);
      }
      const left = await askAgain(this.#clock, entries, async (asked) => {
        let open = asked;
        try {
          for (const row of await run<Row>(statement.text, statement.values(open))) {
            const { index, request } = open[row.n - 1] as (typeof open)[number];
            outcomes[index] = statement.changed(row, request);
          }
          open = open.filter(({ index }) => !outcomes[index]);
          if (open.length === 0) return open;
          const standings = new Map<number, StandingRow>();
          for (const row of await run<StandingRow>(STANDING, grantColumns(open))) {
            standings.set(row.n, row);
          }
          for (const [position, { index }] of open.entries()) {
            const outcome = statement.passedOver(standings.get(position + 1) ?? null);
            if (outcome) outcomes[index] = outcome;
          }
          return open.filter(({ index }) => !outcomes[index]);
        } catch (error) {
          for (const { index } of open) outcomes[index] = failedOutcome(error);
          return [];
        }
      });
      for (const { index, request } of left) outcomes[index] = inTheWay(request);
      return outcomes;
    };
    return inRounds<Request, Outcome>(requests, keyText, send, decideNext);
  }
}

/** Its row is locked: waiting would tie this batch to somebody else's transaction. */
export function inTheWay({ id }: TaskKey): Failed {
  const error = new StoreUnavailableError(`another transaction is changing task ${id}`, {
    outcome: "none",
  });
  return { status: "failed", applied: "no", retryable: true, error };
}

/** Null where no task can have the name. What cannot be a lease id is that of no grant. */
function storedGrant(request: TaskKey & Partial<TaskGrant>): TaskGrant | null {
  const { namespace, leaseId = "", token = 0 } = request;
  const id = storedId(request.id);
  if (!id || namespace.includes("\0")) return null;
  return {
    namespace,
    id,
    leaseId: /^[0-9a-f]*$/.test(leaseId) ? leaseId : "",
    token: Number.isSafeInteger(token) ? token : 0,
  };
}

/** Namespaces contain no NUL. */
export function keyText({ namespace, id }: TaskKey): string {
  return `${namespace}\0${id.toLowerCase()}`;
}

export function keyColumns(entries: readonly Entry<TaskKey>[]): Parameter[] {
  return [entries.map(({ grant }) => grant.namespace), entries.map(({ grant }) => grant.id)];
}

export function grantColumns(entries: readonly Entry<TaskKey>[]): Parameter[] {
  return [
    ...keyColumns(entries),
    entries.map(({ grant }) => grant.leaseId),
    entries.map(({ grant }) => grant.token),
  ];
}
