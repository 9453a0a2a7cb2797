/** Schemas of the concurrency key of a task. */
import { z } from "@hono/zod-openapi";
import { MOST_PER_KEY, ORDERS } from "leasehold/internal";
import { Name } from "./fields.js";

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
