/** Two tenants on one store, and what becomes of those whose key is revoked. */
import { afterEach, expect, it } from "vitest";
import { grantIdOf } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { openTenants } from "../support/server/tenants.js";

const env = manualEnv();
const opened: { stores: Stores; apps: ReturnType<typeof openTenants>["app"][] }[] = [];

async function open(instances = 1) {
  const stores = await memory().open(env);
  const all = Array.from({ length: instances }, () => openTenants(stores, env));
  opened.push({ stores, apps: all.map(({ app }) => app) });
  const [first, second] = all;
  if (!first) throw new Error("no instance");
  const keyOf = async (namespace: string) => (await first.newKey(namespace, "admin")).text;
  return { ...first, stores, second: second ?? first, a: await keyOf("a"), b: await keyOf("b") };
}
afterEach(async () => {
  for (const { stores, apps } of opened.splice(0)) {
    for (const app of apps) await app.close();
    await stores.close();
  }
});

/** Reads the stream in the background. */
async function follow(
  app: { fetch(request: Request): Promise<Response> },
  key: string,
  query = "",
) {
  const headers = { authorization: `Bearer ${key}` };
  const { body } = await app.fetch(new Request(`http://x/v1/events${query}`, { headers }));
  if (!body) throw new Error("no stream");
  const reader = body.getReader();
  const seen = { text: "", ended: false, cancel: () => reader.cancel() };
  const read = async (): Promise<void> => {
    const { done, value } = await reader.read();
    if (done) {
      seen.ended = true;
      return;
    }
    seen.text += new TextDecoder().decode(value as Uint8Array);
    return read();
  };
  void read();
  await env.clock.settle();
  return seen;
}

const acquire = (resource: string, ownerId: string) => ({
  method: "POST",
  path: "/v1/locks/acquire",
  body: { resource, ownerId },
});
const enqueue = (queue: string, id?: string) => ({
  method: "POST",
  path: "/api/tasks",
  body: { task_data: 1, queue, ...(id !== undefined && { id }) },
});

it("lets two tenants hold a lease of the same name, and end their own alone", async () => {
  const { ask, a, b } = await open();
  const [ofA, ofB] = await Promise.all(
    [a, b].map(async (key) => JSON.parse((await ask(key, acquire("same", "worker"))).text)),
  );
  expect([ofA.acquired, ofB.acquired]).toEqual([true, true]);
  const release = (key: string, leaseId: string) =>
    ask(key, { method: "DELETE", path: `/v1/locks/${leaseId}` });
  expect((await release(a, ofB.leaseId)).text).toBe('{"released":false}');
  expect((await release(a, ofA.leaseId)).text).toBe('{"released":true}');
  const { text } = await ask(b, { method: "GET", path: "/v1/locks" });
  expect(JSON.parse(text).items).toMatchObject([{ resource: "same", grantId: ofB.grantId }]);
  expect(ofB.grantId).toBe(grantIdOf(ofB.leaseId.split(".")[1]));
});

it("lets two tenants have a task of the same id", async () => {
  const { ask, a, b } = await open();
  const id = "01890000-0000-7000-8000-000000000000";
  const answers = [await ask(a, enqueue("q", id)), await ask(b, enqueue("q", id))];
  // "duplicate" would reveal that another tenant has it.
  expect(answers.map(({ text }) => JSON.parse(text).status)).toEqual(["enqueued", "enqueued"]);
  await ask(a, { method: "POST", path: `/api/tasks/${id}/cancel` });
  const { text } = await ask(b, { method: "GET", path: `/api/tasks/${id}` });
  expect(JSON.parse(text).state).toBe("pending");
});

it("tells each tenant, and each holder, of what is theirs to see and of nothing else", async () => {
  const { app, ask, a, b, newKey, stores } = await open();
  const holder = await newKey("a", "holder", { prefixes: ["mine/"] });
  const streams = await Promise.all([a, b, holder.text].map((key) => follow(app, key)));
  for (const [key, tenant] of [
    [a, "a"],
    [b, "b"],
  ] as const) {
    for (const resource of [`mine/of-${tenant}`, `other/of-${tenant}`]) {
      const { leaseId } = JSON.parse((await ask(key, acquire(resource, tenant))).text);
      // A contender waits, so the release causes a notification.
      const waiting = { namespace: tenant, resource, leaseId: "0".repeat(48), holder: "waiter" };
      await stores.leases.acquire([{ ...waiting, ttlMs: 30_000, queueMs: 60_000 }]);
      await ask(key, { method: "DELETE", path: `/v1/locks/${leaseId}` });
    }
    await ask(key, enqueue(`queue-of-${tenant}`));
  }
  await env.clock.settle();
  const names = streams.map(({ text }) => [...new Set(text.match(/[\w/]*-?of-\w/g))].sort());
  expect(names).toEqual([
    ["mine/of-a", "other/of-a", "queue-of-a"],
    ["mine/of-b", "other/of-b", "queue-of-b"],
    ["mine/of-a"],
  ]);
  await Promise.all(streams.map((stream) => stream.cancel()));
});

