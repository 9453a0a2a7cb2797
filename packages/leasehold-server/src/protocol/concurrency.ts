/** Schemas of the concurrency key of a task, and of the limits of kinds and queues. */
import { z } from "@hono/zod-openapi";
import {
  LIMIT_SCOPES,
  LONGEST_WINDOW_MS,
  MOST_PER_KEY,
  MOST_RUNNING,
  MOST_STARTS,
  ORDERS,
} from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { Name, QueryInteger } from "./fields.js";
import { ReasonQuery } from "./operator.js";
import type { Same } from "./same.js";

const Rate = z
  .strictObject({
    limit: z.int().min(1).max(MOST_STARTS),
    perMs: z.int().min(1).max(LONGEST_WINDOW_MS),
  })
  .openapi("Rate", {
    description:
      "At most `limit` tasks start in each window of `perMs`. A window begins with the first start after the last one has ended.",
  });

export const NewConcurrency = z
  .strictObject({
    key: Name.openapi({ description: "Of the queue and kind of the task." }),
    perKey: z.int().min(1).max(MOST_PER_KEY).default(1).openapi({
      description: "At most this many tasks of the key have a live lease at any time.",
    }),
    order: z.enum(ORDERS).default("fifo").openapi({
      description:
        "`fifo`: in the order in which they were enqueued, and a task that waits for its retry keeps back those behind it; `any`: by priority and time.",
    }),
    rate: Rate.optional().openapi({ description: "Of the tasks of the key. Default: none." }),
  })
  .openapi("NewConcurrency", {
    description: "The limit and the order of the newest pending task of a key are those of all.",
  });

export const Concurrency = z
  .object({ key: z.string(), perKey: z.int(), order: z.enum(ORDERS), rate: Rate.optional() })
  .nullable()
  .openapi({ description: "null: it runs whatever else runs." });

export const BlockedKeysQuery = z
  .strictObject({
    queue: Name.optional(),
    kind: Name.optional(),
    key: Name.optional(),
    limit: QueryInteger(1, BOUNDS.page, 100).openapi({ description: "At most this many keys." }),
  })
  .refine(
    ({ queue, kind, key }) =>
      (queue === undefined) === (key === undefined) && (kind === undefined) === (key === undefined),
    {
      error: "needs queue, kind and key together",
      path: ["key"],
    },
  );
const BlockingTask = z.object({
  id: z.string(),
  state: z.enum(["running", "pending"]),
  holder: z.string().nullable().openapi({ description: "Who runs it; null if it is pending." }),
  until: z.string().openapi({ description: "When its lease expires, or when it is due." }),
});
const BlockedKey = z
  .object({
    queue: z.string(),
    kind: z.string(),
    key: z.string(),
    perKey: z.int(),
    order: z.enum(ORDERS),
    rate: Rate.optional(),
    pending: z.int().openapi({ description: "Pending tasks of the key, up to 1,000." }),
    by: z.array(BlockingTask).openapi({
      description:
        "The tasks that the others wait for: those that run, up to 10, or else the head, which waits for its retry.",
    }),
    usedUpUntil: z.string().nullable().openapi({
      description:
        "While the rate of the key is used up: when its next window may begin. Else null.",
    }),
  })
  .openapi("BlockedKey");
export const BlockedKeys = z.object({ items: z.array(BlockedKey) }).openapi("BlockedKeys");
true satisfies Same<z.infer<typeof BlockedKeys>, wire.BlockedKeys>;

const Scope = z.enum(LIMIT_SCOPES).openapi({
  description:
    "`kind`: the tasks of a kind in all queues; `queue`: those of a queue, of all kinds.",
});
const running = z.int().min(1).max(MOST_RUNNING).nullable().openapi({
  description: "At most this many of its tasks have a live lease at any time; null: any number.",
});
const rate = Rate.nullable().openapi({ description: "null: they start as fast as they can." });
export const TaskLimitBody = z
  .strictObject({
    scope: Scope,
    name: Name.openapi({ description: "Of the kind or the queue." }),
    running: running.default(null),
    rate: rate.default(null),
  })
  .refine((limit) => limit.running !== null || limit.rate !== null, {
    error: "or rate must be given",
    path: ["running"],
  })
  .openapi("TaskLimitRequest", { example: { scope: "kind", name: "report", running: 5 } });
true satisfies Same<z.input<typeof TaskLimitBody>, wire.TaskLimitRequest>;
export const TaskLimitQuery = ReasonQuery.extend({ scope: Scope, name: Name });
export const TaskLimitDeclared = z
  .object({ scope: Scope, name: z.string(), change: z.enum(["added", "changed", "none"]) })
  .openapi("TaskLimitDeclared");
true satisfies Same<z.infer<typeof TaskLimitDeclared>, wire.TaskLimitDeclared>;
export const TaskLimitRemoved = z
  .object({
    scope: Scope,
    name: z.string(),
    wasDeclared: z.boolean().openapi({ description: "false: there was none." }),
  })
  .openapi("TaskLimitRemoved");
true satisfies Same<z.infer<typeof TaskLimitRemoved>, wire.TaskLimitRemoved>;
const TaskLimit = z
  .object({
    scope: Scope,
    name: z.string(),
    running,
    rate,
    declaredAt: z.string().openapi({ description: "When it was declared as it is." }),
    declaredBy: z.string(),
    live: z.int().openapi({ description: "How many of its tasks have a live lease." }),
    by: z.array(BlockingTask).openapi({
      description: "While as many run as may: some of them, up to 10, the oldest first. Else none.",
    }),
    started: z.int().openapi({
      description: "How many have started in the window of the rate that is under way.",
    }),
    usedUpUntil: z.string().nullable().openapi({
      description: "While the rate is used up: when the next window may begin. Else null.",
    }),
  })
  .openapi("TaskLimit");
export const TaskLimits = z.object({ items: z.array(TaskLimit) }).openapi("TaskLimits");
true satisfies Same<z.infer<typeof TaskLimits>, wire.TaskLimits>;
