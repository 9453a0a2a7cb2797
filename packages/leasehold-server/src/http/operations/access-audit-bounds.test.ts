/** How entries about denials and reads are bounded: no key, action or tenant takes the place of another. */
import { createApiKey, newLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";

async function open() {
  const env = manualEnv();
  const both = { auditDenials: true, auditReads: true };
  const { ask, stores, app } = await openTestApp({ auth: "keys", env, ...both });
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const keyOf = async (namespace: string, role: "viewer" | "operator") => {
    const order = { namespace, name: "k", role, prefixes: [], lifetimeMs: null };
    const by = { actor: "test", reason: null };
    const { text, key } = await createApiKey(control, env.random, order, by);
    const headers = { authorization: `Bearer ${text}` };
    const asked = (method: string, path: string, more = {}) =>
      ask(method, path, undefined, { headers: { ...headers, ...more } });
    return { actor: `key:${key.id}`, ask: asked };
  };
  /** All entries, once the app has closed: the latest first. */
  const entries = async (namespace: string, action: "access.deny" | "access.read") => {
    await app.close();
    const query = { namespace, actions: [action], limit: 1_000 };
    const { items } = await control.audit.list(query);
    const leftOut = items.filter(({ actor }) => actor === "server");
    const own = items.filter(({ actor }) => actor !== "server");
    return { own, leftOut: leftOut.map(({ details }) => details) };
  };
  return { env, app, audit: control.audit, keyOf, entries, random: env.random };
}

test("reads and denials of one key are counted apart, and so is what was left out of each", async () => {
  const { keyOf, entries } = await open();
  const operator = await keyOf("a", "operator");
  for (let n = 0; n < 12; n += 1) {
    expect((await operator.ask("GET", "/v1/audit")).status).toBe(200);
  }
  for (let n = 0; n < 13; n += 1) {
    expect((await operator.ask("GET", "/v1/keys")).status).toBe(403);
  }
  const reads = await entries("a", "access.read");
  expect([reads.own.length, reads.leftOut]).toEqual([10, ['{"leftOut":2}']]);
  const denials = await entries("a", "access.deny");
  expect([denials.own.length, denials.leftOut]).toEqual([10, ['{"leftOut":3}']]);
});

test("a tenant has a hundred entries in a minute, and each tenant has its own", async () => {
  const { keyOf, entries } = await open();
  for (let key = 0; key < 11; key += 1) {
    const viewer = await keyOf("loud", "viewer");
    for (let n = 0; n < 10; n += 1) await viewer.ask("GET", "/v1/keys");
  }
  const quiet = await keyOf("quiet", "viewer");
  await quiet.ask("GET", "/v1/keys");
  const loud = await entries("loud", "access.deny");
  expect([loud.own.length, loud.leftOut]).toEqual([100, ['{"leftOut":10}']]);
  const { own, leftOut } = await entries("quiet", "access.deny");
  expect([own.map(({ actor }) => actor), leftOut]).toEqual([[quiet.actor], []]);
});

test("an entry names its request, and no lease id of its path", async () => {
  const { keyOf, entries, random } = await open();
  const viewer = await keyOf("a", "viewer");
  const leaseId = newLeaseId(random);
  const path = `/v1/locks/${toWireLeaseId("r", leaseId)}`;
  const refused = await viewer.ask("DELETE", path, { "x-request-id": "q-1" });
  expect(refused.status).toBe(403);
  const { own } = await entries("a", "access.deny");
  expect(own.map(({ details }) => JSON.parse(details))).toEqual([
    { status: 403, code: "FORBIDDEN", requestId: "q-1" },
  ]);
  expect(own[0]?.target).toMatch(/^DELETE \/v1\/locks\//);
  expect(JSON.stringify(own)).not.toContain(leaseId);
});

test("an app that closes waits for the entries that are being written, but not for ever", async () => {
  for (const hangs of [false, true]) {
    const { env, app, audit, keyOf } = await open();
    const viewer = await keyOf("a", "viewer");
    let goOn = () => {};
    const gate = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const { append } = audit;
    let written = 0;
    audit.append = async (entries) => {
      await gate;
      const done = await append.call(audit, entries);
      written += done.length;
      return done;
    };
    await viewer.ask("GET", "/v1/keys");
    let closed = false;
    const closing = app.close().then(() => {
      closed = true;
    });
    await env.clock.advance(1_999);
    expect([closed, written]).toEqual([false, 0]);
    if (hangs) await env.clock.advance(1);
    else goOn();
    await closing;
    expect(written).toBe(hangs ? 0 : 1);
    goOn();
  }
});
