/** The uses of keys, their longest life, and the role that reads the metrics alone. */
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { createApiKey, type Role } from "../../../../leasehold/src/control/index.js";
import type { AppOptions } from "../index.js";

const DAY_MS = 24 * 3_600_000;

async function open(options: Pick<AppOptions, "keyMaxLifeMs"> = {}) {
  const env = manualEnv();
  const metrics = async () => "leasehold_up 1\n";
  const opened = await openTestApp({ env, auth: "keys", metrics, ...options });
  const { control } = opened.stores;
  if (!control) throw new Error("memory keeps keys");
  const newKey = async (role: Role, lifetimeMs: number | null = null) => {
    const order = { namespace: "default", name: role, role, prefixes: [], lifetimeMs };
    const { key, text } = await createApiKey(control, env.random, order, {
      actor: "test",
      reason: null,
    });
    const ask = (method: string, path: string, body?: unknown) =>
      opened.ask(method, path, body, { headers: { authorization: `Bearer ${text}` } });
    return { id: key.id, text, ask };
  };
  return { ...opened, env, control, newKey };
}

test("the use of a key is noted in the background, at most once a minute", async () => {
  const { env, control, newKey, app } = await open();
  const [used, unused] = [await newKey("admin"), await newKey("viewer")];
  const uses: string[][] = [];
  const { noteUsed } = control.keys;
  control.keys.noteUsed = async (ids) => {
    uses.push([...ids]);
    await noteUsed(ids);
  };
  for (let n = 0; n < 5; n += 1) await used.ask("GET", "/v1/locks");
  expect(uses).toEqual([]);
  await env.clock.advance(70_000);
  expect(uses).toEqual([[used.id]]);
  await env.clock.advance(300_000);
  expect(uses).toHaveLength(1);
  const { body } = await used.ask("GET", "/v1/keys");
  const lastUsedOf = (id: string) =>
    body.items.find((key: { id: string }) => key.id === id).lastUsedAt;
  expect(lastUsedOf(used.id)).toMatch(/^\d{4}-\d\d-\d\dT/);
  expect(lastUsedOf(unused.id)).toBe(null);
  // The last uses are written when the app closes.
  expect(uses).toHaveLength(1);
  await app.close();
  expect(uses).toEqual([[used.id], [used.id]]);
});

test("a refused key is not in use", async () => {
  const { env, control, newKey, ask } = await open();
  const { id, text } = await newKey("admin");
  const wrong = text.replace(/.{38}$/, "0".repeat(32));
  const headers = { authorization: `Bearer ${wrong}` };
  expect((await ask("GET", "/v1/locks", undefined, { headers })).status).toBe(401);
  await env.clock.advance(70_000);
  expect(await control.keys.find(id)).toMatchObject({ lastUsedAt: null });
});

test("nor is a key that was revoked or has expired", async () => {
  const { env, control, newKey } = await open();
  const [admin, revoked] = [await newKey("admin"), await newKey("viewer")];
  const expired = await newKey("viewer", 60_000);
  await admin.ask("DELETE", `/v1/keys/${revoked.id}?reason=left`);
  await env.clock.advance(60_000);
  for (const { ask } of [revoked, expired])
    expect((await ask("GET", "/v1/locks")).status).toBe(401);
  await env.clock.advance(70_000);
  for (const { id } of [revoked, expired]) {
    expect(await control.keys.find(id)).toMatchObject({ lastUsedAt: null });
  }
});

test("a key with a wrong checksum is refused without a read", async () => {
  const { control, newKey, ask } = await open();
  const { text } = await newKey("admin");
  control.keys.find = () => Promise.reject(new Error("must not be read"));
  const headers = { authorization: `Bearer ${text.slice(0, -1)}${text.endsWith("0") ? 1 : 0}` };
  expectProblem(await ask("GET", "/v1/locks", undefined, { headers }), 401, "UNAUTHENTICATED");
});

test("with a longest life, new keys have an end", async () => {
  const { newKey } = await open({ keyMaxLifeMs: 90 * DAY_MS });
  const admin = await newKey("admin");
  const create = (lifetimeMs?: number | null) =>
    admin.ask("POST", "/v1/keys", { name: "n", role: "viewer", lifetimeMs });
  for (const [lifetimeMs, detail] of [
    [undefined, "lifetimeMs: is missing: give at most 2160h, the longest life of a key here"],
    [null, "lifetimeMs: is missing: give at most 2160h, the longest life of a key here"],
    [91 * DAY_MS, "lifetimeMs: must be at most 2160h, the longest life of a key here"],
  ] as const) {
    const refused = await create(lifetimeMs);
    expectProblem(refused, 422, "INVALID_REQUEST");
    expect(refused.body.detail).toBe(detail);
  }
  const made = await create(90 * DAY_MS);
  expect(made.status).toBe(201);
  const rotate = (id: string) => admin.ask("POST", `/v1/keys/${id}/rotate`, {});
  expect((await rotate(made.body.id)).status).toBe(201);
  // Its successor would have no end either.
  expectProblem(await rotate(admin.id), 422, "INVALID_REQUEST");
});

test("the longest life tells nothing of a key of another tenant", async () => {
  const { control, env, newKey } = await open({ keyMaxLifeMs: DAY_MS });
  const admin = await newKey("admin");
  const order = { namespace: "other", name: "n", role: "viewer" as const, prefixes: [] };
  const by = { actor: "test", reason: null };
  const { key } = await createApiKey(control, env.random, { ...order, lifetimeMs: null }, by);
  expectProblem(await admin.ask("POST", `/v1/keys/${key.id}/rotate`, {}), 404, "UNKNOWN_KEY");
});

test("a scraper reads the metrics, and nothing else", async () => {
  const { app, newKey } = await open();
  const scraper = await newKey("scraper");
  const headers = { authorization: `Bearer ${scraper.text}` };
  const metrics = await app.fetch(new Request("http://localhost/metrics", { headers }));
  expect([metrics.status, await metrics.text()]).toEqual([200, "leasehold_up 1\n"]);
  for (const path of ["/v1/locks", "/v1/whoami", "/v1/capabilities", "/v1/keys", "/api/tasks"]) {
    const refused = await scraper.ask("GET", path);
    expectProblem(refused, 403, "FORBIDDEN");
    expect(refused.body.detail).toContain("a scraper's key cannot do this");
  }
  expect((await scraper.ask("GET", "/none")).status).toBe(404);
  const acquire = { resource: "r", holder: "h" };
  expect((await scraper.ask("POST", "/v1/locks/acquire", acquire)).status).toBe(403);
});
