/** One moment of a run as plain data, and the lines of its log. */
import type { NodeName, Settings } from "./settings.js";

/** Who sends and gets messages. */
export type Place = NodeName | "store" | "resource";

export interface Frame {
  /** True time in milliseconds from the beginning. */
  readonly atMs: number;
  /** As they are in force at this moment. */
  readonly settings: Settings;
  /** One for each of NODES, in their order. */
  readonly nodes: readonly NodeFrame[];
  readonly store: StoreFrame;
  readonly resource: ResourceFrame;
  /** On their way, in the order in which they were sent; at most 200. */
  readonly messages: readonly MessageFrame[];
  readonly counters: Counters;
  readonly invariants: readonly InvariantFrame[];
  /** The log's lines with a smaller index have been told by now. */
  readonly logEnd: number;
}

export type ProcessState = "up" | "down" | "paused" | "suspended";
export type Link = "whole" | "cut off" | "cannot send" | "cannot receive";
/**
 * What a process takes itself for: `off` (not started, or dead), `candidate` (waits for the lease),
 * `starting` (was granted it, looks whether others must go first), `leader` (its work runs),
 * `stopping` (its work was told to stop, and drains).
 */
export type Role = "off" | "candidate" | "starting" | "leader" | "stopping";

export interface NodeFrame {
  readonly name: NodeName;
  readonly state: ProcessState;
  /** Between it and the store. */
  readonly link: Link;
  /** Its clocks against true time: 1.0 keeps time, 0.7 is slow. 0: the monotonic one stands still. */
  readonly clockRate: number;
  readonly role: Role;
  /**
   * The token of the lease that it believes to hold; null: none. A paused process believes what it
   * did when the pause began.
   */
  readonly token: number | null;
  /** How long it may still trust the lease, by its own clocks; 0 without one. */
  readonly trustMs: number;
  /** The most that `trustMs` can be: the whole ring. */
  readonly ttlMs: number;
  /** 1 is first in line at the store; null: not in line. */
  readonly placeInLine: number | null;
  /** Its writes so far that the resource has accepted. */
  readonly writes: number;
  /** How often it was started. */
  readonly starts: number;
  /** What it is doing, in one short sentence. */
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
  /** Whether the lease excludes others now; `empty` before the first grant. */
  readonly lease: "live" | "ended" | "empty";
  /** Of the last grant; null when empty. */
  readonly holder: NodeName | null;
  readonly token: number | null;
  /** Until the grant expires; 0 when it has ended. */
  readonly remainingMs: number;
  readonly ttlMs: number;
  /** Those who wait, first in line first. */
  readonly line: readonly NodeName[];
  /** All grants, oldest first; at most the last 100. */
  readonly grants: readonly GrantFrame[];
}

export interface WriteFrame {
  readonly atMs: number;
  readonly node: NodeName;
  readonly token: number;
  readonly accepted: boolean;
  /** An older token than one before: refused, or where nothing fences, let through. */
  readonly stale: boolean;
  /** One short sentence. */
  readonly why: string;
}

export interface ResourceFrame {
  readonly fenced: boolean;
  /** The newest that has written; 0: none. */
  readonly lastToken: number;
  /** Who wrote the present value; null: nobody. */
  readonly value: {
    readonly node: NodeName;
    readonly token: number;
    readonly count: number;
  } | null;
  /** Oldest first; at most the last 100. */
  readonly writes: readonly WriteFrame[];
  /** How often an older holder has written over a newer one. */
  readonly corrupted: number;
}

export type MessageKind = "acquire" | "renew" | "release" | "read" | "write" | "event";

export interface MessageFrame {
  /** The same in every run of the script. */
  readonly id: number;
  readonly from: Place;
  readonly to: Place;
  readonly kind: MessageKind;
  readonly isAnswer: boolean;
  readonly sentAtMs: number;
  readonly arrivesAtMs: number;
  /** That it carries, for its colour; null: none. */
  readonly token: number | null;
  /** A few words: "renew token 1", "held by P1". */
  readonly summary: string;
}

export interface Counters {
  /** What the store was asked. */
  readonly operations: {
    readonly acquire: number;
    readonly renew: number;
    readonly release: number;
    readonly read: number;
    readonly revoke: number;
    readonly total: number;
  };
  /** Grants made, and renewals confirmed. */
  readonly acquires: number;
  readonly renewals: number;
  /** From the moment the last leader stopped working to that at which another's work began. */
  readonly failOvers: {
    readonly count: number;
    readonly lastMs: number | null;
    readonly meanMs: number | null;
    readonly maxMs: number | null;
  };
  /** Leases that ran out although their holder's process had not died: a pause, a cut, lost messages. */
  readonly falseExpirations: number;
  readonly writes: number;
  readonly refusedWrites: number;
  /** Writes of older holders that nothing refused. */
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
   * Whether the code promises it under the present conditions: without a fence, or with clocks
   * beyond what holders allow for, some are not. Red is what was promised and does not hold.
   */
  readonly promised: boolean;
  /** The first breach; null while it holds. */
  readonly sinceMs: number | null;
  readonly breaches: number;
  /** One sentence: what is promised, or what broke it. */
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

/** One line of the log, for a person who learns. */
export interface LogLine {
  /** From 0, without gaps. */
  readonly index: number;
  readonly atMs: number;
  readonly who: Place | "you" | "check";
  readonly kind: LogKind;
  readonly text: string;
  /** Whether it is a turn of the story: where "step" stops, and what a timeline marks. */
  readonly isStep: boolean;
}
