/** Schemas of /v1/schedules: the ScheduleStore port as JSON. The server adds the namespace. */
import { z } from "@hono/zod-openapi";
import { DEFAULTS, FIRST_VERSION, SCHEDULE_NAME_BYTES } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { Concurrency, NewConcurrency } from "./concurrency.js";
import { Cursor, JsonValue, NewName, PageOf, QueryInteger, TaskId, Version } from "./fields.js";
import { ReasonQuery } from "./operator.js";
import type { Same } from "./same.js";
import { State, taskSettings } from "./tasks.js";

const EXAMPLE = "nightly";

/** Every text is a name: one that has no schedule, if it cannot have one. */
export const ScheduleParams = z.object({
  name: z.string().openapi({
    description: `1 to ${SCHEDULE_NAME_BYTES} bytes, percent-encoded, \`/\` too. No path can contain the names \`.\` and \`..\`.`,
    example: EXAMPLE,
  }),
});

/** Whether a schedule can have the name. */
export function isScheduleName(name: string): boolean {
  const isShort = new TextEncoder().encode(name).length <= SCHEDULE_NAME_BYTES;
  return isShort && name !== "." && name !== ".." && NewName.safeParse(name).success;
}

const CatchUp = z
  .union([z.enum(["none", "last"]), z.strictObject({ most: z.int().min(1).max(1_000) })])
  .openapi({
    description:
      "How many fire times are made up for that passed while no process ticked: none that is more than ten seconds old, the last one, or the last n.",
  });
const Overlap = z.enum(["allow", "skip", "queue"]).openapi({
  description:
    "While the last task of the schedule is unfinished: `allow` makes another one, `skip` makes none, `queue` makes it when that one has ended.",
});
const times = {
  cron: z.string().max(256).nullable().openapi({
    description:
      "Five fields, or six with the second first. If day of month or day of week begins with `*`, both must match, otherwise one of them. Either `cron` or `everyMs` is given.",
    example: "0 2 * * *",
  }),
  timeZone: z.string().max(64).openapi({
    description: "The IANA time zone of `cron`.",
    example: "Europe/Zurich",
  }),
  everyMs: z.int().nullable().openapi({
    description: "Fire times are the multiples of this many milliseconds since 1970.",
    example: null,
  }),
};
const JitterMs = z.int().openapi({
  description:
    "A task becomes due at a random time within so many milliseconds after its fire time.",
});

const ScheduledTask = z
  .strictObject({
    kind: NewName,
    data: JsonValue,
    ...taskSettings,
    version: Version.default(FIRST_VERSION),
    concurrency: NewConcurrency.nullable().default(null),
  })
  .openapi("ScheduledTask", { example: { kind: "report", data: { of: "sales" } } });
export const DeclareScheduleBody = z
  .strictObject({
    cron: times.cron.default(null),
    timeZone: times.timeZone.default("UTC"),
    everyMs: times.everyMs.default(null),
    catchUp: CatchUp.default("last"),
    overlap: Overlap.default("skip"),
    jitterMs: JitterMs.default(0),
    task: ScheduledTask,
  })
  .superRefine(({ everyMs, timeZone }, context) => {
    // The client names the default.
    if (everyMs === null || timeZone === "UTC") return;
    const message = "belongs to cron, and has no effect on an interval: leave it out";
    context.addIssue({ code: "custom", path: ["timeZone"], message });
  })
  .openapi("DeclareScheduleRequest");
true satisfies Same<z.input<typeof DeclareScheduleBody>, wire.DeclareScheduleRequest>;
export const ScheduleDeclared = z
  .object({ name: z.string(), change: z.enum(["added", "changed", "none"]) })
  .openapi("ScheduleDeclared");
true satisfies Same<z.infer<typeof ScheduleDeclared>, wire.ScheduleDeclared>;

