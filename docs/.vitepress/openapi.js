// Writes the page of the HTTP routes from the OpenAPI document, which the server makes from the schemas that check requests.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openStores } from "../../packages/leasehold/dist/index.js";
import { createApp } from "../../packages/leasehold-server/dist/http/index.js";

/**
 * @typedef {{
 *   $ref?: string, type?: string | string[], description?: string, default?: unknown, enum?: unknown[], const?: unknown,
 *   format?: string, pattern?: string, minimum?: number, maximum?: number, minLength?: number, maxLength?: number,
 *   minItems?: number, maxItems?: number, items?: Schema, anyOf?: Schema[], oneOf?: Schema[], allOf?: Schema[],
 *   properties?: Record<string, Schema>, required?: string[], additionalProperties?: Schema | boolean,
 * }} Schema
 * @typedef {{ name: string, in: string, required?: boolean, description?: string, schema?: Schema }} Parameter
 * @typedef {{ description: string, content?: Record<string, { schema?: Schema }> }} Answer
 * @typedef {{
 *   tags?: string[], summary?: string, description?: string, "x-needs"?: string,
 *   parameters?: (Parameter & { $ref?: string })[], requestBody?: { required?: boolean, content: Record<string, { schema?: Schema }> },
 *   responses: Record<string, Answer>,
 * }} Operation
 * @typedef {{
 *   tags: { name: string, description: string }[], paths: Record<string, Record<string, Operation>>,
 *   components: { schemas: Record<string, Schema>, parameters?: Record<string, Parameter> },
 * }} Document
 */

const SCHEMAS = "#/components/schemas/";
const PARAMETERS = "#/components/parameters/";

const out = fileURLToPath(new URL("../reference/http.md", import.meta.url));
mkdirSync(fileURLToPath(new URL("../reference", import.meta.url)), { recursive: true });
writeFileSync(out, pageOf(await readDocument()));

/** @returns {Promise<Document>} */
async function readDocument() {
  const stores = await openStores("memory:openapi");
  const app = createApp({ ...stores, auth: "never", version: "0" });
  const response = await app.fetch(new Request("http://localhost/openapi.json"));
  const document = /** @type {Document} */ (await response.json());
  await app.close();
  await stores.close();
  return document;
}

/** @param {Document} document */
function pageOf({ tags, paths, components }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  );
  const common = commonOf(operations.map(({ operation }) => operation));
  const parts = tags.flatMap(({ name, description }) => [
    `## ${name[0]?.toUpperCase()}${name.slice(1)}`,
    description,
    ...operations
      .filter(({ operation }) => operation.tags?.[0] === name)
      .flatMap((each) => sectionOf(each.name, each.operation, components.parameters ?? {}, common)),
  ]);
  const schemas = Object.entries(components.schemas).flatMap(([name, schema]) => [
    `### ${name} {#${anchorOf(name)}}`,
    ...(schema.description ? [schema.description] : []),
    schema.properties ? fieldsOf(schema) : typeOf(schema),
  ]);
  return [
    "---\neditLink: false\noutline: 2\n---",
    "# HTTP routes",
    "All routes of a server, from the OpenAPI document that it serves at `GET /openapi.json`. [HTTP](../http.md) explains how to use them, with examples.",
    "## Problems of all routes",
    "Most routes can answer with these. Below, each route lists only its other problems.",
    problemsOf([...common]),
    ...parts,
    "## Schemas",
    ...schemas,
    "",
  ].join("\n\n");
}

/**
 * @param {string} name
 * @param {Operation} operation
 * @param {Record<string, Parameter>} shared
 * @param {ReadonlySet<string>} common
 */
function sectionOf(name, operation, shared, common) {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const needs = operation["x-needs"];
  const rows = parameters
    .map((each) => (each.$ref ? (shared[each.$ref.slice(PARAMETERS.length)] ?? each) : each))
    .map((each) => [
      `\`${each.name}\``,
      each.in,
      typeOf(each.schema ?? {}),
      each.required ? "yes" : "no",
      each.description ?? each.schema?.description ?? "",
    ]);
  const body = requestBody?.content["application/json"]?.schema;
  const good = Object.entries(responses).filter(([status]) => status.startsWith("2"));
  const own = problemLines(operation).filter((line) => !common.has(line));
  return [
    `### \`${name}\``,
    ...(summary ? [`${summary}.`] : []),
    ...(description ? [description] : []),
    ...(needs ? [`Needs the [right](../http.md#keys-tenants-and-roles) \`${needs}\`.`] : []),
    ...(rows.length > 0 ? [table(["parameter", "in", "type", "required", ""], rows)] : []),
    ...(body ? [`**Body:** ${typeOf(body)}`, ...(body.properties ? [fieldsOf(body)] : [])] : []),
    table(
      ["status", "answer", "body"],
      good.map(([status, answer]) => [status, answer.description, bodyOf(answer)]),
    ),
    ...(own.length > 0 ? [problemsOf(own)] : []),
  ];
}

