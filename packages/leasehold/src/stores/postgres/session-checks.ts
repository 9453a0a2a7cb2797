/** What a session must allow, checked when a database is opened. */
import { StoreMisconfiguredError, StoreUnavailableError } from "../../lease/index.js";
import type { Session } from "./connection.js";

type Asking = Pick<Session, "query">;

interface Settings {
  readonly isReplica: boolean;
  readonly readOnly: string;
  readonly isolation: string;
  readonly encoding: string;
}
const SETTINGS = `SELECT pg_is_in_recovery() AS "isReplica",
  current_setting('default_transaction_read_only') AS "readOnly",
  current_setting('default_transaction_isolation') AS isolation,
  current_setting('server_encoding') AS encoding`;
const CORRECT = "(or ALTER DATABASE ... SET ..., or correct the options of the URL or pool)";

/**
 * Checks that the session can write, and the isolation level. Every statement decides on the newest version of a row
 * that it locks; at a stricter level PostgreSQL rejects that if another transaction was faster (40001). The store does
 * not set the level itself: behind PgBouncer in transaction mode a SET would reach another client's session.
 * @throws as {@link checkWritable}
 */
export async function checkSettings(session: Asking): Promise<void> {
  const { isolation } = await checkWritable(session);
  // PostgreSQL treats both levels the same.
  if (isolation === "read committed" || isolation === "read uncommitted") return;
  throw new StoreMisconfiguredError(
    `default_transaction_isolation is "${isolation}", and leasehold needs "read committed": ` +
      `ALTER ROLE ... SET default_transaction_isolation = 'read committed' for its user ${CORRECT}`,
  );
}

/** @throws STORE_UNAVAILABLE by a replica, which may become the primary; STORE_MISCONFIGURED */
export async function checkWritable(session: Asking): Promise<Settings> {
  const settings = await settingsOf(session);
  if (settings.isReplica) {
    throw new StoreUnavailableError(
      "this PostgreSQL server is a read-only replica: connect to the primary, or name all servers, " +
        "postgres://user:password@a:5432,b:5432/database",
      { outcome: "none" },
    );
  }
  refuseEncoding(settings);
  if (settings.readOnly !== "on") return settings;
  throw new StoreMisconfiguredError(
    "default_transaction_read_only is on, and leasehold writes: " +
      `ALTER ROLE ... SET default_transaction_read_only = off for its user ${CORRECT}`,
  );
}

/** @throws STORE_MISCONFIGURED */
export async function checkEncoding(session: Asking): Promise<void> {
  refuseEncoding(await settingsOf(session));
}

function refuseEncoding({ encoding }: Settings): void {
  if (encoding === "UTF8") return;
  throw new StoreMisconfiguredError(
    `the database is encoded in ${encoding}, which cannot keep every text, and leasehold needs UTF8: ` +
      "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0, and name that database in the URL",
  );
}

async function settingsOf(session: Asking): Promise<Settings> {
  const [settings] = (await session.query<Settings>(SETTINGS)) as [Settings];
  return settings;
}
