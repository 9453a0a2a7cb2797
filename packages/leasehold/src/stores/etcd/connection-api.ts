/**
 * The parts of etcd's JSON API that are used here. Keys and values are base64, int64 are texts; what is
 * zero, false or empty is left out of answers.
 */

import { invariant } from "../../env/index.js";

export interface Header {
  readonly revision: string;
}

export interface KeyValue {
  readonly key: string;
  readonly value?: string;
  readonly create_revision: string;
  readonly mod_revision: string;
  /** Of the engine; absent where none is attached. */
  readonly lease?: string;
}

export interface RangeRequest {
  readonly key: string;
  readonly range_end?: string;
  readonly limit?: string;
  readonly revision?: string;
  readonly sort_target?: "CREATE";
  readonly sort_order?: "ASCEND";
  readonly keys_only?: boolean;
  readonly max_create_revision?: string;
}
export interface RangeAnswer {
  readonly header: Header;
  readonly kvs?: readonly KeyValue[];
  /** Of all keys of the range, those beyond the limit too. */
  readonly count?: string;
}

export type Compare = {
  readonly key: string;
  readonly range_end?: string;
  readonly result: "EQUAL" | "LESS";
} & (
  | { readonly target: "MOD"; readonly mod_revision: string }
  | { readonly target: "CREATE"; readonly create_revision: string }
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

/** What came of one operation. */
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
  /** Seconds: what was asked for, or the server's least. */
  readonly TTL: string;
}
export interface TimeToLiveAnswer {
  /** Seconds, rounded down; -1 when it has ended. */
  readonly TTL?: string;
}

/** One line of a watch's stream. */
export interface WatchMessage {
  readonly result?: {
    readonly header: Header;
    readonly created?: boolean;
    readonly canceled?: boolean;
    readonly cancel_reason?: string;
    /** The oldest revision that the server still has; absent or "0" unless that was the reason. */
    readonly compact_revision?: string;
    readonly events?: readonly {
      readonly type?: "DELETE";
      readonly kv: { readonly key: string; readonly mod_revision: string };
    }[];
  };
  readonly error?: ErrorAnswer;
}

export interface ErrorAnswer {
  /** Of gRPC. In a stream it is called `grpc_code`. */
  readonly code?: number;
  readonly grpc_code?: number;
  readonly message?: string;
  readonly error?: string;
}

export function revisionOf(text: string): number {
  const revision = Number(text);
  invariant(Number.isSafeInteger(revision) && revision > 0, `revision ${text} is a safe integer`);
  return revision;
}
