/** Schemas of the query and the headers of /v1/events. */
import { z } from "@hono/zod-openapi";
import type { EventTopic } from "leasehold/internal/wire";
import type { Same } from "./same.js";

const EVENT_TOPICS = ["leases", "tasks", "results"] as const;
true satisfies Same<(typeof EVENT_TOPICS)[number], EventTopic>;

export const EventsQuery = z.strictObject({
  of: z.enum(EVENT_TOPICS).optional().openapi({
    description: "Default: leases and tasks. `results`: the ends of tasks that are awaited.",
  }),
});
export const EventsHeaders = z.object({
  "last-event-id": z
    .string()
    .optional()
    .openapi({ description: "The `id` of the last event received. The stream resumes after it." }),
});
