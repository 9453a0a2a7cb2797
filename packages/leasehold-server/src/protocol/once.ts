/** Schemas of /v1/once: the OnceStore port as JSON. The server adds the namespace. */
import { z } from "@hono/zod-openapi";
import { KEY_BYTES, type OnceState, resourceOf, VALUE_BYTES } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS, toWireLeaseId } from "leasehold/internal/wire";
import {
  Cursor,
  Failed,
  JsonValue,
  jsonUpTo,
  Name,
  PageOf,
  QueryInteger,
  Token,
} from "./fields.js";
import { Prefix } from "./keys.js";
import { Grant } from "./leases.js";
import type { Same } from "./same.js";

const ONCE_STATES = ["done", "failing", "failed"] as const satisfies readonly OnceState[];
const EXAMPLE = "bill:2026-11";
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** Every text is a key: one that has no record, if it cannot have one. */
export const OnceParams = z.object({
  key: z.string().openapi({
    description: `1 to ${KEY_BYTES} bytes, percent-encoded, \`/\` too. No path can contain the keys \`.\` and \`..\`.`,
    example: EXAMPLE,
  }),
});

/** Whether work can have been recorded under it. */
export function isOnceKey(key: string): boolean {
  return Name.safeParse(key).success && new TextEncoder().encode(key).length <= KEY_BYTES;
}

const OnceGrant = Grant.transform(({ resource, leaseId }, context) => {
  const start = resourceOf("");
  const key = resource.slice(start.length);
  if (resource.startsWith(start) && isOnceKey(key)) return { key, leaseId };
  const message = `must name a resource ${resourceOf("KEY")}, with a key of 1 to ${KEY_BYTES} bytes`;
  context.addIssue({ code: "custom", message });
  return z.NEVER;
}).openapi({
  type: "string",
  description:
    "Of the lease on the resource `once:KEY`, under which the work ran. It names the key.",
  example: toWireLeaseId(resourceOf(EXAMPLE), "0123456789abcdef00112233445566778899aabbccddeeff"),
});
const grant = { leaseId: OnceGrant, token: Token };

const Value = jsonUpTo(VALUE_BYTES).openapi({
  description: `What later callers of the key get: up to ${VALUE_BYTES} bytes of JSON.`,
  example: { sent: 12 },
});

export const SucceedBody = z
  .strictObject({
    ...grant,
    value: Value,
    keepMs: z.number().min(1).max(Number.MAX_SAFE_INTEGER).nullable().default(null).openapi({
      description: "How long the success counts, in milliseconds; null: for ever.",
    }),
  })
  .openapi("SucceedRequest");
true satisfies Same<z.input<typeof SucceedBody>, wire.SucceedRequest>;
export const FailOnceBody = z
  .strictObject({
    ...grant,
    error: z.string().openapi({ example: "the bank is closed" }),
    maxAttempts: z.int().min(1).max(LONGEST_DELAY_MS).nullable().default(null).openapi({
      description: "After so many failures no caller tries again; null: there is no such number.",
    }),
    retryDelayMs: z.number().min(0).max(LONGEST_DELAY_MS).default(0).openapi({
      description: "How long the next attempt waits, in milliseconds.",
    }),
  })
  .openapi("FailOnceRequest");
true satisfies Same<z.input<typeof FailOnceBody>, wire.FailOnceRequest>;

const Refused = z
  .object({ status: z.literal("refused") })
  .openapi("OnceRefused", { description: "The lease has ended, and nothing was recorded." });
const Recorded = z
  .object({ status: z.literal("recorded") })
  .openapi("SuccessRecorded", { description: "By this grant, now or in an earlier request." });
const Done = z
  .object({
    status: z.literal("done"),
    by: z.string().openapi({ description: "The holder that was faster." }),
    at: z.string(),
  })
  .openapi("OnceDone");
const FailureRecorded = z
  .object({
    status: z.literal("recorded"),
    state: z.enum(["failing", "failed"]),
    failures: z.int(),
  })
  .openapi("FailureRecorded");

export const SucceedAnswer = z
  .discriminatedUnion("status", [Recorded, Done, Refused, Failed])
  .openapi("SucceedOutcome");
true satisfies Same<z.infer<typeof SucceedAnswer>, wire.SucceedOutcome>;
export const FailOnceAnswer = z
  .discriminatedUnion("status", [FailureRecorded, Refused, Failed])
  .openapi("FailOnceOutcome");
true satisfies Same<z.infer<typeof FailOnceAnswer>, wire.FailOnceOutcome>;

export const OnceRecord = z
  .object({
    key: z.string(),
    state: z.enum(ONCE_STATES).openapi({
      description:
        "`failing`: the next caller tries again; `failed`: none does until an operator retries the key.",
    }),
    value: JsonValue.openapi({ description: "What the work returned; null unless done." }),
    by: z.string().openapi({ description: "The holder that did it, or that failed last." }),
    at: z.string().openapi({ description: "When it was done, or failed last." }),
    token: Token,
    failures: z.int().openapi({ description: "Since the last retry; 0 if done." }),
    error: z.string().nullable().openapi({ description: "Of the last failure." }),
    nextInMs: z.number().openapi({
      description: "How long the next attempt waits, in milliseconds; 0 unless failing.",
    }),
    keepUntil: z.string().nullable().openapi({
      description: "When a record that is done ends; null: never.",
    }),
  })
  .openapi("OnceRecord", {
    example: {
      key: EXAMPLE,
      state: "done",
      value: { sent: 12 },
      by: "web-1-4711-1f2e",
      at: "2026-11-25T02:00:07.114Z",
      token: 41,
      failures: 0,
      error: null,
      nextInMs: 0,
      keepUntil: null,
    },
  });
true satisfies Same<z.infer<typeof OnceRecord>, wire.OnceRecord>;
export const OncePage = PageOf(OnceRecord).openapi("OncePage");
true satisfies Same<z.infer<typeof OncePage>, wire.OncePage>;

const State = z.enum(ONCE_STATES);
export const OnceListQuery = z.strictObject({
  prefix: Prefix.optional().openapi({ example: "bill:" }),
  state: z
    .union([State.transform((state) => [state]), z.array(State)])
    .optional()
    .openapi({ type: "array", items: { type: "string", enum: [...ONCE_STATES] } }),
  limit: QueryInteger(1, BOUNDS.page, 100),
  cursor: Cursor.optional(),
});

export const OnceRetried = z
  .object({
    key: z.string(),
    wasFailing: z.boolean().openapi({ description: "false: there were no failures to forget." }),
  })
  .openapi("OnceRetried");
true satisfies Same<z.infer<typeof OnceRetried>, wire.OnceRetried>;
export const OnceDeleted = z
  .object({
    key: z.string(),
    wasRecorded: z.boolean().openapi({ description: "false: there was no record." }),
  })
  .openapi("OnceDeleted");
true satisfies Same<z.infer<typeof OnceDeleted>, wire.OnceDeleted>;