it("refuses a batch with one resource outside of the prefixes before anything is done", async () => {
  const { ask, newKey, stores, things } = await open();
  const { text: key } = await newKey("a", "holder", { prefixes: ["own/"] });
  const [mine, other] = [things.make("a", false), things.make("a", false)];
  const body = [
    { leaseId: (await mine.lease()).leaseId, holder: "h", ttlMs: 30_000 },
    {
      leaseId: `${btoa("else").replaceAll("=", "")}.${"0".repeat(48)}`,
      holder: "h",
      ttlMs: 30_000,
    },
    { leaseId: (await other.lease()).leaseId, holder: "h", ttlMs: 30_000 },
  ];
  const answer = await ask(key, { method: "POST", path: "/v1/leases/acquire", body });
  expect(answer.status).toBe(403);
  expect((await stores.leases.list({ namespace: "a" })).items).toEqual([]);
  const allowed = [body[0], body[2]];
  const again = await ask(key, { method: "POST", path: "/v1/leases/acquire", body: allowed });
  expect(JSON.parse(again.text)).toMatchObject([{ status: "acquired" }, { status: "acquired" }]);
});

it("ends the rights of a revoked key at once where it is revoked, elsewhere within 5 s", async () => {
  const { app, ask, a, newKey, second } = await open(2);
  const {
    text: key,
    key: { id },
  } = await newKey("a", "holder");
  const list = { method: "GET", path: "/v1/locks" };
  const streams = [await follow(app, key), await follow(second.app, key)];
  expect([(await ask(key, list)).status, (await second.ask(key, list)).status]).toEqual([200, 200]);
  const next = (more: object = {}) => ({
    method: "POST",
    path: "/api/tasks/next",
    body: { processor: "late", queues: ["q"], waitMs: 20_000, ...more },
  });
  const here = [ask(key, next()), ask(key, next({ claimId: "0".repeat(48) }))];
  const there = [second.ask(key, next()), second.ask(key, next({ claimId: "1".repeat(48) }))];
  await env.clock.advance(2_000);

  const revoked = await ask(a, { method: "DELETE", path: `/v1/keys/${id}?reason=leaked` });
  expect(revoked.status).toBe(200);
  expect((await ask(key, list)).status).toBe(401);
  await env.clock.settle();
  for (const waiting of here) {
    const { status, text } = await waiting;
    expect([status, JSON.parse(text).detail]).toEqual([401, "this key was revoked"]);
  }
  await env.clock.advance(5_000);
  expect((await second.ask(key, list)).status).toBe(401);
  expect(streams.map(({ ended }) => ended)).toEqual([true, true]);
  // A task that comes now is for none of them, not even for a moment.
  await ask(a, enqueue("q"));
  await env.clock.settle();
  for (const waiting of there) expect((await waiting).status).toBe(401);
  const { text } = await ask(a, { method: "GET", path: "/api/tasks/pending" });
  expect(JSON.parse(text).items).toMatchObject([{ attempt: 0 }]);
});

it("counts no stream and no claim of a key that has ended", async () => {
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, env, { waiters: 2, streams: 2 });
  opened.push({ stores, apps: [app] });
  const { text: admin } = await newKey("a", "admin");
  for (let round = 0; round < 3; round += 1) {
    const { text: key, key: own } = await newKey("a", "holder");
    const stream = await follow(app, key);
    const body = { processor: "w", queues: ["q"], waitMs: 20_000 };
    const claim = ask(key, { method: "POST", path: "/api/tasks/next", body });
    await env.clock.settle();
    await ask(admin, { method: "DELETE", path: `/v1/keys/${own.id}?reason=over` });
    await env.clock.advance(5_000);
    expect([(await claim).status, stream.ended]).toEqual([401, true]);
  }
});

