/** Bodies and answers of /v1/leases: the LeaseStore port. The server adds the namespace. */
import type * as leases from "../lease/index.js";
import type { TaskCapabilities } from "../tasks/index.js";
import type { Failed, OutcomeOf } from "./failed.js";

/** A lease id as it travels: see `toWireLeaseId`. */
interface Grant {
  readonly leaseId: string;
}

export interface AcquireRequest
  extends Grant,
    Pick<leases.AcquireRequest, "holder" | "ttlMs" | "queueMs" | "metadata"> {}
export interface RenewRequest extends Grant {
  readonly ttlMs: number;
}
export type ReleaseRequest = Grant;
export interface RevokeRequest
  extends Pick<leases.RevokeRequest, "resource" | "expectedToken" | "reason"> {
  /** Default: `atExpiry`. */
  readonly free?: leases.RevokeRequest["free"];
}

type Held = Extract<leases.AcquireOutcome, { status: "held" }>;
type Ended = Extract<leases.AcquireOutcome, { status: "ended" }>;
/** The server keeps for itself which ended grant an acquired one replaced. */
export type AcquireOutcome =
  | ({ readonly status: "acquired"; readonly token: number } & leases.Term)
  | Held
  | Ended
  | Failed;
export type RenewOutcome = OutcomeOf<leases.RenewOutcome>;
export type ReleaseOutcome = OutcomeOf<leases.ReleaseOutcome>;
export type RevokeOutcome = OutcomeOf<leases.RevokeOutcome>;

/** A grant without its secret. */
export type LeaseView = Omit<leases.LeaseView, "namespace">;
export type LeasePage = leases.Page<LeaseView>;
/** By the order of the names in the request; null: the resource was never leased. */
export type GetAnswer = readonly (LeaseView | null)[];

export interface CollectRequest {
  /** Deletes the records of grants that ended longer ago than this. */
  readonly olderThanMs: number;
  readonly reason?: string;
}
export interface CollectAnswer {
  readonly collected: number;
}

/** What the server's stores promise. */
export interface Capabilities {
  readonly leases: Omit<leases.Capabilities, "tokens" | "callCost">;
  readonly tasks: Pick<TaskCapabilities, "ttl" | "watch">;
}
export interface ServerCapabilities extends Capabilities {
  /** The only namespace that the server serves this caller. */
  readonly namespace: string;
  /** Whether it keeps records of `once`: it does where one database has its leases and its records. */
  readonly once: boolean;
  /** Whether it keeps schedules of tasks, and ticks. */
  readonly schedules: boolean;
  /** Whether it keeps limits of kinds and queues. */
  readonly taskLimits: boolean;
  /** The largest body that the server takes. */
  readonly maxBodyBytes: number;
}
