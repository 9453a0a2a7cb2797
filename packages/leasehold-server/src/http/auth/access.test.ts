/** Who may use which routes, by role and prefix. */
import { createRoute } from "@hono/zod-openapi";
import { expect, it, test } from "vitest";
import { ROUTE_RULES } from "../../../../../tests/support/server/declared-routes.js";
import { needs, routeOf, rulesOf } from "../route-rules.js";
import { newApp } from "../routing.js";
import { checkMay, mayOf, NEEDS, type Need } from "./access.js";
import { type Caller, callerOf, checkResources, covers, describePrefixes } from "./caller.js";
import { checkOperates } from "./scope.js";

const caller = (role: Caller["role"], ...prefixes: string[]): Caller => ({
  namespace: "n",
  role,
  prefixes,
  actor: "key:1",
  keyId: "1",
});

const READING = ["read", "readTasks", "readAll"] as const;

it.each<[Caller, readonly Need[]]>([
  [caller("scraper"), []],
  [caller("viewer"), READING],
  [caller("operator"), [...READING, "operate"]],
  [caller("admin"), [...READING, "hold", "work", "operate", "administer"]],
  [caller("holder", ""), [...READING, "hold", "work"]],
  [caller("holder", "jobs/"), ["read", "hold"]],
  [caller("holder", "jobs/", "task:"), ["read", "readTasks", "hold", "work"]],
  [caller("holder", "ta"), ["read", "readTasks", "hold", "work"]],
  // Of some tasks only: no list of tasks can be limited to those.
  [caller("holder", "task:1"), ["read", "hold"]],
])("a key with %o may %j", (own, may) => {
  expect(mayOf(own)).toEqual(may);
  for (const need of Object.keys(NEEDS) as Need[]) {
    const check = () => checkMay(own, need);
    const isEverybodys = need === "public" || need === "scrape";
    if (isEverybodys || may.includes(need)) check();
    else expect(check, need).toThrow(expect.objectContaining({ code: "FORBIDDEN" }));
  }
});

test("a refusal says which role or prefix the key lacks", () => {
  expect(() => checkMay(caller("viewer"), "hold")).toThrow(
    "a viewer's key cannot do this: use a key of holder or admin",
  );
  expect(() => checkMay(caller("operator"), "hold")).toThrow("an operator's key cannot do this");
  expect(() => checkMay(caller("holder", "jobs/", "b"), "work")).toThrow(
    'this needs a prefix of "task:": this key is limited to resources that begin with "jobs/", "b"',
  );
  expect(() => checkMay(caller("holder", "jobs/"), "readAll")).toThrow('this needs the prefix ""');
});

test("to an identity of an issuer, a refusal speaks of no key", () => {
  const identity = { keyId: "oidc:0123456789abcdef", actor: "oidc:ann", untilMs: 1 };
  expect(() => checkMay({ ...caller("viewer"), ...identity }, "operate")).toThrow(
    "your identity has the role viewer here, which cannot do this: use an identity of operator or admin, or ask for that role (--oidc-role of the server)",
  );
  expect(() => checkMay({ ...caller("holder", "jobs/"), ...identity }, "readAll")).toThrow(
    'this identity is limited to resources that begin with "jobs/"',
  );
  const limited = { ...caller("operator", "shop/"), ...identity };
  expect(() => checkOperates(limited, ["pay/a"])).toThrow(
    'not resources that begin with "pay/a": a rule of --oidc-role limits your identity to resources that begin with "shop/"',
  );
});

test("a route without an access rule is open to no key, and no route to any", () => {
  expect(() => checkMay(caller("admin"), undefined)).toThrow(
    expect.objectContaining({ code: "FORBIDDEN" }),
  );
  checkMay(caller("viewer"), null);
});

test("a request is matched with its rule as the document spells it", async () => {
  const seen: unknown[] = [];
  const app = newApp("");
  app.use("/*", async (context, next) => {
    const route = routeOf(context);
    seen.push([route, route && rulesOf(app).get(route)]);
    await next();
  });
  const responses = { 200: { description: "text" } };
  const task = { method: "get", path: "/api/tasks/{id}", responses } as const;
  app.openapi(createRoute({ ...needs("readTasks", "waits"), ...task }), (context) =>
    context.text("task"),
  );
  app.get("/unlisted", (context) => context.text("unlisted"));
  app.all("/v1/locks", (context) => context.text("405"));
  for (const path of ["/api/tasks/7", "/unlisted", "/v1/locks", "/nowhere"]) {
    await app.request(path);
  }
  expect(seen).toEqual([
    ["GET /api/tasks/{id}", { need: "readTasks", urgency: "waits" }],
    ["GET /unlisted", undefined],
    [null, null],
    [null, null],
  ]);
});

test("each route says who may use it", () => {
  for (const [route, { need }] of ROUTE_RULES) expect(need, route).toBeDefined();
});

test("a holder may use the resources below one of its prefixes, others any", () => {
  const holder = caller("holder", "a/", "b");
  for (const [resource, may] of [
    ["a/1", true],
    ["b", true],
    ["bc", true],
    ["a", false],
    ["xa/", false],
    ["", false],
  ] as const) {
    expect(covers(holder, resource), resource).toBe(may);
    expect(covers(caller("admin"), resource)).toBe(true);
  }
  expect(covers(caller("holder"), "a")).toBe(false);
  checkResources(holder, []);
  checkResources(holder, ["a/1", "b"]);
  const refused = expect.objectContaining({
    code: "FORBIDDEN",
    message: `not resources that begin with "c": ${describePrefixes(holder)}`,
  });
  expect(() => checkResources(holder, ["a/1", "c", "d"])).toThrow(refused);
});

test("the caller of a request is what the credential says", () => {
  const own = caller("viewer");
  expect(callerOf({ get: (name: string) => (name === "caller" ? own : undefined) as never })).toBe(
    own,
  );
});
