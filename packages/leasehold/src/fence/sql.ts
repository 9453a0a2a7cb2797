/**
 * The guard of a protected SQL database. It refuses a token that is smaller than one it has admitted.
 *
 *   holder A  token 10 ─ paused ───────────────────────▶ fence(10): refused, A's transaction rolls back
 *   holder B             token 11 ─▶ fence(11) ─ write ─ commit
 *
 * The guard keeps the last token of each resource in a row, and holds that row until the caller's
 * transaction ends, so no other holder passes between the check and the write. An equal token is the same
 * grant, and passes. Tokens of different lease stores do not compare: guard a resource by the tokens of
 * one store.
 */

import { guardedTelemetry, type Telemetry } from "../env/index.js";
import {
  checkFunction,
  checkInTransaction,
  checkKnown,
  checkSchema,
  InvalidOptionError,
  type SqlTransaction,
  StaleTokenError,
  StoreMisconfiguredError,
  sqlErrorOf,
} from "../lease/index.js";
import { checkFenced, type Guard, type GuardOptions, Refusals } from "./guard.js";

/** Options of `fence`. */
export interface FenceOptions {
  /** The namespace of the lease. Default `default`. */
  namespace?: string;
  /** The schema of the guard: of the store with `?schema=`, where it is in the same database. Default `leasehold`. */
  schema?: string;
  /** Counts the refusals: a value from `leasehold/telemetry`. Default: they are not counted. */
  telemetry?: Telemetry;
}

/** The SQLSTATE that the function raises. SQL leaves classes from I on to implementations. */
const STALE_TOKEN = "LH001";
/** SQLSTATEs of a missing schema, function or table. */
const UNDEFINED = new Set(["3F000", "42883", "42P01"]);

// ON CONFLICT DO UPDATE locks the row whether or not its WHERE holds, so a refused holder reads the token
// that refused it, not a later one. Not STRICT: a missing token must not pass. A migration of the
// PostgreSQL store creates the same function.
const CHECK_FENCE = `
CREATE OR REPLACE FUNCTION leasehold.check_fence(
  resource text, token bigint, namespace text DEFAULT 'default'
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  last bigint;
BEGIN
  INSERT INTO leasehold.fence AS f (namespace, resource, token, passed_at)
  VALUES ($3, $1, $2, clock_timestamp())
  ON CONFLICT (namespace, resource) DO UPDATE
    SET token = excluded.token, passed_at = excluded.passed_at
    WHERE f.token <= excluded.token;
  IF NOT FOUND THEN
    SELECT f.token INTO last FROM leasehold.fence f WHERE f.namespace = $3 AND f.resource = $1;
    RAISE EXCEPTION 'token % for "%" is older than %, which has passed', $2, $1, last
      USING ERRCODE = 'LH001', HINT = 'roll back, and drop this work',
      DETAIL = json_build_object('resource', $1, 'token', $2, 'lastToken', last)::text;
  END IF;
END $$`;

/**
 * What `fence` needs in the protected database: a table, and the function that anything that speaks SQL
 * may call in its transaction, `SELECT leasehold.check_fence(resource, token, namespace)`.
 * `leasehold migrate` has made them where the leases live; run this once where they do not, and again
 * after an update of this package. Safe to run again.
 * @example
 * ```ts
 * import { PGlite } from "@electric-sql/pglite";
 * import { FENCE_TABLE } from "leasehold/fence";
 *
 * const db = await PGlite.create();
 * await db.exec(FENCE_TABLE);
 * await db.query("SELECT leasehold.check_fence('billing', 7)");
 * await db.close();
 * ```
 */
export const FENCE_TABLE = `
CREATE SCHEMA IF NOT EXISTS leasehold;
CREATE TABLE IF NOT EXISTS leasehold.fence (
  namespace text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  token bigint NOT NULL,
  passed_at timestamptz NOT NULL,
  PRIMARY KEY (namespace, resource)
);
${CHECK_FENCE};`;

/**
 * Lets the holder of `token` write to the data behind `resource` until the transaction of `client` ends.
 * Call it first in the transaction, at READ COMMITTED (PostgreSQL's default). A stricter level fails in a
 * race with a serialization failure (40001), and the caller must retry the transaction. A refused
 * transaction cannot commit.
 *
 * @throws StaleTokenError when a newer holder has passed: roll back and stop; INVALID_OPTION;
 *   STORE_MISCONFIGURED when FENCE_TABLE has not been run
 * @example
 * ```ts
 * import { PGlite } from "@electric-sql/pglite";
 * import { FENCE_TABLE, fence } from "leasehold/fence";
 *
 * const db = await PGlite.create();
 * await db.exec(`${FENCE_TABLE} CREATE TABLE invoices (status text);`);
 * await db.transaction(async (tx) => {
 *   await fence(tx, "billing-close:2026-04", 7);
 *   await tx.query("UPDATE invoices SET status = 'CLOSED'");
 * });
 * await db.close();
 * ```
 */
