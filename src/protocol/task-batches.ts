/**
 * The schemas of what holders and operators say about many tasks at once. Outcomes are values, as at
 * /v1/leases: one per request, in order.
 */
import { z } from "@hono/zod-openapi";
import { batch, Failed, JsonValue, ttl, withTtlMs } from "./fields.js";
import { failure, grant, State } from "./tasks.js";

/** What is no id of a task is the id of no task. */
const id = z.string().max(256);

export const HeartbeatBatch = batch(
  z
    .strictObject({ id, ...grant, ...ttl, progress: JsonValue.optional() })
    .transform(withTtlMs)
    .openapi("HeartbeatRequest"),
);
export type HeartbeatBatch = z.input<typeof HeartbeatBatch>;
export const CompleteBatch = batch(
  z.strictObject({ id, ...grant, task_output: JsonValue.default(null) }).openapi("CompleteRequest"),
);
export type CompleteBatch = z.input<typeof CompleteBatch>;
export const FailBatch = batch(z.strictObject({ id, ...grant, ...failure }).openapi("FailRequest"));
export type FailBatch = z.input<typeof FailBatch>;
export const ReturnBatch = batch(z.strictObject({ id, ...grant }).openapi("ReturnRequest"));
export type ReturnBatch = z.input<typeof ReturnBatch>;
export const AdminBatch = batch(id);
export type AdminBatch = z.input<typeof AdminBatch>;

const Refused = z
  .object({
    status: z.literal("refused"),
    reason: z.enum(["expired", "taken", "cancelled", "finished", "unknown"]),
  })
  .openapi("Refused");
const HeartbeatRenewed = z
  .object({
    status: z.literal("renewed"),
    ttlMs: z.number(),
    remainingMs: z.number(),
    must_heartbeat_before: z.string().nullable(),
  })
  .openapi("HeartbeatRenewed");
const Completed = z
  .object({ status: z.literal("completed"), repeated: z.boolean(), task_output: JsonValue })
  .openapi("Completed");
const Recorded = z
  .object({
    status: z.literal("recorded"),
    state: z.enum(["pending", "dead"]),
    retryInMs: z.number().nullable(),
  })
  .openapi("Recorded");
const Returned = z.object({ status: z.literal("returned") }).openapi("Returned");
const Ok = z.object({ status: z.literal("ok"), state: State }).openapi("Ok");
const Conflict = z.object({ status: z.literal("conflict"), state: State }).openapi("Conflict");
const Unknown = z.object({ status: z.literal("unknown") }).openapi("Unknown");

export const HeartbeatOutcomes = z.array(
  z.discriminatedUnion("status", [HeartbeatRenewed, Refused, Failed]).openapi("HeartbeatOutcome"),
);
export type HeartbeatOutcome = z.infer<typeof HeartbeatOutcomes>[number];
export const CompleteOutcomes = z.array(
  z.discriminatedUnion("status", [Completed, Refused, Failed]).openapi("CompleteOutcome"),
);
export type CompleteOutcome = z.infer<typeof CompleteOutcomes>[number];
export const FailOutcomes = z.array(
  z.discriminatedUnion("status", [Recorded, Refused, Failed]).openapi("FailOutcome"),
);
export const ReturnOutcomes = z.array(
  z.discriminatedUnion("status", [Returned, Refused, Failed]).openapi("ReturnOutcome"),
);
export const AdminOutcomes = z.array(
  z.discriminatedUnion("status", [Ok, Conflict, Unknown, Failed]).openapi("AdminOutcome"),
);
