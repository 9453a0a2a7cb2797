/** Bodies and answers of /v1/once: the OnceStore port. The server adds the namespace. */
import type { Page } from "../lease/index.js";
import type * as port from "../once/port.js";
import type { OutcomeOf } from "./failed.js";

export type OnceRecord = Omit<port.OnceView, "namespace">;
export type OncePage = Page<OnceRecord>;

interface Grant {
  /** See `toWireLeaseId`: the resource in it names the key. */
  readonly leaseId: string;
  readonly token: number;
}
export interface SucceedRequest
  extends Grant,
    Pick<port.SucceedRequest, "value">,
    Partial<Pick<port.SucceedRequest, "keepMs">> {}
export interface FailOnceRequest
  extends Grant,
    Pick<port.FailOnceRequest, "error">,
    Partial<Pick<port.FailOnceRequest, "maxAttempts" | "retryDelayMs">> {}
export type SucceedOutcome = OutcomeOf<port.SucceedOutcome>;
export type FailOnceOutcome = OutcomeOf<port.FailOnceOutcome>;

export interface OnceRetried {
  readonly key: string;
  /** False: there were no failures to forget. */
  readonly wasFailing: boolean;
}
export interface OnceDeleted {
  readonly key: string;
  /** False: there was no record. */
  readonly wasRecorded: boolean;
}
