/** One moment of a run and its log as plain data. */
import type { NodeName, Settings } from "./settings.js";

/** A sender or receiver of messages. */
export type Endpoint = NodeName | "store" | "resource";

export interface Frame {
  /** True time in milliseconds since the start. */
  readonly atMs: number;
  /** The settings in force at this moment. */
  readonly settings: Settings;
  /** One for each of NODES, in their order. */
  readonly nodes: readonly NodeFrame[];
  readonly store: StoreFrame;
  readonly resource: ResourceFrame;
  /** Messages in flight, in the order in which they were sent; at most 200. */
  readonly messages: readonly MessageFrame[];
  readonly counters: Counters;
  readonly invariants: readonly InvariantFrame[];
  /** Log lines with a smaller index have been written by this moment. */
  readonly logEnd: number;
}

export type ProcessState = "up" | "down" | "paused" | "suspended";
export type Link = "whole" | "cut off" | "cannot send" | "cannot receive";
/**
 * The role that a process believes to have: `off` (not started, or crashed), `candidate` (waits for the
 * lease), `starting` (was granted the lease, checks for a named successor), `leader` (its work runs),
 * `stopping` (its work is ending).
 */
export type Role = "off" | "candidate" | "starting" | "leader" | "stopping";

export interface NodeFrame {
  readonly name: NodeName;
  readonly state: ProcessState;
  /** The connection to the store. */
  readonly link: Link;
  /** The speed of its clocks: 1.0 is true time, 0.7 is slow. 0: the monotonic clock is stopped. */
  readonly clockRate: number;
  readonly role: Role;
  /**
   * The token of the lease that it believes to hold; null: none. A paused process keeps the belief that it
   * had when the pause began.
   */
  readonly token: number | null;
  /** How long it may still trust its lease by its own clocks; 0 without a lease. */
  readonly trustMs: number;
  /** The largest possible `trustMs`: the full ring. */
  readonly ttlMs: number;
  /** The position in the store's wait queue, from 1; null: not in the queue. */
  readonly queuePosition: number | null;
  /** How many of its writes the resource has accepted. */
  readonly writes: number;
  /** How often it has started. */
  readonly starts: number;
  /** What it is doing, as a clause without a subject. */
  readonly doing: string;
}

/** One grant of the lease, as the store knows it. */
export interface GrantFrame {
  readonly token: number;
  readonly node: NodeName;
  readonly grantedAtMs: number;
  readonly renewals: number;
  readonly ended: "live" | "released" | "revoked" | "expired" | "forced";
  /** Null while it is live. */
  readonly endedAtMs: number | null;
}

export interface StoreFrame {
  readonly state: Exclude<ProcessState, "suspended">;
  /** `live` while the lease excludes others; `empty` before the first grant. */
  readonly lease: "live" | "ended" | "empty";
  /** Of the last grant; null when empty. */
  readonly holder: NodeName | null;
  readonly token: number | null;
  /** The time until the grant expires; 0 when it has ended. */
  readonly remainingMs: number;
  readonly ttlMs: number;
  /** The wait queue, head first. */
  readonly queue: readonly NodeName[];
  /** All grants, oldest first; at most the last 100. */
  readonly grants: readonly GrantFrame[];
}

export interface WriteFrame {
  readonly atMs: number;
  readonly node: NodeName;
  readonly token: number;
  readonly accepted: boolean;
  /** The token is older than an earlier one: refused, or accepted if fencing is off. */
  readonly stale: boolean;
  /** One short sentence. */
  readonly why: string;
}

export interface ResourceFrame {
  readonly fenced: boolean;
  /** The newest token that has written; 0: none. */
  readonly lastToken: number;
  /** The current value; null before the first write. */
  readonly value: {
    readonly node: NodeName;
    readonly token: number;
    readonly count: number;
  } | null;
  /** Oldest first; at most the last 100. */
  readonly writes: readonly WriteFrame[];
  /** How often an older holder has overwritten a newer one. */
  readonly corrupted: number;
}

export type MessageKind = "acquire" | "renew" | "release" | "read" | "write" | "event";

export interface MessageFrame {
  /** The same in every run of the script. */
  readonly id: number;
  readonly from: Endpoint;
  readonly to: Endpoint;
  readonly kind: MessageKind;
  readonly isAnswer: boolean;
  readonly sentAtMs: number;
  readonly arrivesAtMs: number;
  /** The token that it carries, for its colour; null: none. */
  readonly token: number | null;
  /** A few words: "renew token 1", "held by P1". */
  readonly summary: string;
}

export interface Counters {
  /** The calls to the store. */
  readonly operations: {
    readonly acquire: number;
    readonly renew: number;
    readonly release: number;
    readonly read: number;
    readonly revoke: number;
    readonly total: number;
  };
  /** Grants, and confirmed renewals. */
  readonly acquires: number;
  readonly renewals: number;
  /** From the moment a leader stops working to the moment the next one starts. */
  readonly failOvers: {
    readonly count: number;
    readonly lastMs: number | null;
    readonly meanMs: number | null;
    readonly maxMs: number | null;
  };
  /** Leases that expired although the holder had not crashed: after a pause, a partition or lost messages. */
  readonly falseExpirations: number;
  readonly writes: number;
  readonly refusedWrites: number;
  /** Writes of older holders that the resource accepted. */
  readonly staleWritesLetThrough: number;
  readonly messagesSent: number;
  readonly messagesLost: number;
}

export type InvariantId =
  | "oneHolder"
  | "trustWithinGrant"
  | "tokensGrow"
  | "neverBack"
  | "noOverlap";

export interface InvariantFrame {
  readonly id: InvariantId;
  readonly name: string;
  /** False from the first breach on. */
  readonly holds: boolean;
  /**
   * Whether the code guarantees it under the current conditions. Without fencing, or with clocks beyond
   * the drift that holders allow for, some invariants are not guaranteed.
   */
  readonly promised: boolean;
  /** The first breach; null while it holds. */
  readonly sinceMs: number | null;
  readonly breaches: number;
  /** One sentence: the guarantee, or what broke it. */
  readonly detail: string;
}

export type LogKind =
  | "grant"
  | "renew"
  | "expire"
  | "release"
  | "revoke"
  | "lead"
  | "lost"
  | "wait"
  | "write"
  | "refused"
  | "corrupted"
  | "message"
  | "process"
  | "network"
  | "clock"
  | "setting"
  | "invariant";

/** One line of the log. */
export interface LogLine {
  /** From 0, without gaps. */
  readonly index: number;
  readonly atMs: number;
  readonly who: Endpoint | "you" | "check";
  readonly kind: LogKind;
  readonly text: string;
  /** Whether it is a step: "Next step" stops there, and the timeline marks it. */
  readonly isStep: boolean;
}
