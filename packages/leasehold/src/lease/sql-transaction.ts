/**
 * A SQL client of the caller's, in an open transaction of the caller's. A pool fits neither the type nor
 * the check: each of its queries runs on another connection and commits by itself, so a ROLLBACK would
 * undo nothing, and a row lock would end at once.
 */
import { InvalidOptionError } from "./errors.js";
import { sqlErrorOf } from "./sql-errors.js";

/**
 * A client in an open SQL transaction, such as a pg client after `BEGIN`, or PGlite's `tx`. A `pg.Pool`
 * does not fit: check a client out of it with `pool.connect()`. For the transaction of an ORM or a query builder,
 * docs/transactions.md has an adapter of one line.
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
  if (typeof (client as { totalCount?: unknown } | null)?.totalCount === "number") {
    throw notInTransaction();
  }
  if (typeof client?.query !== "function") {
    throw new InvalidOptionError("client", `must have a method query(text, values)${ADAPTERS}`);
  }
  // The values are there in every call, so that an adapter may spread them.
  let result: { rows?: unknown } | null;
  try {
    result = await client.query(`LOCK TABLE ${table} IN ACCESS SHARE MODE`, []);
  } catch (error) {
    throw sqlErrorOf(error)?.code === NO_ACTIVE_TRANSACTION ? notInTransaction() : error;
  }
  if (!Array.isArray(result?.rows)) {
    throw new InvalidOptionError("client", `must resolve query() to { rows: [...] }${ADAPTERS}`);
  }
}

const ADAPTERS =
  ": pass a client of pg or PGlite, or wrap your library's transaction: { query: async (text, values) => ({ rows }) }";

function notInTransaction(): InvalidOptionError {
  return new InvalidOptionError(
    "client",
    "must be a SQL client in an open transaction: take one from the pool with pool.connect(), and send BEGIN first; " +
      "with an ORM, wrap its transaction, not the ORM itself: { query: async (text, values) => ({ rows }) }",
  );
}
