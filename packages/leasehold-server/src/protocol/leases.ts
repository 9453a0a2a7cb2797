/** Schemas of /v1/leases: the LeaseStore port as JSON. The server adds the namespace. */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS, fromWireLeaseId } from "leasehold/internal/wire";
import {
  batch,
  Cursor,
  Failed,
  leaseFilters,
  Name,
  NewName,
  PageOf,
  QueryInteger,
  Token,
  TtlMs,
} from "./fields.js";
import { Reason } from "./keys.js";
import type { Same } from "./same.js";

const LONGEST_METADATA = 4_096;
/** A century. Longer ages exceed what the databases can represent. */
const LONGEST_AGE_MS = 100 * 365 * 24 * 3_600_000;

/** A lease id in its wire format, parsed into resource and id. */
export const Grant = z
  .string()
  .transform((text, context) => {
    const grant = fromWireLeaseId(text);
    if (grant && Name.safeParse(grant.resource).success) return grant;
    context.addIssue({
      code: "custom",
      message: "must be base64url(resource), a dot, 48 hex digits",
    });
    return z.NEVER;
  })
  .openapi({
    type: "string",
    description:
      "base64url(resource) + '.' + 48 hex digits, chosen at random for each acquire. The first 16 become the grantId, which is public; the other 32 are secret. A repeated acquire of the same holder returns the same grant; of another holder, it is refused.",
    example: "b3JkZXJz.0123456789abcdef00112233445566778899aabbccddeeff",
  });

/** A lease id that the caller chooses, which makes the request idempotent. */
export const GrantOfResource = Grant.openapi({
  description:
    "Chosen by the caller, at random for each acquire: a repeated request of the same holder returns the same grant; of another holder, it is refused. Must name `resource`.",
});

const Metadata = z
  .string()
  .max(LONGEST_METADATA)
  .refine(
    (text) => text.isWellFormed() && !text.includes("\0"),
    "must be well-formed, without NUL",
  );

const ttlMs = z.number().openapi({
  description:
    "The TTL of the last acquire or renewal. A renewal never shortens a grant, so remainingMs may be larger: compute with that.",
});
const term = { ttlMs, remainingMs: z.number(), expiresAt: z.string().nullable() };

const Acquired = z
  .object({ status: z.literal("acquired"), token: Token, ...term })
  .openapi("Acquired");
const Held = z
  .object({
    status: z.literal("held"),
    holder: z.string(),
    grantId: z.string().nullable(),
    remainingMs: z.number().nullable(),
    ahead: z.int().optional(),
  })
  .openapi("Held");
const Ended = z.object({ status: z.literal("ended") }).openapi("Ended");
const Renewed = z
  .object({ status: z.literal("renewed"), token: Token, ...term })
  .openapi("Renewed");
const Lost = z
  .object({ status: z.literal("lost"), reason: z.enum(["expired", "revoked", "taken", "gone"]) })
  .openapi("Lost");
const Released = z.object({ status: z.literal("released") }).openapi("Released");
const NotHeld = z.object({ status: z.literal("notHeld") }).openapi("NotHeld");
const OtherToken = z.object({ status: z.literal("otherToken") }).openapi("OtherToken");
const Revoked = z
  .object({ status: z.literal("revoked"), token: Token, freeInMs: z.number() })
  .openapi("Revoked");

export const AcquireAnswer = z.array(
  z.discriminatedUnion("status", [Acquired, Held, Ended, Failed]).openapi("AcquireOutcome"),
);
true satisfies Same<z.infer<typeof AcquireAnswer>, readonly wire.AcquireOutcome[]>;
export const RenewAnswer = z.array(
  z.discriminatedUnion("status", [Renewed, Lost, Failed]).openapi("RenewOutcome"),
);
true satisfies Same<z.infer<typeof RenewAnswer>, readonly wire.RenewOutcome[]>;
export const ReleaseAnswer = z.array(
  z.discriminatedUnion("status", [Released, NotHeld, Failed]).openapi("ReleaseOutcome"),
);
true satisfies Same<z.infer<typeof ReleaseAnswer>, readonly wire.ReleaseOutcome[]>;
export const RevokeAnswer = z.array(
  z.discriminatedUnion("status", [Revoked, NotHeld, OtherToken, Failed]).openapi("RevokeOutcome"),
);
true satisfies Same<z.infer<typeof RevokeAnswer>, readonly wire.RevokeOutcome[]>;

export const AcquireBody = batch(
  z
    .strictObject({
      leaseId: Grant.superRefine(({ resource }, context) => {
        const { error } = NewName.safeParse(resource);
        for (const { message } of error?.issues ?? []) {
          context.addIssue({ code: "custom", message: `its resource ${message}` });
        }
      }),
      holder: NewName,
      ttlMs: TtlMs,
      queueMs: z.number().min(0).max(BOUNDS.queueMs).optional().openapi({
        description:
          "The caller waits and polls again within this time: the store keeps its queue position that long.",
      }),
      metadata: Metadata.optional(),
    })
    .openapi("AcquireRequest"),
);
true satisfies Same<z.input<typeof AcquireBody>, readonly wire.AcquireRequest[]>;
export const RenewBody = batch(
  z.strictObject({ leaseId: Grant, ttlMs: TtlMs }).openapi("RenewRequest"),
);
true satisfies Same<z.input<typeof RenewBody>, readonly wire.RenewRequest[]>;
export const ReleaseBody = batch(z.strictObject({ leaseId: Grant }).openapi("ReleaseRequest"));
true satisfies Same<z.input<typeof ReleaseBody>, readonly wire.ReleaseRequest[]>;
export const RevokeBody = batch(
  z
    .strictObject({
      resource: Name,
      expectedToken: z.int().optional().openapi({ description: "Refuse any other grant." }),
      free: z.enum(["atExpiry", "now"]).default("atExpiry").openapi({
        description: "`atExpiry` keeps exclusion; after `now` only the fencing token protects.",
      }),
      reason: Reason.optional().openapi({
        description: "Reason for the audit. Required from callers with a key.",
      }),
    })
    .openapi("RevokeRequest"),
  BOUNDS.revocations,
);
true satisfies Same<z.input<typeof RevokeBody>, readonly wire.RevokeRequest[]>;

