/** Schedules in this process's memory, beside the tasks that they make. */
import { compareUtf8 } from "../../env/index.js";
import { cursorAfter, type Page, resourceOfCursor } from "../../lease/index.js";
import { listedError } from "../../tasks/payloads.js";
import type { Json } from "../../tasks/port.js";
import { encodeJson, isUnfinished } from "../../tasks/record.js";
import {
  type DeclareOutcome,
  type DeclareRequest,
  type DueSchedule,
  type DueSchedules,
  type FireOutcome,
  type FireRequest,
  type LastTask,
  MOST_SCHEDULES,
  type PauseScheduleRequest,
  type RunNowOutcome,
  type RunNowRequest,
  type ScheduleChange,
  type ScheduleDeclaration,
  type ScheduleKey,
  type SchedulePause,
  type ScheduleQuery,
  type ScheduleStore,
  type ScheduleView,
  type Ticking,
} from "../../tasks/schedules/port.js";
import { catchUpOf, mostOf } from "../../tasks/schedules/rules.js";
import { pageOf } from "./page.js";
import type { MemoryTaskState } from "./task-state.js";
import { iso } from "./task-views.js";
import type { MemoryTaskStore } from "./tasks.js";

/** Times are the store's, in milliseconds. */
interface Schedule extends ScheduleKey {
  /** The declaration as JSON, so that it comes back as it was. */
  readonly declaration: string;
  readonly revision: number;
  readonly declaredAtMs: number;
  readonly paused: SchedulePause | null;
  readonly lastFireAtMs: number;
  readonly dueAtMs: number;
  readonly waiting: readonly number[];
  readonly fired: number;
  readonly skipped: number;
  readonly lastTaskId: string | null;
}

/** By namespace and name; shared by all stores of one name. */
export type Schedules = Map<string, Map<string, Schedule>>;

export class MemoryScheduleStore implements ScheduleStore {
  readonly ticking: Ticking = {
    due: async (limit, except) => this.#due(limit, new Set(except)),
    fire: (request) => this.#fire(request),
  };
  readonly #schedules: Schedules;
  readonly #state: MemoryTaskState;
  readonly #tasks: MemoryTaskStore;

  /** @param state that of `tasks`, which adds in one step what a schedule makes. Its clock is that of the schedules */
  constructor(schedules: Schedules, state: MemoryTaskState, tasks: MemoryTaskStore) {
    [this.#schedules, this.#state, this.#tasks] = [schedules, state, tasks];
  }

  async declare({ namespace, name, declaration }: DeclareRequest): Promise<DeclareOutcome> {
    const nowMs = Math.floor(this.#state.nowMs());
    const all = this.#of(namespace);
    const before = all.get(name);
    if (!before && all.size >= MOST_SCHEDULES) return { status: "full" };
    const text = encodeJson(canonical(declaration) as unknown as Json);
    const isNew = !before || timingOf(declaration) !== timingOf(declarationOf(before));
    const begun = {
      lastFireAtMs: Math.max(nowMs, before?.lastFireAtMs ?? nowMs),
      dueAtMs: nowMs,
    };
    const isSame = before?.declaration === text;
    all.set(name, {
      ...(before ?? NEW),
      ...(isNew && begun),
      namespace,
      name,
      declaration: text,
      declaredAtMs: nowMs,
      revision: isSame ? before.revision : this.#state.nextSeq(),
    });
    if (isSame) return { status: "declared", change: "none" };
    return { status: "declared", change: before ? "changed" : "added" };
  }

  async get({ namespace, name }: ScheduleKey): Promise<ScheduleView | null> {
    const schedule = this.#of(namespace).get(name);
    return schedule ? this.#view(schedule) : null;
  }

  async list({ namespace, limit = 100, cursor }: ScheduleQuery): Promise<Page<ScheduleView>> {
    const after = cursor === undefined ? "" : resourceOfCursor(cursor);
    const sorted = [...this.#of(namespace).values()]
      .filter(({ name }) => compareUtf8(name, after) > 0)
      .sort((a, b) => compareUtf8(a.name, b.name));
    const { found, last } = pageOf(sorted, limit, () => true);
    return {
      items: found.map((schedule) => this.#view(schedule)),
      nextCursor: last && cursorAfter(last.name),
    };
  }

  async pause({ by, reason, ...key }: PauseScheduleRequest): Promise<ScheduleChange> {
    const schedule = this.#of(key.namespace).get(key.name);
    if (!schedule) return "unknown";
    if (schedule.paused) return "unchanged";
    this.#change(schedule, { paused: { at: iso(this.#state.nowMs()), by, reason } });
    return "changed";
  }

  async resume({ namespace, name }: ScheduleKey): Promise<ScheduleChange> {
    const schedule = this.#of(namespace).get(name);
    if (!schedule) return "unknown";
    if (!schedule.paused) return "unchanged";
    const nowMs = Math.floor(this.#state.nowMs());
    const lastFireAtMs = Math.max(nowMs, schedule.lastFireAtMs);
    this.#change(schedule, { paused: null, lastFireAtMs, dueAtMs: nowMs });
    return "changed";
  }

  async remove({ namespace, name }: ScheduleKey): Promise<boolean> {
    return this.#of(namespace).delete(name);
  }

  async runNow({ namespace, name, taskId }: RunNowRequest): Promise<RunNowOutcome> {
    const schedule = this.#of(namespace).get(name);
    if (!schedule) return { status: "unknown" };
    if (this.#state.namespace(namespace).tasks.get(taskId) === null) {
      const { fired } = schedule;
      this.#change(schedule, { lastTaskId: taskId, fired: fired + 1 });
      await this.#enqueue(schedule, [{ id: taskId, scheduledAtMs: this.#state.nowMs() }]);
    }
    return { status: "enqueued", id: taskId };
  }

  #due(limit: number, except: ReadonlySet<number>): DueSchedules {
    const nowMs = this.#state.nowMs();
    const all = [...this.#schedules.values()].flatMap((schedules) => [...schedules.values()]);
    const sorted = all.filter(({ paused }) => !paused).sort((a, b) => a.dueAtMs - b.dueAtMs);
    const due = sorted.filter(({ dueAtMs }) => dueAtMs <= nowMs);
    const next = sorted[due.length];
    return {
      schedules: due
        .filter(({ revision }) => !except.has(revision))
        .slice(0, limit)
        .map((schedule) => this.#dueOf(schedule)),
      nowMs: Math.floor(nowMs),
      nextInMs: next ? next.dueAtMs - nowMs : null,
    };
  }

  async #fire(request: FireRequest): Promise<FireOutcome> {
    const { namespace, name, revision, fires, skipped, ...moved } = request;
    const schedule = this.#of(namespace).get(name);
    if (schedule?.revision !== revision || schedule.paused) return { status: "moved" };
    const { tasks } = this.#state.namespace(namespace);
    // A schedule of this name that was removed may have made a task of this id.
    const made = fires.filter(({ id }) => tasks.get(id) === null);
    this.#change(schedule, {
      ...moved,
      fired: schedule.fired + made.length,
      skipped: schedule.skipped + skipped,
      lastTaskId: fires.at(-1)?.id ?? schedule.lastTaskId,
    });
    await this.#enqueue(schedule, fires);
    const { kind, queue } = declarationOf(schedule).task;
    return { status: "fired", taskIds: made.map(({ id }) => id), kind, queue };
  }

  #change(schedule: Schedule, change: Partial<Schedule>): void {
    const { namespace, name } = schedule;
    const revision = this.#state.nextSeq();
    this.#of(namespace).set(name, { ...schedule, ...change, revision });
  }

  /** In the same turn as the change: a memory store decides before its first await. */
  async #enqueue(schedule: Schedule, fires: FireRequest["fires"]): Promise<void> {
    const { namespace } = schedule;
    const { concurrency, ...task } = declarationOf(schedule).task;
    await this.#tasks.enqueue(
      fires.map(({ id, scheduledAtMs }) => ({
        ...task,
        ...(concurrency && { concurrency }),
        namespace,
        id,
        scheduledAt: iso(scheduledAtMs),
        dedupeKey: null,
      })),
    );
  }

