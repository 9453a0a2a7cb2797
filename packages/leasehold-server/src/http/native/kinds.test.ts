/** /v1/kinds as any HTTP client calls it, and the check of new tasks against what is published. */
import { openStores } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { createApp } from "../index.js";

const SCHEMA = {
  type: "object",
  required: ["cents"],
  properties: { cents: { type: "integer" }, note: { type: "string", maxLength: 5 } },
};
const invoice = (task_data: unknown, more: object = {}) => ({
  kind: "invoice",
  task_data,
  ...more,
});

type Ask = (method: string, path: string, body: unknown) => Promise<number>;

async function opened() {
  const app = await openTestApp();
  const publish = (schema: unknown, version = 1, kind = "invoice") =>
    app.ask("PUT", `/v1/kinds/${kind}/${version}`, { schema });
  const enqueue = (body: unknown) => app.ask("POST", "/api/tasks", body);
  return { ...app, publish, enqueue };
}

describe("kinds", () => {
  it("are published, listed, read and withdrawn", async () => {
    const { ask, publish } = await opened();
    expect((await publish(SCHEMA)).body).toEqual({ kind: "invoice", version: 1, change: "added" });
    expect((await publish(SCHEMA)).body).toMatchObject({ change: "none" });
    expect((await publish({ type: "object" }, 2)).body).toMatchObject({ change: "added" });
    expect((await publish(true, 1, "a%2Fb")).status).toBe(200);
    const { body } = await ask("GET", "/v1/kinds");
    const named = body.items.map((one: { kind: string; version: number }) => [
      one.kind,
      one.version,
    ]);
    expect(named).toEqual([
      ["a/b", 1],
      ["invoice", 1],
      ["invoice", 2],
    ]);
    expect((await ask("GET", "/v1/kinds?kind=invoice&limit=1")).body.items).toMatchObject([
      { kind: "invoice", version: 1, schema: SCHEMA },
    ]);
    expect((await ask("GET", "/v1/kinds/invoice/2")).body).toMatchObject({
      version: 2,
      schema: { type: "object" },
    });
    expectProblem(await ask("GET", "/v1/kinds/invoice/3"), 404, "UNKNOWN_KIND");
    const withdrawn = await ask("DELETE", "/v1/kinds/invoice/2");
    expect(withdrawn.body).toEqual({ kind: "invoice", version: 2, wasPublished: true });
    expect((await ask("DELETE", "/v1/kinds/invoice/2")).body.wasPublished).toBe(false);
    expectProblem(await ask("GET", "/v1/kinds/invoice/2"), 404, "UNKNOWN_KIND");
  });

  it.each([
    [{ schema: "text" }, "schema"],
    [{ schema: { $ref: "https://example.com/schema.json" } }, "schema.$ref"],
    [{ schema: { items: { pattern: "(" } } }, "schema.items.pattern"],
    [{ schema: { description: "x".repeat(70_000) } }, "schema"],
    [{}, "schema"],
    [{ schema: {}, kind: "x" }, "kind"],
  ])("are refused as %j", async (wrong, path) => {
    const { ask } = await opened();
    const answer = await ask("PUT", "/v1/kinds/invoice/1", wrong);
    expectProblem(answer, 422, "INVALID_REQUEST");
    expect(answer.body.errors[0].path).toBe(path);
    expect((await ask("GET", "/v1/kinds")).body.items).toEqual([]);
  });

  it.each(["0", "32768", "x", "1.5"])("have no version %s", async (version) => {
    const { ask } = await opened();
    const answer = await ask("PUT", `/v1/kinds/invoice/${version}`, { schema: {} });
    expectProblem(answer, 422, "INVALID_REQUEST");
  });

  it("are those of a tenant", async () => {
    const stores = await openStores("memory:");
    const [a, b] = ["a", "b"].map((namespace) => {
      const app = createApp({ ...stores, namespace, auth: "none", version: "test" });
      onTestFinished(() => app.close());
      return async (method: string, path: string, body: unknown) => {
        const headers = { "content-type": "application/json" };
        const init = { method, headers, body: JSON.stringify(body) };
        return (await app.fetch(new Request(`http://localhost${path}`, init))).status;
      };
    }) as [Ask, Ask];
    await a("PUT", "/v1/kinds/invoice/1", { schema: SCHEMA });
    expect(await b("POST", "/api/tasks", invoice(null))).toBe(201);
    expect(await a("POST", "/api/tasks", invoice(null))).toBe(422);
    expect((await stores.kinds?.list({ namespace: "b" }))?.items).toEqual([]);
  });
});