const LEASE_STATES = ["live", "expired", "released", "revoked"] as const;
export const LeaseState = z.enum(LEASE_STATES);

const freeInMs = z.number().optional().openapi({
  description:
    "Only of a revoked grant that still excludes others: in how many milliseconds the resource is free at the latest.",
});

/** A grant without its lease id, which is secret. */
export const LeaseView = z
  .object({
    resource: z.string(),
    holder: z.string(),
    grantId: z.string(),
    token: Token,
    state: LeaseState,
    ttlMs,
    remainingMs: z.number(),
    freeInMs,
    grantedAt: z.string().nullable(),
    renewedAt: z.string().nullable(),
    expiresAt: z.string().nullable(),
    metadata: z.string().nullable(),
  })
  .openapi("LeaseView");
true satisfies Same<z.infer<typeof LeaseView>, wire.LeaseView>;
export const LeasePage = PageOf(LeaseView).openapi("LeasePage");
true satisfies Same<z.infer<typeof LeasePage>, wire.LeasePage>;

export const CollectBody = z
  .strictObject({
    olderThanMs: z
      .number()
      .min(0)
      .max(LONGEST_AGE_MS)
      .openapi({ description: "Delete records of grants that ended longer ago than this." }),
    reason: Reason.optional(),
  })
  .openapi("CollectRequest");
true satisfies Same<z.input<typeof CollectBody>, wire.CollectRequest>;
export const CollectAnswer = z.object({ collected: z.int() }).openapi("CollectAnswer");
true satisfies Same<z.infer<typeof CollectAnswer>, wire.CollectAnswer>;

export const GetBody = batch(Name);
// Not nullable(): for a named schema the OpenAPI document would then not list null.
export const GetAnswer = z.array(z.union([LeaseView, z.null()]));
true satisfies Same<z.infer<typeof GetAnswer>, wire.GetAnswer>;

const leaseListQuery = z.strictObject({
  prefix: z
    .union([z.literal(""), Name])
    .optional()
    .openapi({ type: "string" }),
  state: z
    .union([LeaseState.transform((state) => [state]), z.array(LeaseState)])
    .optional()
    .openapi({ type: "array", items: { type: "string", enum: [...LEASE_STATES] } }),
  renewedOnly: z
    .enum(["true", "false"])
    .transform((text) => text === "true")
    .optional()
    .openapi({ type: "boolean" }),
  ...leaseFilters,
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
});
export const LeaseListQuery = leaseListQuery.superRefine(
  ({ state = ["live"], ...filters }, context) => {
    if (state.includes("live")) return;
    for (const path of ["expiringWithinMs", "heldForMs"] as const) {
      if (filters[path] === undefined) continue;
      const message = "lists live leases only: leave out state, or add live";
      context.addIssue({ code: "custom", path: [path], message });
    }
  },
);

export const TaskLeaseListQuery = leaseListQuery.omit({
  prefix: true,
  holder: true,
  expiringWithinMs: true,
  heldForMs: true,
});

const Ttl = z.object({ minMs: z.number(), maxMs: z.number(), stepMs: z.number() });
const Watch = z
  .enum(["push", "poll"])
  .openapi({ description: "`push`: /v1/events sends notifications of changes." });
/** Capabilities of the server's stores. */
export const Capabilities = z
  .object({
    leases: z.object({
      clock: z.enum(["store", "session", "observed"]),
      grants: z.enum(["portable", "bound"]),
      ttl: Ttl,
      queue: z.boolean(),
      watch: Watch,
      epsilonMs: z.number(),
    }),
    tasks: z.object({ ttl: Ttl, watch: Watch }),
  })
  .openapi("Capabilities");
true satisfies Same<z.infer<typeof Capabilities>, wire.Capabilities>;
export const ServerCapabilities = Capabilities.extend({
  namespace: z.string().openapi({ description: "The namespace of the caller's key." }),
  once: z.boolean().openapi({
    description:
      "Whether /v1/once keeps records: it does where one database has the leases and the records.",
  }),
  schedules: z.boolean().openapi({
    description: "Whether /v1/schedules keeps schedules of tasks, and the server ticks.",
  }),
  taskLimits: z.boolean().openapi({
    description:
      "Whether /v1/tasks/limits keeps limits of kinds and queues, and claims keep to them.",
  }),
  maxBodyBytes: z.int().openapi({ description: "The largest body that this server takes." }),
}).openapi("ServerCapabilities");
true satisfies Same<z.infer<typeof ServerCapabilities>, wire.ServerCapabilities>;
