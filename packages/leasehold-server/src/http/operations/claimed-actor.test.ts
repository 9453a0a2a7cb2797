/** Who a caller says it is: the audit keeps it as a claim beside the actor that the key proves. */
import { expect, test } from "vitest";
import { newKey } from "../../../../../tests/support/browser/console.js";
import { openTestApp, type Reply } from "../../../../../tests/support/server/app.js";

const UNLOCK = { resource: "a", reason: "stuck" };

async function open(options: Parameters<typeof openTestApp>[0] = {}) {
  const { ask, stores } = await openTestApp(options);
  const entries = async (query = "", headers = {}) =>
    (await ask("GET", `/v1/audit${query}`, undefined, { headers })).body.items;
  return { ask, stores, entries };
}

test("force-unlock accepts an actorId, and shows it as claimed", async () => {
  const { ask, entries } = await open();
  const { status, body } = await ask("POST", "/v1/locks/force-unlock", {
    ...UNLOCK,
    actorId: "alice",
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({ actorId: "anyone", claimedActor: "alice" });
  const [result, intent] = await entries();
  expect(intent).toMatchObject({ phase: "intent", actor: "anyone", claimedActor: "alice" });
  expect(result).toMatchObject({ phase: "result", actor: "anyone", claimedActor: "alice" });
  expect(result.details).not.toHaveProperty("claimedActor");
  expect(await ask("GET", "/v1/audit/verify")).toMatchObject({ body: { ok: true } });
});

test("every operator action takes the claimed actor from the header", async () => {
  const { ask, entries } = await open();
  const { id } = (await ask("POST", "/api/tasks", { task_data: 1 })).body;
  const headers = { "leasehold-actor": encodeURIComponent("Zoë, on call") };
  const act = (method: string, path: string, body?: object): Promise<Reply> =>
    ask(method, path, body, { headers });
  const reason = "test";
  const replies = [
    await act("POST", "/v1/leases/revoke", [{ resource: "a", reason }]),
    await act("POST", "/v1/locks/force-unlock", UNLOCK),
    await act("PUT", "/v1/pauses", { kind: "prefix", name: "a/", reason }),
    await act("DELETE", `/v1/pauses?kind=prefix&name=a/&reason=${reason}`),
    await act("POST", `/api/tasks/${id}/cancel?reason=${reason}`),
    await act("POST", `/api/generator/stop?reason=${reason}`),
    await act("PUT", "/v1/limits", { leases: 5, reason }),
    await act("POST", "/v1/keys", { name: "k", role: "viewer", reason }),
  ];
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200, 200, 201]);
  const found = await entries();
  expect(found).toHaveLength(16);
  for (const entry of found) {
    expect(entry).toMatchObject({ actor: "anyone", claimedActor: "Zoë, on call" });
  }
});

test("a key decides the actor, whatever the caller claims; without a claim there is none", async () => {
  const { ask, entries, stores } = await open({ auth: "keys" });
  const key = await newKey(stores, "admin");
  const authorization = `Bearer ${key}`;
  const headers = { authorization, "leasehold-actor": "key:000000000000" };
  const id = key.split("_")[1];
  const { body } = await ask("POST", "/v1/locks/force-unlock", UNLOCK, { headers });
  expect(body).toMatchObject({ actorId: `key:${id}`, claimedActor: "key:000000000000" });
  await ask("POST", "/v1/locks/force-unlock", UNLOCK, { headers: { authorization } });
  const found = await entries("?action=FORCE_UNLOCK&limit=1", { authorization });
  expect(found).toMatchObject([{ actor: `key:${id}`, claimedActor: null }]);
});

test("a claimed actor that is no name is refused", async () => {
  const { ask, entries } = await open();
  // The last two are the bytes of é in UTF-8 and in Latin-1.
  const rawBytes = ["\xc3\xa9", "\xe9"];
  for (const actor of ["%", "%00", "%1b%5b2J", "", "x".repeat(257), ...rawBytes]) {
    const headers = { "leasehold-actor": actor };
    const { status, body } = await ask("POST", "/v1/locks/force-unlock", UNLOCK, { headers });
    expect([actor, status, body.errors?.[0].path]).toEqual([actor, 422, "leasehold-actor"]);
  }
  const { status, body } = await ask("POST", "/v1/locks/force-unlock", { ...UNLOCK, actorId: "" });
  expect([status, body.errors[0].path]).toEqual([422, "actorId"]);
  expect(await entries()).toEqual([]);
});

test("two different claims in one request are refused, and the same claim twice is one", async () => {
  const { ask, entries } = await open();
  const unlock = (header: string, actorId: string) =>
    ask(
      "POST",
      "/v1/locks/force-unlock",
      { ...UNLOCK, actorId },
      { headers: { "leasehold-actor": encodeURIComponent(header) } },
    );
  const { status, body } = await unlock("alice", "bob");
  expect([status, body.code, body.errors?.[0].path]).toEqual([422, "INVALID_REQUEST", "actorId"]);
  expect(await entries()).toEqual([]);
  expect(await unlock("Zoë", "Zoë")).toMatchObject({ status: 200, body: { claimedActor: "Zoë" } });
  // Also where the body names the caller.
  expect(await unlock("\u001b", "bob")).toMatchObject({ status: 422 });
});

test("FORCE_UNLOCK filters the audit as an alias of lease.revoke", async () => {
  const { ask, entries } = await open();
  const { body } = await ask("POST", "/v1/locks/force-unlock", UNLOCK);
  expect(body).toMatchObject({ action: "FORCE_UNLOCK", auditAction: "lease.revoke" });
  await ask("PUT", "/v1/pauses", { kind: "prefix", name: "a/", reason: "test" });
  const actions = async (query: string) =>
    (await entries(query)).map(({ action }: { action: string }) => action);
  const both = ["lease.revoke", "lease.revoke"];
  expect(await actions("?action=FORCE_UNLOCK")).toEqual(both);
  expect(await actions("?action=lease.revoke")).toEqual(both);
  expect(await actions("?action=FORCE_UNLOCK&action=prefix.pause")).toHaveLength(4);
});
