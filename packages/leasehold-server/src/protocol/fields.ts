/** Fields that several schemas share. Schemas of requests are strict: they refuse unknown fields. */
import { z } from "@hono/zod-openapi";
import { type ErrorCode, InvalidOptionError } from "leasehold";
import type { Json } from "leasehold/internal";
import {
  checkName,
  checkNewName,
  checkTaskId,
  FIRST_VERSION,
  isTime,
  LARGEST_VERSION,
  TIMES,
  timeExpected,
} from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { BOUNDS } from "leasehold/internal/wire";
import type { Same } from "./same.js";

const OF_NAMES = { minLength: 1, maxLength: 256, example: "default" };
/** A name of 1-256 bytes of UTF-8, without NUL and lone surrogates. */
export const Name = nameOf((name) => checkName("", name)).openapi(OF_NAMES);
/** The name of something that the request creates: also without characters that people cannot see. */
export const NewName = nameOf((name) => checkNewName("", name)).openapi(OF_NAMES);

function nameOf(check: (name: string) => void) {
  return z.string().superRefine((value, context) => {
    try {
      check(value);
    } catch (error) {
      if (!(error instanceof InvalidOptionError)) throw error;
      context.addIssue({ code: "custom", message: error.message.trim() });
    }
  });
}

/** The version of the data of a kind. */
export const Version = z.int().min(FIRST_VERSION).max(LARGEST_VERSION);

/** 1-200 characters without control characters. */
export const TaskId = nameOf((id) => checkTaskId(id, "")).openapi({
  minLength: 1,
  maxLength: 200,
  example: "019d6c97-05d0-7491-99b4-71393dfe0e45",
});

export const TaskLeaseId = z
  .string()
  .regex(/^[0-9a-f]{48}$/, "must be 48 hex digits in lower case")
  .openapi({ description: "Secret: it authorizes renewing and ending the grant." });

export const Token = z.int().min(1).openapi({ description: "The fencing token of the grant." });

export const TtlMs = z.int().min(1).openapi({
  description: "Duration of the grant in milliseconds, within the store's limits.",
  example: 30_000,
});

/** The two units of a TTL. A request has at most one of them. */
export const ttl = {
  ttlMs: TtlMs.optional(),
  ttlSeconds: z.number().positive().max(1e7).optional(),
};

const RENEWAL_DEFAULT = "Default: the TTL of the last acquire or renewal of this grant.";

/** As {@link ttl}, in a renewal. */
export const renewalTtl = {
  ttlMs: ttl.ttlMs.openapi({
    description: `Duration of the grant in milliseconds. ${RENEWAL_DEFAULT}`,
  }),
  ttlSeconds: ttl.ttlSeconds.openapi({
    description: `Duration of the grant in seconds. ${RENEWAL_DEFAULT}`,
  }),
};

export interface TtlFields {
  ttlMs?: number | undefined;
  ttlSeconds?: number | undefined;
}

/** A TTL in milliseconds, and the field that the caller sent, for messages about it. */
export interface NamedTtl {
  ttlMs: number | undefined;
  ttlField: keyof TtlFields;
}

/** Converts the TTL to milliseconds; undefined if the request has none. */
export function withOptionalTtl<Body extends TtlFields>(
  { ttlMs, ttlSeconds, ...rest }: Body,
  context: z.RefinementCtx,
): Omit<Body, keyof TtlFields> & NamedTtl {
  if (ttlMs !== undefined && ttlSeconds !== undefined) {
    const message = "must not be combined with ttlMs";
    context.addIssue({ code: "custom", path: ["ttlSeconds"], message });
  }
  const requestedMs = ttlSeconds === undefined ? undefined : Math.round(ttlSeconds * 1_000);
  const ttlField = ttlSeconds === undefined ? "ttlMs" : "ttlSeconds";
  return { ...rest, ttlMs: ttlMs ?? requestedMs, ttlField };
}

