/** Schemas of operator actions: pauses, the audit, force unlock, tasks, contention. */
import { z } from "@hono/zod-openapi";
import type { AuditPhase, Pause as StoredPause } from "leasehold/internal";
import { ACTION_ALIASES, TASK_STATES, type TaskState } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import { AUDITED_ACTIONS } from "../generator/shared.js";
import { Cursor, Name, PageOf, QueryInteger, Time } from "./fields.js";
import { Prefix, Reason } from "./keys.js";
import type { Same } from "./same.js";

const PAUSE_KINDS = ["resource", "prefix", "queue"] as const satisfies StoredPause["kind"][];
const PHASES = ["done", "intent", "result"] as const satisfies AuditPhase[];

/** For operator actions without a body. */
export const ReasonQuery = z.strictObject({ reason: Reason.optional() });

const paused = {
  kind: z.enum(PAUSE_KINDS),
  name: Prefix.openapi({
    description: "The resource, a prefix of resources (empty: all resources), or the queue.",
  }),
};

/** Only a prefix may be empty. */
function namesSomething(
  { kind, name }: { kind: StoredPause["kind"]; name: string },
  context: z.RefinementCtx,
): void {
  if (name !== "" || kind === "prefix") return;
  context.addIssue({ code: "custom", path: ["name"], message: "must not be empty" });
}

export const Pause = z
  .object({
    kind: paused.kind,
    name: z.string(),
    actor: z.string(),
    reason: z.string(),
    since: z.string(),
  })
  .openapi("Pause");
true satisfies Same<z.infer<typeof Pause>, wire.Pause>;
export const PauseList = z.object({ items: z.array(Pause) }).openapi("PauseList");
true satisfies Same<z.infer<typeof PauseList>, wire.PauseList>;
export const PauseBody = z
  .strictObject({ ...paused, reason: Reason })
  .superRefine(namesSomething)
  .openapi("NewPause");
true satisfies Same<z.input<typeof PauseBody>, wire.PauseRequest>;
export const ResumeQuery = z
  .strictObject({ ...paused, reason: Reason.optional() })
  .superRefine(namesSomething);
export const Resumed = z
  .object({
    kind: z.enum(PAUSE_KINDS),
    name: z.string(),
    wasPaused: z.boolean(),
  })
  .openapi("Resumed");
true satisfies Same<z.infer<typeof Resumed>, wire.Resumed>;

const claimedActor = z.string().nullable().openapi({
  description:
    "Who the caller says it is, in the body or in the header `leasehold-actor`; null: it says nothing. Nothing proves it.",
});
/** A name that a caller gives itself. Control characters would change how terminals show it. */
export const ActorId = Name.refine(
  (name) => !/\p{Cc}/u.test(name),
  "must have no control character",
);

const AuditEntry = z
  .object({
    seq: z.int().openapi({ description: "Position in the chain, which all tenants share." }),
    at: z.string(),
    actor: z.string().openapi({ description: "`key:ID`, `anyone` without keys, `cli:USER`." }),
    claimedActor,
    action: z.string().openapi({ description: "`lease.revoke`, `task.cancel`, `key.create` ..." }),
    target: z.string(),
    reason: z.string().nullable(),
    phase: z.enum(PHASES).openapi({
      description:
        "`done`: written together with the action. If audit and action are in separate stores: `intent` before and `result` after the action.",
    }),
    details: z.record(z.string(), z.unknown()).openapi({ description: "The outcome." }),
    hash: z.string(),
  })
  .openapi("AuditEntry");
export const AuditPage = PageOf(AuditEntry).openapi("AuditPage");
true satisfies Same<z.infer<typeof AuditPage>, wire.AuditPage>;
const ACTION_NAMES = [...AUDITED_ACTIONS, ...Object.keys(ACTION_ALIASES)];
const Action = z
  .string()
  .refine((action) => ACTION_NAMES.includes(action), `must be one of ${ACTION_NAMES.join(", ")}`)
  .transform((action) => ACTION_ALIASES[action] ?? action);
export const AuditListQuery = z.strictObject({
  // PostgreSQL stores no NUL, and fails if it is asked for one.
  target: z
    .string()
    .min(1)
    .max(1_024)
    .refine((text) => !text.includes("\0"), "must not contain a NUL character")
    .optional(),
  action: z
    .preprocess((sent) => (typeof sent === "string" ? [sent] : sent), z.array(Action))
    .optional()
    .openapi({
      type: "array",
      items: { type: "string", enum: ACTION_NAMES },
      description: "Only these actions. `FORCE_UNLOCK` is an alias of `lease.revoke`.",
    }),
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
});
const Hash = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex digits");
export const VerifyQuery = z
  .strictObject({
    seq: z
      .string()
      .regex(/^\d{1,15}$/, "must be a whole number")
      .transform(Number)
      .optional()
      .openapi({
        type: "integer",
        description: "Of the end of an export that was stored elsewhere.",
      }),
    hash: Hash.optional(),
    from: z.enum(["start", "export"]).default("start").openapi({
      description:
        "`export` reads only the entries behind it, for a chain that is too long for one request.",
    }),
  })
  .superRefine(({ seq, hash, from }, context) => {
    if (from === "export" && seq === undefined && hash === undefined) {
      const message = "needs the seq and hash of the end of an export";
      context.addIssue({ code: "custom", path: ["from"], message });
    }
    if ((seq === undefined) === (hash === undefined)) return;
    const path = [seq === undefined ? "seq" : "hash"];
    context.addIssue({ code: "custom", path, message: "is missing: both or neither" });
  });