const Kept = z.int().nullable();
export const Schedule = z
  .object({
    name: z.string(),
    ...times,
    catchUp: CatchUp,
    overlap: Overlap,
    jitterMs: JitterMs,
    task: z.object({
      kind: z.string(),
      queue: z.string(),
      priority: z.int(),
      data: JsonValue,
      maxAttempts: z.int(),
      crashLimit: z.int(),
      backoff: z.object({
        firstMs: z.int(),
        longestMs: z.int(),
        factor: z.number(),
        jitter: z.number(),
      }),
      retain: z.object({ doneMs: Kept, deadMs: Kept }),
      concurrency: Concurrency,
      version: z.int(),
      maxRunMs: z.int().nullable(),
      startByMs: z.int().nullable(),
    }),
    declaredAt: z.string().openapi({
      description: "When a program declared it last, changed or not.",
    }),
    paused: z
      .object({ at: z.string(), by: z.string(), reason: z.string().nullable() })
      .nullable()
      .openapi({ description: "By an operator; null: it is not paused." }),
    lastFireAt: z.string().openapi({
      description: "The last fire time that was dealt with; at first, when the schedule began.",
    }),
    waiting: z.int().openapi({ description: "Fire times that wait for the end of the last task." }),
    fired: z.int().openapi({ description: "Tasks that it has made." }),
    skipped: z.int().openapi({
      description:
        "Fire times that made no task: too many were missed, or the last task was unfinished.",
    }),
    lastTask: z
      .object({
        id: z.string(),
        state: State.nullable().openapi({ description: "null: it was deleted." }),
        finishedAt: z.string().nullable(),
        error: z.string().nullable(),
      })
      .nullable(),
    nextFireTimes: z.array(z.string()).openapi({
      description: "The next five; none while it is paused.",
    }),
  })
  .openapi("Schedule", {
    example: {
      name: EXAMPLE,
      cron: "0 2 * * *",
      timeZone: "Europe/Zurich",
      everyMs: null,
      catchUp: "last",
      overlap: "skip",
      jitterMs: 0,
      task: {
        kind: "report",
        queue: "default",
        priority: 0,
        data: { of: "sales" },
        maxAttempts: 10,
        crashLimit: 10,
        backoff: DEFAULTS.backoff,
        retain: DEFAULTS.retain,
        concurrency: null,
        version: 1,
        maxRunMs: null,
        startByMs: null,
      },
      declaredAt: "2026-11-25T08:12:44.120Z",
      paused: null,
      lastFireAt: "2026-11-26T01:00:00.000Z",
      waiting: 0,
      fired: 41,
      skipped: 1,
      lastTask: {
        id: "nightly@2026-11-26T01:00:00.000Z",
        state: "done",
        finishedAt: "2026-11-26T01:00:04.311Z",
        error: null,
      },
      nextFireTimes: ["2026-11-27T01:00:00.000Z", "2026-11-28T01:00:00.000Z"],
    },
  });
true satisfies Same<z.infer<typeof Schedule>, wire.Schedule>;
export const SchedulePage = PageOf(Schedule).openapi("SchedulePage");
true satisfies Same<z.infer<typeof SchedulePage>, wire.SchedulePage>;
export const ScheduleListQuery = z.strictObject({
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
});

export const SchedulePaused = z
  .object({
    name: z.string(),
    wasRunning: z.boolean().openapi({ description: "false: it was paused already." }),
  })
  .openapi("SchedulePaused");
true satisfies Same<z.infer<typeof SchedulePaused>, wire.SchedulePaused>;
export const ScheduleResumed = z
  .object({
    name: z.string(),
    wasPaused: z.boolean().openapi({ description: "false: it was not paused." }),
  })
  .openapi("ScheduleResumed");
true satisfies Same<z.infer<typeof ScheduleResumed>, wire.ScheduleResumed>;
export const ScheduleRemoved = z
  .object({
    name: z.string(),
    wasDeclared: z.boolean().openapi({ description: "false: there was none." }),
  })
  .openapi("ScheduleRemoved");
true satisfies Same<z.infer<typeof ScheduleRemoved>, wire.ScheduleRemoved>;
export const RunScheduleQuery = ReasonQuery.extend({
  taskId: TaskId.optional().openapi({
    description: "Default: a new one. A repeated request with the same id makes no second task.",
  }),
});
export const ScheduleRun = z
  .object({
    name: z.string(),
    taskId: z.string().openapi({ description: "Of the task that was enqueued." }),
  })
  .openapi("ScheduleRun");
true satisfies Same<z.infer<typeof ScheduleRun>, wire.ScheduleRun>;
