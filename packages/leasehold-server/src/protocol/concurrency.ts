/** Schemas of the concurrency key of a task. */
import { z } from "@hono/zod-openapi";
import { MOST_PER_KEY, ORDERS } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { LIMITS } from "leasehold/internal/wire";
import { Name, QueryInteger } from "./fields.js";
import type { Same } from "./same.js";

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
  })
  .openapi("NewConcurrency", {
    description: "The limit and the order of the newest pending task of a key are those of all.",
  });

export const Concurrency = z
  .object({ key: z.string(), perKey: z.int(), order: z.enum(ORDERS) })
  .nullable()
  .openapi({ description: "null: it runs whatever else runs." });

export const BlockedKeysQuery = z
  .strictObject({
    queue: Name.optional(),
    kind: Name.optional(),
    key: Name.optional(),
    limit: QueryInteger(1, LIMITS.page, 100).openapi({ description: "At most this many keys." }),
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
    pending: z.int().openapi({ description: "Pending tasks of the key, up to 1,000." }),
    by: z.array(BlockingTask).openapi({
      description:
        "The tasks that the others wait for: those that run, up to 10, or else the head, which waits for its retry.",
    }),
  })
  .openapi("BlockedKey");
export const BlockedKeys = z.object({ items: z.array(BlockedKey) }).openapi("BlockedKeys");
true satisfies Same<z.infer<typeof BlockedKeys>, wire.BlockedKeys>;
