/** The parts of Consul's HTTP API that the store uses. */
import { fromBase64, toBase64 } from "../../env/base64.js";

/** One operation of a transaction. */
export interface Operation {
  readonly verb:
    | "lock"
    | "cas"
    | "delete"
    | "delete-cas"
    | "check-session"
    | "check-index"
    | "check-not-exists"
    | "get-tree";
  readonly key: string;
  readonly value?: string;
  /** `cas`: the expected ModifyIndex; 0 if the key must not exist. */
  readonly index?: number;
  readonly session?: string;
  /** Marks the key as one of `consul lock`. */
  readonly isLock?: boolean;
}

/** A key and its value. */
export interface Pair {
  readonly Key: string;
  /** Text; null if it is empty, or if the transaction did not read it. */
  readonly Value: string | null;
  readonly Flags: number;
  /** Absent if no session holds the key. */
  readonly Session?: string;
  readonly CreateIndex: number;
  readonly ModifyIndex: number;
}

export interface Transaction {
  readonly body: string;
  readonly writes: boolean;
}
export interface TransactionAnswer {
  /** Of operations in their order: a deletion has none, and `get-tree` any number. */
  readonly pairs: readonly Pair[];
  /** Not empty: nothing was applied. */
  readonly failed: readonly FailedOperation[];
}
export interface FailedOperation {
  readonly at: number;
  readonly what: string;
}

/** Consul rejects more. */
export const MOST_OPERATIONS = 64;

/**
 * The flags of the keys of `consul lock`, and of its semaphores. They exceed what a number can represent, so
 * they are written as text, and compared as the nearest number.
 */
const LOCK_FLAGS = "3304740253564472344";
export const SEMAPHORE_FLAGS = Number("16210313421097356768");

export function transactionOf(operations: readonly Operation[]): Transaction {
  const body = operations.map(({ verb, key, value, index, session, isLock }) => ({
    KV: {
      Verb: verb,
      Key: key,
      ...(isLock && { Flags: "lock" }),
      ...(value !== undefined && { Value: toBase64(value) }),
      ...(index !== undefined && { Index: index }),
      ...(session !== undefined && { Session: session }),
    },
  }));
  return {
    // Inside a key or a value, JSON escapes the quotes.
    body: JSON.stringify(body).replaceAll('"Flags":"lock"', `"Flags":${LOCK_FLAGS}`),
    writes: operations.some(({ verb }) => verb !== "get-tree" && !verb.startsWith("check-")),
  };
}

/** Decodes the value. */
export function pairOf(pair: Pair): Pair {
  return pair.Value === null ? pair : { ...pair, Value: fromBase64(pair.Value) };
}
