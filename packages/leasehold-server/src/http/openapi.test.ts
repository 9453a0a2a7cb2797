import { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Asked, openApp } from "../../../../tests/support/server/app.js";
import { listen } from "./listen.js";
import { declareRoutes } from "./routes.js";
import { newApp } from "./routing.js";

type Json = Record<string, unknown>;
interface Operation {
  readonly summary: string;
  readonly tags: string[];
  readonly parameters?: { name: string; in: string; required?: boolean; schema: Json }[];
  readonly requestBody?: { required: boolean; content: Json };
  readonly responses: Record<string, { description: string; content?: Record<string, Json> }>;
}
interface Document {
  readonly openapi: string;
  readonly info: { title: string; version: string };
  readonly tags: { name: string }[];
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { schemas: Record<string, Json> };
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  "/v1/events": "text/event-stream",
  "/v1/activity": "text/event-stream",
  "/metrics": "text/plain",
};

let app: Asked;
let document: Document;
beforeAll(async () => {
  app = await openApp();
  document = (await app.ask("GET", "/openapi.json")).body;
});
afterAll(() => app.close());

function operations(): [path: string, method: string, operation: Operation][] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) => [path, method, operation] as [string, string, Operation],
    ),
  );
}

/** All objects in the document. */
function* objects(value: unknown): Generator<Json> {
  if (typeof value !== "object" || value === null) return;
  yield value as Json;
  for (const child of Object.values(value)) yield* objects(child);
}

test("is OpenAPI 3.1 of this version", () => {
  expect(document.openapi).toBe("3.1.0");
  expect(document.info).toMatchObject({ title: "Leasehold", version: "1.2.3" });
});

test("lists exactly the declared routes", () => {
  const declared = newApp("");
  // Declaring a route calls no service.
  const services = { env: {}, leases: {}, tasks: {} } as Parameters<typeof declareRoutes>[1];
  declareRoutes(declared, services, { version: "0", basePath: "", namespace: "default" });
  const template = (path: string) => path.replaceAll(/:(\w+)/g, "{$1}");
  const routed = declared.routes
    .filter(({ method }) => method !== "ALL")
    .map(({ method, path }) => `${method} ${template(path)}`);
  const documented = operations().map(([path, method]) => `${method.toUpperCase()} ${path}`);
  expect([...new Set(routed)].sort()).toEqual(documented.sort());
  expect(documented.length).toBeGreaterThan(30);
});

test("says null where a schema that is named elsewhere may be null", () => {
  const { TaskLimit, TaskLimitRequest, ScheduledTask } = document.components.schemas as Record<
    string,
    { properties: Record<string, Json> }
  >;
  const either = (name: string) => [{ $ref: `#/components/schemas/${name}` }, { type: "null" }];
  expect(TaskLimit?.properties["rate"]).toMatchObject({ anyOf: either("Rate") });
  expect(TaskLimitRequest?.properties["rate"]).toMatchObject({ anyOf: either("Rate") });
  const { concurrency } = ScheduledTask?.properties ?? {};
  expect(concurrency).toMatchObject({ anyOf: either("NewConcurrency") });
  for (const { allOf } of objects(document)) {
    expect(JSON.stringify(allOf ?? [])).not.toContain('"null"');
  }
});

test("has no dangling reference and no unused schema", () => {
  const used = new Set<string>();
  for (const { $ref } of objects(document)) if (typeof $ref === "string") used.add($ref);
  const known = Object.keys(document.components.schemas).map(
    (name) => `#/components/schemas/${name}`,
  );
  expect([...used].sort()).toEqual(known.sort());
});

test("describes the request and responses of each operation", () => {
  const tags = new Set(document.tags.map(({ name }) => name));
  for (const [path, method, operation] of operations()) {
    const name = `${method} ${path}`;
    expect(operation.summary, name).not.toBe("");
    expect(
      operation.tags.every((tag) => tags.has(tag)),
      name,
    ).toBe(true);
    const inPath = [...path.matchAll(/{(\w+)}/g)].map(([, parameter]) => parameter);
    const declared = operation.parameters?.filter((parameter) => parameter.in === "path") ?? [];
    expect(
      declared.map((parameter) => parameter.name),
      name,
    ).toEqual(inPath);
    expect(
      declared.every(({ required }) => required),
      name,
    ).toBe(true);
    const statuses = Object.keys(operation.responses);
    expect(
      statuses.some((status) => status.startsWith("2")),
      name,
    ).toBe(true);
    if (operation.requestBody) {
      const optional = path === "/v1/locks/{leaseId}/renew";
      expect(operation.requestBody.required, name).toBe(!optional);
      for (const status of ["400", "413", "415", "422", "503"]) {
        expect(statuses, name).toContain(status);
      }
    }
    for (const [status, { description, content }] of Object.entries(operation.responses)) {
      expect(description, name).not.toBe("");
      const answered = MEDIA_TYPES[path] ?? "application/json";
      const type = Number(status) < 400 ? answered : "application/problem+json";
      if (status !== "204") expect(Object.keys(content ?? {}), name).toEqual([type]);
    }
  }
});

test("discriminates each union of outcomes by status", () => {
  let unions = 0;
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    if (!schema["oneOf"]) continue;
    unions += 1;
    const { propertyName, mapping } = schema["discriminator"] as {
      propertyName: string;
      mapping: Record<string, string>;
    };
    expect(propertyName, name).toBe("status");
    const options = (schema["oneOf"] as { $ref: string }[]).map(({ $ref }) => $ref);
    expect(Object.values(mapping).sort(), name).toEqual(options.sort());
  }
  expect(unions).toBe(11);
});

test("refuses unknown fields in every schema of a request, as the routes do", () => {
  for (const [path, method, { requestBody }] of operations()) {
    if (!requestBody) continue;
    const seen = new Set<string>();
    const visit = (value: unknown): void => {
      for (const schema of objects(value)) {
        // A map has names of its own.
        const others = schema["additionalProperties"];
        if (schema["type"] === "object" && typeof others !== "object") {
          expect(others, `${method} ${path}`).toBe(false);
        }
        const name =
          String(schema["$ref"] ?? "")
            .split("/")
            .pop() ?? "";
        if (name === "" || seen.has(name)) continue;
        seen.add(name);
        visit(document.components.schemas[name]);
      }
    };
    visit(requestBody.content);
  }
});

test("documents the problems of any request: an invalid budget, an overload, a closing server", async () => {
  const headers = { "leasehold-budget-ms": "soon" };
  const { status } = await app.ask("GET", "/v1/capabilities", undefined, { headers });
  expect(status).toBe(422);
  for (const [path, method, { responses }] of operations()) {
    const missing = ["422", "429", "503"].filter((each) => !(each in responses));
    expect([method, path, missing]).toEqual([method, path, []]);
  }
});

test("is not copied for each answer, which may wait to be read", async () => {
  const { app: served, close } = await openApp();
  const server = await listen({ app: served, port: 0 });
  const end = vi.spyOn(ServerResponse.prototype, "end");
  try {
    for (let asked = 0; asked < 2; asked += 1) {
      const answer = await fetch(`${server.url}/openapi.json`);
      expect(await answer.json()).toEqual(document);
    }
    const [first, second] = end.mock.calls.map(([body]) => body);
    expect(first).toBeInstanceOf(Uint8Array);
    expect(second).toBe(first);
  } finally {
    end.mockRestore();
    await server.close();
    await close();
  }
});
