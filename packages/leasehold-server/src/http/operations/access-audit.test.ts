/** Denials and reads in the audit. */
import type { Env } from "leasehold";
import { type AuditEntry, createApiKey, parseApiKeyText } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { newKey } from "../../../../../tests/support/browser/console.js";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import type { AppOptions } from "../index.js";

const REVOKE = [{ resource: "a", reason: "r" }];

async function open(options: Partial<AppOptions> & { env?: Env }) {
  const env = manualEnv();
  const { ask, stores, app } = await openTestApp({ auth: "keys", env, ...options });
  const keyOf = async (role: "viewer" | "operator" | "admin") => {
    const text = await newKey(stores, role);
    const headers = { authorization: `Bearer ${text}` };
    const id = parseApiKeyText(text)?.id ?? "";
    const asked = (method: string, path: string, body?: unknown) =>
      ask(method, path, body, { headers });
    return { id, actor: `key:${id}`, ask: asked };
  };
  const entries = async (...actions: string[]): Promise<readonly AuditEntry[]> => {
    const query = { namespace: "default", actions };
    return (await stores.control?.audit.list(query))?.items ?? [];
  };
  const denials = () => entries("access.deny");
  const reads = () => entries("access.read");
  return { ask, app, stores, env, keyOf, denials, reads };
}

test("a refusal of a known key is in the audit, with the key and the code", async () => {
  const { keyOf, ask, denials } = await open({ auditDenials: true });
  const viewer = await keyOf("viewer");
  expect((await viewer.ask("POST", "/v1/leases/revoke", REVOKE)).status).toBe(403);
  // A guessed key and none: anyone can send those.
  const headers = { authorization: `Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}` };
  expect((await ask("GET", "/v1/audit", undefined, { headers })).status).toBe(401);
  expect((await ask("GET", "/v1/audit")).status).toBe(401);
  await expect.poll(async () => (await denials()).length).toBe(1);
  const [entry] = await denials();
  const { actor } = viewer;
  expect(entry).toMatchObject({ actor, target: "POST /v1/leases/revoke", phase: "done" });
  expect(JSON.parse(entry?.details ?? "")).toMatchObject({ status: 403, code: "FORBIDDEN" });
});

test("so is a request with a key that has ended, but not one with a wrong secret", async () => {
  const { keyOf, ask, denials } = await open({ auditDenials: true });
  const admin = await keyOf("admin");
  const viewer = await keyOf("viewer");
  expect((await admin.ask("DELETE", `/v1/keys/${viewer.id}?reason=left`)).status).toBe(200);
  expect((await viewer.ask("GET", "/v1/leases")).status).toBe(401);
  const headers = { authorization: `Bearer lh_${viewer.id}_${"0".repeat(32)}` };
  expect((await ask("GET", "/v1/leases", undefined, { headers })).status).toBe(401);
  await expect.poll(async () => (await denials()).length).toBe(1);
  const [entry] = await denials();
  expect(entry).toMatchObject({ actor: viewer.actor, target: "GET /v1/leases" });
  expect(JSON.parse(entry?.details ?? "")).toMatchObject({ code: "UNAUTHENTICATED" });
});

test("so is one with a key whose time is over", async () => {
  const { stores, ask, env, denials } = await open({ auditDenials: true });
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const order = { namespace: "default", name: "k", role: "viewer" as const, prefixes: [] };
  const by = { actor: "test", reason: null };
  const made = await createApiKey(control, env.random, { ...order, lifetimeMs: 60_000 }, by);
  const headers = { authorization: `Bearer ${made.text}` };
  await env.clock.advance(60_000);
  expect((await ask("GET", "/v1/leases", undefined, { headers })).status).toBe(401);
  await expect.poll(async () => (await denials()).length).toBe(1);
  const actor = `key:${made.key.id}`;
  expect(await denials()).toMatchObject([{ actor, target: "GET /v1/leases" }]);
});

test("the bootstrap token is no key whose requests are entered", async () => {
  const bootstrapToken = "t".repeat(32);
  const { ask, app, denials } = await open({ auditDenials: true, bootstrapToken });
  const headers = { authorization: `Bearer ${bootstrapToken}` };
  expect((await ask("GET", "/v1/leases", undefined, { headers })).status).toBe(403);
  await app.close();
  expect(await denials()).toEqual([]);
});

