/** Schemas of /api/generator. */
import { z } from "@hono/zod-openapi";
import { Token } from "../protocol/fields.js";
import { Reason } from "../protocol/keys.js";
import type { Same } from "../protocol/same.js";
import type * as shared from "./shared.js";

const Rate = z.number().min(0.01).max(1_000).openapi({ description: "Tasks per second." });

/** The same on every instance: the wanted state is stored, and the lease names the running generator. */
export const GeneratorStatus = z
  .object({
    status: z.enum(["STARTED", "STOPPED"]).openapi({
      description: "STARTED: it should run, and a live holder of its lease generates tasks.",
    }),
    running: z.boolean().openapi({ description: "Whether it should run." }),
    ratePerSecond: Rate,
    holder: z.string().nullable(),
    fencingToken: Token.nullable(),
    remainingMs: z.number().nullable(),
  })
  .openapi("GeneratorStatus");
true satisfies Same<z.infer<typeof GeneratorStatus>, shared.GeneratorStatus>;

export const RateBody = z
  .strictObject({ ratePerSecond: Rate, reason: Reason.optional() })
  .openapi("RateBody");
