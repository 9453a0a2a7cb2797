/** Holds requests and answers against a server's /openapi.json: JSON Schema 2020-12 within OpenAPI 3.1. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";

type Json = Record<string, unknown>;
interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly schema: { readonly type?: string };
}
export interface Operation {
  readonly method: string;
  /** With its parameters in braces. */
  readonly template: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Json };
  readonly responses: Record<string, { readonly content?: Json }>;
}

export class OpenApi {
  readonly operations: readonly Operation[];
  // Not strict: around its schemas the document has words that are none of JSON Schema.
  readonly #ajv = new Ajv2020({ allErrors: true, strict: false });
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: Json) {
    formats.default(this.#ajv);
    // Requests are held against the schemas as they are, answers against closed ones: what a schema
    // does not know must not be answered, though clients should bear it.
    this.#ajv.addSchema({ ...document, $id: "requests" }, undefined, false, false);
    this.#ajv.addSchema({ ...closed(document), $id: "answers" }, undefined, false, false);
    const paths = document["paths"] as Record<string, Record<string, Omit<Operation, "method">>>;
    this.operations = Object.entries(paths).flatMap(([template, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        ...operation,
        method: method.toUpperCase(),
        template,
        parameters: operation.parameters ?? [],
      })),
    );
  }

  /** Makes the checks of all answers, which are made when first needed otherwise. */
  makeChecks(): void {
    this.checkProblem({});
    for (const operation of this.operations) {
      for (const [status, { content = {} }] of Object.entries(operation.responses)) {
        for (const type of Object.keys(content)) this.checkAnswer(operation, +status, type, {});
      }
    }
  }

  /** The operation that a request asks for: of several, the one with the fewest parameters in its path. */
  find(method: string, target: string): Operation | undefined {
    const path = target.split("?", 1)[0] ?? "";
    const holes = ({ template }: Operation) => template.split("{").length;
    return this.operations
      .filter((each) => each.method === method && pattern(each).test(path))
      .sort((a, b) => holes(a) - holes(b))[0];
  }

  /** What is wrong with a request, one line each. The names of its headers are in lower case. */
  checkRequest(
    operation: Operation,
    target: string,
    headers: Readonly<Record<string, string>>,
    body: string,
  ): string[] {
    const url = new URL(target, "http://localhost");
    const inPath = pattern(operation).exec(url.pathname)?.groups ?? {};
    const found: string[] = [];
    for (const [index, parameter] of operation.parameters.entries()) {
      const { name, required = false, schema } = parameter;
      const texts = {
        path: () => [decodeURIComponent(inPath[name] ?? "")],
        query: () => url.searchParams.getAll(name),
        header: () => (name in headers ? [headers[name]] : []),
      }[parameter.in]();
      if (texts.length === 0 && !required) continue;
      const value = schema.type === "array" ? texts : typed(texts[0] ?? "", schema.type);
      const at = `${pointer(operation)}/parameters/${index}/schema`;
      found.push(...this.#check(`requests#${at}`, value).map((each) => `${name}${each}`));
    }
    const inQuery = operation.parameters.filter((parameter) => parameter.in === "query");
    const known = new Set(inQuery.map(({ name }) => name));
    for (const name of url.searchParams.keys()) {
      if (!known.has(name)) found.push(`the query has no parameter ${name}`);
    }
    if (operation.requestBody && (body !== "" || operation.requestBody.required)) {
      const at = `${pointer(operation)}/requestBody/content/application~1json/schema`;
      found.push(...this.#check(`requests#${at}`, body === "" ? undefined : JSON.parse(body)));
    } else if (body !== "") found.push("the operation takes no body");
    return found;
  }

  /** What is wrong with an answer, one line each. The media type is without its parameters. */
  checkAnswer(operation: Operation, status: number, mediaType: string, body: unknown): string[] {
    const response = operation.responses[status];
    if (!response) return [`status ${status} is not documented`];
    if (!response.content) return body === undefined ? [] : [`status ${status} has no body`];
    if (!(mediaType in response.content)) return [`${mediaType} is not documented for ${status}`];
    // The events of a stream have no schema in OpenAPI 3.1.
    if (mediaType === "text/event-stream") return [];
    const at = `${pointer(operation)}/responses/${status}/content/${escaped(mediaType)}/schema`;
    return this.#check(`answers#${at}`, body);
  }

  /** The same for a problem that belongs to no operation. */
  checkProblem(body: unknown): string[] {
    return this.#check("answers#/components/schemas/Problem", body);
  }

  #check(reference: string, value: unknown): string[] {
    let validate = this.#validators.get(reference);
    if (!validate) {
      validate = this.#ajv.compile({ $ref: reference });
      this.#validators.set(reference, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }
}

function pattern({ template }: Operation): RegExp {
  return new RegExp(`^${template.replaceAll(/{(\w+)}/g, "(?<$1>[^/]+)")}$`);
}

function pointer({ template, method }: Operation): string {
  return `/paths/${escaped(template)}/${method.toLowerCase()}`;
}

function escaped(name: string): string {
  return encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"));
}

/** A parameter's text as what its schema speaks of. */
function typed(text: string, type: string | undefined): unknown {
  if (type === "integer" || type === "number") return Number(text);
  if (type === "boolean") return text === "true" ? true : text === "false" ? false : text;
  return text;
}

/**
 * The same document with every object closed, wherever a schema is used: within `allOf` and `oneOf`
 * the whole knows more members than its parts.
 */
function closed(document: Json): Json {
  const visit = (value: unknown, usedAs: string): unknown => {
    if (Array.isArray(value)) return value.map((each) => visit(each, usedAs));
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).map(([key, child]) => {
      const use = { properties: "property", schemas: "definition" }[usedAs] ?? key;
      return [key, visit(child, use)] as const;
    });
    const schema: Json = Object.fromEntries(entries);
    const position = ["schema", "property", "items", "additionalProperties"].includes(usedAs);
    const object = ["$ref", "properties", "allOf", "oneOf", "anyOf"].some((key) => key in schema);
    return position && object ? { ...schema, unevaluatedProperties: false } : schema;
  };
  return visit(document, "") as Json;
}
