/** Bodies and answers of /v1/schedules: the ScheduleStore port. The server adds the namespace. */
import type { Page } from "../lease/index.js";
import type { TaskBackoff } from "../tasks/index.js";
import type * as port from "../tasks/schedules/port.js";
import type { NewTask } from "./tasks.js";

export interface Schedule extends Omit<port.ScheduleView, "namespace"> {
  /** The next five; none while it is paused. */
  readonly nextFireTimes: readonly string[];
}
export type SchedulePage = Page<Schedule>;

/** The kind and the data of the tasks, and what differs from the defaults. */
export type ScheduledTask = Pick<port.ScheduledTask, "kind" | "data"> &
  Partial<Omit<port.ScheduledTask, "kind" | "data" | "backoff" | "retain" | "concurrency">> & {
    readonly backoff?: Partial<TaskBackoff>;
    readonly retain?: Partial<port.ScheduledTask["retain"]>;
    readonly concurrency?: NewTask["concurrency"] | null;
  };
export interface DeclareScheduleRequest extends Partial<Omit<port.ScheduleDeclaration, "task">> {
  readonly task: ScheduledTask;
}
export interface ScheduleDeclared {
  readonly name: string;
  readonly change: "added" | "changed" | "none";
}
export interface SchedulePaused {
  readonly name: string;
  /** False: it was paused already. */
  readonly wasRunning: boolean;
}
export interface ScheduleResumed {
  readonly name: string;
  /** False: it was not paused. */
  readonly wasPaused: boolean;
}
export interface ScheduleRemoved {
  readonly name: string;
  /** False: there was none. */
  readonly wasDeclared: boolean;
}
export interface ScheduleRun {
  readonly name: string;
  /** Of the task that was enqueued. */
  readonly taskId: string;
}
