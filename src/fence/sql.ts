/**
 * The guard of a protected SQL database: refuses whoever is older than somebody it has let through.
 *
 *   holder A  token 10 ─ paused ───────────────────────▶ fence(10): refused, A's transaction rolls back
 *   holder B             token 11 ─▶ fence(11) ─ write ─ commit
 *
 * The guard keeps the last token of each resource in a row, and holds that row until the caller's
 * transaction ends: between the check and the write nobody else passes. An equal token is the same
 * grant, and passes. Tokens compare within one lease store only: guard a resource by the tokens of
 * one.
 */
import { InvalidOptionError, StaleTokenError, StoreMisconfiguredError } from "../lease/index.js";
import { checkFenced, type Guard, type GuardOptions, Refusals } from "./guard.js";

/** A client inside the caller's transaction: a pg client, PGlite's tx, and whatever is of their shape. */
export interface FenceClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

export interface FenceOptions {
  /** The tenant whose resource it is, as the lease's. Default `default`. */
  namespace?: string;
}

const UNDEFINED_TABLE = "42P01";
const UNDEFINED_SCHEMA = "3F000";

/**
 * What `fence` needs in the protected database. `leasehold migrate` has made it where the leases live;
 * run this once where they do not. Safe to run again.
 */
export const FENCE_TABLE = `
CREATE SCHEMA IF NOT EXISTS leasehold;
CREATE TABLE IF NOT EXISTS leasehold.fence (
  namespace text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  token bigint NOT NULL,
  passed_at timestamptz NOT NULL,
  PRIMARY KEY (namespace, resource)
);`;

/**
 * Lets the holder of `token` write to what `resource` protects, until the transaction of `client`
 * ends. Call it first in the transaction, at READ COMMITTED (PostgreSQL's default): a stricter level
 * answers a race with a serialization failure (40001), to be tried again as ever.
 *
 * @example
 * await client.query("BEGIN");
 * await fence(client, "billing-close:2026-04", lease.token);
 * await client.query("UPDATE tenant_billing_close SET status = 'CLOSED' WHERE ...");
 * await client.query("COMMIT");
 *
 * @throws StaleTokenError when a newer holder has passed: roll back and stop; INVALID_OPTION;
 *   STORE_MISCONFIGURED when the table is missing
 */
export async function fence(
  client: FenceClient,
  resource: string,
  token: number,
  { namespace = "default" }: FenceOptions = {},
): Promise<void> {
  if (typeof client?.query !== "function") {
    throw new InvalidOptionError("client", "must be a SQL client in a transaction");
  }
  checkFenced(namespace, resource, token);
  // ON CONFLICT DO UPDATE locks the row whether or not its WHERE holds: a refused one reads the
  // token that refused it, and not a later one.
  const passed = await client.query(PASS, [namespace, resource, token]).catch(asMisconfigured);
  if (passed.rows.length > 0) return;
  const { rows } = await client.query(LAST, [namespace, resource]);
  const [last] = rows as { token: number }[];
  throw new StaleTokenError(resource, token, Number(last?.token));
}

const PASS = `
INSERT INTO leasehold.fence AS f (namespace, resource, token, passed_at)
VALUES ($1::text, $2::text, $3::bigint, clock_timestamp())
ON CONFLICT (namespace, resource) DO UPDATE
  SET token = excluded.token, passed_at = excluded.passed_at
  WHERE f.token <= excluded.token
RETURNING 1`;

const LAST = `
SELECT token::float8 AS token FROM leasehold.fence WHERE namespace = $1 AND resource = $2`;

function asMisconfigured(error: unknown): never {
  const code = (error as { code?: unknown } | null)?.code;
  if (code !== UNDEFINED_TABLE && code !== UNDEFINED_SCHEMA) throw error;
  throw new StoreMisconfiguredError(
    "the protected database has no table leasehold.fence: run FENCE_TABLE of leasehold/fence there once",
    error,
  );
}

/** A guard whose work runs in a transaction that holds the resource's row. */
export interface SqlGuard<Tx> extends Guard {
  guard<T>(resource: string, token: number, work: (tx: Tx) => T | PromiseLike<T>): Promise<T>;
}

/**
 * The same as a guard, for what is not written by this transaction alone, such as HTTP handlers on
 * several servers: the row is held until the work has ended.
 * @param transaction runs a function in a transaction, and commits: `(work) => db.transaction(work)`
 */
export function sqlGuard<Tx extends FenceClient>(
  transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  options: GuardOptions = {},
): SqlGuard<Tx> {
  if (typeof transaction !== "function") {
    throw new InvalidOptionError("transaction", "must be a function that runs a transaction");
  }
  const refusals = new Refusals(options);
  const { namespace } = refusals;
  return {
    get refusals() {
      return refusals.count;
    },
    async guard(resource, token, work) {
      return transaction(async (tx) => {
        await fence(tx, resource, token, { namespace }).catch((error: unknown) => {
          if (!(error instanceof StaleTokenError)) throw error;
          throw refusals.refuse(resource, token, error.lastToken);
        });
        return work(tx);
      });
    },
  };
}
