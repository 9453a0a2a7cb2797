/** Schemas of /api/leases. Fields in snake case follow the compatibility format; additions are in camel case. */
import { z } from "@hono/zod-openapi";
import { BOUNDS } from "leasehold/internal/wire";
import {
  Cursor,
  Name,
  NewName,
  ONLY_SERVERS_RECORD,
  PageOf,
  QueryInteger,
  renewalTtl,
  ttl,
  withOptionalTtl,
} from "./fields.js";
import { Grant, GrantOfResource, LeaseState } from "./leases.js";

/** One grant, live or ended. */
export const LeaseRecord = z
  .object({
    id: z.string().openapi({ description: "base64url(resource) + '.' + grantId. Public." }),
    resource: z.string().openapi({ description: "`task:ID` for the lease on a task." }),
    holder: z.string(),
    created_at: z.string().nullable(),
    renewed_at: z.string().nullable(),
    released_at: z.string().nullable(),
    expires_at: z.string().nullable(),
    state: LeaseState,
    grantId: z.string(),
    fencingToken: z.int().min(1),
    ttlMs: z.number(),
    remainingMs: z.number().openapi({ description: "0 once the grant has ended." }),
    freeInMs: z.number().nullable().openapi({
      description:
        "Of a revoked grant that still excludes others: in how many milliseconds the resource is free at the latest. null: of any other grant.",
    }),
  })
  .openapi("LeaseRecord");
export type LeaseRecord = z.infer<typeof LeaseRecord>;

export const NewLeaseRecord = LeaseRecord.extend({
  leaseId: z.string().openapi({ description: "Secret: it authorizes renewal and release." }),
}).openapi("NewLeaseRecord");

const Worker = z
  .object({
    holder: z.string(),
    lastHeartbeatAt: z.string().nullable(),
    holds: z.array(z.string()).openapi({ description: "Resources, tasks as `task:ID`." }),
  })
  .openapi("LiveWorker");

export const LeaseRecordPage = PageOf(LeaseRecord).openapi("LeaseRecordPage");
export const LeaseOverview = z
  .object({
    ...LeaseRecordPage.shape,
    workers: z.array(Worker).openapi({ description: "Holders of live leases, by name." }),
    workersComplete: z.boolean().openapi({
      description: "false: there are more live leases than the server read for this list.",
    }),
    history: z.boolean().openapi({
      description: `false: only the last grant of each resource is known. ${ONLY_SERVERS_RECORD}`,
    }),
  })
  .openapi("LeaseOverview");

export const LeaseRecordsQuery = z.strictObject({
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
});
export const LeaseOverviewQuery = LeaseRecordsQuery.extend({
  status: z
    .union([LeaseState.transform((state) => [state]), z.array(LeaseState)])
    .optional()
    .openapi({
      type: "array",
      items: { type: "string", enum: LeaseState.options },
      description: "Only leases in one of these states. Default: any.",
    }),
});
export const LeaseRecordParams = z.object({
  id: z.string().openapi({ description: "The id of a LeaseRecord." }),
});

export const NewLeaseBody = z
  .strictObject({
    resource: NewName,
    holder: NewName.openapi({ description: "Identity of the holder's process. Public." }),
    ...ttl,
    leaseId: GrantOfResource.optional(),
  })
  .transform(withOptionalTtl)
  .openapi("NewLease");

const grantee = {
  leaseId: Grant.optional(),
  resource: Name.optional(),
  holder: Name.optional(),
  fencingToken: z
    .int()
    .optional()
    .openapi({ description: "Only the grant with this fencing token." }),
};

interface Grantee {
  leaseId?: unknown;
  resource?: string | undefined;
  holder?: string | undefined;
}

/** Requires a leaseId, or else resource and holder. */
function namesGrant({ leaseId, resource, holder }: Grantee, context: z.RefinementCtx): void {
  if (leaseId !== undefined) return;
  for (const [path, value] of Object.entries({ resource, holder })) {
    if (value !== undefined) continue;
    const message = "is missing: send leaseId, or resource and holder";
    context.addIssue({ code: "custom", path: [path], message });
  }
}

export const RenewLeaseBody = z
  .strictObject({ ...grantee, ...renewalTtl })
  .superRefine(namesGrant)
  .transform(withOptionalTtl)
  .openapi("RenewLease");
export const ReleaseLeaseBody = z
  .strictObject(grantee)
  .superRefine(namesGrant)
  .openapi("ReleaseLease");
