/** What operators do over HTTP: see who holds what, end it, close it for a while, and answer for it. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createApiKey, type Role } from "../../packages/leasehold/src/control/index.js";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { createApp, type ServerApp } from "../../packages/leasehold-server/src/http/index.js";
import { CONTROL_ENGINES, type OpenedControl } from "../support/engines/control-engines.js";
import { TEST_LIMITS } from "../support/server/test-limits.js";

interface Reply {
  readonly status: number;
  // Tests look into it; a wrong guess fails them.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly body: any;
}

for (const engine of CONTROL_ENGINES) {
  engine.describe(`an operator, over HTTP on ${engine.name}`, () => {
    let stores: OpenedControl;
    let app: ServerApp;
    let other: ServerApp;
    const keys = new Map<string, { readonly text: string; readonly id: string }>();

    beforeAll(async () => {
      stores = await engine.open();
      const options = { ...stores, version: "0", limits: TEST_LIMITS, auth: "keys" } as const;
      app = createApp(options);
      other = createApp(options);
      for (const [namespace, role] of [
        ["ours", "holder"],
        ["ours", "operator"],
        ["ours", "admin"],
        ["theirs", "holder"],
        ["theirs", "operator"],
      ] as const) {
        const prefixes = role === "holder" ? [""] : [];
        const order = { namespace, role, name: role, prefixes, lifetimeMs: null };
        const by = { actor: "cli:tester", reason: null };
        const { key, text } = await createApiKey(stores.control, systemRandom, order, by);
        keys.set(`${namespace} ${role}`, { text, id: key.id });
      }
    }, 60_000);
    afterAll(async () => {
      await Promise.all([app?.close(), other?.close()]);
      await stores?.close();
    });

    const asker =
      (namespace: string, role: Role, at = () => app) =>
      async (method: string, path: string, body?: unknown): Promise<Reply> => {
        const authorization = `Bearer ${keys.get(`${namespace} ${role}`)?.text}`;
        const response = await at().fetch(
          new Request(`http://localhost${path}`, {
            method,
            headers: { authorization, ...(body !== undefined && JSON_TYPE) },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          }),
        );
        const text = await response.text();
        return { status: response.status, body: text === "" ? null : JSON.parse(text) };
      };
    const JSON_TYPE = { "content-type": "application/json" };
    const hold = asker("ours", "holder");
    const operate = asker("ours", "operator");
    const actor = () => `key:${keys.get("ours operator")?.id}`;

    const acquire = async (resource: string, ownerId = "worker-7", ttlMs = 60_000) =>
      (await hold("POST", "/v1/locks/acquire", { resource, ownerId, ttlMs })).body;
    /** What came of an attempt in each of the three dialects. */
    const attempts = async (resource: string, ask = hold) => {
      const leaseId = toWireLeaseId(resource, newLeaseId(systemRandom));
      const [lock, record, [lease]] = [
        (await ask("POST", "/v1/locks/acquire", { resource, ownerId: "late" })).body,
        (await ask("POST", "/api/leases", { resource, holder: "late" })).body,
        (await ask("POST", "/v1/leases/acquire", [{ leaseId, holder: "late", ttlMs: 1_000 }])).body,
      ];
      return { lock, record, lease };
    };
    const PAUSED = {
      lock: { acquired: false, ownerId: "paused", grantId: null, remainingMs: null },
      record: { code: "LEASE_HELD", holder: "paused", grantId: null, remainingMs: null },
      lease: { status: "held", holder: "paused", grantId: null, remainingMs: null },
    };
    /** The entries about it, the latest first, without the first halves of two steps. */
    const entries = async (target: string): Promise<Reply["body"][]> => {
      const path = `/v1/audit?target=${encodeURIComponent(target)}`;
      const { items } = (await operate("GET", path)).body;
      return items.filter(({ phase }: { phase: string }) => phase !== "intent");
    };
    const resources = async (query: string): Promise<string[]> => {
      const found: string[] = [];
      let cursor = "";
      do {
        const { status, body } = await operate("GET", `/v1/leases?${query}${cursor}`);
        expect(status).toBe(200);
        found.push(...body.items.map(({ resource }: { resource: string }) => resource));
        cursor = body.nextCursor === null ? "" : `&cursor=${encodeURIComponent(body.nextCursor)}`;
      } while (cursor !== "");
      return found;
    };
    const addTasks = async (queue: string, count: number): Promise<string[]> => {
      const tasks = Array.from({ length: count }, (_, n) => ({ task_data: n, queue }));
      const { body } = await hold("POST", "/api/tasks", tasks);
      return body.map(({ id }: { id: string }) => id);
    };

    it("lists leases by prefix, owner and expiry, and those held long, page by page", async () => {
      for (const n of [1, 2, 3, 4]) {
        await acquire(`list/a${n}`, n % 2 ? "odd" : "even", n < 3 ? 60_000 : 3_000_000);
      }
      await acquire("list-b", "odd");
      const all = ["list/a1", "list/a2", "list/a3", "list/a4"];
      expect(await resources("prefix=list/&limit=3")).toEqual(all);
      expect(await resources("prefix=list&holder=odd&limit=1")).toEqual([
        "list-b",
        "list/a1",
        "list/a3",
      ]);
      expect(await resources("prefix=list/&expiringWithinMs=100000")).toEqual(all.slice(0, 2));
      expect(await resources("prefix=list/&heldForMs=0&limit=2")).toEqual(all);
      expect(await resources("prefix=list/&heldForMs=600000")).toEqual([]);
      const locks = await operate("GET", "/v1/locks?prefix=list/&holder=even&limit=1");
      expect(locks.body).toMatchObject({
        items: [{ resource: "list/a2" }],
        nextCursor: "after:list/a2",
      });
    });

    it("shows who holds a lease and until when, without its secret", async () => {
      const { leaseId, fencingToken } = await acquire("show");
      const { body } = await operate("POST", "/v1/leases/get", ["show"]);
      expect(body).toMatchObject([
        { holder: "worker-7", token: fencingToken, state: "live", expiresAt: expect.any(String) },
      ]);
      expect(JSON.stringify(body)).not.toContain(leaseId.split(".")[1]);
    });

    it("revokes with actor, reason and expected token, at expiry or now, with an entry each", async () => {
      const first = await acquire("revoked");
      const revoke = (request: object) =>
        operate("POST", "/v1/leases/revoke", [{ resource: "revoked", ...request }]);
      expect(await revoke({})).toMatchObject({
        status: 422,
        body: { errors: [{ path: "0.reason" }] },
      });
      const { fencingToken: token } = first;
      const other = await revoke({ reason: "wrong one", expectedToken: token + 1 });
      expect(other.body).toEqual([{ status: "otherToken" }]);
      const atExpiry = await revoke({ reason: "it hangs", expectedToken: token });
      expect(atExpiry.body).toMatchObject([{ status: "revoked", token }]);
      expect(atExpiry.body[0].freeInMs).toBeGreaterThan(0);
      const renewal = await hold("POST", `/v1/locks/${first.leaseId}/renew`);
      expect(renewal.body).toMatchObject({ code: "LEASE_REVOKED" });
      expect(await acquire("revoked")).toMatchObject({ acquired: false });
      const now = await revoke({ reason: "its host is gone", free: "now" });
      expect(now.body).toEqual([{ status: "revoked", token, freeInMs: 0 }]);
      expect(await acquire("revoked")).toMatchObject({ acquired: true });
      expect(await revoke({ reason: "r", expectedToken: 1 })).toMatchObject({ status: 200 });

      const common = { actor: actor(), action: "lease.revoke", target: "revoked" };
      expect((await entries("revoked")).slice(1)).toMatchObject([
        { ...common, reason: "its host is gone", details: { status: "revoked", free: "now" } },
        { ...common, reason: "it hangs", details: { status: "revoked", token } },
        { ...common, reason: "wrong one", details: { status: "otherToken" } },
      ]);
    });

    it("revokes several in one request, each with its own entry", async () => {
      await acquire("many/1");
      const { body } = await operate("POST", "/v1/leases/revoke", [
        { resource: "many/1", reason: "one" },
        { resource: "many/2", reason: "two" },
        { resource: "many/1", reason: "three", free: "now" },
      ]);
      expect(body.map(({ status }: { status: string }) => status)).toEqual([
        "revoked",
        "notHeld",
        "revoked",
      ]);
      expect(await entries("many/1")).toMatchObject([{ reason: "three" }, { reason: "one" }]);
      expect(await entries("many/2")).toMatchObject([{ details: { status: "notHeld" } }]);
    });

    it("unlocks by force only with a reason, and answers the entry that was made", async () => {
      const { fencingToken } = await acquire("forced");
      const unlock = (body: object) =>
        operate("POST", "/v1/locks/force-unlock", { resource: "forced", free: "now", ...body });
      expect((await unlock({})).status).toBe(422);
      const reason = "worker crashed and lease did not clear";
      const { body } = await unlock({ reason });
      const [entry] = await operate("GET", `/v1/audit?target=forced`).then(({ body: { items } }) =>
        items.filter(({ phase }: { phase: string }) => phase !== "result"),
      );
      expect(body).toEqual({
        action: "FORCE_UNLOCK",
        resource: "forced",
        actorId: actor(),
        claimedActor: null,
        reason,
        createdAt: entry.at,
        auditSeq: entry.seq,
        auditAction: "lease.revoke",
        revoked: true,
        unlocked: true,
        why: null,
        fencingToken,
        freeInMs: 0,
      });
      expect((await unlock({ reason })).body).toMatchObject({ unlocked: false, why: "notHeld" });
      expect((await hold("POST", "/v1/locks/force-unlock", { resource: "r", reason })).status).toBe(
        403,
      );
    });

    it.each([
      ["resource", "closed/a", "closed/a"],
      ["prefix", "closed/", "closed/b"],
    ])(
      "pauses a %s for all dialects; who holds it renews and releases",
      async (kind, name, resource) => {
        const { leaseId } = await acquire(resource);
        const pause = { kind, name, reason: "migration" };
        const { body: stored } = await operate("PUT", "/v1/pauses", pause);
        expect(stored).toEqual({ ...pause, actor: actor(), since: expect.any(String) });
        expect((await operate("GET", "/v1/pauses")).body.items).toEqual([stored]);
        expect(await attempts(resource)).toMatchObject(PAUSED);
        expect((await hold("POST", `/v1/locks/${leaseId}/renew`)).status).toBe(200);
        expect((await hold("DELETE", `/v1/locks/${leaseId}`)).body).toEqual({ released: true });
        expect(await attempts(resource)).toMatchObject(PAUSED);
        // Other instances learn of a prefix within about a second.
        const elsewhere = asker("ours", "holder", () => other);
        const probe = kind === "prefix" ? "closed/probe" : resource;
        await expect
          .poll(() => attempts(probe, elsewhere), { timeout: 10_000 })
          .toMatchObject(PAUSED);
        expect(await acquire(`open-${kind}`)).toMatchObject({ acquired: true });
        const theirs = asker("theirs", "holder");
        const free = { resource, ownerId: "theirs", ttlMs: 1_000 };
        expect((await theirs("POST", "/v1/locks/acquire", free)).body.acquired).toBe(true);

        const query = new URLSearchParams({ kind, name, reason: "done" });
        const resume = () => operate("DELETE", `/v1/pauses?${query}`);
        expect((await resume()).body).toEqual({ kind, name, wasPaused: true });
        expect((await resume()).body).toEqual({ kind, name, wasPaused: false });
        expect(await acquire(resource)).toMatchObject({ acquired: true });
        expect(await entries(name)).toMatchObject([
          { action: `${kind}.resume`, details: { wasPaused: false } },
          { action: `${kind}.resume`, reason: "done", details: { wasPaused: true } },
          { action: `${kind}.pause`, reason: "migration", actor: actor() },
        ]);
      },
    );

    it("lets who repeats a request have its own grant although the prefix was paused since", async () => {
      const leaseId = toWireLeaseId("repeat/1", newLeaseId(systemRandom));
      const request = [{ leaseId, holder: "h", ttlMs: 60_000 }];
      const { body: granted } = await hold("POST", "/v1/leases/acquire", request);
      await operate("PUT", "/v1/pauses", { kind: "prefix", name: "repeat", reason: "r" });
      const { body: repeated } = await hold("POST", "/v1/leases/acquire", request);
      expect(repeated).toMatchObject([{ status: "acquired", token: granted[0].token }]);
      await operate("DELETE", "/v1/pauses?kind=prefix&name=repeat");
    });

    it("tells contention and renewals that failed by prefix, to their tenant alone", async () => {
      const { leaseId } = await acquire("busy/1");
      for (let n = 0; n < 5; n += 1) await acquire("busy/1", "late");
      await operate("POST", "/v1/leases/revoke", [{ resource: "busy/1", reason: "r" }]);
      for (let n = 0; n < 4; n += 1) await hold("POST", `/v1/locks/${leaseId}/renew`);
      const { items } = (await operate("GET", "/v1/contention")).body;
      expect(items).toContainEqual({ prefix: "busy", held: 5, lost: 4 });
      const theirs = await asker("theirs", "operator")("GET", "/v1/contention");
      expect(JSON.stringify(theirs.body.items)).not.toContain("busy");
    });

    it("cancels, retries and deletes a task, each with its entry", async () => {
      const [id = ""] = await addTasks("one", 1);
      const [path, reason] = [`/api/tasks/${id}`, "reason=stuck"];
      expect((await operate("POST", `${path}/cancel?${reason}`)).body.state).toBe("cancelled");
      expect((await operate("POST", `${path}/retry?${reason}`)).body.state).toBe("pending");
      await operate("POST", `${path}/cancel`);
      expect((await operate("DELETE", `${path}?${reason}`)).body).toEqual({
        id,
        state: "cancelled",
      });
      expect((await operate("GET", path)).status).toBe(404);
      expect((await operate("DELETE", path)).status).toBe(404);
      expect(await entries(id)).toMatchObject([
        { action: "task.delete", details: { status: "unknown" } },
        { action: "task.delete", reason: "stuck", details: { status: "ok" } },
        { action: "task.cancel", reason: null },
        { action: "task.retry", reason: "stuck", actor: actor() },
        { action: "task.cancel", reason: "stuck", details: { status: "ok", state: "cancelled" } },
      ]);
    });

    it("does so to many at once, by their ids and by a filter, as one act with the count", async () => {
      const ids = await addTasks("bulk", 250);
      const [first = ""] = ids;
      const some = await operate("POST", "/api/tasks/cancel?reason=r", [first, "none\0"]);
      expect(some.body).toEqual([{ status: "ok", state: "cancelled" }, { status: "unknown" }]);
      const bulk = (operation: string, more: object = {}, filter: object = {}) =>
        operate("POST", "/api/tasks/bulk", {
          operation,
          reason: "wrong deploy",
          filter: { queue: "bulk", ...filter },
          ...more,
        });
      const unexpected = await bulk("cancel", { expected: 250 });
      expect(unexpected.body).toMatchObject({ code: "STATE_CONFLICT" });
      expect(
        (await bulk("cancel", {}, { createdBefore: "2020-01-01T00:00:00Z" })).body.matched,
      ).toBe(0);
      const cancelled = await bulk("cancel", { expected: 249 });
      expect(cancelled.body).toEqual({
        matched: 249,
        changed: 249,
        conflicts: 0,
        overLimit: 0,
        more: false,
      });
      const [entry] = await entries("249 tasks");
      expect(entry).toMatchObject({
        action: "task.cancel",
        actor: actor(),
        reason: "wrong deploy",
        details: { changed: 249, filter: { queue: "bulk" } },
      });
      expect((await bulk("retry", {}, { states: ["cancelled"] })).body.changed).toBe(250);
      await bulk("cancel");
      expect((await bulk("delete")).body).toMatchObject({ matched: 250, changed: 250 });
      expect((await operate("GET", "/api/tasks?queue=bulk")).body.items).toEqual([]);
    });

    it("pauses a queue: claims find nothing, while who has a task goes on", async () => {
      await addTasks("closed", 2);
      await addTasks("open", 1);
      const next = (queues: string[], waitMs = 0) =>
        hold("POST", "/api/tasks/next", { processor: "p", queues, waitMs, limit: 1 });
      const [task] = (await next(["closed"])).body.tasks;
      await operate("PUT", "/v1/pauses", { kind: "queue", name: "closed", reason: "r" });
      expect((await next(["closed"])).status).toBe(204);
      expect((await next(["closed", "open"])).body.tasks).toMatchObject([{ queue: "open" }]);
      const { id, leaseId, fencingToken } = task;
      const grant = { leaseId, fencingToken };
      expect((await hold("PUT", `/api/tasks/${id}/heartbeat`, grant)).status).toBe(202);
      expect((await hold("PUT", `/api/tasks/${id}/complete`, grant)).status).toBe(202);
      const waiting = next(["closed"], 20_000);
      await operate("DELETE", "/v1/pauses?kind=queue&name=closed");
      expect((await waiting).body.tasks).toMatchObject([{ queue: "closed" }]);
    });

    it("steers the generator, and answers for it", async () => {
      expect(
        (await operate("POST", "/api/generator/start?reason=busy%20night")).body,
      ).toMatchObject({
        running: true,
      });
      const rate = { ratePerSecond: 2.5, reason: "too slow" };
      expect((await operate("PUT", "/api/generator/rate", rate)).body).toMatchObject({
        running: true,
        ratePerSecond: 2.5,
      });
      expect((await operate("POST", "/api/generator/stop")).body).toMatchObject({ running: false });
      expect((await hold("POST", "/api/generator/stop?reason=x")).status).toBe(403);
      const by = { actor: actor(), target: "generator" };
      expect(await entries("generator")).toMatchObject([
        { ...by, action: "generator.stop", reason: null, details: { running: false } },
        { ...by, action: "generator.rate", reason: "too slow", details: { ratePerSecond: 2.5 } },
        { ...by, action: "generator.start", reason: "busy night", details: { running: true } },
      ]);
    });

    it("answers for collecting, between an intent and its result", async () => {
      const administer = asker("ours", "admin");
      const olderThanMs = 30 * 24 * 3_600_000;
      const collect = { olderThanMs, reason: "room" };
      const { body } = await administer("POST", "/v1/leases/collect", collect);
      expect(body).toEqual({ collected: 0 });
      const { items } = (await operate("GET", "/v1/audit?action=lease.collect")).body;
      const by = { actor: `key:${keys.get("ours admin")?.id}`, reason: "room", target: "" };
      expect(items).toMatchObject([
        { ...by, phase: "result", details: { olderThanMs, collected: 0 } },
        { ...by, phase: "intent" },
      ]);
    });

    it("reads its own tenant's audit, page by page, by target and action", async () => {
      const read = async (query: string) => (await operate("GET", `/v1/audit?${query}`)).body;
      const paged: number[] = [];
      let cursor = "";
      do {
        const page = await read(`limit=10${cursor}`);
        paged.push(...page.items.map(({ seq }: { seq: number }) => seq));
        cursor = page.nextCursor === null ? "" : `&cursor=${page.nextCursor}`;
      } while (cursor !== "");
      const whole = (await read("limit=200")).items.map(({ seq }: { seq: number }) => seq);
      expect(paged).toEqual(whole);
      expect(whole).toEqual([...whole].sort((a, b) => b - a));
      const acts = (await read("action=task.delete&action=lease.revoke&limit=200")).items;
      const kinds = new Set(acts.map(({ action }: { action: string }) => action));
      expect([...kinds].sort()).toEqual(["lease.revoke", "task.delete"]);
      const theirs = await asker("theirs", "operator")("GET", "/v1/audit");
      expect(new Set(theirs.body.items.map(({ action }: { action: string }) => action))).toEqual(
        new Set(["key.create"]),
      );
    });

    it("verifies the whole chain, also against an export, and shows no entry of others", async () => {
      const exported = await stores.control.audit.head();
      const verify = async (query = "") => (await operate("GET", `/v1/audit/verify${query}`)).body;
      expect(await verify()).toEqual({ ok: true, ...exported, problem: null });
      const both = await Promise.all([verify(), verify()]);
      expect(both).toMatchObject([{ ok: true }, { code: "OVERLOADED" }]);
      const { seq, hash } = exported;
      expect(await verify(`?seq=${seq}&hash=${hash}`)).toMatchObject({ ok: true });
      const wrong = await verify(`?seq=${seq - 1}&hash=${hash}`);
      expect(wrong).toMatchObject({ ok: false, seq: seq - 1, hash: null });
      expect(Object.keys(wrong).sort()).toEqual(["hash", "ok", "problem", "seq"]);
      expect((await operate("GET", `/v1/audit/verify?seq=${seq}`)).status).toBe(422);
    });
  });
}

