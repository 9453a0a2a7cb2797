/**
 * The port between schedules and the databases that keep them. A schedule is a row beside the tasks that it makes. Any
 * number of processes tick: they read the rows that are due, compute fire times, and ask the store to enqueue.
 *
 *   due ──▶ fire times in (lastFireAt, now] ──▶ fire: revision as it was read?
 *    ▲                                            ├─ yes: lastFireAt moves on and the tasks are enqueued, in one step
 *    └──────────── at the next fire time ─────────┴─ no: another process was faster, or the schedule has changed
 *
 * Every change of a row draws a new revision, so a fire time makes at most one task, whichever process ticks and whatever
 * became of the task since. Fire times are by the store's clock.
 */
import type { CallOptions, Failed, Page } from "../../lease/index.js";
import type { NewTask, TaskState } from "../port.js";
import type { Concurrency } from "../values.js";

/** The name of a schedule in its namespace. */
export interface ScheduleKey {
  readonly namespace: string;
  /** 1 to 128 bytes. */
  readonly name: string;
}

/** How many fire times are made up for that passed while no process ticked: none, the last one, or the last n. */
export type CatchUp = "none" | "last" | { readonly most: number };
/**
 * What becomes of a fire time while the last task of the schedule is unfinished: `allow` enqueues another one, `skip` none,
 * and with `queue` the fire time waits until that task has ended.
 */
export type Overlap = "allow" | "skip" | "queue";

/** The tasks of a schedule, but for what differs from one to the next. */
export interface ScheduledTask
  extends Required<
    Omit<NewTask, "namespace" | "id" | "scheduledAt" | "dedupeKey" | "concurrency">
  > {
  /** Null: the tasks run whatever else runs. */
  readonly concurrency: Concurrency | null;
}

/** What a program declares: `cron` or `everyMs`, the other one is null. */
export interface ScheduleDeclaration {
  /** Five fields, or six with the second first. */
  readonly cron: string | null;
  /** The IANA time zone of `cron`. */
  readonly timeZone: string;
  /** Fire times are the multiples of this many milliseconds since the Unix epoch. */
  readonly everyMs: number | null;
  readonly catchUp: CatchUp;
  readonly overlap: Overlap;
  /** A task becomes due at a random time within so many milliseconds after its fire time. */
  readonly jitterMs: number;
  readonly task: ScheduledTask;
}

/** Declares a schedule, in place of the declaration before. */
export interface DeclareRequest extends ScheduleKey {
  readonly declaration: ScheduleDeclaration;
}
/**
 * `full`: the namespace has {@link MOST_SCHEDULES}. A change of the fire times begins anew: only those after it count. A
 * pause stays.
 */
export type DeclareOutcome =
  | { readonly status: "declared"; readonly change: "added" | "changed" | "none" }
  | { readonly status: "full" }
  | Failed;

/** A pause by an operator. It outlasts declarations. */
export interface SchedulePause {
  readonly at: string;
  readonly by: string;
  readonly reason: string | null;
}

/** The last task of a schedule. */
export interface LastTask {
  readonly id: string;
  /** Null if it was deleted. */
  readonly state: TaskState | null;
  readonly finishedAt: string | null;
  /** Of its last attempt that failed; only the beginning if it is long. */
  readonly error: string | null;
}

/** The public view of a schedule. Times are the store's, as ISO 8601. */
export interface ScheduleView extends ScheduleKey, ScheduleDeclaration {
  /** When a program declared it last, changed or not: an old time may mean that none does any more. */
  readonly declaredAt: string;
  readonly paused: SchedulePause | null;
  /** The last fire time that was dealt with; before the first one, when the schedule began. */
  readonly lastFireAt: string;
  /** How many fire times wait for the end of the last task. */
  readonly waiting: number;
  /** How many tasks it has made. */
  readonly fired: number;
  /** How many fire times made no task, because too many were missed or the last task was unfinished. */
  readonly skipped: number;
  /** Null if it has made none. */
  readonly lastTask: LastTask | null;
}

