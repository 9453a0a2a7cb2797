/** Schemas of /v1/revocations: revocations that two operators must agree on. */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import { Token } from "./fields.js";
import { Reason } from "./keys.js";
import type { Same } from "./same.js";

const free = z.enum(["atExpiry", "now"]);

const requested = {
  id: z.int().openapi({ description: "The number of its entry in the audit." }),
  resource: z.string(),
  holder: z.string().openapi({ description: "Of the grant that it is about." }),
  token: Token.openapi({ description: "Of that grant: no other one is revoked." }),
  free,
  requestedBy: z.string().openapi({ description: "The actor, who cannot confirm it." }),
  claimedActor: z.string().nullable().openapi({
    description: "Who that actor claims to be; null: it claims nothing.",
  }),
  reason: z.string().nullable(),
  requestedAt: z.string(),
  confirmBefore: z.string().openapi({ description: "From then on it cannot be confirmed." }),
};

/** The outcome of a revoke that needs a second operator. */
export const Requested = z
  .object({ status: z.literal("requested"), ...requested })
  .openapi("RequestedOutcome");

export const RequestedRevocation = z.object(requested).openapi("RequestedRevocation");
true satisfies Same<z.infer<typeof RequestedRevocation>, wire.RequestedRevocation>;
export const RequestedRevocations = z
  .object({ items: z.array(RequestedRevocation) })
  .openapi("RequestedRevocations");
true satisfies Same<z.infer<typeof RequestedRevocations>, wire.RequestedRevocations>;

export const RevocationParams = z.object({
  id: z.string().openapi({ description: "From the answer to the request, or from the list." }),
});
export const ConfirmBody = z
  .strictObject({
    token: z.int().openapi({ description: "As requested." }),
    free: free.openapi({ description: "As requested." }),
    reason: Reason,
  })
  .openapi("ConfirmRequest");
true satisfies Same<z.input<typeof ConfirmBody>, wire.ConfirmRequest>;
export const ConfirmedRevocation = z
  .object({
    status: z.literal("revoked"),
    resource: z.string(),
    token: Token,
    freeInMs: z.number().openapi({
      description: "In how many milliseconds the resource is free at the latest.",
    }),
  })
  .openapi("ConfirmedRevocation");
true satisfies Same<z.infer<typeof ConfirmedRevocation>, wire.ConfirmedRevocation>;
