import { z } from "@hono/zod-openapi";
import { TASK_STATES, type TaskState } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { PROBLEMS, type ProblemCode } from "leasehold/internal/wire";
import type { Same } from "./same.js";

/** One invalid field. */
const FieldError = z
  .object({
    path: z.string().openapi({ example: "0.task_data", description: "Empty: the body itself." }),
    problem: z.string(),
  })
  .openapi("FieldError");

/** RFC 9457. */
export const Problem = z
  .object({
    type: z.string().openapi({ example: "urn:leasehold:problem:unknown-task" }),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    requestId: z.string(),
    errors: z.array(FieldError).optional(),
    reason: z
      .enum(["expired", "taken", "cancelled", "finished", "revoked", "released", "gone"])
      .optional()
      .openapi({ description: "Why the holder was refused." }),
    holder: z.string().optional().openapi({ description: "The current holder of the resource." }),
    grantId: z
      .string()
      .nullable()
      .optional()
      .openapi({ description: "Public name of the current grant." }),
    remainingMs: z.number().nullable().optional().openapi({
      description: "Remaining time of the current grant.",
    }),
    state: z
      .enum(TASK_STATES as [TaskState, ...TaskState[]])
      .optional()
      .openapi({
        description: "The current state, which does not allow the operation.",
      }),
  })
  .openapi("Problem");
true satisfies Same<z.infer<typeof Problem>, wire.Problem>;