/** Which schedules of a namespace to list. */
export interface ScheduleQuery {
  readonly namespace: string;
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** Pauses a schedule. */
export interface PauseScheduleRequest extends ScheduleKey {
  readonly by: string;
  readonly reason: string | null;
}
/** `unchanged`: it was so already; `unknown`: there is no such schedule. */
export type ScheduleChange = "changed" | "unchanged" | "unknown";

/** Makes a task of a schedule at once, in addition to those of its fire times. */
export interface RunNowRequest extends ScheduleKey {
  /** Of the task to make. A repeated call with the same id makes no second one. */
  readonly taskId: string;
}

/** What became of the task. `unknown`: there is no such schedule. */
export type RunNowOutcome =
  | { readonly status: "enqueued"; readonly id: string }
  | { readonly status: "unknown" }
  | Failed;

/** A schedule that is due, as a tick reads it. Times are in milliseconds since the Unix epoch. */
export interface DueSchedule extends ScheduleKey {
  readonly declaration: Omit<ScheduleDeclaration, "task">;
  readonly revision: number;
  readonly lastFireAtMs: number;
  /** Fire times that wait for the end of the last task, oldest first. */
  readonly waiting: readonly number[];
  /** Whether the last task is pending or running. */
  readonly isRunning: boolean;
}

/** The schedules of which a fire time has passed. */
export interface DueSchedules {
  readonly schedules: readonly DueSchedule[];
  /** By the store's clock. */
  readonly nowMs: number;
  /** How long until another one is due; null: none is. */
  readonly nextInMs: number | null;
}

/** A task to make, with what differs from other tasks of its schedule. */
export interface Fire {
  readonly id: string;
  /** When the task becomes due. */
  readonly scheduledAtMs: number;
}

/** Makes the tasks of fire times, and moves the schedule on to the next one. */
export interface FireRequest extends ScheduleKey {
  /** As it was read: the store refuses any other. */
  readonly revision: number;
  readonly fires: readonly Fire[];
  readonly lastFireAtMs: number;
  readonly waiting: readonly number[];
  /** When a tick is to look at the schedule again. */
  readonly dueAtMs: number;
  /** Adds to the fire times that made no task. */
  readonly skipped: number;
}
/** `moved`: it has changed since it was read, or is paused, or is being changed: nothing was done. */
export type FireOutcome =
  | {
      readonly status: "fired";
      /** The tasks that were made. */
      readonly taskIds: readonly string[];
      readonly kind: string;
      readonly queue: string;
    }
  | { readonly status: "moved" }
  | Failed;

/** What processes use that tick. */
export interface Ticking {
  /**
   * Those that are due and not paused, of every namespace, longest due first, at most `limit`.
   * @param except revisions that the caller cannot move on: left out, so that they keep no others from being read
   */
  due(limit: number, except?: readonly number[]): Promise<DueSchedules>;
  /**
   * Enqueues the tasks and moves the schedule on, in one step. A task whose id is taken is not added: it was made
   * before, by a schedule of the same name that was removed since.
   */
  fire(request: FireRequest, options?: CallOptions): Promise<FireOutcome>;
}

/** The schedules of a database. Reads and operator actions reject with the error of the store. */
export interface ScheduleStore {
  /** Absent if the service behind this store ticks, as a server does. */
  readonly ticking?: Ticking;
  declare(request: DeclareRequest, options?: CallOptions): Promise<DeclareOutcome>;
  get(key: ScheduleKey): Promise<ScheduleView | null>;
  /** By name. */
  list(query: ScheduleQuery): Promise<Page<ScheduleView>>;
  pause(request: PauseScheduleRequest): Promise<ScheduleChange>;
  /** Fire times of the pause are not made up for. */
  resume(key: ScheduleKey): Promise<ScheduleChange>;
  /** Deletes the schedule. Its tasks stay. @returns whether there was one */
  remove(key: ScheduleKey): Promise<boolean>;
  /** Makes a task at once, also of a paused schedule. Fire times stay as they are. */
  runNow(request: RunNowRequest): Promise<RunNowOutcome>;
}

/** The most schedules of one namespace. */
export const MOST_SCHEDULES = 1_000;
/** The most fire times that wait for the end of a task; those after them are skipped. */
export const MOST_WAITING = 1_000;
/** The largest data of a schedule's tasks, in bytes of JSON: lists show them. */
export const SCHEDULE_DATA_BYTES = 64 * 1024;
/** The longest name, in bytes: the ids of tasks begin with it. */
export const SCHEDULE_NAME_BYTES = 128;

/** The id of the task of a fire time. */
export function taskIdOf(name: string, fireAtMs: number): string {
  return `${name}@${new Date(fireAtMs).toISOString()}`;
}
