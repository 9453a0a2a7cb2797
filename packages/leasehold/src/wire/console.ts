/**
 * What the console reads. Figures of the store cover every server; the others are counted by the
 * instance that answers, over the last `forMs`.
 */
import type { Role } from "../control/index.js";
import type { LeaseState, Page } from "../lease/index.js";
import type { TaskState, UnhandledKind } from "../tasks/index.js";
import type { Capabilities, LeaseView } from "./leases.js";
import type { Pause } from "./operator.js";
import type { Counts } from "./tasks.js";

export interface Whoami {
  readonly namespace: string;
  readonly role: Role;
  readonly prefixes: readonly string[];
  /** As in the audit. */
  readonly actor: string;
  /** Null: the server needs no key. */
  readonly keyId: string | null;
  /** Which values of `x-needs` in the OpenAPI document the caller has. */
  readonly may: readonly string[];
  /** Whether the server keeps pauses, an audit and keys. */
  readonly control: boolean;
  /** Whether the server keeps grants that newer ones replaced. */
  readonly history: boolean;
  readonly version: string;
}

/** One number a second, the oldest first. */
type PerSecond = readonly number[];
/** Null: not read, or no call ended, in that second. */
type SomeSeconds = readonly (number | null)[];

export interface Series {
  /** When the first second began. */
  readonly from: string;
  /** How many there are; the last one is under way. */
  readonly seconds: number;
  readonly leases: {
    readonly acquired: PerSecond;
    readonly contended: PerSecond;
    readonly renewed: PerSecond;
    readonly released: PerSecond;
    readonly revoked: PerSecond;
    /** Expired grants that a new one replaced. */
    readonly reclaimed: PerSecond;
    /** Refused renewals, by reason. */
    readonly lost: Readonly<Record<"expired" | "revoked" | "taken" | "gone", PerSecond>>;
  };
  readonly tasks: {
    readonly enqueued: PerSecond;
    readonly claimed: PerSecond;
    readonly heartbeats: PerSecond;
    readonly completed: PerSecond;
    readonly failed: PerSecond;
    readonly expired: PerSecond;
    readonly refused: PerSecond;
    /** Of the whole store, like `running`. */
    readonly pending: SomeSeconds;
    readonly running: SomeSeconds;
  };
  /** Of this instance's calls, of all tenants. */
  readonly store: { readonly p50Ms: SomeSeconds; readonly p99Ms: SomeSeconds };
}

