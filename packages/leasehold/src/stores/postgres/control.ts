/**
 * The operators' state in PostgreSQL. An action and its audit entry form one transaction:
 *
 *   BEGIN ─ action, by the stores' statements ─ audit entry, under the lock of the chain's end ─ COMMIT
 *
 * A failure rolls back both, and so does a crash. Actions wait for each other only at the end of the
 * chain, the last lock that each takes, and for a few seconds at most: a stuck action would block
 * renewals of the rows that it has locked.
 */
import {
  type Act,
  type Actors,
  type AuditEntry,
  type Backing,
  type Control,
  entryOf,
  type Performed,
} from "../../control/index.js";
import type { Failed, LeaseholdError } from "../../lease/index.js";
import type { Session, Sql } from "./connection.js";
import { keysIn } from "./control-api-keys.js";
import { addEntries, auditIn, boundWaits } from "./control-audit.js";
import { limitsIn, pausesIn } from "./control-state.js";
import { isUniqueViolation, storeError } from "./failures.js";
import { PostgresOnceStore } from "./once.js";
import { PostgresScheduleStore } from "./schedules.js";
import type { Connections } from "./shared.js";
import { PostgresLeaseStore } from "./store.js";
import { PostgresTaskStore } from "./tasks.js";

/** Total attempts of an action that collides with a concurrent addition of the same key. */
const TRIES = 3;

export function postgresControl(connections: Connections): Control {
  const { general } = connections.backend;
  return {
    audit: auditIn(general),
    keys: keysIn(general),
    pauses: pausesIn(general),
    limits: limitsIn(general),
    leasesApart: false,
    actors: actorsIn(general, connections),
    async perform(act, work, onEntry) {
      for (let tries = 1; ; tries += 1) {
        let thrown: { readonly error: unknown } | undefined;
        try {
          return await general.transaction(async (session) => {
            try {
              const { value, entry } = await performIn(session, connections, act, work);
              if (entry) onEntry?.(entry);
              return value;
            } catch (error) {
              thrown = { error };
              throw error;
            }
          });
        } catch (failure) {
          // The transaction rejects with a store failure, whatever error ended it.
          const error = thrown ? thrown.error : failure;
          if (tries === TRIES || !isUniqueViolation(error)) throw error;
        }
      }
    },
  };
}

async function performIn<T>(
  session: Session,
  connections: Connections,
  act: Act,
  work: (actors: Actors) => Promise<Performed<T>>,
): Promise<{ value: T; entry: AuditEntry | undefined }> {
  await boundWaits(session);
  const failed: LeaseholdError[] = [];
  const sql = sqlWithin(session);
  const actors = actorsIn(sql, connections);
  const { value, details } = await work(reporting(actors, (error) => failed.push(error)));
  if (failed[0]) throw failed[0];
  const [entry] = await addEntries(sql, [entryOf(act, "done", details)]);
  return { value, entry };
}

/** For the statements of the program that uses the stores. */
export function backingIn(sql: Sql): Backing {
  return { kind: "sql", query: (text, values) => sql.query(text, values) };
}

function actorsIn(sql: Sql, connections: Connections): Actors {
  const { backend } = connections;
  const within = { ...connections, backend: { ...backend, general: sql, control: sql } };
  const leases = new PostgresLeaseStore(within);
  const tasks = new PostgresTaskStore(within);
  return {
    leases,
    tasks,
    taskLimits: tasks.limits,
    once: new PostgresOnceStore(within, leases),
    schedules: new PostgresScheduleStore(within),
    backing: backingIn(sql),
    keys: keysIn(sql),
    pauses: pausesIn(sql),
    limits: limitsIn(sql),
  };
}

/**
 * Marks failures before COMMIT as not applied. After a failed statement the server rejects all others
 * of the transaction.
 */
function sqlWithin(session: Session): Sql {
  let failure: LeaseholdError | undefined;
  const within: Session = {
    async query<Row>(text: string, values?: Parameters<Session["query"]>[1]) {
      if (failure) throw failure;
      try {
        return await session.query<Row>(text, values);
      } catch (error) {
        failure = storeError(error, false);
        throw failure;
      }
    },
  };
  return {
    query: (text, values) => within.query(text, values),
    transaction: (work) => work(within),
  };
}

/** Stores return failures as outcomes; an action throws them, so that the transaction rolls back. */
function reporting(actors: Actors, report: (error: LeaseholdError) => void): Actors {
  const reported =
    <Request, Outcome extends { readonly status: string }>(
      ask: (requests: readonly Request[]) => Promise<(Outcome | Failed)[]>,
    ) =>
    async (requests: readonly Request[]) => {
      const outcomes = await ask(requests);
      for (const outcome of outcomes) if (isFailed(outcome)) report(outcome.error);
      return outcomes;
    };
  const { leases, tasks, schedules, taskLimits } = actors;
  return {
    ...actors,
    schedules: {
      pause: (request) => schedules.pause(request),
      resume: (key) => schedules.resume(key),
      remove: (key) => schedules.remove(key),
      async runNow(request) {
        const outcome = await schedules.runNow(request);
        if (outcome.status === "failed") report(outcome.error);
        return outcome;
      },
    },
    taskLimits: {
      async declare(request) {
        const outcome = await taskLimits.declare(request);
        if (outcome.status === "failed") report(outcome.error);
        return outcome;
      },
      remove: (key) => taskLimits.remove(key),
    },
    leases: { revoke: reported((requests) => leases.revoke(requests)) },
    tasks: {
      cancel: reported((keys) => tasks.cancel(keys)),
      retry: reported((keys) => tasks.retry(keys)),
      delete: reported((keys) => tasks.delete(keys)),
    },
  };
}

function isFailed(outcome: { readonly status: string }): outcome is Failed {
  return outcome.status === "failed";
}