  #of(namespace: string): Map<string, Schedule> {
    let schedules = this.#schedules.get(namespace);
    if (!schedules) {
      schedules = new Map();
      this.#schedules.set(namespace, schedules);
    }
    return schedules;
  }

  #dueOf(schedule: Schedule): DueSchedule {
    const { namespace, name, revision, lastFireAtMs, waiting } = schedule;
    const { task: _, ...declaration } = declarationOf(schedule);
    const state = this.#lastTask(schedule)?.state ?? null;
    const isRunning = state !== null && isUnfinished(state);
    return { namespace, name, declaration, revision, lastFireAtMs, waiting, isRunning };
  }

  #lastTask({ namespace, lastTaskId: id }: Schedule): LastTask | null {
    if (id === null) return null;
    const record = this.#state.namespace(namespace).tasks.get(id);
    if (!record) return { id, state: null, finishedAt: null, error: null };
    const { state, finishedAtMs, error } = record;
    const finishedAt = finishedAtMs === null ? null : iso(finishedAtMs);
    return { id, state, finishedAt, error: listedError(error) };
  }

  #view(schedule: Schedule): ScheduleView {
    const { namespace, name, paused, fired, skipped } = schedule;
    return {
      namespace,
      name,
      ...declarationOf(schedule),
      declaredAt: iso(schedule.declaredAtMs),
      paused,
      lastFireAt: iso(schedule.lastFireAtMs),
      waiting: schedule.waiting.length,
      fired,
      skipped,
      lastTask: this.#lastTask(schedule),
    };
  }
}

const NEW = {
  paused: null,
  lastFireAtMs: 0,
  dueAtMs: 0,
  waiting: [],
  fired: 0,
  skipped: 0,
  lastTaskId: null,
} as const satisfies Partial<Schedule>;

function declarationOf({ declaration }: Schedule): ScheduleDeclaration {
  return JSON.parse(declaration) as ScheduleDeclaration;
}

/** The same text for the same content: the number of `catchUp` as a name where it has one, and fields by name. */
function canonical({ catchUp, task, ...rest }: ScheduleDeclaration): object {
  const byName = (fields: object) =>
    Object.fromEntries(Object.entries(fields).sort(([a], [b]) => compareUtf8(a, b)));
  return byName({ ...rest, catchUp: catchUpOf(mostOf(catchUp)), task: byName(task) });
}

function timingOf({ cron, everyMs, timeZone }: ScheduleDeclaration): string {
  return JSON.stringify([cron, everyMs, timeZone]);
}
