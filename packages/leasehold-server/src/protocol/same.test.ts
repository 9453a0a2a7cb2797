import { z } from "@hono/zod-openapi";
import type { Json } from "leasehold/internal";
import { expectTypeOf, test } from "vitest";
import type { Same } from "./same.js";

// The compiler runs this test: `npm run typecheck` includes this file.
test("types with the same JSON form are equal", () => {
  expectTypeOf<Same<{ a: string[] }, { readonly a: readonly string[] }>>().toEqualTypeOf<true>();
  expectTypeOf<Same<{ a?: string | undefined }, { a?: string }>>().toEqualTypeOf<true>();
  expectTypeOf<Same<{ s: "a" } | { s: "b" }, { s: "a" | "b" }>>().toEqualTypeOf<true>();
  expectTypeOf<Same<{ a: Json }, { a: Json }>>().toEqualTypeOf<true>();
});

test("types differ if a member, its optionality or its type differs", () => {
  expectTypeOf<Same<{ a: 1 }, { a: 1; b: 2 }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: 1; b: 2 }, { a: 1 }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: 1 }, { a: 1; b?: 2 }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: { b: 1; c?: 2 }[] }, { a: { b: 1 }[] }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: 1 }, { a?: 1 }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: 1 }, { a: 1 | null }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: 1 }, { a: unknown }>>().toEqualTypeOf<false>();
  // Schemas can infer it by mistake.
  expectTypeOf<Same<{ a: 1 }, { a: any }>>().toEqualTypeOf<false>();
});

test("a schema that differs from its plain type does not compile", () => {
  const Schema = z.object({ ttlMs: z.int().default(1), holder: z.string().optional() });
  true satisfies Same<z.infer<typeof Schema>, { ttlMs: number; holder?: string }>;
  true satisfies Same<z.input<typeof Schema>, { ttlMs?: number; holder?: string }>;
  // @ts-expect-error The default makes it optional in a request, not in an answer.
  true satisfies Same<z.infer<typeof Schema>, { ttlMs?: number; holder?: string }>;
  // @ts-expect-error The plain type lacks the holder.
  true satisfies Same<z.infer<typeof Schema>, { ttlMs: number }>;
});
