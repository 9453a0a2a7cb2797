/** The schemas of /v1/keys and /v1/limits. */
import { z } from "@hono/zod-openapi";
import { InvalidOptionError } from "leasehold";
import type { Role } from "leasehold/internal";
import { checkName } from "leasehold/internal";
import { LIMITS } from "leasehold/internal/wire";
import { Cursor, Name, PageOf, QueryInteger } from "./fields.js";

const KEY_ROLES = ["viewer", "holder", "operator", "admin"] as const satisfies readonly Role[];
const LONGEST_LIFETIME_MS = 10 * 365 * 24 * 3_600_000;
const LONGEST_OVERLAP_MS = 90 * 24 * 3_600_000;
/** For whoever has to change the key on some machines by hand. */
const DEFAULT_OVERLAP_MS = 24 * 3_600_000;
const MOST_PREFIXES = 100;

export const Reason = z
  .string()
  .min(1)
  .max(1_000)
  .refine((text) => text.isWellFormed() && !text.includes("\0"), "must be well-formed")
  .openapi({ description: "Why, for the audit." });

/** As a name, but it may be empty: then it is the beginning of everything. */
export const Prefix = z
  .string()
  .superRefine((value, context) => {
    try {
      if (value !== "") checkName("", value);
    } catch (error) {
      if (!(error instanceof InvalidOptionError)) throw error;
      context.addIssue({ code: "custom", message: error.message.trim() });
    }
  })
  .openapi({ maxLength: 256, example: "billing/" });

export const ApiKey = z
  .object({
    id: z.string().openapi({ description: "Public: the actor in the audit is `key:ID`." }),
    namespace: z.string().openapi({ description: "The tenant." }),
    name: z.string(),
    role: z.enum(KEY_ROLES),
    prefixes: z.array(z.string()),
    createdAt: z.string(),
    expiresAt: z.string().nullable().openapi({ description: "null: never." }),
    remainingMs: z.number().nullable().openapi({ description: "null: no end; 0: it is over." }),
    revoked: z.boolean(),
  })
  .openapi("ApiKey");

export const NewApiKey = ApiKey.extend({
  key: z.string().openapi({ description: "Secret: told once, and stored nowhere." }),
}).openapi("NewApiKey");

export const ApiKeyPage = PageOf(ApiKey).openapi("ApiKeyPage");
export const KeyListQuery = z.strictObject({
  limit: QueryInteger(1, LIMITS.page, 100),
  cursor: Cursor.optional(),
});

export const KeyBody = z
  .strictObject({
    name: Name.openapi({ description: "For people: whose it is." }),
    role: z.enum(KEY_ROLES),
    prefixes: z.array(Prefix).min(1).max(MOST_PREFIXES).optional().openapi({
      description: "Of a holder: what it may lease begins with one of these. Default: anything.",
    }),
    lifetimeMs: z.int().min(1_000).max(LONGEST_LIFETIME_MS).nullable().default(null).openapi({
      description: "null: no end. A key that takes its place will live as long.",
    }),
    reason: Reason.optional(),
  })
  .superRefine(({ role, prefixes }, context) => {
    if (prefixes === undefined || role === "holder") return;
    const message = `is for holders: a ${role} is not limited by prefixes`;
    context.addIssue({ code: "custom", path: ["prefixes"], message });
  })
  .openapi("NewKey");

export const RotateBody = z
  .strictObject({
    overlapMs: z.int().min(0).max(LONGEST_OVERLAP_MS).default(DEFAULT_OVERLAP_MS).openapi({
      description: "How long the old key goes on beside the new one.",
    }),
    reason: Reason.optional(),
  })
  .openapi("RotateKey");

export const KeyParams = z.object({ id: z.string() });

const Limit = z.int().min(1).max(1e9).nullable();
const limits = {
  leases: Limit.openapi({ description: "Live leases at once. null: the server's own limit." }),
  tasks: Limit.openapi({ description: "Pending and running tasks at once." }),
  ratePerSecond: z
    .number()
    .positive()
    .max(1e9)
    .nullable()
    .openapi({ description: "Requests per second of one key." }),
};
export const TenantLimits = z.object(limits).openapi("TenantLimits");
export const LimitsBody = z
  .strictObject({
    leases: limits.leases.optional(),
    tasks: limits.tasks.optional(),
    ratePerSecond: limits.ratePerSecond.optional(),
    reason: Reason.optional(),
  })
  .openapi("ChangeLimits");
