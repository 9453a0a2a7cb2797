/** Schemas of /api/tasks. Fields in snake case follow the compatibility format; additions are in camel case. */
import { z } from "@hono/zod-openapi";
import {
  CHECKPOINT_BYTES,
  DEFAULT_GRACE_MS,
  DEFAULTS,
  FIRST_VERSION,
  LONGEST_BACKOFF_MS,
  LONGEST_KEPT_MS,
  LONGEST_RUN_MS,
  TASK_STATES,
  type TaskState,
} from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { Concurrency, NewConcurrency } from "./concurrency.js";
import {
  Cursor,
  JsonValue,
  jsonUpTo,
  Name,
  NewName,
  PageOf,
  QueryInteger,
  TaskId,
  TaskLeaseId,
  Time,
  Token,
  ttl,
  Version,
  withOptionalTtl,
} from "./fields.js";
import type { Same } from "./same.js";
import { decidesOnce, failure, later } from "./task-reports.js";

export const State = z.enum(TASK_STATES as [TaskState, ...TaskState[]]);

const Kept = (byDefault: number) =>
  z.int().min(0).max(LONGEST_KEPT_MS).nullable().default(byDefault);
/** How a task is kept and retried. */
export const taskSettings = {
  queue: NewName.default(DEFAULTS.queue),
  priority: z.int().min(-32_768).max(32_767).default(DEFAULTS.priority).openapi({
    description: "Smaller runs sooner.",
  }),
  maxAttempts: z.int().min(1).max(32_767).default(DEFAULTS.maxAttempts),
  crashLimit: z.int().min(1).max(32_767).default(DEFAULTS.crashLimit),
  backoff: z
    .strictObject({
      firstMs: z.int().min(0).max(LONGEST_BACKOFF_MS).default(DEFAULTS.backoff.firstMs),
      longestMs: z.int().min(0).max(LONGEST_BACKOFF_MS).default(DEFAULTS.backoff.longestMs),
      factor: z.number().min(1).max(100).default(DEFAULTS.backoff.factor),
      jitter: z.number().min(0).max(1).default(DEFAULTS.backoff.jitter),
    })
    .default(DEFAULTS.backoff)
    .openapi({
      description:
        "Wait before the n-th retry: min(firstMs x factor^(n-1), longestMs), of which the share jitter is random.",
    }),
  retain: z
    .strictObject({ doneMs: Kept(DEFAULTS.retain.doneMs), deadMs: Kept(DEFAULTS.retain.deadMs) })
    .default(DEFAULTS.retain)
    .openapi({
      description:
        "How long the task is kept once it is done, and once it is dead, cancelled or expired. null: until it is deleted.",
    }),
  maxRunMs: z.int().min(1).max(LONGEST_RUN_MS).nullable().default(null).openapi({
    description:
      "How long one attempt may run. Its lease ends at the latest graceMs of its claim after that, however often it is renewed. null: no limit.",
  }),
  startByMs: z.int().min(1).max(LONGEST_KEPT_MS).nullable().default(null).openapi({
    description:
      "How long after it is due the task may begin: later it ends as expired. What has begun may be retried at any time. null: at any time.",
  }),
};
const NewTask = z
  .strictObject({
    task_data: JsonValue,
    kind: NewName.default("default").openapi({ description: "Selects the handler." }),
    ...taskSettings,
    scheduled_at: Time.nullable()
      .default(null)
      .openapi({
        type: ["string", "null"],
        description: "When the task becomes due; null: at once.",
      }),
    dedupeKey: Name.nullable().default(null).openapi({
      description: "At most one unfinished task per kind and key.",
    }),
    version: Version.default(FIRST_VERSION).openapi({
      description:
        "Of the kind, for which the data is. Workers with an earlier one leave the task alone.",
    }),
    concurrency: NewConcurrency.optional(),
    id: TaskId.optional().openapi({
      description:
        "Chosen by the caller, which makes the request idempotent: a repeated request adds and changes nothing, whatever its other fields, such as priority, are. With another kind, queue or data it is refused.",
    }),
  })
  .openapi("NewTask");

export const EnqueueBody = z.union([NewTask, z.array(NewTask).min(1).max(BOUNDS.batch)]);
true satisfies Same<z.input<typeof EnqueueBody>, wire.NewTask | readonly wire.NewTask[]>;
const Enqueued = z
  .object({
    id: z.string(),
    status: z.enum(["enqueued", "duplicate", "conflict"]).openapi({
      description:
        "`conflict`, in answers to arrays only: a task with this id has another kind, queue or data. Nothing was added for it.",
    }),
  })
  .openapi("Enqueued");
export const EnqueueAnswer = z.union([Enqueued, z.array(Enqueued)]);
true satisfies Same<z.infer<typeof EnqueueAnswer>, wire.Enqueued | readonly wire.Enqueued[]>;

