/**
 * The interface between the SQL and its backend: the store's own pool, the user's pool, or PGlite. All
 * of them run the same SQL, so values are encoded the same way everywhere:
 *
 * - in: text, numbers, booleans, null and arrays of them, with a cast in the SQL (`$1::text[]`);
 *   JSON as text that the caller stringified (drivers disagree about arrays);
 * - out: boolean as boolean, int and float as number, all else as text, regardless of the parsers that
 *   the user registered with the driver.
 *
 * No statement relies on the session of an earlier one, so the store works behind PgBouncer in
 * transaction mode.
 */
import type { CallOptions, LeaseholdError } from "../../lease/index.js";

export type Scalar = string | number | boolean | null;
export type Parameter = Scalar | readonly Scalar[];

export interface Session {
  /** Runs one statement and returns its rows. The caller declares their columns. */
  query<Row = Record<string, Scalar>>(
    text: string,
    values?: readonly Parameter[],
  ): Promise<readonly Row[]>;
}

/** Rejects with a LeaseholdError whose `outcome` says whether the statement may have taken effect. */
export interface Sql {
  /** Runs one statement, committed when this resolves, within `timeoutMs` (default 10,000). */
  query<Row = Record<string, Scalar>>(
    text: string,
    values?: readonly Parameter[],
    options?: CallOptions,
  ): Promise<readonly Row[]>;
  /**
   * Runs several statements in one transaction: they take effect when `work` resolves, or not at all.
   * Each sees all earlier commits of other transactions, whatever the database's default isolation
   * level.
   */
  transaction<T>(work: (session: Session) => Promise<T>, options?: CallOptions): Promise<T>;
}

export const DEFAULT_TIMEOUT_MS = 10_000;

/** An active subscription to the notification channel. */
export interface Subscription {
  /** Rejects if the session is dead; engines in this process need no check. */
  check?(): Promise<void>;
  stop(): Promise<void>;
}

/** Where the tables are: statements name the schema `leasehold`, whatever its name in this database. */
export interface Schema {
  /** As in the catalogue of the database. */
  readonly name: string;
  /** For SQL: quoted if it is not `leasehold`. */
  readonly sqlName: string;
  /** The channel of all notifications. */
  readonly channel: string;
  /** The statement with the name of this schema. */
  sql(text: string): string;
}

/** The differences between a server's URL, the user's pool and PGlite. */
export interface Backend {
  /** A name for messages, without the password. */
  readonly name: string;
  readonly schema: Schema;
  /** All statements except renewals and releases. */
  readonly general: Sql;
  /** Renewals and releases, separate so that many acquires do not delay them. */
  readonly control: Sql;
  /**
   * Null if no connection can be kept for notifications.
   * @param onLost called at most once, when the subscription ends without stop()
   */
  readonly listen:
    | ((
        channel: string,
        onPayload: (payload: string) => void,
        onLost: (error: Error) => void,
      ) => Promise<Subscription>)
    | null;
  /**
   * From now on, connections are known to be the store's own sessions, and may keep statements
   * prepared.
   */
  prepare?(): void;
  /** Resolves when an engine in this process has stopped, and can only be opened again by another process. */
  readonly stopped?: Promise<LeaseholdError>;
  close(): Promise<void>;
}

/** Before it is known which schema the tables are in. */
export type RawBackend = Omit<Backend, "schema">;

/** The channel of all notifications in the schema `leasehold`; the payload says what changed. */
export const CHANNEL = "leasehold";

type Decode = (value: string) => Scalar;
const asText: Decode = (value) => value;
/** Keyed by type OID: bool, int8, int2, int4, float4, float8. */
const DECODERS: Readonly<Record<number, Decode>> = {
  16: (value) => value === "t",
  20: Number,
  21: Number,
  23: Number,
  700: Number,
  701: Number,
};
export function decoderOf(oid: number): Decode {
  return DECODERS[oid] ?? asText;
}

/**
 * Formats an array as PostgreSQL text. pg produces the same text, but one element at a time and much
 * slower.
 */
export function encode(value: Parameter): Scalar {
  if (!Array.isArray(value)) return value as Scalar;
  return `{${value.map(encodeElement).join(",")}}`;
}

const SPECIAL = /["\\]/;
function encodeElement(element: Scalar): string {
  if (typeof element !== "string") return String(element);
  return `"${SPECIAL.test(element) ? element.replace(/["\\]/g, "\\$&") : element}"`;
}
