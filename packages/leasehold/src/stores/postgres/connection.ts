/**
 * The seam between our SQL and whatever runs it: a pool of ours, a pool of the user's, or PGlite in
 * this process. One SQL for all, so values go in and come out the same way everywhere:
 *
 * - in: text, numbers, booleans, null and arrays of them, with a cast in the SQL (`$1::text[]`);
 *   JSON as text that was stringified by the caller (drivers disagree about arrays);
 * - out: boolean as boolean, int and float as number, all else as text, whatever parsers the user
 *   has registered with the driver.
 *
 * No statement relies on the session of the one before: that works behind PgBouncer in transaction
 * mode.
 */
import type { CallOptions } from "../../core/index.js";

export type Scalar = string | number | boolean | null;
export type Parameter = Scalar | readonly Scalar[];

export interface Session {
  /** The rows of one statement, of which the caller says what columns they have. */
  query<Row = Record<string, Scalar>>(
    text: string,
    values?: readonly Parameter[],
  ): Promise<readonly Row[]>;
}

/** Rejects with a LeaseholdError whose `outcome` says whether the statement may have taken effect. */
export interface Sql {
  /** One statement, committed when this resolves. Bounded by `timeoutMs`, default 10,000. */
  query<Row = Record<string, Scalar>>(
    text: string,
    values?: readonly Parameter[],
    options?: CallOptions,
  ): Promise<readonly Row[]>;
  /**
   * Several statements that take effect together, when `work` resolves, or not at all. Each sees
   * what others have committed before it, whatever the default of the database.
   */
  transaction<T>(work: (session: Session) => Promise<T>, options?: CallOptions): Promise<T>;
}

export const DEFAULT_TIMEOUT_MS = 10_000;

/** A running subscription to our channel. */
export interface Subscription {
  /** Rejects when the session is dead; engines in this process need none. */
  check?(): Promise<void>;
  stop(): Promise<void>;
}

/** What differs between a server's URL, the user's pool and PGlite. */
export interface Backend {
  /** For people: no password in it. */
  readonly name: string;
  /** Everything but renewals and releases. */
  readonly general: Sql;
  /** Renewals and releases: no crowd of acquirers may hold them up. */
  readonly control: Sql;
  /**
   * Null where no connection can be kept for it.
   * @param onLost called at most once, when the subscription that this has resolved with ended
   *   without stop()
   */
  readonly listen:
    | ((
        onPayload: (payload: string) => void,
        onLost: (error: Error) => void,
      ) => Promise<Subscription>)
    | null;
  /** From now on: connections are sessions of our own, and may keep statements prepared. */
  prepare?(): void;
  close(): Promise<void>;
}

/** All our notifications; what they are about stands in the payload. */
export const CHANNEL = "leasehold";

type Decode = (value: string) => Scalar;
const asText: Decode = (value) => value;
/** By the type's OID: bool, int8, int2, int4, float4, float8. */
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

/** An array in PostgreSQL's own text: pg writes the same, an element at a time and much slower. */
export function encode(value: Parameter): Scalar {
  if (!Array.isArray(value)) return value as Scalar;
  return `{${value.map(encodeElement).join(",")}}`;
}

const SPECIAL = /["\\]/;
function encodeElement(element: Scalar): string {
  if (typeof element !== "string") return String(element);
  return `"${SPECIAL.test(element) ? element.replace(/["\\]/g, "\\$&") : element}"`;
}
