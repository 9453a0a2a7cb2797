/** What the definition of a kind says of its data: the schema, the version, and what is published of both. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import {
  checkFunction,
  checkInteger,
  checkNotPromise,
  checkOptional,
  InvalidOptionError,
  kindOf,
} from "../../core/index.js";
import { reasonOf, shown } from "../../env/index.js";
import { FIRST_VERSION, type Json, LARGEST_VERSION } from "../values.js";

/** A JSON Schema: an object of its keywords. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Versions of a kind, and the publication of its schema. */
export interface ContractOptions {
  /**
   * The version of the data, which every task carries that is enqueued. Default 1. A worker leaves tasks alone whose version is
   * larger than that of its handler: raise it when old workers could not handle the new data.
   */
  version?: number;
  /** Turns the data of a task of an earlier version into data of this one, before the schema checks it. Default: as it is. */
  upgrade?: (data: Json, fromVersion: number) => unknown;
  /**
   * Publishes the schema in the store, under the kind and its version, once a process enqueues or works: servers check new
   * tasks against it, and programs in other languages read it. Needs a JSON Schema: `schema` itself, that of its library, or
   * `jsonSchema`. Default false.
   */
  publish?: boolean;
  /** The JSON Schema to publish, where the library of `schema` has no Standard JSON Schema: `z.toJSONSchema(schema)`. Default: that of `schema`. */
  jsonSchema?: JsonSchema;
}

export const CONTRACT_OPTIONS: Readonly<Record<keyof ContractOptions, true>> = {
  version: true,
  upgrade: true,
  publish: true,
  jsonSchema: true,
};

/** The version of a kind, and what is published of it. */
export interface Contract {
  readonly version: number;
  /** The JSON Schema, which is not checked yet; null: none is published. */
  readonly published: unknown;
}

/** Either kind of schema checks data the same way. */
export interface DataSchema {
  /** @throws InvalidOptionError naming the member of the data */
  validate(data: unknown): Promise<unknown>;
}

/**
 * @param kind whose data it checks
 * @throws InvalidOptionError
 */
export function schemaOf(schema: StandardSchemaV1 | JsonSchema, kind: string): DataSchema {
  if (isStandard(schema)) return { validate: (data) => validateStandard(schema, kind, data) };
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    const needed = "must be a Standard Schema or a JSON Schema";
    throw new InvalidOptionError("schema", `${needed}, got ${kindOf(schema)}`);
  }
  // Loaded at first use: most programs have schemas of a library.
  let loading: ReturnType<typeof checkOf> | undefined;
  return {
    async validate(data) {
      const check = await (loading ??= checkOf(schema));
      const found = check(data as Json);
      if (found) throw new InvalidOptionError(dataPath(found.path), found.problem);
      return data;
    },
  };
}

/** @throws InvalidOptionError */
export function contractOf(
  schema: StandardSchemaV1 | JsonSchema | undefined,
  { version = FIRST_VERSION, upgrade, publish = false, jsonSchema }: ContractOptions,
): Contract {
  checkInteger("version", version, FIRST_VERSION, LARGEST_VERSION);
  if (upgrade !== undefined) checkFunction("upgrade", upgrade);
  checkOptional("boolean", { publish }, ["publish"]);
  if (upgrade && version === FIRST_VERSION) {
    throw new InvalidOptionError("upgrade", "needs a version above 1: no data is older than that");
  }
  if (!publish) return { version, published: null };
  return { version, published: jsonSchema ?? jsonSchemaOf(schema) };
}

/** The JSON Schema of a library's schema, by the convention of Standard JSON Schema. */
function jsonSchemaOf(schema: StandardSchemaV1 | JsonSchema | undefined): unknown {
  if (schema === undefined) throw new InvalidOptionError("publish", "needs a schema");
  if (!isStandard(schema)) return schema;
  const { vendor } = schema["~standard"];
  const converter: unknown = Reflect.get(schema["~standard"], "jsonSchema");
  const input: unknown = converter ? Reflect.get(Object(converter), "input") : undefined;
  const give = "give its JSON Schema in the option jsonSchema, such as z.toJSONSchema(schema)";
  if (typeof input !== "function") {
    throw new InvalidOptionError(
      "publish",
      `needs a JSON Schema, which "${vendor}" does not give: ${give}`,
    );
  }
  try {
    const converted = input.call(converter, { target: "draft-2020-12" }) as unknown;
    checkNotPromise("jsonSchema", converted, "a JSON Schema");
    return converted;
  } catch (error) {
    throw new InvalidOptionError(
      "publish",
      `needs a JSON Schema, which "${vendor}" cannot give (${reasonOf(error)}): ${give}`,
    );
  }
}

function dataPath(path: string): string {
  return path === "" ? "data" : `data.${path}`;
}

async function checkOf(schema: JsonSchema) {
  const { compileSchema, schemaText } = await loadJsonSchemas();
  return compileSchema(schemaText(schema));
}

/** What checks JSON Schemas and data against them. */
export function loadJsonSchemas() {
  return import("./json-schema.js");
}

function isStandard(schema: unknown): schema is StandardSchemaV1 {
  const standard: unknown = Reflect.get(Object(schema), "~standard");
  return typeof (standard as { validate?: unknown } | undefined)?.validate === "function";
}

async function validateStandard(
  schema: StandardSchemaV1,
  kind: string,
  data: unknown,
): Promise<unknown> {
  const result = await schema["~standard"].validate(data);
  const { issues } = (result ?? {}) as Partial<StandardSchemaV1.FailureResult>;
  if (!issues && "value" in Object(result)) return Reflect.get(Object(result), "value");
  if (!Array.isArray(issues)) {
    throw new InvalidOptionError(
      "schema",
      `of "${kind}" is no Standard Schema: its validate returned ${shown(result)}, and must return { value } or { issues }`,
    );
  }
  const [issue] = issues as StandardSchemaV1.FailureResult["issues"];
  const steps = issue?.path?.map((step) => (typeof step === "object" ? step.key : step)) ?? [];
  throw new InvalidOptionError(
    ["data", ...steps.map(String)].join("."),
    issue?.message ?? "is invalid",
  );
}