export const Verification = z
  .object({
    ok: z.boolean(),
    seq: z.int().openapi({ description: "Of the last entry, or of the first wrong one." }),
    hash: z.string().nullable().openapi({ description: "Of the last entry; null if not ok." }),
    problem: z.string().nullable(),
  })
  .openapi("Verification");
true satisfies Same<z.infer<typeof Verification>, wire.Verification>;

export const ForceUnlockBody = z
  .strictObject({
    resource: Name,
    reason: Reason,
    actorId: ActorId.optional().openapi({
      description: "Who the caller says it is. The audit keeps it as `claimedActor`.",
    }),
    expectedToken: z.int().optional().openapi({ description: "Refuse any other grant." }),
    free: z.enum(["atExpiry", "now"]).default("atExpiry").openapi({
      description: "`atExpiry` keeps exclusion; after `now` only the fencing token protects.",
    }),
  })
  .openapi("ForceUnlockRequest");
/** The audit entry in the compatibility format, and the outcome of the action. */
export const ForceUnlock = z
  .object({
    action: z.literal("FORCE_UNLOCK"),
    resource: z.string(),
    actorId: z.string().openapi({ description: "`key:ID`, or `anyone` without keys." }),
    claimedActor,
    reason: z.string(),
    createdAt: z.string(),
    auditSeq: z.int().openapi({ description: "The sequence number of the entry." }),
    auditAction: z.string().openapi({
      description:
        "The action of the entry: `lease.revoke`. The filter accepts `FORCE_UNLOCK` too.",
    }),
    revoked: z.boolean().openapi({ description: "The holder's renewals are refused." }),
    unlocked: z.boolean().openapi({
      description: "The resource is free now. false after `atExpiry`: it is free in `freeInMs`.",
    }),
    why: z.enum(["notHeld", "otherToken"]).nullable().openapi({
      description: "Why nothing was revoked; null: it was.",
    }),
    fencingToken: z.int().nullable(),
    freeInMs: z.number().nullable().openapi({
      description:
        "In how many milliseconds the resource is free at the latest; null: not revoked.",
    }),
  })
  .openapi("ForceUnlock");

const OPERATIONS = ["cancel", "retry", "delete"] as const;
const TaskStates = z.array(z.enum(TASK_STATES as [TaskState, ...TaskState[]])).min(1);
export const BulkBody = z
  .strictObject({
    operation: z.enum(OPERATIONS),
    filter: z
      .strictObject({
        states: TaskStates.optional().openapi({
          description:
            "Default: pending and running for cancel, dead, cancelled and expired for retry, done, dead, cancelled and expired for delete. Others are refused, except pending for retry: those that are not due yet.",
        }),
        queue: Name.optional(),
        kind: Name.optional(),
        createdBefore: Time.optional(),
      })
      .openapi("TaskFilter"),
    expected: z.int().min(0).optional().openapi({
      description: "If another number of tasks matches, nothing is done.",
    }),
    reason: Reason.optional(),
  })
  .openapi("BulkRequest");
true satisfies Same<z.input<typeof BulkBody>, wire.BulkRequest>;
export const BulkAnswer = z
  .object({
    matched: z.int(),
    changed: z.int(),
    conflicts: z.int().openapi({ description: "Tasks whose state did not allow the operation." }),
    overLimit: z.int().openapi({
      description: "Tasks that were not retried, because the tenant would have more than it may.",
    }),
    more: z.boolean().openapi({ description: "More tasks may match: send the request again." }),
  })
  .openapi("BulkAnswer");
true satisfies Same<z.infer<typeof BulkAnswer>, wire.BulkAnswer>;

export const Contention = z
  .object({
    forMs: z
      .number()
      .openapi({ description: "How long this instance has been counting, in milliseconds." }),
    items: z.array(
      z
        .object({
          prefix: z
            .string()
            .nullable()
            .openapi({ description: "null: all other prefixes together." }),
          held: z.int().openapi({ description: "Acquires that found the resource held." }),
          lost: z.int().openapi({ description: "Refused renewals." }),
        })
        .openapi("PrefixTrouble"),
    ),
  })
  .openapi("Contention");
