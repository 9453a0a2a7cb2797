/**
 * A SQL client of the caller's, in an open transaction of the caller's. A pool fits neither the type nor
 * the check: each of its queries runs on another connection and commits by itself, so a ROLLBACK would
 * undo nothing, and a row lock would end at once.
 */
import { InvalidOptionError } from "./errors.js";

/**
 * A client in an open SQL transaction, such as a pg client after `BEGIN`, or PGlite's `tx`. A `pg.Pool`
 * does not fit: check a client out of it with `pool.connect()`.
 */
export interface SqlTransaction {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  /** Pools have it, and are refused. */
  readonly totalCount?: never;
}

/** SQLSTATE of commands that need a transaction block. */
const NO_ACTIVE_TRANSACTION = "25P01";

/**
 * Checks that the client is in a transaction block, in one round trip. `LOCK TABLE` fails outside of one;
 * ACCESS SHARE is the lock that every read of the table takes until the transaction ends.
 * @param table one that the transaction will use anyhow; text of this project's, not of the caller's
 * @throws InvalidOptionError outside of a transaction; otherwise the error of the driver
 */
export async function checkInTransaction(client: SqlTransaction, table: string): Promise<void> {
  // A pool may happen to give the very connection that it sent BEGIN to, and would pass once.
  const isPool = typeof (client as { totalCount?: unknown } | null)?.totalCount === "number";
  if (isPool || typeof client?.query !== "function") throw notInTransaction();
  await client.query(`LOCK TABLE ${table} IN ACCESS SHARE MODE`).catch((error: unknown) => {
    if ((error as { code?: unknown } | null)?.code === NO_ACTIVE_TRANSACTION) {
      throw notInTransaction();
    }
    throw error;
  });
}

function notInTransaction(): InvalidOptionError {
  return new InvalidOptionError(
    "client",
    "must be a SQL client in an open transaction: take one from the pool with pool.connect(), and send BEGIN first",
  );
}
