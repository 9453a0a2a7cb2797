/** The schemas of what operators ask for: pauses, the audit, force unlock, acts on tasks, contention. */
import { z } from "@hono/zod-openapi";
import type { AuditPhase, Pause as StoredPause } from "leasehold/internal";
import { TASK_STATES, type TaskState } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { LIMITS } from "leasehold/internal/wire";
import { Cursor, Name, PageOf, QueryInteger, Time } from "./fields.js";
import { Prefix, Reason } from "./keys.js";
import type { Same } from "./same.js";

const PAUSE_KINDS = ["resource", "prefix", "queue"] as const satisfies StoredPause["kind"][];
const PHASES = ["done", "intent", "result"] as const satisfies AuditPhase[];

/** Of acts that need no body otherwise. */
export const ReasonQuery = z.strictObject({ reason: Reason.optional() });

const paused = {
  kind: z.enum(PAUSE_KINDS),
  name: Prefix.openapi({
    description: "The resource, what resources begin with (empty: all of them), or the queue.",
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

const AuditEntry = z
  .object({
    seq: z.int().openapi({ description: "Its place in the chain, which all tenants share." }),
    at: z.string(),
    actor: z.string().openapi({ description: "`key:ID`, `anyone` without keys, `cli:USER`." }),
    action: z.string().openapi({ description: "`lease.revoke`, `task.cancel`, `key.create` ..." }),
    target: z.string(),
    reason: z.string().nullable(),
    phase: z.enum(PHASES).openapi({
      description:
        "`done` together with the act; where they are kept apart, `intent` before and `result` after it.",
    }),
    details: z.record(z.string(), z.unknown()).openapi({ description: "What came of it." }),
    hash: z.string(),
  })
  .openapi("AuditEntry");
export const AuditPage = PageOf(AuditEntry).openapi("AuditPage");
true satisfies Same<z.infer<typeof AuditPage>, wire.AuditPage>;
export const AuditListQuery = z.strictObject({
  target: z.string().min(1).max(1_024).optional(),
  action: z
    .union([z.string().transform((action) => [action]), z.array(z.string())])
    .optional()
    .openapi({ type: "array", items: { type: "string" } }),
  limit: QueryInteger(1, LIMITS.page, 100),
  cursor: Cursor.optional(),
});
const Seq = z.int().min(0);
const Hash = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex digits");
export const Checkpoint = z.object({ seq: Seq, hash: Hash }).openapi("Checkpoint");
export const VerifyQuery = z
  .strictObject({
    seq: z
      .string()
      .regex(/^\d{1,15}$/, "must be a whole number")
      .transform(Number)
      .optional()
      .openapi({ type: "integer", description: "Of a checkpoint that was kept elsewhere." }),
    hash: Hash.optional(),
  })
  .superRefine(({ seq, hash }, context) => {
    if ((seq === undefined) === (hash === undefined)) return;
    const path = [seq === undefined ? "seq" : "hash"];
    context.addIssue({ code: "custom", path, message: "is missing: both or neither" });
  });
export const Verification = z
  .object({
    ok: z.boolean(),
    seq: z.int().openapi({ description: "Of the last entry; or the first place that is wrong." }),
    hash: z.string().nullable().openapi({ description: "Of the last entry; null: not ok." }),
    problem: z.string().nullable(),
  })
  .openapi("Verification");

export const ForceUnlockBody = z
  .strictObject({
    resource: Name,
    reason: Reason,
    expectedToken: z.int().optional().openapi({ description: "Refuse any other grant." }),
    free: z.enum(["atExpiry", "now"]).default("atExpiry").openapi({
      description: "`atExpiry` keeps exclusion; after `now` only the fencing token protects.",
    }),
  })
  .openapi("ForceUnlockRequest");
/** The audit's entry as the article shows it, and what came of the act. */
export const ForceUnlock = z
  .object({
    action: z.literal("FORCE_UNLOCK"),
    resource: z.string(),
    actorId: z.string(),
    reason: z.string(),
    createdAt: z.string(),
    auditSeq: z.int().openapi({ description: "Of the entry." }),
    unlocked: z.boolean(),
    why: z.enum(["notHeld", "otherToken"]).nullable().openapi({
      description: "Why nothing was done; null: it was.",
    }),
    fencingToken: z.int().nullable(),
    freeInMs: z.number().nullable(),
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
          description: "Default: those that the operation is for.",
        }),
        queue: Name.optional(),
        kind: Name.optional(),
        createdBefore: Time.optional(),
      })
      .openapi("TaskFilter"),
    expected: z.int().min(0).optional().openapi({
      description: "How many must match, or nothing is done.",
    }),
    reason: Reason,
  })
  .openapi("BulkRequest");
true satisfies Same<z.input<typeof BulkBody>, wire.BulkRequest>;
export const BulkAnswer = z
  .object({
    matched: z.int(),
    changed: z.int(),
    conflicts: z.int().openapi({ description: "Their state did not allow it." }),
    more: z.boolean().openapi({ description: "There may be others: send it again." }),
  })
  .openapi("BulkAnswer");
true satisfies Same<z.infer<typeof BulkAnswer>, wire.BulkAnswer>;

export const Contention = z
  .object({
    forMs: z.number().openapi({ description: "Since when this instance has counted." }),
    items: z.array(
      z
        .object({
          prefix: z.string().nullable().openapi({ description: "null: all others together." }),
          held: z.int().openapi({ description: "Acquires that somebody was in the way of." }),
          lost: z.int().openapi({ description: "Renewals that were refused." }),
        })
        .openapi("PrefixTrouble"),
    ),
  })
  .openapi("Contention");
