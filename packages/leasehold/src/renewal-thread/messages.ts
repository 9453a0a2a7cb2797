/** What the main thread and the renewal thread of a client send each other. */
import type { Logger } from "../env/index.js";
import type { GrantedLease, KeepOptions, RenewOutcome } from "../lease/index.js";

/** What the renewal thread is started with. */
export interface ThreadData {
  readonly url: string;
  readonly connectTimeoutMs: number | undefined;
  readonly maxBlockedMs: number;
  /** When the main thread last ran: whole milliseconds of the clock that both threads share. */
  readonly lastRun: SharedArrayBuffer;
}

export interface Start {
  readonly type: "start";
  readonly id: number;
  readonly namespace: string;
  readonly granted: GrantedLease;
  readonly options: KeepOptions;
  /** See answers.ts. */
  readonly answers: SharedArrayBuffer;
}

export type ToThread =
  | Start
  | { readonly type: "stop"; readonly id: number }
  | { readonly type: "close" };

/** A batch of renewals, for the metrics of the main thread. */
export interface Counted {
  readonly type: "renewals";
  readonly renewed: number;
  readonly others: readonly {
    readonly status: RenewOutcome["status"];
    readonly resource: string;
  }[];
}

/** What is left of an error as JSON. */
export interface LoggedError {
  readonly name: string;
  readonly message: string;
}

export type FromThread =
  | { readonly type: "ready" }
  /** The store could not be opened. */
  | { readonly type: "failed"; readonly message: string }
  /** The store has refused a renewal: the main thread is to read the answer now. */
  | { readonly type: "wake"; readonly id: number }
  | Counted
  | {
      readonly type: "log";
      readonly level: keyof Logger;
      readonly fields: { readonly err?: LoggedError };
      readonly message: string;
    };
