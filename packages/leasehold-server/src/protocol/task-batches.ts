/**
 * Schemas of batch requests for tasks, by holders and operators. As at /v1/leases, the response has one
 * outcome per request, in order.
 */
import { z } from "@hono/zod-openapi";
import type * as wire from "leasehold/internal/wire";
import { batch, Failed, JsonValue, ttl, withOptionalTtl } from "./fields.js";
import type { Same } from "./same.js";
import { decidesOnce, failure, later } from "./task-reports.js";
import { grant, news, State } from "./tasks.js";

/** Any text: a malformed id names no task, so its outcome is `unknown`. */
const id = z.string().max(400);

export const HeartbeatBatch = batch(
  z
    .strictObject({ id, ...grant, ...ttl, ...news })
    .transform(withOptionalTtl)
    .openapi("HeartbeatRequest"),
);
true satisfies Same<z.input<typeof HeartbeatBatch>, readonly wire.HeartbeatRequest[]>;
export const CompleteBatch = batch(
  z.strictObject({ id, ...grant, task_output: JsonValue.default(null) }).openapi("CompleteRequest"),
);
true satisfies Same<z.input<typeof CompleteBatch>, readonly wire.CompleteRequest[]>;
export const FailBatch = batch(
  z
    .strictObject({ id, ...grant, ...failure })
    .superRefine(decidesOnce)
    .openapi("FailRequest"),
);
true satisfies Same<z.input<typeof FailBatch>, readonly wire.FailRequest[]>;
export const ReturnBatch = batch(
  z.strictObject({ id, ...grant, ...later }).openapi("ReturnRequest"),
);
true satisfies Same<z.input<typeof ReturnBatch>, readonly wire.ReturnRequest[]>;
export const AdminBatch = batch(id);

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
    repeated: z.boolean(),
    state: z.enum(["pending", "dead"]),
    retryInMs: z.number().nullable(),
  })
  .openapi("Recorded");
const Returned = z
  .object({ status: z.literal("returned"), repeated: z.boolean() })
  .openapi("Returned");
const Ok = z.object({ status: z.literal("ok"), state: State }).openapi("Ok");
const Conflict = z.object({ status: z.literal("conflict"), state: State }).openapi("Conflict");
const Unknown = z.object({ status: z.literal("unknown") }).openapi("Unknown");

export const HeartbeatOutcomes = z.array(
  z.discriminatedUnion("status", [HeartbeatRenewed, Refused, Failed]).openapi("HeartbeatOutcome"),
);
true satisfies Same<z.infer<typeof HeartbeatOutcomes>, readonly wire.HeartbeatOutcome[]>;
export const CompleteOutcomes = z.array(
  z.discriminatedUnion("status", [Completed, Refused, Failed]).openapi("CompleteOutcome"),
);
true satisfies Same<z.infer<typeof CompleteOutcomes>, readonly wire.CompleteOutcome[]>;
export const FailOutcomes = z.array(
  z.discriminatedUnion("status", [Recorded, Refused, Failed]).openapi("FailOutcome"),
);
true satisfies Same<z.infer<typeof FailOutcomes>, readonly wire.FailOutcome[]>;
export const ReturnOutcomes = z.array(
  z.discriminatedUnion("status", [Returned, Refused, Failed]).openapi("ReturnOutcome"),
);
true satisfies Same<z.infer<typeof ReturnOutcomes>, readonly wire.ReturnOutcome[]>;
export const AdminOutcomes = z.array(
  z.discriminatedUnion("status", [Ok, Conflict, Unknown, Failed]).openapi("AdminOutcome"),
);
true satisfies Same<z.infer<typeof AdminOutcomes>, readonly wire.AdminOutcome[]>;
