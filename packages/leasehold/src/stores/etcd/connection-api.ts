/**
 * The parts of etcd's API that the store uses. Keys and values are text, int64 values are decimal strings, or numbers
 * where they are safe integers; responses omit values that are zero, false or empty. Requests have the numbers of
 * enumerations.
 */

import { invariant } from "../../env/index.js";

export const COMPARE = { EQUAL: 0, LESS: 2, CREATE: 1, MOD: 2 } as const;
export const SORT = { ASCEND: 1, CREATE: 2 } as const;
export const WATCH_NO_PUTS = 0;
export const ALARM_GET = 0;

export interface Header {
  readonly revision: string;
}

export interface KeyValue {
  readonly key: string;
  readonly value?: string;
  readonly create_revision: string;
  readonly mod_revision: string;
  /** Id of the engine lease; absent if none is attached. */
  readonly lease?: string;
}

export interface RangeRequest {
  readonly key: string;
  readonly range_end?: string;
  readonly limit?: string;
  readonly revision?: string;
  readonly sort_target?: typeof SORT.CREATE;
  readonly sort_order?: typeof SORT.ASCEND;
  readonly keys_only?: boolean;
  readonly max_create_revision?: string;
}
export interface RangeAnswer {
  readonly header: Header;
  readonly kvs?: readonly KeyValue[];
  /** Counts all keys of the range, including those beyond the limit. */
  readonly count?: string;
}

export type Compare = {
  readonly key: string;
  readonly range_end?: string;
  readonly result: typeof COMPARE.EQUAL | typeof COMPARE.LESS;
} & (
  | { readonly target: typeof COMPARE.MOD; readonly mod_revision: number }
  | { readonly target: typeof COMPARE.CREATE; readonly create_revision: number }
);
export type Operation =
  | { readonly request_range: RangeRequest }
  | { readonly request_put: { key: string; value: string; lease?: string } }
  | { readonly request_delete_range: { key: string } }
  | { readonly request_txn: Transaction };
export interface Transaction {
  readonly compare?: readonly Compare[];
  readonly success?: readonly Operation[];
  readonly failure?: readonly Operation[];
}

/** The result of one operation. */
export interface Response {
  readonly response_range?: RangeAnswer;
  readonly response_txn?: TransactionAnswer;
}
export interface TransactionAnswer {
  readonly header: Header;
  readonly succeeded?: boolean;
  readonly responses?: readonly Response[];
}

export interface LeaseGrantAnswer {
  readonly ID: string;
  /** Seconds: the requested TTL, or the server's minimum if that is longer. */
  readonly TTL: string;
}
export interface TimeToLiveAnswer {
  /** Seconds, rounded down; -1 after it has ended. */
  readonly TTL?: string;
}

export interface WatchRequest {
  readonly create_request: {
    readonly key: string;
    readonly range_end: string;
    readonly filters: readonly (typeof WATCH_NO_PUTS)[];
    readonly start_revision?: string;
  };
}
/** One message of a watch. */
export interface WatchMessage {
  readonly header: Header;
  readonly created?: boolean;
  readonly canceled?: boolean;
  readonly cancel_reason?: string;
  /** The oldest revision that the server still has; absent or "0" unless compaction ended the watch. */
  readonly compact_revision?: string;
  readonly events?: readonly {
    readonly type?: "DELETE";
    readonly kv: { readonly key: string; readonly mod_revision: string };
  }[];
}

export interface StatusAnswer {
  readonly version?: string;
  readonly dbSize?: string;
  readonly header?: { readonly revision?: string };
}
export interface AlarmAnswer {
  readonly alarms?: readonly { readonly alarm?: string }[];
}

/** The request and the response of each method. */
export interface Methods {
  readonly Range: [RangeRequest, RangeAnswer];
  readonly Txn: [Transaction, TransactionAnswer];
  readonly LeaseGrant: [{ readonly TTL: string }, LeaseGrantAnswer];
  readonly LeaseTimeToLive: [{ readonly ID: string }, TimeToLiveAnswer];
  readonly Authenticate: [
    { readonly name: string; readonly password: string },
    { readonly token: string },
  ];
  readonly Status: [Record<string, never>, StatusAnswer];
  readonly Alarm: [{ readonly action: typeof ALARM_GET }, AlarmAnswer];
}
export type Method = keyof Methods;
export type RequestOf<Name extends Method> = Methods[Name][0];
export type AnswerOf<Name extends Method> = Methods[Name][1];

export function revisionOf(text: string): number {
  const revision = Number(text);
  invariant(Number.isSafeInteger(revision) && revision > 0, `revision ${text} is a safe integer`);
  return revision;
}
