/** What a holder says of a task that it has not completed: that the attempt failed, or that the task is to wait. */
import { z } from "@hono/zod-openapi";
import { LONGEST_BACKOFF_MS } from "leasehold/internal";

export const failure = {
  error: z.string(),
  retryInMs: z.int().min(0).max(LONGEST_BACKOFF_MS).nullable().default(null).openapi({
    description: "Overrides the task's backoff. Must not be combined with `final: true`.",
  }),
  final: z
    .boolean()
    .default(false)
    .openapi({ description: "Make the task dead at once: do not retry." }),
};
/** A task that ends now has no next attempt. */
export function decidesOnce(
  { retryInMs, final }: { retryInMs: number | null; final: boolean },
  context: z.RefinementCtx,
): void {
  if (retryInMs === null || !final) return;
  const message = "must not be combined with final: true, which allows no retry";
  context.addIssue({ code: "custom", path: ["retryInMs"], message });
}
/** When a returned task is due again. */
export const later = {
  retryInMs: z.int().min(0).max(LONGEST_BACKOFF_MS).nullable().default(null).openapi({
    description:
      "Puts the task off: it is due again after this time. null: it keeps its place in the queue.",
  }),
  reason: z.string().nullable().default(null).openapi({
    description: "Why, for readers. Kept with the attempt.",
  }),
};