export async function fence(
  client: SqlTransaction,
  resource: string,
  token: number,
  options: FenceOptions = {},
): Promise<void> {
  // A misspelled namespace would guard the row of another one.
  checkKnown(options, { namespace: true, schema: true, telemetry: true });
  const { namespace = "default", schema = "leasehold", telemetry } = options;
  checkFenced(namespace, resource, token);
  checkSchema(schema);
  await checkInTransaction(client, `"${schema}".fence`).catch((error: unknown) => {
    throw asMisconfigured(error, schema);
  });
  // Prisma reads no column of type void.
  const check = `SELECT "${schema}".check_fence($1::text, $2::bigint, $3::text)::text`;
  await client.query(check, [resource, token, namespace]).catch((error: unknown) => {
    const stale = staleTokenError(error);
    if (stale && telemetry) guardedTelemetry(telemetry).count("leasehold.fence.refusals", {});
    throw stale ?? asMisconfigured(error, schema);
  });
}

/**
 * Converts a driver's error to the error that `fence` throws; undefined for any other error. Use it if you
 * call `leasehold.check_fence` yourself.
 * @param error a driver's error, or that of an ORM or a query builder around it
 * @example
 * ```ts
 * import { PGlite } from "@electric-sql/pglite";
 * import { FENCE_TABLE, staleTokenError } from "leasehold/fence";
 *
 * const db = await PGlite.create();
 * await db.exec(FENCE_TABLE);
 * await db.query("SELECT leasehold.check_fence('billing', 11)");
 * await db.query("SELECT leasehold.check_fence('billing', 10)").catch((error) => {
 *   console.log(staleTokenError(error)?.lastToken);
 * });
 * await db.close();
 * ```
 */
export function staleTokenError(error: unknown): StaleTokenError | undefined {
  const { code, detail } = sqlErrorOf(error) ?? {};
  if (code !== STALE_TOKEN || typeof detail !== "string") return undefined;
  const refused = JSON.parse(detail) as { resource: string; token: number; lastToken: number };
  return new StaleTokenError(refused.resource, refused.token, refused.lastToken);
}

function asMisconfigured(error: unknown, schema: string): unknown {
  if (!UNDEFINED.has(sqlErrorOf(error)?.code ?? "")) return error;
  const remedy =
    schema === "leasehold"
      ? "run FENCE_TABLE of leasehold/fence there"
      : "`leasehold migrate` creates them in the schema of a store";
  return new StoreMisconfiguredError(
    `the protected database has no ${schema}.check_fence, or no table for it: ${remedy}`,
    error,
  );
}

function wrongTransaction(hasRun: boolean): string {
  const problem = hasRun ? "returned something else" : "returned before the work had ended";
  return `must run the work and return its result, but it ${problem}: write (work) => db.transaction(work)`;
}

/** A guard whose work runs in a transaction that holds the resource's row. */
export interface SqlGuard<Tx> extends Guard {
  guard<T>(resource: string, token: number, work: (tx: Tx) => T | PromiseLike<T>): Promise<T>;
}

/**
 * The same as a guard, for writes outside of the transaction, such as HTTP handlers on several servers. It
 * holds the row until the work has ended.
 * @param transaction runs a function in a transaction and commits: `(work) => db.transaction(work)`
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { PGlite } from "@electric-sql/pglite";
 * import { FENCE_TABLE, sqlGuard } from "leasehold/fence";
 *
 * const db = await PGlite.create();
 * await db.exec(`${FENCE_TABLE} CREATE TABLE invoices (status text);`);
 * const guard = sqlGuard((work) => db.transaction(work));
 * await guard.guard("billing", 7, (tx) => tx.query("UPDATE invoices SET status = 'CLOSED'"));
 * await db.close();
 * ```
 */
export function sqlGuard<Tx extends SqlTransaction>(
  transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  options: GuardOptions & Pick<FenceOptions, "schema"> = {},
): SqlGuard<Tx> {
  checkFunction("transaction", transaction);
  const refusals = new Refusals(options, { schema: true });
  const { namespace } = refusals;
  const { schema = "leasehold" } = options;
  return {
    get refusals() {
      return refusals.count;
    },
    async guard(resource, token, work) {
      checkFenced(namespace, resource, token);
      checkFunction("work", work);
      // The last run counts: after a serialization failure, a wrapper may run the work again.
      const run: { end?: PromiseSettledResult<unknown> | undefined } = {};
      const returned = await transaction(async (tx) => {
        run.end = undefined;
        try {
          await fence(tx, resource, token, { namespace, schema }).catch((error: unknown) => {
            if (!(error instanceof StaleTokenError)) throw error;
            throw refusals.refuse(resource, token, error.lastToken);
          });
          const value = await work(tx);
          run.end = { status: "fulfilled", value };
          return value;
        } catch (reason) {
          run.end = { status: "rejected", reason };
          throw reason;
        }
      });
      if (run.end?.status === "rejected") throw run.end.reason;
      if (run.end && Object.is(returned, run.end.value)) return returned;
      throw new InvalidOptionError("transaction", wrongTransaction(run.end !== undefined));
    },
  };
}
