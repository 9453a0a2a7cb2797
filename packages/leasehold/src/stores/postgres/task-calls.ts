/**
 * How the task store runs a batch. A task may occur several times in a batch, but each grant on it only once
 * in the statement: at most one of the grants is current, and only its request changes anything.
 *
 *   batch ─ the different grants ─────▶ statement ─ returns a row per change
 *                                           └─ the rest ─▶ TASK_STATE ─ refused, repeated ...
 *                                                             └─ only a lock was in the way: retry
 */

import type { Clock } from "../../env/index.js";
import {
  type CallOptions,
  ClosedError,
  type Failed,
  StoreUnavailableError,
} from "../../lease/index.js";
import { type Merging, oncePerGrant } from "../../store-kit/index.js";
import type { TaskGrant, TaskKey } from "../../tasks/port.js";
import { isTaskId } from "../../tasks/record.js";
import { DEFAULT_TIMEOUT_MS, type Parameter, type Sql } from "./connection.js";
import { failedOutcome, isUniqueViolation } from "./failures.js";
import { askAgain } from "./locked-rows.js";
import { askLean, type Statement } from "./statement.js";
import { type ChangedRow, TASK_STATE, type TaskStateRow } from "./task-statements.js";

/** Total attempts of a statement that collides with another one. */
export const TRIES = 3;

/** Runs one statement within the remaining time of a call. */
export type Run = <Row>(text: string, values: readonly Parameter[]) => Promise<readonly Row[]>;

/** A request about one task, with its names in stored form. */
export interface Entry<Request> {
  readonly grant: TaskGrant;
  readonly request: Request;
}

/** A statement about different tasks, and the meaning of its rows. */
export interface TaskStatement<Request, Outcome, Row extends ChangedRow>
  extends Statement<Entry<Request>, Request, Outcome> {
  /** Reads the state of the tasks that the statement skipped; default TASK_STATE. */
  readonly state?: string;
  /** The outcome if the statement changed the task. */
  changed(row: Row, request: Request): Outcome;
  /** The outcome if it skipped the task, given the task's state; null if only a lock was in its way. */
  passedOver(skipped: TaskStateRow | null, request: Request): Outcome | null;
  /** How the requests of the same grant, or for the same task, are sent as one. */
  readonly merging?: Merging<Request, Outcome | Failed>;
}

export class TaskCalls {
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
    if (this.#closing.aborted) throw new ClosedError("the PostgreSQL task store");
  }

  /**
   * Runs the statements of one call, all within its timeout. If a concurrent statement inserted the
   * same key (23505), a retry can read it.
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

  /**
   * Returns one outcome per request, in order.
   */
  async decide<
    Request extends TaskKey & Partial<TaskGrant>,
    Outcome extends { readonly status: string },
    Row extends ChangedRow,
  >(
    statement: TaskStatement<Request, Outcome, Row>,
    requests: readonly Request[],
    options?: CallOptions,
  ): Promise<(Outcome | Failed)[]> {
    const run = this.within(statement.sql, options);
    const lean = statement.lean?.(requests);
    if (!lean) return this.#decideAll(statement, requests, run);
    const outcomes = await askLean(lean, requests.length, run);
    const undecided = requests.filter((_, index) => outcomes[index] === null);
    if (undecided.length === 0) return outcomes as (Outcome | Failed)[];
    const rest = (await this.#decideAll(statement, undecided, run)).values();
    return outcomes.map((outcome) => outcome ?? (rest.next().value as Outcome | Failed));
  }

  /** By the general statement. */
  #decideAll<
    Request extends TaskKey & Partial<TaskGrant>,
    Outcome extends { readonly status: string },
    Row extends ChangedRow,
  >(
    statement: TaskStatement<Request, Outcome, Row>,
    requests: readonly Request[],
    run: Run,
  ): Promise<(Outcome | Failed)[]> {
    const { merging, state = TASK_STATE } = statement;
    const send = async (round: readonly Request[]) => {
      const outcomes = new Array<Outcome | Failed>(round.length);
      const entries: (Entry<Request> & { index: number })[] = [];
      for (const [index, request] of round.entries()) {
        const grant = storedGrant(request);
        if (grant) entries.push({ grant, request, index });
        else outcomes[index] = statement.passedOver(null, request) ?? inTheWay(request);
      }
      const changedAt = new Map<string, number>();
      const left = await askAgain(this.#clock, entries, async (asked) => {
        let open = asked;
        try {
          for (const row of await run<Row>(statement.text(open), statement.values(open))) {
            const { index, request } = open[row.n - 1] as (typeof open)[number];
            outcomes[index] = statement.changed(row, request);
            changedAt.set(keyText(request), index);
          }
          open = open.filter(({ index }) => !outcomes[index]);
          if (open.length === 0) return open;
          const skippedRows = new Map<number, TaskStateRow>();
          for (const row of await run<TaskStateRow>(state, grantColumns(open))) {
            skippedRows.set(row.n, row);
          }
          for (const [position, { index, request }] of open.entries()) {
            const skipped = skippedRows.get(position + 1) ?? null;
            // Another grant's request that stands before the one that ended the task: it was still running then.
            const isBefore = index < (changedAt.get(keyText(request)) ?? -1);
            const outcome = statement.passedOver(
              isBefore && skipped ? { ...skipped, state: "running" } : skipped,
              request,
            );
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
    return oncePerGrant(requests, grantText, send, merging);
  }
}

/** The row is locked; waiting would tie this batch to another transaction. */
export function inTheWay({ id }: TaskKey): Failed {
  const error = new StoreUnavailableError(`another transaction is changing task ${id}`, {
    outcome: "none",
  });
  return { status: "failed", applied: "no", retryable: true, error };
}

/** Null if no task can have the name. A text that is not a lease id matches no grant. */
function storedGrant(request: TaskKey & Partial<TaskGrant>): TaskGrant | null {
  const { namespace, id, leaseId = "", token = 0 } = request;
  if (!isTaskId(id) || namespace.includes("\0")) return null;
  return {
    namespace,
    id,
    leaseId: isHex(leaseId) ? leaseId : "",
    token: Number.isSafeInteger(token) ? token : 0,
  };
}

const HEX = /^[0-9a-f]+$/;
/** As lease ids are. */
export function isHex(text: string): boolean {
  return HEX.test(text);
}

/** Namespaces contain no NUL. */
export function keyText({ namespace, id }: TaskKey): string {
  return `${namespace}\0${id}`;
}

/** Unique per grant, or per task if the request names none. */
function grantText(request: TaskKey & Partial<TaskGrant>): string {
  return `${keyText(request)}\0${request.leaseId}\0${request.token}`;
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
