/** What the definition of a kind says of its data: the schema, and the version. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { shown } from "../../env/index.js";
import { checkFunction, checkInteger, InvalidOptionError, kindOf } from "../../lease/index.js";
import { FIRST_VERSION, type Json, LARGEST_VERSION } from "../values.js";
import type { JsonSchema, SchemaCheck } from "./json-schema.js";

/** The version of a kind. */
export interface ContractOptions {
  /**
   * The version of the data, which every task carries that is enqueued. Default 1. A worker leaves tasks alone whose version is
   * larger than that of its handler: raise it when old workers could not handle the new data.
   */
  version?: number;
  /** Turns the data of a task of an earlier version into data of this one, before the schema checks it. Default: as it is. */
  upgrade?: (data: Json, fromVersion: number) => unknown;
}

export const CONTRACT_OPTIONS: Readonly<Record<keyof ContractOptions, true>> = {
  version: true,
  upgrade: true,
};

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
  let loading: Promise<SchemaCheck> | undefined;
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
export function versionOf({ version = FIRST_VERSION, upgrade }: ContractOptions): number {
  checkInteger("version", version, FIRST_VERSION, LARGEST_VERSION);
  if (upgrade !== undefined) checkFunction("upgrade", upgrade);
  if (upgrade && version === FIRST_VERSION) {
    throw new InvalidOptionError("upgrade", "needs a version above 1: no data is older than that");
  }
  return version;
}

function dataPath(path: string): string {
  return path === "" ? "data" : `data.${path}`;
}

async function checkOf(schema: JsonSchema): Promise<SchemaCheck> {
  const { compileSchema } = await import("./json-schema.js");
  return compileSchema(schema);
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
