/** Schemas of the results and statistics of tasks. */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { JsonValue, Name, QueryInteger, TaskId, Version } from "./fields.js";
import type { Same } from "./same.js";
import { State } from "./tasks.js";

const LONGEST_NOTIFY_MS = 10 * 60_000;
/** Of each state. */
const COUNTED = 20_000;

export const WaitQuery = z.strictObject({
  waitMs: QueryInteger(0, BOUNDS.waitMs, 0).openapi({
    description: "How long to wait for the end of the task. Repeat the request to wait longer.",
  }),
});

export const TaskResult = z
  .object({
    id: z.string(),
    state: z.union([State, z.literal("unknown")]).openapi({
      description: "`pending` or `running`: the task has not ended. `unknown`: there is none.",
    }),
    output: JsonValue.optional().openapi({ description: "Of a task that is done." }),
    error: z.string().nullable().optional().openapi({
      description:
        "Of a task that is dead, cancelled or expired: that of its last attempt that failed.",
    }),
  })
  .openapi("TaskResult");
true satisfies Same<z.infer<typeof TaskResult>, wire.TaskResult>;

export const ResultsBody = z
  .strictObject({
    ids: z.array(TaskId).min(1).max(BOUNDS.page),
    notifyMs: z.int().min(0).max(LONGEST_NOTIFY_MS).default(0).openapi({
      description:
        "For at least this long, `GET /v1/events?of=results` reports the end of those tasks that have not ended.",
    }),
  })
  .openapi("ResultsBody");
true satisfies Same<z.input<typeof ResultsBody>, wire.ResultsRequest>;
export const TaskResults = z.array(TaskResult.omit({ id: true })).openapi({
  description:
    "One result per id of the request, in order. `output` or `error` is absent where 256 KiB of them are reached: ask for those again.",
});
true satisfies Same<z.infer<typeof TaskResults>, wire.TaskResults>;

const names = z
  .union([Name.transform((name) => [name]), z.array(Name).max(BOUNDS.names)])
  .optional()
  .openapi({ type: "array", items: { type: "string" } });
const version = z
  .string()
  .regex(/^\d{1,5}$/, "must be a whole number")
  .transform(Number)
  .pipe(Version);
const versions = z
  .union([version.transform((only) => [only]), z.array(version).max(BOUNDS.names)])
  .optional()
  .openapi({
    type: "array",
    items: { type: "integer" },
    description: "For each `kind`, in order, the largest version that is counted. Default: any.",
  });
export const StatsQuery = z
  .strictObject({
    queue: names,
    kind: names,
    version: versions,
    unfinishedOnly: z
      .enum(["true", "false"])
      .transform((text) => text === "true")
      .optional()
      .openapi({ type: "boolean", description: "Count pending and running tasks alone." }),
    limit: QueryInteger(1, COUNTED, COUNTED).openapi({
      description: "At most this many tasks of each state are counted.",
    }),
  })
  .refine(({ kind, version }) => version === undefined || version.length === kind?.length, {
    path: ["version"],
    message: "must be given as often as kind, or not at all",
  });

const TaskStats = z
  .object({
    queue: z.string(),
    kind: z.string(),
    pending: z.int(),
    running: z.int(),
    done: z.int(),
    dead: z.int(),
    cancelled: z.int(),
    expired: z.int(),
    due: z.int().openapi({ description: "Pending tasks that are due now." }),
    dueForMs: z.number().nullable().openapi({
      description: "How long the oldest of them has been due; null if none is.",
    }),
  })
  .openapi("TaskStats");
export const TaskStatistics = z
  .object({
    items: z.array(TaskStats),
    complete: z.boolean().openapi({
      description: "false: of some state there are at least as many tasks as counted.",
    }),
  })
  .openapi("TaskStatistics");
true satisfies Same<z.infer<typeof TaskStatistics>, wire.TaskStatistics>;
