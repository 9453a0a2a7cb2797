/** Requests of the server's document, right ones and spoilt ones. */
import { BOUNDS, BUDGET_HEADER, REQUEST_ID_HEADER } from "leasehold/internal/wire";
import type { Operation } from "../../tests/support/server/openapi.js";
import type { Chance } from "./chance.js";
import { type Node, ODD_TEXTS, spoil, write } from "./json.js";
import type { Keys } from "./target.js";
import { known, type Schema, Values } from "./values.js";

export interface FuzzRequest {
  readonly method: string;
  /** Path and query as they are sent. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer> | undefined;
  /** What it asks for, as long as its method and path were left alone. */
  readonly operation: Operation | undefined;
}

const METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "BREW", "PROPFIND"];
const TYPES = [
  "application/json; charset=utf-8",
  "application/json;charset=latin1",
  "text/plain",
  "x",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "APPLICATION/JSON",
  "application/problem+json",
  "application/jsonx",
  "application/json, text/plain",
  "*/*",
];
const PATHS: readonly string[] = [
  "/",
  "//",
  "/.",
  "/%2e%2e/healthz",
  "/api//tasks",
  "/api/tasks/",
  "/API/tasks",
  "/%",
  "/%ZZ",
  "/api/tasks/%00",
  "/api/tasks/%ED%A0%80",
  "/api/%74asks",
  "/v1/locks/%2F",
  "/v1/locks/a.b",
  "/healthz/x",
  "/metrics/x",
  "/api/tasks/next/x",
  "/__proto__",
  "/constructor",
  "/;a=b",
  "/v1/leases/acquire%3F",
  "/api/leases/active%20",
  "/api/tasks/𝟙",
  "/\u0000",
  "/api/tasks#x",
];
const QUERIES: readonly string[] = [
  "?",
  "?=",
  "?&&",
  "?a",
  "?a=%ZZ",
  "?limit=0",
  "?limit=201",
  "?limit=1e2",
  "?limit=1&limit=2",
  "?limit=9007199254740993",
  "?limit=-0",
  "?cursor=%00",
  "?cursor=page2",
  "?prefix=%00",
  "?prefix=%ED%A0%80",
  "?state=odd",
  "?state=live&state=live",
  "?__proto__=1",
  "?state[]=live",
  `?cursor=${"x".repeat(2_000)}`,
  "?renewedOnly=yes",
  "?constructor=1",
  "?limit=%31",
];
/** Reads all that was ever done: after many cases it would be all that the server does. */
const WHOLE_CHAIN = "/v1/audit/verify";
/** What a tenant would shut itself out with; there is one for that. */
const NARROWING = /limits|pause/;

export class Requests {
  readonly #values: Values;
  readonly #operations: readonly Operation[];
  readonly #keys: Keys;

  constructor(document: object, operations: readonly Operation[], keys: Keys) {
    this.#values = new Values(document, keys.ids);
    this.#operations = operations;
    this.#keys = keys;
  }

  make(chance: Chance): FuzzRequest {
    const operation = this.#operation(chance);
    const spoilt = chance.often(65);
    const elsewhere = spoilt && chance.often(8);
    const method = elsewhere && chance.often(50) ? chance.pick(METHODS) : operation.method;
    const path =
      elsewhere && chance.often(70) ? chance.pick(PATHS) : this.#path(operation, chance, spoilt);
    const query = this.#query(operation, chance, spoilt);
    const text = this.#body(operation, chance, spoilt);
    const bodiless = method === "GET" || method === "HEAD";
    const body = text === undefined || bodiless ? undefined : bytes(text, chance, spoilt);
    return {
      method,
      target: path + query,
      body,
      headers: {
        ...this.#credentials(operation, chance),
        ...(body === undefined ? {} : contentType(chance, spoilt)),
        ...oddHeaders(chance, spoilt),
      },
      operation: elsewhere ? undefined : operation,
    };
  }

  #operation(chance: Chance): Operation {
    const picked = chance.pick(this.#operations);
    if (picked.template !== WHOLE_CHAIN || chance.often(5)) return picked;
    return this.#operation(chance);
  }

