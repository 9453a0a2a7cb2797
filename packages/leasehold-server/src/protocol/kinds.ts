/** Schemas of /v1/kinds: the KindStore port as JSON. The server adds the namespace. */
import { z } from "@hono/zod-openapi";
import { FIRST_VERSION, LARGEST_VERSION } from "leasehold/internal";
import type * as wire from "leasehold/internal/wire";
import { LIMITS } from "leasehold/internal/wire";
import { Cursor, JsonValue, Name, NewName, PageOf, QueryInteger } from "./fields.js";
import type { Same } from "./same.js";

export const Version = z.int().min(FIRST_VERSION).max(LARGEST_VERSION);

/** Every text is a kind and a version: one that is not published, if none can have that name. */
export const KindParams = z.object({
  kind: z.string().openapi({ description: "Percent-encoded, `/` too.", example: "invoice" }),
  version: z.string().openapi({
    description: `1 to ${LARGEST_VERSION}.`,
    example: "2",
  }),
});

/** Null if no kind can have the name, or the version. */
export function kindOf({ kind, version: text }: z.output<typeof KindParams>) {
  const version = /^[1-9]\d*$/.test(text) ? Number(text) : 0;
  const isKind = NewName.safeParse(kind).success && Version.safeParse(version).success;
  return isKind ? { kind, version } : null;
}

const SCHEMA = {
  type: "object",
  properties: { number: { type: "string" }, cents: { type: "integer", minimum: 0 } },
  required: ["number", "cents"],
};
export const PublishKindBody = z
  .strictObject({
    schema: JsonValue.openapi({
      description:
        "A JSON Schema of at most 64 KiB, of draft 2020-12 unless `$schema` names an earlier one. A `$ref` begins with `#`.",
    }),
    publishedBy: NewName.optional().openapi({
      description: "Who publishes it, for people. Default: the name of the key.",
    }),
  })
  .openapi("PublishKindRequest", { example: { schema: SCHEMA } });
true satisfies Same<z.input<typeof PublishKindBody>, wire.PublishKindRequest>;
export const KindPublished = z
  .object({
    kind: z.string(),
    version: z.int(),
    change: z.enum(["added", "changed", "none"]),
  })
  .openapi("KindPublished");
true satisfies Same<z.infer<typeof KindPublished>, wire.KindPublished>;

export const Kind = z
  .object({
    kind: z.string(),
    version: z.int(),
    schema: JsonValue.openapi({ description: "The JSON Schema of the data." }),
    publishedAt: z.string().openapi({ description: "When the version was published first." }),
    changedAt: z.string().openapi({ description: "When its schema changed last." }),
    by: z.string().openapi({ description: "Who published this schema." }),
  })
  .openapi("Kind", {
    example: {
      kind: "invoice",
      version: 2,
      schema: SCHEMA,
      publishedAt: "2026-11-26T10:15:30.000Z",
      changedAt: "2026-11-26T10:15:30.000Z",
      by: "web-3",
    },
  });
true satisfies Same<z.infer<typeof Kind>, wire.Kind>;
export const KindPage = PageOf(Kind).openapi("KindPage");
true satisfies Same<z.infer<typeof KindPage>, wire.KindPage>;
export const KindListQuery = z.strictObject({
  kind: Name.optional(),
  limit: QueryInteger(1, LIMITS.page, 20),
  cursor: Cursor.optional(),
});
export const KindWithdrawn = z
  .object({
    kind: z.string(),
    version: z.int(),
    wasPublished: z.boolean().openapi({ description: "false: it was not published." }),
  })
  .openapi("KindWithdrawn");
true satisfies Same<z.infer<typeof KindWithdrawn>, wire.KindWithdrawn>;