test("reads of the audit and of the keys are entered, and no others", async () => {
  const { keyOf, reads, denials } = await open({ auditReads: true });
  const admin = await keyOf("admin");
  const paths = ["/v1/audit", "/v1/audit/verify", "/v1/keys"];
  for (const path of [...paths, "/v1/leases", "/v1/limits"]) {
    expect((await admin.ask("GET", path)).status).toBe(200);
  }
  expect((await (await keyOf("viewer")).ask("GET", "/v1/keys")).status).toBe(403);
  await expect.poll(async () => (await reads()).length).toBe(3);
  const found = (await reads()).toReversed();
  expect(found.map(({ target }) => target)).toEqual(paths.map((path) => `GET ${path}`));
  expect(new Set(found.map(({ actor }) => actor))).toEqual(new Set([admin.actor]));
  expect(await denials()).toEqual([]);
  expect((await admin.ask("GET", "/v1/audit/verify")).body).toMatchObject({ ok: true });
});

test("without the options, neither is entered", async () => {
  const { keyOf, reads, denials, app } = await open({});
  expect((await (await keyOf("viewer")).ask("GET", "/v1/keys")).status).toBe(403);
  expect((await (await keyOf("admin")).ask("GET", "/v1/keys")).status).toBe(200);
  await app.close();
  expect([await reads(), await denials()]).toEqual([[], []]);
});

test("each key has ten entries in a minute, and an entry counts those left out", async () => {
  const { keyOf, denials, env } = await open({ auditDenials: true });
  const [loud, quiet] = [await keyOf("viewer"), await keyOf("viewer")];
  for (let sent = 0; sent < 25; sent += 1) await loud.ask("GET", "/v1/keys");
  await quiet.ask("GET", "/v1/keys");
  const actors = async () => (await denials()).map(({ actor }) => actor);
  await expect.poll(async () => (await actors()).length).toBe(11);
  expect((await actors()).filter((actor) => actor === quiet.actor)).toHaveLength(1);
  await env.clock.advance(60_000);
  await expect.poll(actors).toContain("server");
  const [last] = await denials();
  expect(last).toMatchObject({ actor: "server", target: "", details: '{"leftOut":15}' });
  await loud.ask("GET", "/v1/keys");
  await expect.poll(async () => (await actors()).length).toBe(13);
});

test("an app that closes first writes what is left", async () => {
  const { keyOf, denials, app } = await open({ auditDenials: true });
  const viewer = await keyOf("viewer");
  for (let sent = 0; sent < 12; sent += 1) await viewer.ask("GET", "/v1/keys");
  await app.close();
  const found = await denials();
  expect(found).toHaveLength(11);
  expect(found[0]).toMatchObject({ actor: "server", details: '{"leftOut":2}' });
});

test("a store that fails delays no answer, and the log says how many entries are lost", async () => {
  const events: unknown[] = [];
  const error = (fields: object) => void events.push(fields);
  const none = () => {};
  const env = manualEnv({ logger: { debug: none, info: none, warn: none, error } });
  const { stores, keyOf } = await open({ auditDenials: true, env });
  const { control } = stores;
  if (!control) throw new Error("memory has an audit");
  const viewer = await keyOf("viewer");
  control.audit.append = () => Promise.reject(new Error("disk full"));
  expect((await viewer.ask("GET", "/v1/keys")).status).toBe(403);
  await expect.poll(() => events).toMatchObject([{ event: "audit_entries_lost", lost: 1 }]);
});

test("both need a control store", async () => {
  const refused = open({ auditReads: true, auth: "none", control: undefined });
  await expect(refused).rejects.toThrow("auditReads needs a control store");
});

test("reads are in the audit also where the server is below a base path", async () => {
  const { keyOf, app, reads } = await open({ auditReads: true, basePath: "/base" });
  const admin = await keyOf("admin");
  expect((await admin.ask("GET", "/base/v1/keys")).status).toBe(200);
  await app.close();
  expect((await reads()).map(({ target }) => target)).toEqual(["GET /v1/keys"]);
});
