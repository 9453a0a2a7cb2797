/** Helpers to declare routes and their OpenAPI descriptions. */
import { OpenAPIHono, type z } from "@hono/zod-openapi";
import { withoutUndefined } from "leasehold/internal";
import { type FieldError, PROBLEMS, type ProblemCode } from "leasehold/internal/wire";
import { Problem } from "../protocol/index.js";
import { pathBelow } from "./base-path.js";
import { fieldErrors, invalid, ProblemError, unknownTask } from "./problems.js";
import type { AppEnv } from "./request.js";

export type App = OpenAPIHono<AppEnv>;

export function newApp(basePath: string): App {
  return new OpenAPIHono<AppEnv>({
    getPath: pathBelow(basePath),
    defaultHook(result, { req }) {
      if (result.success) return;
      // A malformed task id names no task.
      if (result.target === "param") throw unknownTask();
      const errors = fieldErrors(result.error.issues);
      if (result.target !== "query") throw invalid(errors);
      // A parameter of one value that is given twice arrives as an array, whose type the schema complains of.
      const isTwice = ({ path, problem }: FieldError) =>
        /^Invalid (input|option)/.test(problem) && (req.queries(path)?.length ?? 0) > 1;
      throw invalid(
        errors.map((error) =>
          isTwice(error) ? { ...error, problem: "is given more than once" } : error,
        ),
      );
    },
  });
}

/** A lease id or the id of a grant; a UUID; the id of a key. */
const ID = /^([\w-]+\.[0-9a-f]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12})$/i;

/**
 * Answers all other methods of a path with 405 and the allowed methods. Declare those first. A parameter
 * matches any text, so a path whose parameter is no id, like a misspelled route, is no route: 404.
 */
export function otherMethods(app: App, path: string, ...allowed: string[]): void {
  const allow = allowed.join(", ");
  app.all(path, (context) => {
    const ids = Object.values<string>(context.req.param());
    if (!ids.every((id) => ID.test(id))) return context.notFound();
    const detail = `${context.req.method} is not allowed here; use ${allow}`;
    throw new ProblemError("METHOD_NOT_ALLOWED", detail, { headers: { allow } });
  });
}

type JsonContent<Schema> = { "application/json": { schema: Schema } };

export function jsonBody<Schema extends z.ZodType>(schema: Schema) {
  return { body: { required: true as const, content: { "application/json": { schema } } } };
}

/** For requests whose body is optional; then all its fields are optional too. */
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
 * The problems of a route, for the OpenAPI document. Handlers throw them, so they are not part of the
 * handlers' return types.
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

/** The problems of a route that calls a store: `codes`, and those that all such routes share. */
export function problems(...codes: ProblemCode[]): Record<never, never> {
  return onlyProblems(...codes, ...STORE_PROBLEMS);
}

/** The problems of a route that calls a store and takes a body. */
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

/** Removes undefined fields, which the schemas' types allow although a parsed body never has them. */
export function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return withoutUndefined(value) as { [K in keyof T]: Exclude<T[K], undefined> };
}
