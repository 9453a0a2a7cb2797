/** Schemas of /v1/keys and /v1/limits. */
import { z } from "@hono/zod-openapi";
import { InvalidOptionError } from "leasehold";
import type { Role } from "leasehold/internal";
import { checkName } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { Cursor, Name, PageOf, QueryInteger } from "./fields.js";
import type { Same } from "./same.js";

const KEY_ROLES = [
  "scraper",
  "viewer",
  "holder",
  "operator",
  "admin",
] as const satisfies readonly Role[];
const LONGEST_LIFETIME_MS = 10 * 365 * 24 * 3_600_000;
const LONGEST_OVERLAP_MS = 90 * 24 * 3_600_000;
/** A day, for operators who replace the key on some machines by hand. */
const DEFAULT_OVERLAP_MS = 24 * 3_600_000;
const MAX_PREFIXES = 100;

/** A role in a sentence. */
export function withArticle(role: Role): string {
  return `${/^[ao]/.test(role) ? "an" : "a"} ${role}`;
}

export const Reason = z
  .string()
  // Blank, too: one problem for one mistake.
  .min(1, { error: "must not be blank", abort: true })
  .max(1_000)
  .refine((text) => text.trim() !== "", "must not be blank")
  .refine((text) => text.isWellFormed() && !text.includes("\0"), "must be well-formed")
  .openapi({ description: "Reason for the audit." });

/** A name or the empty string, which every name begins with. */
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
    prefixes: z.array(z.string()).openapi({
      description:
        "Of a holder, and of an operator that may act on these resources alone; empty for other roles, which are not limited.",
    }),
    queues: z.array(z.string()).openapi({
      description: "Of an operator that may act on the tasks of these queues alone.",
    }),
    createdAt: z.string(),
    expiresAt: z.string().nullable().openapi({ description: "null: never." }),
    remainingMs: z.number().nullable().openapi({ description: "null: never expires; 0: expired." }),
    revoked: z.boolean(),
    lastUsedAt: z.string().nullable().openapi({
      description: "The last use that a server has noted, within a few minutes. null: none.",
    }),
  })
  .openapi("ApiKey");

export const NewApiKey = ApiKey.extend({
  key: z
    .string()
    .openapi({ description: "Secret. Returned once; the server stores only a digest." }),
}).openapi("NewApiKey");

export const ApiKeyPage = PageOf(ApiKey).openapi("ApiKeyPage");
true satisfies Same<z.infer<typeof ApiKeyPage>, wire.ApiKeyPage>;
export const KeyListQuery = z.strictObject({
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
});

export const KeyBody = z
  .strictObject({
    name: Name.openapi({ description: "A label for people, such as the owner." }),
    role: z.enum(KEY_ROLES),
    prefixes: z.array(Prefix).max(MAX_PREFIXES).optional().openapi({
      description:
        'For a holder, which needs at least one: the resources that it may lease begin with one of these; `[""]` is any resource. For an operator: the resources on which it may act.',
    }),
    queues: z.array(Name).max(MAX_PREFIXES).optional().openapi({
      description:
        "For an operator: the queues on whose tasks it may act. Without queues and prefixes, it may act on everything.",
    }),
    lifetimeMs: z.int().min(1_000).max(LONGEST_LIFETIME_MS).nullable().default(null).openapi({
      description: "null: never expires. Rotation gives the new key the same lifetime.",
    }),
    reason: Reason.optional(),
  })
  .superRefine(({ role, prefixes = [], queues = [] }, context) => {
    const isHolder = role === "holder";
    if (queues.length > 0 && role !== "operator") {
      const isFor = `is for operators: ${withArticle(role)} is not limited by queues`;
      context.addIssue({ code: "custom", path: ["queues"], message: isFor });
    }
    if (role === "operator") return;
    if (isHolder === prefixes.length > 0) return;
    const message = isHolder
      ? 'of a holder must not be empty; [""] is any resource'
      : `is for holders and operators: ${withArticle(role)} is not limited by prefixes`;
    context.addIssue({ code: "custom", path: ["prefixes"], message });
  })
  .openapi("NewKey");

export const RotateBody = z
  .strictObject({
    overlapMs: z.int().min(0).max(LONGEST_OVERLAP_MS).default(DEFAULT_OVERLAP_MS).openapi({
      description: "How long the old key stays valid beside the new one.",
    }),
    reason: Reason.optional(),
  })
  .openapi("RotateKey");

export const KeyParams = z.object({ id: z.string() });

const Limit = z.int().min(1).max(1e9).nullable();
const limits = {
  leases: Limit.openapi({
    description: "Maximum number of live leases. null: the server's own limit.",
  }),
  tasks: Limit.openapi({ description: "Maximum number of pending and running tasks." }),
  ratePerSecond: z
    .number()
    .positive()
    .max(1e9)
    .nullable()
    .openapi({ description: "Maximum requests per second of the tenant at each instance." }),
};
export const TenantLimits = z.object(limits).openapi("TenantLimits");
export const LimitsBody = z
  .strictObject({
    leases: limits.leases.optional(),
    tasks: limits.tasks.optional(),
    ratePerSecond: limits.ratePerSecond.optional(),
    reason: Reason.optional(),
  })
  .refine(
    ({ reason: _, ...change }) => Object.values(change).some((limit) => limit !== undefined),
    {
      error: "must name a limit: leases, tasks or ratePerSecond",
    },
  )
  .openapi("ChangeLimits");