it("lets a key that has used up its rate renew and release all the same", async () => {
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, env, { ratePerSecond: 5 });
  opened.push({ stores, apps: [app] });
  const { text: key } = await newKey("a", "holder");
  const { leaseId } = JSON.parse((await ask(key, acquire("r", "h"))).text);
  const list = { method: "GET", path: "/v1/locks" };
  const statuses = [];
  for (let request = 0; request < 10; request += 1) statuses.push((await ask(key, list)).status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(6);
  const renew = { method: "POST", path: `/v1/locks/${leaseId}/renew` };
  for (let request = 0; request < 10; request += 1) {
    expect((await ask(key, renew)).status).toBe(200);
  }
  expect((await ask(key, list)).status).toBe(429);
  expect((await ask(key, { method: "DELETE", path: `/v1/locks/${leaseId}` })).status).toBe(200);
});

it("lets an old key go on beside the one in its place, and no longer", async () => {
  const { ask, a, newKey } = await open();
  const {
    text: old,
    key: { id },
  } = await newKey("a", "viewer", { lifetimeMs: 86_400_000 });
  const rotate = { method: "POST", path: `/v1/keys/${id}/rotate`, body: { overlapMs: 60_000 } };
  const { text } = await ask(a, rotate);
  const made = JSON.parse(text);
  expect(made).toMatchObject({ role: "viewer", namespace: "a", remainingMs: 86_400_000 });
  const list = { method: "GET", path: "/v1/locks" };
  const statuses = async () => [(await ask(old, list)).status, (await ask(made.key, list)).status];
  expect(await statuses()).toEqual([200, 200]);
  const again = await ask(a, rotate);
  expect({ status: again.status, ...JSON.parse(again.text) }).toMatchObject({
    status: 409,
    code: "KEY_ROTATED",
    detail: expect.stringContaining(made.id),
  });
  await env.clock.advance(60_000);
  expect(await statuses()).toEqual([401, 200]);
  // What has ended does not come back to life, and still has a successor.
  expect((await ask(a, rotate)).status).toBe(409);
  const now = await newKey("a", "viewer");
  const atOnce = { ...rotate, path: `/v1/keys/${now.key.id}/rotate`, body: { overlapMs: 0 } };
  const successor = JSON.parse((await ask(a, atOnce)).text).id;
  expect(JSON.parse((await ask(a, atOnce)).text)).toMatchObject({
    status: 409,
    code: "KEY_ROTATED",
    detail: expect.stringContaining(successor),
  });
});

it("lets an admin make keys of the own namespace alone", async () => {
  const { ask, a, b } = await open();
  const body = { name: "n", role: "admin", namespace: "b" };
  const wished = await ask(a, { method: "POST", path: "/v1/keys", body });
  expect([wished.status, JSON.parse(wished.text).errors[0].path]).toEqual([422, "namespace"]);
  const made = await ask(a, {
    method: "POST",
    path: "/v1/keys",
    body: { name: "n", role: "admin" },
  });
  expect(made.headers.get("cache-control")).toBe("no-store");
  const { id, namespace, key } = JSON.parse(made.text);
  expect(namespace).toBe("a");
  const listed = async (by: string) => (await ask(by, { method: "GET", path: "/v1/keys" })).text;
  expect(await listed(a)).toContain(id);
  expect(await listed(b)).not.toContain(id);
  expect(await listed(a)).not.toContain(key.slice(-32));
});

it("makes a key for every resource only if that is asked for, and shows prefixes of holders and operators alone", async () => {
  const { ask, a } = await open();
  const make = async (body: object) => {
    const { status, text } = await ask(a, { method: "POST", path: "/v1/keys", body });
    return { status, body: JSON.parse(text) };
  };
  for (const given of [{}, { prefixes: [] }]) {
    const refused = await make({ name: "n", role: "holder", ...given });
    expect(refused).toMatchObject({ status: 422, body: { errors: [{ path: "prefixes" }] } });
    expect(refused.body.errors).toHaveLength(1);
    expect(refused.body.detail).toContain('[""] is any resource');
  }
  const any = await make({ name: "n", role: "holder", prefixes: [""] });
  expect(any).toMatchObject({ status: 201, body: { prefixes: [""] } });
  for (const role of ["viewer", "operator", "admin"]) {
    expect(await make({ name: "n", role }), role).toMatchObject({
      status: 201,
      body: { prefixes: [] },
    });
    const limited = await make({ name: "n", role, prefixes: [""] });
    expect(limited.status, role).toBe(role === "operator" ? 201 : 422);
  }
});

