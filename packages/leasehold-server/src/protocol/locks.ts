/** Schemas of /v1/locks. Field names follow the compatibility format. */
import { z } from "@hono/zod-openapi";
import { BOUNDS } from "leasehold/internal/wire";
import {
  Cursor,
  leaseFilters,
  Name,
  NewName,
  PageOf,
  QueryInteger,
  renewalTtl,
  ttl,
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
  fencingToken: z.int().min(1).openapi({ description: "Grows with each grant of the resource." }),
};

export const LockBody = z
  .strictObject({
    resource: NewName,
    ownerId: NewName.openapi({ description: "Identity of the holder's process. Public." }),
    ...ttl,
    leaseId: GrantOfResource.optional(),
  })
  .transform(withOptionalTtl)
  .openapi("LockRequest");

const LockAcquired = z
  .object({
    acquired: z.literal(true),
    leaseId: z.string().openapi({ description: "Secret: it authorizes renewal and release." }),
    ...identity,
    ...term,
  })
  .openapi("LockAcquired");
const LockHeld = z
  .object({
    acquired: z.literal(false),
    resource: z.string(),
    ownerId: z.string().openapi({ description: "The current holder." }),
    grantId: z.string().nullable(),
    remainingMs: z.number().nullable(),
  })
  .openapi("LockHeld");
export const LockAnswer = z.union([LockAcquired, LockHeld]).openapi("LockAnswer");

export const LockRenewBody = z
  .strictObject(renewalTtl)
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
      description: "false: the grant had already ended. Either way the lock is not held by it.",
    }),
  })
  .openapi("LockReleased");

/** A held lock, or a revoked one that still excludes others, without its lease id. */
export const Lock = z
  .object({
    ...identity,
    state: z.enum(["live", "revoked"]).openapi({
      description:
        "`revoked`: renewals are refused, and so is each acquire until `freeInMs` is over.",
    }),
    ...term,
    freeInMs: z.number().nullable().openapi({
      description:
        "In how many milliseconds a revoked lock is free at the latest; null: not revoked.",
    }),
    createdAt: z.string().nullable(),
    renewedAt: z.string().nullable(),
    metadata: z.string().nullable(),
  })
  .openapi("Lock");
export type Lock = z.infer<typeof Lock>;
export const LockPage = PageOf(Lock).openapi("LockPage");

export const LockListQuery = z
  .strictObject({
    prefix: z
      .union([z.literal(""), Name])
      .optional()
      .openapi({ type: "string", description: "Literal prefix: no wildcards." }),
    resource: Name.optional().openapi({ description: "Only this resource." }),
    ...leaseFilters,
    limit: QueryInteger(1, BOUNDS.page, 100),
    cursor: Cursor.optional(),
  })
  .superRefine(({ resource, limit: _, ...others }, context) => {
    if (resource === undefined) return;
    for (const [name, value] of Object.entries(others)) {
      if (value === undefined) continue;
      const message = "must not be combined with resource";
      context.addIssue({ code: "custom", path: [name], message });
    }
  });

export const LeaseIdParams = z.object({
  leaseId: z.string().openapi({ description: "From the response to acquire. Secret." }),
});
