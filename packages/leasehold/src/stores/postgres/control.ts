/**
 * What operators keep in PostgreSQL. An act and its entry are one transaction:
 *
 *   BEGIN ─ act, by the statements of the stores ─ entry, under the lock of the chain's end ─ COMMIT
 *
 * Whatever fails within it undoes all of it; killed in between, there is neither act nor entry. Acts
 * wait for each other at the chain's end, which is the last lock that each of them takes, and for a
 * few seconds at most: whoever is stuck there would keep a holder from renewing what it has locked.
 */
import type { Act, Actors, AuditEntry, Control, Performed } from "../../control/index.js";
import type { Failed, LeaseholdError } from "../../core/index.js";
import type { Session, Sql } from "./connection.js";
import { addEntries, auditIn, boundWaits } from "./control-audit.js";
import { PostgresGeneratorState } from "./control-generator.js";
import { keysIn } from "./control-keys.js";
import { limitsIn, pausesIn } from "./control-state.js";
import { isUniqueViolation, storeError } from "./failures.js";
import type { Connections } from "./shared.js";
import { PostgresLeaseStore } from "./store.js";
import { PostgresTaskStore } from "./tasks.js";

/** Who met somebody who was adding the same key begins anew, so often in all. */
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
    async perform(act, work, told) {
      for (let tries = 1; ; tries += 1) {
        let thrown: { readonly error: unknown } | undefined;
        try {
          return await general.transaction(async (session) => {
            try {
              const { value, entry } = await performIn(session, connections, act, work);
              if (entry) told?.(entry);
              return value;
            } catch (error) {
              thrown = { error };
              throw error;
            }
          });
        } catch (failure) {
          // The transaction rejects with a failure of the store, whatever was thrown in it.
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
  const { value, details } = await work(telling(actors, (error) => failed.push(error)));
  if (failed[0]) throw failed[0];
  const done = { ...act, phase: "done", details: JSON.stringify(details) } as const;
  const [entry] = await addEntries(sql, [done]);
  return { value, entry };
}

function actorsIn(sql: Sql, connections: Connections): Actors {
  const { backend } = connections;
  const within = { ...connections, backend: { ...backend, general: sql, control: sql } };
  return {
    leases: new PostgresLeaseStore(within),
    tasks: new PostgresTaskStore(within),
    generator: new PostgresGeneratorState(within),
    keys: keysIn(sql),
    pauses: pausesIn(sql),
    limits: limitsIn(sql),
  };
}

/**
 * A transaction that is under way: what fails before its COMMIT was not done. After a statement that
 * failed the server refuses all others.
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

/** Stores answer their failures as outcomes: here they are told as well. */
function telling(actors: Actors, tell: (error: LeaseholdError) => void): Actors {
  const told =
    <Request, Outcome extends { readonly status: string }>(
      ask: (requests: readonly Request[]) => Promise<(Outcome | Failed)[]>,
    ) =>
    async (requests: readonly Request[]) => {
      const outcomes = await ask(requests);
      for (const outcome of outcomes) if (isFailed(outcome)) tell(outcome.error);
      return outcomes;
    };
  const { leases, tasks } = actors;
  return {
    ...actors,
    leases: { revoke: told((requests) => leases.revoke(requests)) },
    tasks: {
      cancel: told((keys) => tasks.cancel(keys)),
      retry: told((keys) => tasks.retry(keys)),
      delete: told((keys) => tasks.delete(keys)),
    },
  };
}

function isFailed(outcome: { readonly status: string }): outcome is Failed {
  return outcome.status === "failed";
}