export const NextBody = z
  .strictObject({
    processor: NewName.openapi({ description: "Identity of the worker's process." }),
    limit: z.int().min(1).max(BOUNDS.claim).default(1),
    waitMs: z.int().min(0).max(BOUNDS.waitMs).default(0).openapi({
      description: "How long to wait for a task if none is due.",
    }),
    ...ttl,
    queues: z.array(Name).min(1).max(BOUNDS.names).default([DEFAULTS.queue]),
    kinds: z.array(Name).min(1).max(BOUNDS.names).nullable().default(null).openapi({
      description: "Only tasks of these kinds; null: any kind.",
    }),
    versions: z.record(Name, Version).optional().openapi({
      description:
        "The largest version of each of the kinds that the worker can handle; default 1. A request for any kind takes any version.",
    }),
    graceMs: z.int().min(0).max(LONGEST_RUN_MS).default(DEFAULT_GRACE_MS).openapi({
      description:
        "How long tasks with a maxRunMs are held after it, so that the caller can end and report them.",
    }),
    abandoned: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional().openapi({
      description:
        "Of a worker that is stuck: how many of its handlers do not end although their tasks are lost. It gets no task, and is shown to operators.",
    }),
    claimId: TaskLeaseId.optional().openapi({
      description:
        "Chosen by the caller, at random for each claim: a repeated request of the same processor returns the same tasks, whatever else it asks for; of another processor, it is refused. Secret.",
    }),
  })
  .transform(withOptionalTtl)
  .openapi("NextBody");
true satisfies Same<z.input<typeof NextBody>, wire.NextRequest>;

/**
 * Part of every request of a task's holder. The lease id has a loose format: a lease id that was never
 * granted is refused, not malformed.
 */
export const grant = {
  processor: Name.optional().openapi({
    description: "For readers only: leaseId and fencingToken alone authorize the request.",
  }),
  leaseId: z
    .string()
    .regex(/^[!-~]{0,128}$/, "must be at most 128 visible ASCII characters")
    .openapi({ description: "From the response to next. Secret." }),
  fencingToken: z.int().openapi({ description: "The fencing token of the grant." }),
};

const Checkpoint = jsonUpTo(CHECKPOINT_BYTES).openapi({
  description: "Kept with the task and returned by its later claims. At most 64 KiB as JSON.",
});
/** What a heartbeat may bring. */
export const news = { progress: JsonValue.optional(), checkpoint: Checkpoint.optional() };

export const HeartbeatBody = z
  .strictObject({ ...grant, ...ttl, ...news })
  .transform(withOptionalTtl)
  .openapi("HeartbeatBody");
export const CompleteBody = z
  .strictObject({ ...grant, task_output: JsonValue.default(null) })
  .openapi("CompleteBody");
export const FailBody = z
  .strictObject({ ...grant, ...failure })
  .superRefine(decidesOnce)
  .openapi("FailBody");
export const ReturnBody = z.strictObject({ ...grant, ...later }).openapi("ReturnBody");

const identity = {
  id: z.string(),
  scheduled_at: z.string(),
  kind: z.string(),
  queue: z.string(),
  priority: z.int(),
  state: State,
  attempt: z.int().openapi({ description: "Number of claims." }),
  failures: z.int(),
  crashes: z.int(),
  maxAttempts: z.int(),
  dedupeKey: z.string().nullable(),
  version: z.int().openapi({ description: "Of the kind, for which the data is." }),
};

const times = {
  maxRunMs: z.int().nullable().openapi({
    description: "How long an attempt may run; null: there is no limit.",
  }),
  postponed: z.int().openapi({ description: "How often it was put off." }),
};
const ClaimedTask = z
  .object({
    ...identity,
    task_data: JsonValue,
    processor: z.string(),
    leaseId: TaskLeaseId,
    fencingToken: Token,
    ttlMs: z.int(),
    remainingMs: z.int(),
    must_heartbeat_before: z.string().nullable(),
    previousProcessor: z.string().nullable().openapi({
      description: "The previous holder, if the task was taken over.",
    }),
    checkpoint: JsonValue.openapi({
      description: "The last one of an earlier attempt; null if there was none.",
    }),
    ...times,
  })
  .openapi("ClaimedTask");
export const NextAnswer = z
  .object({
    tasks: z.array(ClaimedTask),
    waitedMs: z.number().openapi({
      description:
        "How long the request waited before these leases began. Count remainingMs from the time at which you sent the request, plus waitedMs.",
      example: 0,
    }),
  })
  .openapi("NextAnswer");
true satisfies Same<z.infer<typeof NextAnswer>, wire.NextAnswer>;

export const HeartbeatAnswer = z
  .object({
    id: z.string(),
    fencingToken: Token,
    ttlMs: z.int(),
    remainingMs: z.int(),
    must_heartbeat_before: z.string().nullable(),
  })
  .openapi("HeartbeatAnswer");
export const CompleteAnswer = z
  .object({
    id: z.string(),
    state: z.literal("done"),
    task_output: JsonValue.openapi({ description: "As stored." }),
    repeated: z
      .boolean()
      .openapi({ description: "true: this grant had already completed the task." }),
  })
  .openapi("CompleteAnswer");
