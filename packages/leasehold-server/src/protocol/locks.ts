/** The schemas of /v1/locks. Fields of the article keep its names. */
import { z } from "@hono/zod-openapi";
import { LIMITS } from "leasehold/internal/wire";
import {
  leaseFilters,
  Name,
  PageOf,
  QueryInteger,
  ttl,
  withDefaultTtl,
  withOptionalTtl,
} from "./fields.js";
import { GrantOfResource } from "./leases.js";

const term = {
  ttlMs: z.number(),
  remainingMs: z.number(),
  expiresAt: z.string().nullable(),
};
const identity = {
  resource: z.string(),
  ownerId: z.string(),
  grantId: z.string().openapi({ description: "Public name of the grant." }),
  fencingToken: z.int().min(1).openapi({ description: "Grows with every grant of the resource." }),
};

export const LockBody = z
  .strictObject({
    resource: Name,
    ownerId: Name.openapi({ description: "Identity of the process, shown to others." }),
    ...ttl,
    leaseId: GrantOfResource.optional(),
  })
  .transform(withDefaultTtl)
  .openapi("LockRequest");

const LockAcquired = z
  .object({
    acquired: z.literal(true),
    leaseId: z.string().openapi({ description: "Secret: whoever knows it may renew and release." }),
    ...identity,
    ...term,
  })
  .openapi("LockAcquired");
const LockHeld = z
  .object({
    acquired: z.literal(false),
    resource: z.string(),
    ownerId: z.string().openapi({ description: "Who holds it." }),
    grantId: z.string().nullable(),
    remainingMs: z.number().nullable(),
  })
  .openapi("LockHeld");
export const LockAnswer = z.union([LockAcquired, LockHeld]).openapi("LockAnswer");

export const LockRenewBody = z
  .strictObject(ttl)
  .transform(withOptionalTtl)
  .openapi("LockRenewRequest");
export const LockRenewed = z
  .object({
    renewed: z.literal(true),
    resource: z.string(),
    grantId: z.string(),
    fencingToken: identity.fencingToken,
    ...term,
  })
  .openapi("LockRenewed");
export const LockReleased = z
  .object({
    released: z.boolean().openapi({
      description: "false: this grant had ended otherwise before. Either way it holds nothing now.",
    }),
  })
  .openapi("LockReleased");

/** What somebody holds, without the secret. */
export const Lock = z
  .object({
    ...identity,
    ...term,
    createdAt: z.string().nullable(),
    renewedAt: z.string().nullable(),
    metadata: z.string().nullable(),
  })
  .openapi("Lock");
export type Lock = z.infer<typeof Lock>;
export const LockPage = PageOf(Lock).openapi("LockPage");

export const LockListQuery = z.strictObject({
  prefix: z
    .union([z.literal(""), Name])
    .optional()
    .openapi({ type: "string", description: "Literal: no character in it is a wildcard." }),
  resource: Name.optional().openapi({ description: "Exactly this one." }),
  ...leaseFilters,
  limit: QueryInteger(1, LIMITS.page, 100),
  cursor: Name.openapi({ description: "`nextCursor` of the page before." }).optional(),
});

export const LeaseIdParams = z.object({
  leaseId: z.string().openapi({ description: "From the answer of acquire. Secret." }),
});