describe("kinds of several tenants on one server", () => {
  it("are checked, read and withdrawn apart, though they have one name", async () => {
    const env = manualEnv();
    const { app, ask, newKey } = openTenants(await memory().open(env), env);
    onTestFinished(() => app.close());
    const [a, b] = [(await newKey("a", "admin")).text, (await newKey("b", "admin")).text];
    const path = "/v1/kinds/invoice/1";
    const enqueue = async (key: string, data: unknown) =>
      (await ask(key, { method: "POST", path: "/api/tasks", body: invoice(data) })).status;
    const publish = async (key: string, schema: unknown) =>
      (await ask(key, { method: "PUT", path, body: { schema } })).status;
    expect(await publish(a, SCHEMA)).toBe(200);
    expect(await enqueue(a, null)).toBe(422);
    // Within the second for which the server keeps what it has read.
    expect(await enqueue(b, null)).toBe(201);
    expect(await publish(b, { type: "null" })).toBe(200);
    await env.clock.advance(1_000);
    expect([await enqueue(b, null), await enqueue(b, { cents: 1 })]).toEqual([201, 422]);
    expect([await enqueue(a, null), await enqueue(a, { cents: 1 })]).toEqual([422, 201]);
    await ask(a, { method: "DELETE", path: `${path}?reason=old` });
    await env.clock.advance(1_000);
    expect([await enqueue(a, null), await enqueue(b, { cents: 1 })]).toEqual([201, 422]);
  });
});

describe("the data of new tasks", () => {
  it("is checked against the published schema of its kind and version", async () => {
    const { ask, publish, enqueue } = await opened();
    await publish(SCHEMA);
    expect((await enqueue(invoice({ cents: 3 }))).status).toBe(201);
    const refused = await enqueue(invoice({ cents: 3, note: "too long" }));
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors).toEqual([
      { path: "task_data.note", problem: expect.stringMatching(/does not match the schema: /) },
    ]);
    expect((await enqueue(invoice(null, { version: 2 }))).status).toBe(201);
    expect((await enqueue({ ...invoice(null), kind: "another" })).status).toBe(201);
    expect((await ask("GET", "/api/tasks/counts")).body.pending).toBe(3);
  });

  it("is refused for a whole array, which names every member that does not match", async () => {
    const { ask, publish, enqueue } = await opened();
    await publish(SCHEMA);
    const refused = await enqueue([invoice({ cents: 1 }), invoice({}), invoice({ cents: "1" })]);
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors.map(({ path }: { path: string }) => path)).toEqual([
      "1.task_data",
      "2.task_data.cents",
    ]);
    expect((await ask("GET", "/api/tasks/counts")).body.pending).toBe(0);
  });

  it("of a schedule is checked when it is declared", async () => {
    const { ask, publish } = await opened();
    await publish(SCHEMA, 2);
    const declare = (data: unknown) =>
      ask("PUT", "/v1/schedules/s", {
        everyMs: 60_000,
        task: { kind: "invoice", version: 2, data },
      });
    const refused = await declare({ cents: "3" });
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors[0].path).toBe("task.data.cents");
    expect((await declare({ cents: 3 })).status).toBe(200);
    const { body } = await ask("POST", "/v1/schedules/s/run");
    expect((await ask("GET", `/api/tasks/${body.taskId}`)).body).toMatchObject({ version: 2 });
  });

  it("is checked against a new schema by every server within a second", async () => {
    const env = manualEnv();
    const stores = await memory().open(env);
    const servers = [1, 2].map(() => {
      const app = createApp({ ...stores, auth: "none", version: "test", env });
      onTestFinished(() => app.close());
      return async (method: string, path: string, body: unknown) => {
        const headers = { "content-type": "application/json" };
        const init = { method, headers, body: JSON.stringify(body) };
        return (await app.fetch(new Request(`http://localhost${path}`, init))).status;
      };
    });
    const [one, two] = servers as [(typeof servers)[0], (typeof servers)[0]];
    expect(await two("POST", "/api/tasks", invoice(null))).toBe(201);
    await one("PUT", "/v1/kinds/invoice/1", { schema: SCHEMA });
    await env.clock.advance(1_000);
    expect(await two("POST", "/api/tasks", invoice(null))).toBe(422);
    await one("PUT", "/v1/kinds/invoice/1", { schema: { type: "null" } });
    await env.clock.advance(1_000);
    expect(await two("POST", "/api/tasks", invoice(null))).toBe(201);
  });

  it("is read in one call for all tasks that arrive in a second", async () => {
    const stores = await openStores("memory:");
    const { kinds } = stores;
    const schemas = vi.spyOn(kinds as NonNullable<typeof kinds>, "schemas");
    const app = createApp({ ...stores, auth: "none", version: "test" });
    onTestFinished(() => app.close());
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify([invoice(1), invoice(2), { kind: "mail", task_data: 1 }]);
    const ask = () =>
      app.fetch(new Request("http://localhost/api/tasks", { method: "POST", headers, body }));
    const answers = await Promise.all([ask(), ask()]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(schemas).toHaveBeenCalledTimes(1);
    expect(schemas.mock.calls[0]?.[0]).toHaveLength(2);
  });

  it("is not enqueued unchecked while the store of kinds fails", async () => {
    const stores = await openStores("memory:");
    const { kinds } = stores;
    vi.spyOn(kinds as NonNullable<typeof kinds>, "schemas").mockRejectedValue(new Error("down"));
    const app = createApp({ ...stores, auth: "none", version: "test" });
    onTestFinished(() => app.close());
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(invoice(1)) };
    const answer = await app.fetch(new Request("http://localhost/api/tasks", init));
    expect(answer.status).toBeGreaterThanOrEqual(500);
    expect(await stores.tasks.counts("default")).toMatchObject({ pending: 0 });
  });
});