export const FailAnswer = z
  .object({
    id: z.string(),
    state: z.enum(["pending", "dead"]),
    retryInMs: z.number().nullable(),
    repeated: z.boolean().openapi({
      description:
        "true: this grant had already failed, and this request changes nothing, whatever it says.",
    }),
  })
  .openapi("FailAnswer");
export const ReturnAnswer = z
  .object({
    id: z.string(),
    state: z.literal("pending"),
    repeated: z
      .boolean()
      .openapi({ description: "true: this grant had already returned the task." }),
  })
  .openapi("ReturnAnswer");
export const StateAnswer = z.object({ id: z.string(), state: State }).openapi("StateAnswer");

const Preview = z.string().optional();
/** A field of a list: optional, because it may be too large. */
const listed = (about: string) =>
  JsonValue.optional().openapi({
    description: `${about} Absent from lists if its JSON is larger than 1 KiB: read the task by its id.`,
  });
const Task = z
  .object({
    ...identity,
    task_data: listed("Any JSON value."),
    dataPreview: Preview.openapi({
      description:
        "Only in lists, instead of task_data: the first 200 characters of its JSON and an ellipsis.",
    }),
    concurrency: Concurrency,
    crashLimit: z.int(),
    ...times,
    startBy: z.string().nullable().openapi({
      description: "When its first attempt must have begun; null: at any time.",
    }),
    processor: z.string().nullable().openapi({ description: "Of the last grant." }),
    grantId: z.string().nullable().openapi({ description: "Public name of the last grant." }),
    fencingToken: Token.nullable(),
    started_at: z.string().nullable(),
    last_heartbeat_at: z.string().nullable(),
    must_heartbeat_before: z.string().nullable(),
    remainingMs: z.number().nullable().openapi({ description: "null unless running." }),
    processed_at: z.string().nullable(),
    task_output: listed("null until the task is done."),
    outputPreview: Preview.openapi({ description: "Only in lists, instead of task_output." }),
    error: z.string().nullable().openapi({
      description:
        "Of the last attempt that failed. In lists, its first 200 characters and an ellipsis if it is larger than 1 KiB.",
    }),
    progress: listed("As last reported with a heartbeat."),
    progressPreview: Preview.openapi({ description: "Only in lists, instead of progress." }),
    createdAt: z.string(),
  })
  .openapi("Task");

const Attempt = z
  .object({
    attempt: z.int(),
    processor: z.string(),
    grantId: z.string(),
    fencingToken: Token,
    ttlMs: z.int(),
    startedAt: z.string(),
    heartbeatAt: z.string().nullable().openapi({ description: "The last heartbeat." }),
    endedAt: z.string().nullable(),
    result: z.enum(["done", "failed", "expired", "returned", "cancelled"]).nullable().openapi({
      description: "null while the attempt runs.",
    }),
    error: z.string().nullable().openapi({ description: "Why it failed, or was put off." }),
    progress: JsonValue,
  })
  .openapi("Attempt");
export const TaskDetails = Task.omit({
  dataPreview: true,
  outputPreview: true,
  progressPreview: true,
})
  .extend({
    task_data: JsonValue,
    task_output: JsonValue,
    error: z.string().nullable().openapi({ description: "Of the last attempt that failed." }),
    progress: JsonValue,
    checkpoint: JsonValue.openapi({ description: "The last one; null if there was none." }),
    attempts: z.array(Attempt).openapi({
      description:
        "Oldest first, the running one included. The last 100 at most, and as many as have 1 MiB of errors and progress together.",
    }),
  })
  .openapi("TaskDetails");
true satisfies Same<z.infer<typeof TaskDetails>, wire.TaskDetails>;

export const TaskPage = PageOf(Task).openapi("TaskPage");
true satisfies Same<z.infer<typeof TaskPage>, wire.TaskPage>;
export const Counts = z
  .object(
    Object.fromEntries(TASK_STATES.map((state) => [state, z.int()])) as Record<TaskState, z.ZodInt>,
  )
  .openapi("Counts");
true satisfies Same<z.infer<typeof Counts>, wire.Counts>;

export const TaskParams = z.object({ id: TaskId });
const filters = {
  queue: Name.optional(),
  kind: Name.optional(),
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
};
/** For lists whose path names the state. */
export const StateListQuery = z.strictObject(filters);
export const ListQuery = z.strictObject({
  ...filters,
  id: z
    .union([TaskId.transform((id) => [id]), z.array(TaskId).max(BOUNDS.page)])
    .optional()
    .openapi({ type: "array", items: { type: "string" } }),
  state: z
    .union([State.transform((state) => [state]), z.array(State)])
    .optional()
    .openapi({ type: "array", items: { type: "string", enum: [...TASK_STATES] } }),
  excludeDue: z
    .enum(["true", "false"])
    .transform((text) => text === "true")
    .optional()
    .openapi({
      type: "boolean",
      description: "Leave out pending tasks that are due now. Default false.",
    }),
});
