/** What the callers of streams may receive, and for how long. */
import { grantIdOf, newLeaseId } from "leasehold/internal";
import { fromWireLeaseId, toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";

async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env, { streams: 4 });
  const { app, ask } = tenants;
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const key = async (role: "admin" | "holder", prefixes = [""]) => {
    const { key: made, text } = await tenants.newKey("a", role, { prefixes });
    return { id: made.id, text };
  };
  /** Reads in the background until the stream ends. */
  const follow = async (text: string, path: string) => {
    const headers = { authorization: `Bearer ${text}` };
    const { status, body } = await app.fetch(new Request(`http://localhost${path}`, { headers }));
    const state = { status, text: "", ended: false };
    if (status !== 200) return state;
    void (async () => {
      for await (const part of body as ReadableStream<Uint8Array>) {
        state.text += new TextDecoder().decode(part);
      }
      state.ended = true;
    })();
    await env.clock.settle();
    return state;
  };
  const send = async (text: string, method: string, path: string, body?: unknown) => {
    const answer = await ask(text, { method, path, ...(body === undefined ? {} : { body }) });
    expect(answer.status, answer.text).toBeLessThan(300);
    return answer.text;
  };
  /** Streams are woken once per turn of the event loop. */
  const settle = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    await env.clock.settle();
  };
  const grant = (resource: string) => toWireLeaseId(resource, newLeaseId(env.random));
  return { env, key, follow, send, settle, grant };
}

test("a holder receives events of resources below its prefixes, and of tasks only if it may run them", async () => {
  const { key, follow, send, settle, grant } = await open();
  const admin = await key("admin");
  const [narrow, worker] = [await key("holder", ["own/"]), await key("holder", ["task:"])];
  const streams = await Promise.all([
    follow(admin.text, "/v1/events"),
    follow(narrow.text, "/v1/events"),
    follow(worker.text, "/v1/events"),
  ]);
  for (const resource of ["own/1", "other/1"]) {
    const leaseId = grant(resource);
    await send(admin.text, "POST", "/v1/leases/acquire", [{ leaseId, holder: "h", ttlMs: 60_000 }]);
    await send(admin.text, "POST", "/v1/leases/release", [{ leaseId }]);
  }
  await send(admin.text, "POST", "/api/tasks", { task_data: 1, queue: "mails" });
  await settle();
  const received = streams.map(({ text }) =>
    ["own/1", "other/1", "mails"].filter((name) => text.includes(`"${name}"`)),
  );
  expect(received).toEqual([["own/1", "other/1", "mails"], ["own/1"], ["mails"]]);
});

test.each(["/v1/events", "/v1/activity"])(
  "the end of a key ends its streams of %s",
  async (path) => {
    const { env, key, follow, send } = await open();
    const [admin, ended] = [await key("admin"), await key("holder")];
    const [lasting, ending] = [await follow(admin.text, path), await follow(ended.text, path)];
    await env.clock.advance(30_000);
    expect([lasting.ended, ending.ended]).toEqual([false, false]);
    await send(admin.text, "DELETE", `/v1/keys/${ended.id}?reason=test`);
    await env.clock.advance(5_000);
    expect([lasting.ended, ending.ended]).toEqual([false, true]);
  },
);

test.each(["/v1/events", "/v1/activity"])(
  "the keys of a tenant share its streams of %s",
  async (path) => {
    const { key, follow } = await open();
    const [first, second] = [await key("holder"), await key("holder")];
    const statuses = [];
    for (const { text } of [first, first, first, second, second, second]) {
      statuses.push((await follow(text, path)).status);
    }
    expect(statuses).toEqual([200, 200, 200, 200, 429, 429]);
  },
);

test("refusals are listed below the requested prefix only, latest first, with token and holder", async () => {
  const { env, key, send, grant } = await open();
  const admin = await key("admin");
  const grantIds: string[] = [];
  for (const resource of ["a/1", "b/1", "a/2", "b/2", "a/3"]) {
    const leaseId = grant(resource);
    const holder = `of ${resource}`;
    await send(admin.text, "POST", "/v1/leases/acquire", [{ leaseId, holder, ttlMs: 1_000 }]);
    await env.clock.advance(1_000);
    await send(admin.text, "POST", "/v1/leases/renew", [{ leaseId, ttlMs: 1_000 }]);
    grantIds.push(grantIdOf(fromWireLeaseId(leaseId)?.leaseId ?? ""));
  }
  const listed = async (query: string) =>
    JSON.parse(await send(admin.text, "GET", `/v1/refusals${query}`)).items;
  const names = async (query: string) =>
    (await listed(query)).map(({ resource }: { resource: string }) => resource);
  expect(await names("?prefix=a/")).toEqual(["a/3", "a/2", "a/1"]);
  expect(await names("?prefix=a/&limit=2")).toEqual(["a/3", "a/2"]);
  expect((await listed("?limit=1"))[0]).toMatchObject({
    token: 1,
    holder: "of a/3",
    grantId: grantIds.at(-1),
    operation: "renew",
    reason: "expired",
  });
});