/** A time with a time zone and a year of four digits, converted to UTC and milliseconds, as all times of the store. */
export const Time = z.iso
  .datetime({
    offset: true,
    error: ({ input }) =>
      `must be ${timeExpected(String(input), "an ISO 8601 time with a time zone")}`,
  })
  .refine((text) => isTime(Date.parse(text)), { error: `must be ${TIMES}` })
  .transform((text) => new Date(text).toISOString())
  .openapi({
    type: "string",
    format: "date-time",
    description: "Counts to the millisecond: further digits are cut.",
  });

/** Any JSON value, except for deep nesting and numbers that are not finite. */
export const JsonValue = (z.unknown() as z.ZodType<Json, Json>)
  .superRefine((value, context) => {
    const fault = findFault(value, BOUNDS.depth);
    if (!fault) return;
    const { path, problem: message } = fault;
    // What is too deep would overflow the stack of the checks that come after this one, or take seconds there.
    context.addIssue({ code: "custom", path, message, continue: false });
  })
  .openapi({ description: "Any JSON value." });

const encoder = new TextEncoder();

/** Any JSON value of at most so many bytes. */
export function jsonUpTo(bytes: number) {
  return JsonValue.refine(
    (value) => encoder.encode(JSON.stringify(value)).length <= bytes,
    `must be at most ${bytes} bytes as JSON`,
  );
}

/** The allowed depth bounds the recursion. */
function findFault(
  value: Json | undefined,
  depth: number,
): { path: PropertyKey[]; problem: string } | undefined {
  if (value === undefined) return { path: [], problem: "is missing" };
  if (typeof value === "number" && !Number.isFinite(value)) {
    return { path: [], problem: "must be a number that a double can hold" };
  }
  if (typeof value !== "object" || value === null) return;
  if (depth === 0) return { path: [], problem: `is nested more than ${BOUNDS.depth} levels deep` };
  // Without Object.entries: of a large body they would be a hundred thousand arrays more.
  if (Array.isArray(value)) {
    const items: readonly Json[] = value;
    for (let index = 0; index < items.length; index += 1) {
      const fault = findFault(items[index], depth - 1);
      if (fault) return { ...fault, path: [index, ...fault.path] };
    }
    return;
  }
  const object = value as { readonly [key: string]: Json };
  for (const key in object) {
    const fault = findFault(object[key], depth - 1);
    if (fault) return { ...fault, path: [key, ...fault.path] };
  }
}

/** An integer in a query. */
export function QueryInteger(min: number, max: number, byDefault: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .default(byDefault)
    .openapi({ type: "integer", minimum: min, maximum: max, default: byDefault });
}

const Duration = z
  .string()
  .regex(/^\d{1,12}$/, "must be whole milliseconds")
  .transform(Number)
  .optional();
/** Filters of lists of leases. A filtered page may have fewer items than `limit`. */
export const leaseFilters = {
  holder: Name.optional().openapi({ description: "Only leases of this holder." }),
  expiringWithinMs: Duration.openapi({
    type: "integer",
    minimum: 0,
    description: "Only live leases that expire within this time unless they are renewed.",
  }),
  heldForMs: Duration.openapi({
    type: "integer",
    minimum: 0,
    description: "Only live leases that were granted at least this long ago.",
  }),
};

export const Cursor = z
  .string()
  .min(1)
  .max(1_024)
  .openapi({ description: "`nextCursor` of the previous page." });

/** A page of a list. */
export function PageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    nextCursor: z.string().nullable().openapi({ description: "null on the last page." }),
  });
}

/** An array of requests. The response has one outcome for each. */
export const batch = <Item extends z.ZodType>(item: Item, most: number = BOUNDS.batch) =>
  z.array(item).min(1).max(most);

/** The outcome of a failed request. `applied`: whether the store may have carried it out. */
export const Failed = z
  .object({
    status: z.literal("failed"),
    applied: z.enum(["no", "maybe"]),
    retryable: z.boolean(),
    error: z.object({ code: z.string() as z.ZodType<ErrorCode>, message: z.string() }),
  })
  .openapi("Failed");
true satisfies Same<z.infer<typeof Failed>, wire.Failed>;

/** In the descriptions of `history`. */
export const ONLY_SERVERS_RECORD =
  "Earlier grants are those of leases that were acquired through a server: callers of the database itself record none.";
