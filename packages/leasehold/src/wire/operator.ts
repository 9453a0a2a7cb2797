/** Request and response bodies of operator actions: pauses, the audit, and actions on many tasks. */
import type * as control from "../control/index.js";
import type { Page } from "../lease/index.js";
import type { TaskState } from "../tasks/index.js";

export type Pause = Omit<control.Pause, "namespace">;
export interface PauseList {
  readonly items: readonly Pause[];
}
export type PauseRequest = Pick<Pause, "kind" | "name" | "reason">;
export interface Resumed extends Pick<Pause, "kind" | "name"> {
  readonly wasPaused: boolean;
}

export interface AuditEntry extends Omit<control.AuditEntry, "namespace" | "details"> {
  /** What the caller said about who it is; null: nothing. Nothing proves it, unlike `actor`. */
  readonly claimedActor: string | null;
  readonly details: Readonly<Record<string, unknown>>;
}
export type AuditPage = Page<AuditEntry>;
/** The verdict on the whole chain. */
export interface Verification {
  readonly ok: boolean;
  /** Of the last entry, or of the first wrong one. */
  readonly seq: number;
  /** Of the last entry; null if not ok. */
  readonly hash: string | null;
  readonly problem: string | null;
}

/** A key without its secret. */
export type ApiKey = control.ApiKey;
export type ApiKeyPage = Page<ApiKey>;

export interface BulkRequest {
  readonly operation: "cancel" | "retry" | "delete";
  readonly filter: {
    /** Default: the states that the operation applies to. */
    readonly states?: readonly TaskState[];
    readonly queue?: string | undefined;
    readonly kind?: string | undefined;
    readonly createdBefore?: string;
  };
  /** If another number of tasks matches, the server changes none. */
  readonly expected?: number;
  readonly reason?: string | undefined;
}
export interface BulkAnswer {
  readonly matched: number;
  readonly changed: number;
  /** Tasks whose state did not allow the operation. */
  readonly conflicts: number;
  /** Tasks that were not retried, because the tenant would have more tasks at once than it may. */
  readonly overLimit: number;
  /** More tasks may match: send the request again. */
  readonly more: boolean;
}