it("does without an audit what was done without one before, and nothing else", async () => {
  const [{ open } = { open: async () => Promise.reject(new Error("no engine")) }] = CONTROL_ENGINES;
  const { control, ...stores } = await open();
  const app = createApp({
    ...stores,
    auth: "ifAny",
    version: "0",
    limits: TEST_LIMITS,
    env: systemEnv,
  });
  const ask = async (method: string, path: string, body?: unknown) =>
    (
      await app.fetch(
        new Request(`http://localhost${path}`, {
          method,
          ...(body !== undefined && {
            headers: { "content-type": "application/json" },
            body: JSON.stringify(body),
          }),
        }),
        { remoteAddress: "127.0.0.1" },
      )
    ).status;
  const lock = { resource: "r", ownerId: "o", ttlMs: 1_000 };
  expect(await ask("POST", "/v1/locks/acquire", lock)).toBe(200);
  expect(await ask("POST", "/v1/leases/revoke", [{ resource: "r" }])).toBe(200);
  expect(await ask("POST", "/v1/locks/force-unlock", { resource: "r", reason: "r" })).toBe(501);
  expect(await ask("POST", "/api/tasks/cancel", ["x"])).toBe(200);
  expect(await ask("POST", "/api/tasks/delete", ["x"])).toBe(200);
  expect(await ask("PUT", "/v1/pauses", { kind: "queue", name: "q", reason: "r" })).toBe(501);
  expect(await ask("GET", "/v1/audit")).toBe(501);
  expect(await ask("GET", "/v1/contention")).toBe(200);
  expect(await ask("POST", "/api/generator/start")).toBe(200);
  expect(await ask("POST", "/v1/leases/collect", { olderThanMs: 0 })).toBe(200);
  await app.close();
  await stores.close();
});