describe("a schema that is meant to harm", () => {
  /** Each of 40 references doubles the work. */
  const doubling = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => {
      const next = { $ref: `#/$defs/${at + 1}` };
      return [at, at === 39 ? {} : { allOf: [next, next] }];
    }),
  );

  it.each([
    ["a pattern that backtracks", { type: "string", pattern: "^(a+)+$" }, `${"a".repeat(50)}b`],
    ["references that multiply", { $ref: "#/$defs/0", $defs: doubling }, "x"],
    [
      "items that are compared with each other",
      { uniqueItems: true },
      Array.from({ length: 40_000 }, (_, at) => at),
    ],
  ])("does not block the server: %s", async (_what, schema, data) => {
    const { ask, publish, enqueue } = await opened();
    expect((await publish(schema)).status).toBe(200);
    const refused = await enqueue([invoice(data)]);
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors).toEqual([
      { path: "0.task_data", problem: expect.stringContaining("cannot be checked") },
    ]);
    // Its tenant has used the time of its checks; everything else goes on.
    const next = await enqueue(invoice(data));
    expectProblem(next, 429, "TOO_MANY_REQUESTS");
    expect(Number(next.headers.get("retry-after"))).toBeGreaterThan(1);
    expect((await enqueue({ kind: "another", task_data: 1 })).status).toBe(201);
    expect((await ask("GET", "/api/tasks/counts")).body.pending).toBe(1);
  });

  it("does not block the server: a reference to itself", async () => {
    const { publish, enqueue } = await opened();
    expect((await publish({ $ref: "#" })).status).toBe(200);
    const refused = await enqueue(invoice(1));
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors[0].problem).toContain("refers to itself");
    expect((await enqueue({ kind: "another", task_data: 1 })).status).toBe(201);
  });

  it.each([
    ["an enum that is no list", { enum: "a" }, 1],
    ["required names that are no list", { required: 1 }, {}],
  ])("is refused for a schema that is not valid: %s", async (_, schema, data) => {
    const { publish, enqueue } = await opened();
    expect((await publish(schema)).status).toBe(200);
    const refused = await enqueue(invoice(data));
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.errors[0].problem).toMatch(
      /^cannot be checked: the schema of its kind is not valid \(.+\): correct the schema$/,
    );
  });

  it("runs no code", async () => {
    const { publish, enqueue } = await opened();
    const code = '"});globalThis.harmed=true;({"';
    const schema = { properties: { [code]: { const: code, default: code } }, title: code };
    expect((await publish(schema)).status).toBe(200);
    expect((await enqueue(invoice({ [code]: code }))).status).toBe(201);
    expect(Reflect.has(globalThis, "harmed")).toBe(false);
  });
});
