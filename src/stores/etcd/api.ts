/**
 * The parts of etcd's JSON API that are used here. Keys and values are base64, int64 are texts; what is
 * zero, false or empty is left out of answers.
 */

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
}
export interface RangeAnswer {
  readonly header: Header;
  readonly kvs?: readonly KeyValue[];
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

export interface TransactionAnswer {
  readonly header: Header;
  readonly succeeded?: boolean;
  readonly responses?: readonly {
    readonly response_range?: RangeAnswer;
    readonly response_txn?: TransactionAnswer;
  }[];
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
      readonly kv: { readonly key: string };
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
