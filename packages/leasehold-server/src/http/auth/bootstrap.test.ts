import { beforeEach, expect, test } from "vitest";
import {
  type Asked,
  expectProblem,
  openTestApp,
  type Reply,
} from "../../../../../tests/support/server/app.js";
import { createApiKey } from "../../../../leasehold/src/control/index.js";
import { systemEnv } from "../../../../leasehold/src/env/index.js";

const TOKEN = "bootstrap-0123456789abcdef0123456789";
const ADMIN = { name: "me", role: "admin" };

let opened: Asked;
beforeEach(async () => {
  opened = await openTestApp({ auth: "keys", bootstrapToken: TOKEN });
});

function ask(method: string, path: string, body?: unknown, token = TOKEN): Promise<Reply> {
  return opened.ask(method, path, body, { headers: { authorization: `Bearer ${token}` } });
}

const entries = async () =>
  (await opened.stores.control!.audit.list({ namespace: "default" })).items;

test("the bootstrap token creates one key of an admin, which then works", async () => {
  const made = await ask("POST", "/v1/keys", { ...ADMIN, reason: "first" });
  expect(made.status).toBe(201);
  expect((await ask("GET", "/v1/keys", undefined, made.body.key)).status).toBe(200);
  expect((await entries())[0]).toMatchObject({ action: "key.create", actor: "bootstrap" });
  const again = await ask("POST", "/v1/keys", ADMIN);
  expectProblem(again, 401, "UNAUTHENTICATED");
  expect(again.body.detail).toContain("leasehold keys create");
});

test("of concurrent requests with the bootstrap token, one creates a key", async () => {
  const replies = await Promise.all([1, 2, 3].map(() => ask("POST", "/v1/keys", ADMIN)));
  expect(replies.map(({ status }) => status).sort()).toEqual([201, 401, 401]);
  expect((await opened.stores.control!.keys.list({ namespace: null })).items).toHaveLength(1);
});

test.each([
  ["GET", "/v1/keys", undefined],
  ["POST", "/v1/keys/0123456789ab/rotate", { overlapMs: 0 }],
  ["POST", "/v1/locks/acquire", { resource: "r", holder: "h" }],
  ["GET", "/v1/events", undefined],
  ["GET", "/nothing", undefined],
])("the bootstrap token does not serve for %s %s", async (method, path, body) => {
  expectProblem(await ask(method, path, body), 403, "FORBIDDEN");
});

test("the first key must be an admin's, and the token remains after an invalid request", async () => {
  for (const role of ["viewer", "operator", "holder"]) {
    const prefixes = role === "holder" ? { prefixes: [""] } : {};
    const refused = await ask("POST", "/v1/keys", { ...ADMIN, role, ...prefixes });
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.detail).toContain("of the first key must be admin");
  }
  expectProblem(await ask("POST", "/v1/keys", { name: "" }), 422, "INVALID_REQUEST");
  expect((await ask("POST", "/v1/keys", ADMIN)).status).toBe(201);
});

test.each([
  ["nothing", ""],
  ["a part of it", TOKEN.slice(0, -1)],
  ["more than it", `${TOKEN}0`],
])("instead of the bootstrap token, %s is refused", async (_, token) => {
  expectProblem(await ask("POST", "/v1/keys", ADMIN, token), 401, "UNAUTHENTICATED");
});

test("a key that was created otherwise ends the bootstrap token, also when that key has ended", async () => {
  const { control } = opened.stores;
  const order = { namespace: "other", name: "n", role: "viewer" as const, prefixes: [""] };
  const by = { actor: "cli:test", reason: null };
  const { key } = await createApiKey(
    control!,
    systemEnv.random,
    { ...order, lifetimeMs: null },
    by,
  );
  await control!.actors.keys.revoke("other", key.id);
  await control!.keys.collect(0);
  expectProblem(await ask("POST", "/v1/keys", ADMIN), 401, "UNAUTHENTICATED");
});

test("the bootstrap token remains when the store fails", async () => {
  const { keys } = opened.stores.control!;
  const { existed } = keys;
  keys.existed = () => Promise.reject(new Error("broken"));
  expect((await ask("POST", "/v1/keys", ADMIN)).status).toBe(500);
  keys.existed = existed;
  expect((await ask("POST", "/v1/keys", ADMIN)).status).toBe(201);
});

test.each([
  [{ auth: "ifAny", bootstrapToken: TOKEN }, /needs auth/],
  [{ auth: "keys", bootstrapToken: "short" }, /at least 32/],
  [{ auth: "keys", bootstrapToken: `${TOKEN} ` }, /at least 32/],
] as const)("the options %j are refused", async (options, message) => {
  await expect(openTestApp(options)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "bootstrapToken",
    message: expect.stringMatching(message),
  });
});
