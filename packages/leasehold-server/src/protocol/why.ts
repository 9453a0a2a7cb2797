/** Schemas of the reasons why a task does not run. */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import type { Same } from "./same.js";
import { State } from "./tasks.js";

const WHY_CODES = [
  "running",
  "done",
  "dead",
  "cancelled",
  "expired",
  "scheduled",
  "retrying",
  "paused",
  "noWorker",
  "key",
  "limit",
  "rate",
  "behind",
  "due",
] as const;
export const Why = z
  .object({
    id: z.string(),
    state: State,
    reasons: z
      .array(
        z.object({
          code: z.enum(WHY_CODES as unknown as [string, ...string[]]),
          text: z.string().openapi({ description: "Explanation for people." }),
          inMs: z
            .number()
            .nullable()
            .openapi({ description: "For scheduled and retrying: time until the task is due." }),
          ahead: z
            .int()
            .nullable()
            .openapi({ description: "For behind: number of tasks ahead of it." }),
        }),
      )
      .openapi({ description: "Most decisive first." }),
  })
  .openapi("Why");
true satisfies Same<z.infer<typeof Why>, wire.Why>;