  #path({ template, parameters }: Operation, chance: Chance, spoilt: boolean): string {
    return template.replaceAll(/{(\w+)}/g, (_, name: string) => {
      if (spoilt && chance.often(10)) return encoded(chance.pick(ODD_TEXTS)) || "%20";
      if (template.startsWith("/api/tasks/")) return String(known("taskId", chance, []));
      if (template.startsWith("/api/leases/")) return String(known("grantId", chance, []));
      if (template.startsWith("/v1/keys/")) return chance.pick(this.#keys.ids);
      const { schema = {} } = parameters.find((each) => each.name === name) ?? {};
      return encoded(String(this.#values.allowed(schema, chance, name))) || "x";
    });
  }

  #query({ parameters }: Operation, chance: Chance, spoilt: boolean): string {
    if (spoilt && chance.often(10)) return chance.pick(QUERIES);
    const pairs = parameters
      .filter((parameter) => parameter.in === "query" && chance.often(30))
      .map(({ name, schema }) => {
        const odd = spoilt && chance.often(20);
        const value = odd ? chance.pick(ODD_TEXTS) : this.#values.allowed(schema, chance, name);
        return `${name}=${encoded(Array.isArray(value) ? String(value[0] ?? "live") : String(value))}`;
      });
    return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
  }

  #body({ requestBody, template }: Operation, chance: Chance, spoilt: boolean): string | undefined {
    const content = requestBody?.content["application/json"] as { schema: Schema } | undefined;
    if (!content) return spoilt && chance.often(5) ? "{}" : undefined;
    if (spoilt && chance.often(2)) return undefined;
    const name = template.startsWith("/api/tasks/") ? "taskId" : "resource";
    let node: Node = this.#values.allowed(content.schema, chance, name);
    if (spoilt) for (let left = chance.below(3); left >= 0; left -= 1) node = spoil(node, chance);
    return withoutWait(write(node));
  }

  #credentials({ template }: Operation, chance: Chance): Record<string, string> {
    const { admin, others, narrow } = this.#keys;
    const own = NARROWING.test(template) ? narrow : admin;
    if (chance.often(85)) return { authorization: `Bearer ${own}` };
    if (chance.often(50)) return { authorization: `Bearer ${chance.pick(others)}` };
    if (chance.often(20)) return {};
    const garbled = [
      own,
      "Bearer",
      "Bearer ",
      `bearer  ${own} `,
      `Basic ${btoa(`x:${own}`)}`,
      `Bearer ${own}x`,
      `Bearer ${own.slice(0, -1)}0`,
      `Bearer ${own}, Bearer ${own}`,
      `Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}`,
      "Bearer \u00e9",
      "Bearer __proto__",
      `Bearer ${own.toUpperCase()}`,
      "x".repeat(4_000),
    ];
    return { authorization: chance.pick(garbled) };
  }
}

function contentType(chance: Chance, spoilt: boolean): Record<string, string> {
  if (!spoilt || chance.often(93)) return { "content-type": "application/json" };
  return chance.often(20) ? {} : { "content-type": chance.pick(TYPES) };
}

function oddHeaders(chance: Chance, spoilt: boolean): Record<string, string> {
  if (!spoilt || chance.often(85)) return {};
  return chance.pick<Record<string, string>>([
    { [BUDGET_HEADER]: chance.pick(["0", "-1", "1", "1e9", "x", "999999999999999", "10000"]) },
    { [REQUEST_ID_HEADER]: chance.pick(["a b", "ok-1", "x".repeat(65), "\u00e9", "__proto__"]) },
    { "last-event-id": chance.pick(["", "0", "x", "-1", "9".repeat(400), "1-1"]) },
    { "content-encoding": "gzip" },
    { accept: "text/html", "accept-encoding": "br;q=x" },
    {
      traceparent: chance.pick([
        "00-x",
        `00-${"0".repeat(32)}-${"0".repeat(16)}-01`,
        "x".repeat(500),
      ]),
    },
    { "x-forwarded-for": "127.0.0.1", origin: "null", cookie: "a=b; __proto__=c" },
  ]);
}

function bytes(text: string, chance: Chance, spoilt: boolean): string | Uint8Array<ArrayBuffer> {
  if (!spoilt || chance.often(93)) return text;
  const how = chance.below(4);
  if (how === 0) return `\ufeff${text}`;
  if (how === 1) return text.slice(0, chance.below(text.length + 1));
  if (how === 2 && text.length < BOUNDS.bodyBytes) {
    return text + " ".repeat(BOUNDS.bodyBytes - Buffer.byteLength(text) + chance.below(3) - 1);
  }
  // Bytes that are no UTF-8.
  return new Uint8Array([...Buffer.from(text.slice(0, 2_000)), 0xff, 0xc0, 0x80]);
}

function encoded(text: string): string {
  return encodeURIComponent(text.replaceAll(/\p{Cs}/gu, "\ufffd"));
}

/** A wait for a task is no fault, but there is no time for it. */
function withoutWait(text: string): string {
  return text.replaceAll(/"waitMs":([\d.eE+]+)/g, (all, value: string) =>
    Number(value) > 20 && Number(value) <= BOUNDS.waitMs ? '"waitMs":0' : all,
  );
}
