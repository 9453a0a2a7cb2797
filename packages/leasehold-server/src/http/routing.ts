/** How routes are declared: one list per path, so that the path knows which methods it has. */
import { OpenAPIHono, type z } from "@hono/zod-openapi";
import { withoutUndefined } from "leasehold/internal";
import { PROBLEMS, type ProblemCode } from "leasehold/internal/wire";
import { Problem } from "../protocol/index.js";
import { pathBelow } from "./base-path.js";
import { fieldErrors, invalid, ProblemError, unknownTask } from "./problems.js";
import type { AppEnv } from "./request.js";

export type App = OpenAPIHono<AppEnv>;

export function newApp(basePath: string): App {
  return new OpenAPIHono<AppEnv>({
    getPath: pathBelow(basePath),
    defaultHook(result) {
      if (result.success) return;
      // What is no id of a task is the id of no task.
      if (result.target === "param") throw unknownTask();
      throw invalid(fieldErrors(result.error.issues));
    },
  });
}

/** Everything else at the path is 405, naming the methods that are known. Declare them first. */
export function otherMethods(app: App, path: string, ...allowed: string[]): void {
  const allow = allowed.join(", ");
  app.all(path, (context) => {
    const detail = `${context.req.method} is not known here; ${allow} is`;
    throw new ProblemError("METHOD_NOT_ALLOWED", detail, { headers: { allow } });
  });
}

type JsonContent<Schema> = { "application/json": { schema: Schema } };

export function jsonBody<Schema extends z.ZodType>(schema: Schema) {
  return { body: { required: true as const, content: { "application/json": { schema } } } };
}

/** For requests that mean something without a body too; every field of it is optional then. */
export function optionalJsonBody<Schema extends z.ZodType>(schema: Schema) {
  return { body: { required: false as const, content: { "application/json": { schema } } } };
}

/** A handler may return readonly arrays, as the plain types of leasehold/internal/wire have them. */
type Answered<Schema extends z.ZodType> = z.ZodType<DeepReadonly<z.infer<Schema>>>;
type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: DeepReadonly<T[Name]> }
    : T;

export function answers<Schema extends z.ZodType>(
  description: string,
  schema: Schema,
): { description: string; content: JsonContent<Answered<Schema>> } {
  const answered = schema as unknown as Answered<Schema>;
  return { description, content: { "application/json": { schema: answered } } };
}

/**
 * The problems that a route can answer with, for the OpenAPI document, and no others. Handlers throw
 * them, so the type of what they answer does not know them.
 */
export function onlyProblems(...codes: ProblemCode[]): Record<never, never> {
  const descriptions = new Map<number, string[]>();
  for (const code of codes) {
    const { status, title } = PROBLEMS[code];
    const lines = descriptions.get(status) ?? [];
    descriptions.set(status, [...lines, `${code}: ${title}.`]);
  }
  const content = { "application/problem+json": { schema: Problem } };
  return Object.fromEntries(
    [...descriptions].map(([status, lines]) => [
      status,
      { description: lines.join("\n"), content },
    ]),
  );
}

/** The problems of a route that reaches a store: `codes`, and what any of them can answer with. */
export function problems(...codes: ProblemCode[]): Record<never, never> {
  return onlyProblems(...codes, ...STORE_PROBLEMS);
}

/** The problems of a route that reaches a store and takes a body. */
export function bodyProblems(...codes: ProblemCode[]): Record<never, never> {
  return onlyProblems(...codes, ...BODY_PROBLEMS, ...STORE_PROBLEMS);
}

const STORE_PROBLEMS = [
  "STORE_UNAVAILABLE",
  "BUDGET_SPENT",
  "CLOSING",
  "OVERLOADED",
  "TOO_MANY_REQUESTS",
  "OUTCOME_UNKNOWN",
  "INTERNAL",
] as const;
const BODY_PROBLEMS = [
  "MALFORMED_JSON",
  "BODY_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "INVALID_REQUEST",
] as const;

/** Schemas allow absent fields only; their types allow undefined ones too. */
export function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return withoutUndefined(value) as { [K in keyof T]: Exclude<T[K], undefined> };
}