it("enters what admins do in the audit, with actor and reason, without a secret", async () => {
  const { ask, a, stores } = await open();
  const body = { name: "n", role: "holder", prefixes: ["p/"], reason: "for the night run" };
  const made = JSON.parse((await ask(a, { method: "POST", path: "/v1/keys", body })).text);
  await ask(a, { method: "DELETE", path: `/v1/keys/${made.id}?reason=over` });
  await ask(a, { method: "PUT", path: "/v1/limits", body: { tasks: 5, reason: "small plan" } });
  const entries = (await stores.control?.audit.list({ namespace: "a" }))?.items ?? [];
  const actor = `key:${a.slice(3, 15)}`;
  for (const [action, target, reason] of [
    ["key.create", made.id, "for the night run"],
    ["key.revoke", made.id, "over"],
    ["limits.set", "a", "small plan"],
  ]) {
    expect(entries).toContainEqual(expect.objectContaining({ actor, action, target, reason }));
  }
  expect(JSON.stringify(entries)).not.toContain(made.key.slice(-32));
});

it("names the key in the log of requests, and never its secret", async () => {
  const lines: unknown[] = [];
  const note = (fields: object, message: string) => lines.push({ ...fields, message });
  const logger = { debug: note, info: note, warn: note, error: note };
  const stores = await memory().open(env);
  const { app, ask, newKey } = openTenants(stores, { ...env, logger });
  opened.push({ stores, apps: [app] });
  const { text, key } = await newKey("a", "viewer");
  const wrong = `${text.slice(0, -4)}${text.endsWith("0000") ? "1111" : "0000"}`;
  await ask(text, { method: "GET", path: "/v1/locks" });
  await ask(text, acquire("r", "h"));
  await ask(wrong, { method: "GET", path: "/v1/locks" });
  await ask(null, { method: "GET", path: `/v1/keys/${text}` });
  const actor = `key:${key.id}`;
  expect(lines).toMatchObject([
    { event: "request_answered", actor, status: 200 },
    { event: "request_refused", actor, code: "FORBIDDEN" },
    { event: "request_refused", code: "UNAUTHENTICATED" },
    { event: "request_refused", code: "UNAUTHENTICATED", path: `/v1/keys/lh_${key.id}_[lease]` },
  ]);
  expect(lines[2]).not.toHaveProperty("actor");
  for (const secret of [text, wrong]) {
    expect(JSON.stringify(lines)).not.toContain(secret.slice(-32));
  }
});

it("shows names in metrics only to callers that may list them", async () => {
  const { ask, newKey, b } = await open();
  const namesSeenBy = async (key: string) => {
    const { text } = await ask(key, { method: "GET", path: "/metrics" });
    expect(text).toMatch(/a_total\{prefix=""\} 3\nc 4\n$/);
    return text.match(/names/g)?.length ?? 0;
  };
  expect(await namesSeenBy((await newKey("default", "viewer")).text)).toBe(2);
  expect(await namesSeenBy((await newKey("default", "holder")).text)).toBe(2);
  expect(await namesSeenBy((await newKey("default", "holder", { prefixes: ["p/"] })).text)).toBe(0);
  expect(await namesSeenBy(b)).toBe(0);
});

it("refuses operator actions while keys are slow to read, but lets a holder renew by its cached key", async () => {
  const { ask, newKey, stores } = await open();
  const [operator, holder] = [await newKey("a", "operator"), await newKey("a", "holder")];
  const held = await ask(holder.text, acquire("kept", "h"));
  const { leaseId } = JSON.parse(held.text);
  const unlock = {
    method: "POST",
    path: "/v1/locks/force-unlock",
    body: { resource: "kept", reason: "test" },
  };
  await ask(operator.text, { ...unlock, body: { resource: "free", reason: "test" } });
  const { keys } = stores.control ?? {};
  if (!keys) throw new Error("no keys");
  keys.find = () => new Promise(() => {});
  await env.clock.advance(25_000);
  const renewing = ask(holder.text, { method: "POST", path: `/v1/locks/${leaseId}/renew` });
  const unlocking = ask(operator.text, unlock);
  await env.clock.advance(250);
  expect((await renewing).status).toBe(200);
  await env.clock.advance(5_000);
  expect((await unlocking).status).toBe(503);
});