/**
 * The problems of more than half of the operations.
 * @param {readonly Operation[]} operations
 */
function commonOf(operations) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const line of operations.flatMap(problemLines)) {
    counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  const often = [...counts].filter(([, count]) => count > operations.length / 2);
  return new Set(often.map(([line]) => line).sort());
}

/**
 * Each as its status, its code and what it says.
 * @param {Operation} operation
 */
function problemLines({ responses }) {
  return Object.entries(responses)
    .filter(([status]) => !status.startsWith("2"))
    .flatMap(([status, { description }]) =>
      description.split("\n").map((line) => `${status} ${line}`),
    );
}

/** @param {readonly string[]} lines */
function problemsOf(lines) {
  const rows = lines.map((line) => {
    const [, status = "", code = "", text = line] = /^(\d+) ([A-Z_]+): (.*)$/.exec(line) ?? [];
    return [status, code && `\`${code}\``, text];
  });
  return table(["status", "problem", ""], rows);
}

/** @param {Answer} answer */
function bodyOf({ content = {} }) {
  const [first] = Object.entries(content);
  if (!first) return "none";
  const [type, { schema }] = first;
  return type === "application/json" && schema ? typeOf(schema) : `\`${type}\``;
}

/** @param {Schema} schema */
function fieldsOf({ properties = {}, required = [] }) {
  const rows = Object.entries(properties).map(([name, schema]) => [
    `\`${name}\``,
    typeOf(schema),
    required.includes(name) ? "yes" : "no",
    schema.description ?? "",
  ]);
  return table(["field", "type", "required", ""], rows);
}

/**
 * @param {Schema} schema
 * @returns {string}
 */
function typeOf(schema) {
  const { $ref, type, items, properties, additionalProperties, format } = schema;
  if ($ref?.startsWith(SCHEMAS)) {
    const name = $ref.slice(SCHEMAS.length);
    return `[${name}](#${anchorOf(name)})`;
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(typeOf).join(" or ");
  if (schema.allOf) return schema.allOf.map(typeOf).join(" and ");
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" or ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (items) return `array of ${typeOf(items)}${boundsOf(schema)}`;
  if (properties) {
    const names = Object.keys(properties).map((name) => `\`${name}\``);
    return names.length > 0 ? `object with ${names.join(", ")}` : "object";
  }
  if (typeof additionalProperties === "object") return `object of ${typeOf(additionalProperties)}`;
  const name = Array.isArray(type) ? type.join(" or ") : (type ?? "any JSON value");
  return `${name}${format ? ` (${format})` : ""}${boundsOf(schema)}`;
}

/** Some schemas have the name of a part of the page. @param {string} schema */
function anchorOf(schema) {
  return `schema-${schema.toLowerCase()}`;
}

/** @param {Schema} schema */
function boundsOf(schema) {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
  const least = minimum ?? minLength ?? minItems;
  const most = maximum ?? maxLength ?? maxItems;
  const unit = minLength !== undefined || maxLength !== undefined ? " characters" : "";
  const bounds = rangeOf(least, most);
  const initially =
    schema.default === undefined ? "" : `default \`${JSON.stringify(schema.default)}\``;
  const all = [bounds && bounds + unit, initially].filter(Boolean).join("; ");
  return all && `, ${all}`;
}

/**
 * @param {number | undefined} least
 * @param {number | undefined} most
 */
function rangeOf(least, most) {
  if (least !== undefined && most !== undefined) return `${grouped(least)} to ${grouped(most)}`;
  if (least !== undefined) return `at least ${grouped(least)}`;
  return most === undefined ? "" : `at most ${grouped(most)}`;
}

/** @param {number} value */
function grouped(value) {
  return value.toLocaleString("en");
}

/**
 * @param {readonly string[]} heads
 * @param {readonly (readonly string[])[]} rows
 */
function table(heads, rows) {
  const line = (/** @type {readonly string[]} */ cells) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", "<br>").replaceAll("{", "&#123;")).join(" | ")} |`;
  return [line(heads), line(heads.map(() => "---")), ...rows.map(line)].join("\n");
}
