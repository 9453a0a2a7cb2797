/** What a program says of a schedule, checked and with its defaults. */
import { isoTime } from "../../env/index.js";
import {
  checkInteger,
  checkKnown,
  checkName,
  checkNewName,
  checkObject,
  InvalidOptionError,
  kindOf,
} from "../../lease/index.js";
import { checkDefinition, defineTask, type TaskDefinition } from "../define.js";
import { toJson } from "../json.js";
import { settingsOf, TASK_DEFAULTS, type TaskDefaults } from "../settings.js";
import { FIRST_VERSION } from "../values.js";
import {
  type CatchUp,
  type Overlap,
  SCHEDULE_DATA_BYTES,
  SCHEDULE_NAME_BYTES,
  type ScheduleDeclaration,
  type ScheduleView,
} from "./port.js";
import { nextTimes } from "./rules.js";
import { checkUnambiguous, timesOf } from "./times.js";

/** A schedule of tasks: `cron` or `everyMs`, and what its tasks are. */
export interface ScheduleOptions<Input> extends TaskDefaults {
  /**
   * A cron expression of five fields, or six with the second first, of at most 256 characters. If day of month or day of week
   * begins with `*`, both must match, otherwise one of them, as in crontab(5). Required without `everyMs`.
   */
  cron?: string;
  /** The time zone of `cron`: an IANA name with a slash, such as `Europe/Zurich`, or `UTC`. Refused with `everyMs`. Default `UTC`, whatever the machine says. */
  timeZone?: string;
  /** An interval in milliseconds, from 100. The fire times are its multiples since 1970, whenever a process starts. Required without `cron`. */
  everyMs?: number;
  /** The kind of the tasks, by its name or as `defineTask` returns it. */
  kind: string | TaskDefinition<Input, unknown>;
  /** The data of each task. */
  data: Input;
  /**
   * Fire times that passed while no process ticked: `"none"` makes no task for those more than ten seconds old, `"last"` one
   * for the last of them, `{ most: n }` one for each of the last n, up to 1,000. Default `"last"`. With a short `everyMs`, every
   * pause of the processes may miss some: choose a large `most`, and not `overlap: "skip"`, if each of them counts.
   */
  catchUp?: CatchUp;
  /**
   * While the last task of the schedule is pending or running: `"skip"` makes none, and one at most for all that `catchUp` makes up for, `"queue"` makes it when that one has
   * ended, `"allow"` makes it at once. Default `"skip"`.
   */
  overlap?: Overlap;
  /** Tasks become due at a random time within so many milliseconds after their fire time. Default 0. */
  jitterMs?: number;
}

const OPTIONS: Readonly<Record<keyof ScheduleOptions<unknown>, true>> = {
  cron: true,
  timeZone: true,
  everyMs: true,
  kind: true,
  data: true,
  catchUp: true,
  overlap: true,
  jitterMs: true,
  ...TASK_DEFAULTS,
};
const OVERLAPS: readonly unknown[] = ["allow", "skip", "queue"] satisfies Overlap[];
const SHORTEST_MS = 100;
/** Not the milliseconds of the longest timer: no timer waits for all of it. */
const LONGEST_MS = 366 * 24 * 3_600_000;
const LONGEST_JITTER_MS = 24 * 3_600_000;
const MOST_CAUGHT_UP = 1_000;

/** @throws INVALID_OPTION */
export async function declarationOf<Input>(
  options: ScheduleOptions<Input>,
): Promise<ScheduleDeclaration> {
  checkKnown(options, OPTIONS);
  if (options.timeZone !== undefined && options.everyMs !== undefined) {
    throw new InvalidOptionError(
      "timeZone",
      "belongs to cron, and has no effect on an interval: leave it out",
    );
  }
  const { cron, timeZone = "UTC", everyMs, kind, data, ...rest } = options;
  const { catchUp = "last", overlap = "skip", jitterMs = 0, ...overrides } = rest;
  const definition = typeof kind === "string" ? defineTask<Input>(kind) : kind;
  checkDefinition(definition);
  checkNewName("kind", definition.kind);
  const settings = settingsOf(definition.defaults, overrides);
  checkNewName("queue", settings.queue);
  const checked = await definition.check(data);
  const concurrency = definition.concurrency?.(data) ?? null;
  const { version = FIRST_VERSION } = definition;
  const declaration = {
    cron: cron ?? null,
    timeZone,
    everyMs: everyMs ?? null,
    catchUp,
    overlap,
    jitterMs,
    task: { ...settings, kind: definition.kind, data: checked, concurrency, version },
  };
  await checkDeclaration(declaration);
  return declaration;
}

/**
 * Checks all but the kind of the task and its settings.
 * @throws INVALID_OPTION
 */
export async function checkDeclaration(declaration: ScheduleDeclaration): Promise<void> {
  const { cron, timeZone, everyMs, catchUp, overlap, jitterMs, task } = declaration;
  if ((cron === null) === (everyMs === null)) {
    throw new InvalidOptionError("cron", "or everyMs must be given, and not both");
  }
  if (everyMs !== null) checkInteger("everyMs", everyMs, SHORTEST_MS, LONGEST_MS);
  if (cron !== null && typeof cron !== "string") {
    throw new InvalidOptionError("cron", `must be a string, got ${kindOf(cron)}`);
  }
  if (!OVERLAPS.includes(overlap)) {
    throw new InvalidOptionError("overlap", `must be one of ${OVERLAPS.join(", ")}`);
  }
  checkInteger("jitterMs", jitterMs, 0, LONGEST_JITTER_MS);
  checkCatchUp(catchUp);
  toJson("data", task.data, SCHEDULE_DATA_BYTES);
  const times = await timesOf(declaration);
  if (cron !== null) checkUnambiguous(timeZone);
  if (times.next(0) === null) {
    const problem = `${JSON.stringify(cron)} never fires: no date has this day and this month`;
    throw new InvalidOptionError("cron", problem);
  }
}

function checkCatchUp(catchUp: unknown): void {
  if (catchUp === "none" || catchUp === "last") return;
  if (typeof catchUp !== "object" || catchUp === null) {
    throw new InvalidOptionError("catchUp", 'must be "none", "last" or { most: n }');
  }
  checkObject("catchUp", catchUp);
  checkKnown(catchUp, { most: true }, "catchUp");
  checkInteger("catchUp.most", Reflect.get(catchUp, "most"), 1, MOST_CAUGHT_UP);
}

/** @throws INVALID_OPTION */
export function checkScheduleName(name: string): void {
  checkName("name", name);
  checkNewName("name", name);
  if (new TextEncoder().encode(name).length > SCHEDULE_NAME_BYTES) {
    throw new InvalidOptionError("name", `must have at most ${SCHEDULE_NAME_BYTES} bytes`);
  }
  if (name === "." || name === "..") {
    throw new InvalidOptionError("name", `must not be "${name}": no URL could name it`);
  }
}

/** How many coming fire times are shown. */
const SHOWN = 5;

/** The next five fire times of a schedule, as ISO 8601; none while it is paused. */
export async function nextFireTimes(view: ScheduleView, nowMs: number): Promise<string[]> {
  if (view.paused) return [];
  const times = await timesOf(view);
  return nextTimes(times, Math.max(nowMs, Date.parse(view.lastFireAt)), SHOWN).map(isoTime);
}