export interface Latency {
  readonly store: "leases" | "tasks";
  readonly operation: string;
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Overview {
  readonly instance: {
    /** Of this process; a restart changes it. */
    readonly id: string;
    readonly version: string;
    readonly upForMs: number;
    readonly now: string;
  };
  /** `name`: `postgres`, `memory` ...; null: unknown. */
  readonly engine: { readonly name: string | null } & Capabilities;
  readonly health: {
    /** The stores answer, as for /readyz. */
    readonly ok: boolean;
    readonly tookMs: number;
    readonly detail: string | null;
  };
  /** Of the whole store; null: it does not answer. */
  readonly leases: {
    readonly held: number;
    /** Free resources that have a record of their last grant. */
    readonly ended: number;
    /** False: there are more than were counted. */
    readonly complete: boolean;
  } | null;
  readonly tasks: Counts | null;
  readonly contended: {
    /** Resources that a contender found held within the last minute. */
    readonly resources: number;
    readonly waiting: number;
  };
  readonly series: Series;
  /** Of this instance's calls of the last minute, of all tenants. */
  readonly latency: readonly Latency[];
}

/** The data of each event `activity`. All types of event have the same members. */
export interface Activity {
  /** By this instance's clock. */
  readonly at: string;
  readonly topic: "lease" | "task" | "operator";
  readonly type:
    | ("acquired" | "contended" | "renewed" | "refused" | "released" | "expired" | "revoked")
    | (
        | "enqueued"
        | "claimed"
        | "completed"
        | "failed"
        | "returned"
        | "cancelled"
        | "retried"
        | "late"
      )
    | ("paused" | "resumed");
  /** `task:ID` of a task; null if the event is about many, or a pause. */
  readonly resource: string | null;
  /** Who acted, or whose grant it is. */
  readonly holder: string | null;
  readonly token: number | null;
  readonly grantId: string | null;
  /** contended: the holder; acquired, claimed: the previous holder; paused: what. */
  readonly other: string | null;
  /** refused, failed: the operation. */
  readonly operation: string | null;
  readonly reason: string | null;
  readonly queue: string | null;
  readonly kind: string | null;
  /** renewed: how many within a second; else 1. */
  readonly count: number;
}

/** A renewal, release or report that the store refused. */
export interface Refusal {
  readonly at: string;
  readonly topic: "lease" | "task";
  /** renew, release, heartbeat, complete, fail, return */
  readonly operation: string;
  /** expired, taken, revoked, gone, cancelled ... */
  readonly reason: string;
  readonly resource: string;
  /** Null: this instance has not seen the grant begin. */
  readonly holder: string | null;
  /** As the refused caller sent it. */
  readonly token: number | null;
  readonly grantId: string | null;
}
export interface Refusals {
  readonly forMs: number;
  /** The latest first. */
  readonly items: readonly Refusal[];
}

export interface Waiter {
  readonly grantId: string;
  readonly holder: string;
  /** Waiters before it, where the store queues. */
  readonly ahead: number | null;
  readonly askedAt: string;
}

export interface GrantRecord extends Omit<LeaseView, "resource"> {
  /** Through this instance; null: it has not seen the grant. */
  readonly renewals: number | null;
  readonly endedAt: string | null;
}
/** One resource, its grants and those who want it. */
export interface Resource extends Page<GrantRecord> {
  readonly resource: string;
  /** False: only the last grant is known. */
  readonly history: boolean;
  readonly pause: Pause | null;
  readonly forMs: number;
  /** In the order of the wait queue. */
  readonly waiters: readonly Waiter[];
  /** The latest first. */
  readonly refusals: readonly Refusal[];
  /** Why an acquire of the caller would be refused, whether the resource is held or not; null if it would not. */
  readonly denied: Denied | null;
}
export interface Denied {
  readonly code: "FORBIDDEN" | "LIMIT_REACHED";
  readonly detail: string;
}
/** What this instance has counted of each resource of a list. */
export type Seen = readonly {
  readonly resource: string;
  readonly renewals: number | null;
  readonly waiters: number;
  readonly refusals: number;
}[];

interface Term {
  readonly holder: string;
  readonly token: number;
  readonly grantId: string;
  readonly since: string | null;
  readonly endedAt: string | null;
  readonly state: LeaseState;
  /** From the end of the term before; null: unknown. */
  readonly vacantMs: number | null;
}
interface Election {
  /** The resource of its lease. */
  readonly name: string;
  readonly kind: "elector" | "singleton";
  /** Null: there is no leader now. */
  readonly leader: string | null;
  /** Of the last term. */
  readonly token: number;
  readonly grantId: string;
  readonly since: string | null;
  readonly endedAt: string | null;
  readonly state: LeaseState;
  readonly ttlMs: number;
  readonly remainingMs: number;
  /** The newest first, this one included. */
  readonly terms: readonly Term[];
}
interface ShardGroup {
  readonly name: string;
  readonly coordinator: string | null;
  readonly members: readonly {
    readonly member: string;
    readonly holder: string;
    readonly remainingMs: number;
  }[];
  readonly shards: readonly {
    readonly shard: number;
    /** Null: no member works on it now. */
    readonly holder: string | null;
    readonly token: number;
    readonly since: string | null;
    readonly remainingMs: number;
  }[];
}
export interface Elections {
  /** By name. */
  readonly items: readonly Election[];
  /** By name. */
  readonly shards: readonly ShardGroup[];
  /** False: there are more elections, or leases, than were read. */
  readonly complete: boolean;
  /** False: of each election only the last term is known. */
  readonly history: boolean;
}

interface Worker {
  readonly holder: string;
  readonly lastHeartbeatAt: string | null;
  /** Resources; tasks as `task:ID`. */
  readonly holds: readonly string[];
  /** Its last claim that this instance has seen; null: none recently. */
  readonly claims: {
    readonly queues: readonly string[];
    /** Null: any. */
    readonly kinds: readonly string[] | null;
    readonly at: string;
    /** It waits for a task now. */
    readonly waiting: boolean;
    /** Handlers that do not end although their tasks are lost. Above 0, the worker is stuck: it takes no tasks. */
    readonly abandoned: number;
  } | null;
}
export interface Workers {
  /** By holder. */
  readonly items: readonly Worker[];
  /** False: there are more live leases than were read. */
  readonly complete: boolean;
  readonly forMs: number;
  /** Kinds whose due tasks no live worker takes. */
  readonly unhandled: readonly UnhandledKind[];
}

/** Why a task is not running, or that it is. */
export interface Why {
  readonly id: string;
  readonly state: TaskState;
  /** The most decisive first. */
  readonly reasons: readonly {
    readonly code: string;
    /** A sentence for people. */
    readonly text: string;
    /** scheduled, retrying: when it is due. */
    readonly inMs: number | null;
    /** behind: tasks that come before it. */
    readonly ahead: number | null;
  }[];
}
