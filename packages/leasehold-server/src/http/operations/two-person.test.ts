/** Leases that no single operator may end. */
import { StoreUnavailableError } from "leasehold";
import { createKey, type Role, revokeKey, rotateKey } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { describe, expect, it, vi } from "vitest";
import {
  type Asked,
  expectProblem,
  openTestApp,
  type Reply,
} from "../../../../../tests/support/server/app.js";
import { systemEnv } from "../../../../leasehold/src/env/index.js";
import { isSameHand } from "./same-hand.js";

const PREFIXES = ["pay/"];
const HOUR_MS = 3_600_000;

interface KeyOptions {
  readonly prefixes?: readonly string[];
  readonly namespace?: string;
  readonly by?: string;
}

/** A caller with a key of its own. */
async function callerOf({ ask, stores }: Asked, role: Role, options: KeyOptions = {}) {
  const { control } = stores;
  if (!control) throw new Error("no control");
  const { prefixes = role === "holder" ? [""] : [], namespace = "default" } = options;
  const order = { namespace, name: role, role, prefixes, lifetimeMs: null };
  const by = { actor: options.by ?? "cli:test", reason: null };
  const { key, text } = await createKey(control, systemEnv.random, order, by);
  return withKey(ask, key.id, text);
}

interface WithKey {
  readonly id: string;
  readonly actor: string;
  readonly ask: Asked["ask"];
  /** The same caller at another server. */
  at(ask: Asked["ask"]): WithKey;
  hold(resource: string): Promise<{ leaseId: string; fencingToken: number }>;
  // biome-ignore lint/suspicious/noExplicitAny: as the bodies of replies
  revoke(...requests: object[]): Promise<any>;
  confirm(id: number, body: object): Promise<Reply>;
  waiting(): Promise<unknown[]>;
}

function withKey(ask: Asked["ask"], id: string, text: string): WithKey {
  const headers = { authorization: `Bearer ${text}` };
  const own = (method: string, path: string, body?: unknown) =>
    ask(method, path, body, { headers });
  return {
    id,
    actor: `key:${id}`,
    ask: own,
    at: (other) => withKey(other, id, text),
    hold: async (resource) => {
      const wanted = { resource, ownerId: "h", ttlMs: 10 * 60_000 };
      const { body } = await own("POST", "/v1/locks/acquire", wanted);
      expect(body.acquired).toBe(true);
      return body as { leaseId: string; fencingToken: number };
    },
    revoke: async (...requests) => {
      const reasoned = requests.map((request) => ({ reason: "it hangs", ...request }));
      return (await own("POST", "/v1/leases/revoke", reasoned)).body;
    },
    confirm: (revocation, body) =>
      own("POST", `/v1/revocations/${revocation}/confirm`, { reason: "I agree", ...body }),
    waiting: async () => (await own("GET", "/v1/revocations")).body.items,
  };
}

async function open(options: Parameters<typeof openTestApp>[0] = {}) {
  const env = options.env ?? manualEnv();
  const twoPersonRevoke = { prefixes: PREFIXES };
  const asked = await openTestApp({ auth: "keys", twoPersonRevoke, ...options, env });
  const holder = await callerOf(asked, "holder");
  const first = await callerOf(asked, "operator");
  const second = await callerOf(asked, "operator");
  const third = await callerOf(asked, "admin");
  await tick(env);
  return { ...asked, asked, env, holder, first, second, third };
}

/** Keys must be older than the requests that they confirm. */
async function tick(env: object): Promise<void> {
  const { clock } = env as { clock: { advance?: (ms: number) => Promise<void> } };
  await clock.advance?.(1_000);
}

/** What the one has requested, the other cannot confirm. */
async function expectRelated(asked: Asked, holder: WithKey, by: WithKey, other: WithKey) {
  const { fencingToken: token } = await holder.hold("pay/a");
  const [{ id }] = await by.revoke({ resource: "pay/a" });
  const refused = await other.confirm(id, { token, free: "atExpiry" });
  expectProblem(refused, 403, "FORBIDDEN");
  expect((await entriesOf(asked)).at(-1)?.details).toMatchObject({ why: "relatedKey" });
  expect(await stateOf(asked, "pay/a")).toBe("live");
}

async function stateOf({ stores }: Pick<Asked, "stores">, resource: string) {
  const [view] = await stores.leases.get([{ namespace: "default", resource }]);
  return view?.state;
}

/** The entries of revocations, the oldest first. */
async function entriesOf({ stores }: Pick<Asked, "stores">) {
  const entries = (await stores.control?.audit.read(0, 1_000)) ?? [];
  return entries
    .filter(({ action }) => action.startsWith("lease."))
    .map(({ action, actor, target, reason, phase, details }) => ({
      action,
      actor,
      target,
      reason,
      phase,
      details: JSON.parse(details) as object,
    }));
}

describe("a revocation below the prefix", () => {
  it("is recorded, changes nothing, and takes effect when a second operator confirms it", async () => {
    const { asked, holder, first, second } = await open();
    const { fencingToken: token } = await holder.hold("pay/a");
    const [requested] = await first.revoke({ resource: "pay/a", free: "now" });
    expect(requested).toEqual({
      status: "requested",
      id: expect.any(Number),
      resource: "pay/a",
      holder: "h",
      token,
      free: "now",
      requestedBy: first.actor,
      claimedActor: null,
      reason: "it hangs",
      requestedAt: expect.any(String),
      confirmBefore: expect.any(String),
    });
    const { requestedAt, confirmBefore } = requested;
    expect(Date.parse(confirmBefore) - Date.parse(requestedAt)).toBe(HOUR_MS);
    expect(await stateOf(asked, "pay/a")).toBe("live");
    const { status: _, ...revocation } = requested;
    expect(await second.waiting()).toEqual([revocation]);

    const { status, body } = await second.confirm(requested.id, { token, free: "now" });
    expect({ status, body }).toEqual({
      status: 200,
      body: { status: "revoked", resource: "pay/a", token, freeInMs: 0 },
    });
    expect(await stateOf(asked, "pay/a")).toBe("revoked");
    expect(await second.waiting()).toEqual([]);
    const about = { target: "pay/a" };
    expect(await entriesOf(asked)).toMatchObject([
      {
        ...about,
        action: "lease.requestRevoke",
        actor: first.actor,
        reason: "it hangs",
        phase: "done",
      },
      { ...about, action: "lease.revoke", actor: second.actor, reason: "I agree", phase: "intent" },
      {
        ...about,
        action: "lease.revoke",
        actor: second.actor,
        details: { confirms: requested.id, requestedBy: first.actor, status: "revoked", token },
      },
    ]);
  });

  it("is one at once elsewhere, and for another tenant where the prefixes are a function", async () => {
    const prefixes = (namespace: string) => (namespace === "shop" ? PREFIXES : []);
    const { asked, holder, first } = await open({ twoPersonRevoke: { prefixes } });
    await holder.hold("pay/a");
    expect(await first.revoke({ resource: "pay/a" })).toMatchObject([{ status: "revoked" }]);
    const shop = { namespace: "shop" };
    const other = await callerOf(asked, "admin", shop);
    await other.hold("pay/a");
    await other.hold("stock/a");
    const both = await other.revoke({ resource: "pay/a" }, { resource: "stock/a" });
    expect(both).toMatchObject([{ status: "requested" }, { status: "revoked" }]);
  });

  it("of what is not held, or held with another token, is answered as ever, with an entry", async () => {
    const { asked, holder, first } = await open();
    const { fencingToken } = await holder.hold("pay/a");
    expect(await first.revoke({ resource: "pay/none" })).toEqual([{ status: "notHeld" }]);
    const expectedToken = fencingToken + 1;
    expect(await first.revoke({ resource: "pay/a", expectedToken })).toEqual([
      { status: "otherToken" },
    ]);
    expect((await entriesOf(asked)).map(({ details }) => details)).toMatchObject([
      { status: "notHeld" },
      { status: "otherToken", expectedToken },
    ]);
    expect(await first.waiting()).toEqual([]);
  });

  it("is requested once, however often a batch or a client repeats it", async () => {
    const { asked, holder, first, second } = await open();
    await holder.hold("pay/a");
    const [one, two] = await first.revoke({ resource: "pay/a" }, { resource: "pay/a" });
    expect(one.status).toBe("requested");
    expect(two).toEqual(one);
    expect(await first.revoke({ resource: "pay/a" })).toEqual([one]);
    expect(await second.revoke({ resource: "pay/a" })).toEqual([one]);
    expect(await entriesOf(asked)).toHaveLength(1);
    expect(await stateOf(asked, "pay/a")).toBe("live");
    const [other] = await first.revoke({ resource: "pay/a", free: "now" });
    expect(other.id).not.toBe(one.id);
  });

  it("in the format of force-unlock is answered with 202", async () => {
    const { asked, holder, first, second } = await open();
    const { fencingToken: token } = await holder.hold("pay/a");
    const wanted = { resource: "pay/a", reason: "it hangs", actorId: "ann" };
    const { status, body } = await first.ask("POST", "/v1/locks/force-unlock", wanted);
    expect(status).toBe(202);
    const { requested } = body;
    expect(body).toMatchObject({
      revoked: false,
      unlocked: false,
      why: "requested",
      auditSeq: requested.id,
      auditAction: "lease.requestRevoke",
    });
    expect(requested).toMatchObject({ claimedActor: "ann", token, free: "atExpiry" });
    expect(await stateOf(asked, "pay/a")).toBe("live");
    const confirmed = await second.confirm(requested.id, { token, free: "atExpiry" });
    expect(confirmed.body).toMatchObject({ status: "revoked", token });
  });

  it("cannot be gone around by a release that names the holder", async () => {
    const { asked, holder } = await open();
    const admin = await callerOf(asked, "admin");
    const body = { resource: "pay/a", holder: "web-1" };
    const { body: lease } = await holder.ask("POST", "/api/leases", body);
    const before = (await entriesOf(asked)).length;
    for (const caller of [admin, holder]) {
      for (const path of ["/api/leases/release", `/api/leases/${lease.id}`]) {
        const refused = await caller.ask("DELETE", path, body);
        expectProblem(refused, 409, "LEASE_ID_REQUIRED");
        expect(refused.body.detail).toContain("POST /v1/leases/revoke");
      }
    }
    expect(await stateOf(asked, "pay/a")).toBe("live");
    const entries = (await entriesOf(asked)).slice(before);
    expect(entries.map(({ action, actor, phase }) => [action, actor, phase])).toEqual([
      ["lease.release", admin.actor, "intent"],
      ["lease.release", admin.actor, "result"],
      ["lease.release", admin.actor, "intent"],
      ["lease.release", admin.actor, "result"],
    ]);
    const { leaseId } = lease;
    const own = await holder.ask("DELETE", "/api/leases/release", { ...body, leaseId });
    expect(own.status).toBe(200);
  });

  it("waits for at most a hundred confirmations of one tenant", async () => {
    const { holder, first } = await open();
    const resources = Array.from({ length: 101 }, (_, n) => ({ resource: `pay/${n}` }));
    for (const { resource } of resources) await holder.hold(resource);
    const outcomes = await first.revoke(...resources.slice(0, 100));
    expect(outcomes.every(({ status }: { status: string }) => status === "requested")).toBe(true);
    const [last] = await first.revoke(...resources.slice(100));
    expect(last).toMatchObject({
      status: "failed",
      applied: "no",
      retryable: false,
      error: { code: "CONFIRMATION_REQUIRED" },
    });
  }, 60_000);
});

describe("a confirmation", () => {
  async function requested(options?: Parameters<typeof open>[0]) {
    const opened = await open(options);
    const { fencingToken: token } = await opened.holder.hold("pay/a");
    const [{ id }] = await opened.first.revoke({ resource: "pay/a" });
    const as = { token, free: "atExpiry" };
    /** Refused, with an entry that says why, and nothing was revoked. */
    const expectRefused = async (
      caller: WithKey,
      why: string,
      [status, code]: readonly [number, string] = [403, "FORBIDDEN"],
      body: object = as,
    ) => {
      expectProblem(await caller.confirm(id, body), status, code);
      const details = { status: "refused", confirms: id, why };
      const entry = { action: "lease.revoke", actor: caller.actor, target: "pay/a", details };
      expect((await entriesOf(opened)).at(-1)).toMatchObject(entry);
      expect(await stateOf(opened, "pay/a")).toBe("live");
    };
    return { ...opened, id, token, as, expectRefused };
  }
  const CONFLICT = [409, "CONFIRMATION_REFUSED"] as const;

  it("of the same actor is refused", async () => {
    const { first, expectRefused } = await requested();
    await expectRefused(first, "samePerson");
  });

  it("is refused to a key that was created after the request", async () => {
    const { asked, env, expectRefused } = await requested();
    await tick(env);
    await expectRefused(await callerOf(asked, "admin"), "newKey");
  });

  it.each(["the requester", "the one who confirms"])(
    "is refused if %s has created the other's key",
    async (creator) => {
      const { asked, env, holder } = await open();
      const admin = await callerOf(asked, "admin");
      const order = { name: "mine", role: "operator", reason: "for me" };
      const { body } = await admin.ask("POST", "/v1/keys", order);
      const own = withKey(asked.ask, body.id, body.key);
      await tick(env);
      const [by, other] = creator === "the requester" ? [admin, own] : [own, admin];
      await expectRelated(asked, holder, by, other);
    },
  );

  it("is refused to the successor of the requester's key", async () => {
    const { asked, env, holder, first, stores } = await open();
    const { control } = stores;
    if (!control) throw new Error("no control");
    const rotation = { namespace: "default", id: first.id, overlapMs: HOUR_MS };
    const by = { actor: "cli:test", reason: null };
    const made = await rotateKey(control, systemEnv.random, rotation, by);
    if (!made) throw new Error("not rotated");
    const successor = withKey(asked.ask, made.key.id, made.text);
    await tick(env);
    const { fencingToken: token } = await holder.hold("pay/a");
    const [{ id }] = await first.revoke({ resource: "pay/a" });
    expectProblem(await successor.confirm(id, { token, free: "atExpiry" }), 403, "FORBIDDEN");
    expect((await entriesOf(asked)).at(-1)?.details).toMatchObject({ why: "relatedKey" });
  });

  it("is refused to what a key of the requester has created, and to its successors", async () => {
    const { asked, env, holder, third: admin } = await open();
    const order = (role: Role) => ({ name: "mine", role, reason: "for me" });
    const child = (await admin.ask("POST", "/v1/keys", order("admin"))).body;
    const own = withKey(asked.ask, child.id, child.key);
    const grandchild = (await own.ask("POST", "/v1/keys", order("operator"))).body;
    await tick(env);
    // Much else happens meanwhile.
    const { control } = asked.stores;
    const noise = { namespace: "default", actor: "key:0", action: "access.read", target: "GET /" };
    await control?.audit.append(
      Array.from({ length: 700 }, () => ({ ...noise, reason: null, phase: "done", details: "{}" })),
    );
    await (env as ReturnType<typeof manualEnv>).clock.advance(300_000);
    const rotate = { overlapMs: HOUR_MS };
    const path = `/v1/keys/${grandchild.id}/rotate`;
    const successor = (await admin.ask("POST", path, rotate)).body;
    await tick(env);
    const { fencingToken: token } = await holder.hold("pay/a");
    const [{ id }] = await admin.revoke({ resource: "pay/a" });
    for (const { id: keyId, key } of [child, grandchild, successor]) {
      const related = withKey(asked.ask, keyId, key);
      expectProblem(await related.confirm(id, { token, free: "atExpiry" }), 403, "FORBIDDEN");
      expect((await entriesOf(asked)).at(-1)?.details).toMatchObject({ why: "relatedKey" });
    }
    expect(await stateOf(asked, "pay/a")).toBe("live");
  });

  it.each(["the requester", "the one who confirms"])(
    "is refused if %s succeeds the key that has created the other one",
    async (creator) => {
      const { asked, env, holder, third: admin } = await open();
      const order = { name: "mine", role: "operator", reason: "for me" };
      const created = (await admin.ask("POST", "/v1/keys", order)).body;
      const own = withKey(asked.ask, created.id, created.key);
      const rotate = { overlapMs: HOUR_MS };
      const rotated = (await admin.ask("POST", `/v1/keys/${admin.id}/rotate`, rotate)).body;
      const again = (await admin.ask("POST", `/v1/keys/${rotated.id}/rotate`, rotate)).body;
      const successor = withKey(asked.ask, again.id, again.key);
      await tick(env);
      const [by, other] = creator === "the requester" ? [successor, own] : [own, successor];
      await expectRelated(asked, holder, by, other);
    },
  );

  it("is refused if the rotation of a key is lost among too many entries", async () => {
    const { asked, env, holder, first } = await open();
    const { control } = asked.stores;
    if (!control) throw new Error("no control");
    const noise = { namespace: "default", actor: "key:0", action: "access.read", target: "GET /" };
    const entry = { ...noise, reason: null, phase: "done", details: "{}" } as const;
    await control.audit.append(Array.from({ length: 10_500 }, () => entry));
    const rotation = { namespace: "default", id: first.id, overlapMs: HOUR_MS };
    const by = { actor: "cli:test", reason: null };
    const made = await rotateKey(control, systemEnv.random, rotation, by);
    if (!made) throw new Error("not rotated");
    const successor = withKey(asked.ask, made.key.id, made.text);
    await tick(env);
    const { fencingToken: token } = await holder.hold("pay/a");
    const [{ id }] = await first.revoke({ resource: "pay/a" });
    expectProblem(await successor.confirm(id, { token, free: "atExpiry" }), 403, "FORBIDDEN");
    expect(await stateOf(asked, "pay/a")).toBe("live");
  });

  it("is refused once the requester's key has ended", async () => {
    const { first, second, stores, expectRefused } = await requested();
    const { control } = stores;
    if (!control) throw new Error("no control");
    const by = { actor: "cli:test", reason: null };
    await revokeKey(control, { namespace: "default", id: first.id }, by);
    await expectRefused(second, "requesterEnded");
  });

  it("is possible after another request, once the first requester's key has ended", async () => {
    const { first, second, third, stores, id, as } = await requested();
    const { control } = stores;
    if (!control) throw new Error("no control");
    const by = { actor: "cli:test", reason: null };
    await revokeKey(control, { namespace: "default", id: first.id }, by);
    expect(await second.waiting()).toEqual([]);
    const [again] = await second.revoke({ resource: "pay/a" });
    expect(again).toMatchObject({ status: "requested", requestedBy: second.actor });
    expect(again.id).toBeGreaterThan(id);
    expect((await third.confirm(again.id, as)).status).toBe(200);
  });

  it("is refused once its time is over", async () => {
    const twoPersonRevoke = { prefixes: PREFIXES, confirmWithinMs: 60_000 };
    const { env, second, expectRefused } = await requested({ twoPersonRevoke });
    await (env as ReturnType<typeof manualEnv>).clock.advance(60_000);
    await expectRefused(second, "ended", CONFLICT);
    expect(await second.waiting()).toEqual([]);
  });

  it("is refused for another token or mode than was requested", async () => {
    const { second, expectRefused, as, token } = await requested();
    await expectRefused(second, "differs", CONFLICT, { ...as, free: "now" });
    await expectRefused(second, "differs", CONFLICT, { ...as, token: token + 1 });
  });

  it("is refused if another grant holds by now, also if the token is the same again", async () => {
    const { asked, holder, second, id, as, expectRefused, stores } = await requested();
    const [view] = await stores.leases.get([{ namespace: "default", resource: "pay/a" }]);
    const others = vi
      .spyOn(stores.leases, "get")
      .mockResolvedValue([{ ...view, grantId: "0".repeat(16) } as NonNullable<typeof view>]);
    expectProblem(await second.confirm(id, as), ...CONFLICT);
    others.mockRestore();
    const [grant] = (await entriesOf(asked)).slice(-1);
    expect(grant?.details).toMatchObject({ why: "otherGrant" });

    const { leaseId } = (await holder.ask("GET", "/v1/locks?resource=pay%2Fa")).body.items[0];
    expect(leaseId).toBeUndefined();
    await stores.leases.revoke([{ namespace: "default", resource: "pay/a", free: "now" }]);
    await holder.hold("pay/a");
    await expectRefused(second, "otherGrant", CONFLICT);
    expect(await second.waiting()).toEqual([]);
  });

  it("ends the grant once, however many confirm it at the same time", async () => {
    const { asked, second, third, id, as, stores } = await requested({ env: systemEnv });
    const confirming = [second, third, second].map((caller) => caller.confirm(id, as));
    const all = await Promise.all(confirming);
    expect(all.map(({ status }) => status)).toContain(200);
    expect(await stateOf(asked, "pay/a")).toBe("revoked");
    // The next grant is another one, which no repeated confirmation ends.
    await stores.leases.revoke([{ namespace: "default", resource: "pay/a", free: "now" }]);
    await stores.leases.acquire([
      {
        namespace: "default",
        resource: "pay/a",
        leaseId: "7".repeat(48),
        holder: "n",
        ttlMs: 60_000,
      },
    ]);
    expectProblem(await second.confirm(id, as), ...CONFLICT);
    expect(await stateOf(asked, "pay/a")).toBe("live");
  });

  it("needs the role operator or admin, and the operator's prefixes", async () => {
    const { asked, env, holder, id: _, as, first } = await requested();
    const outside = await callerOf(asked, "operator", { prefixes: ["stock/"] });
    const inside = await callerOf(asked, "operator", { prefixes: ["pay/"] });
    await tick(env);
    await holder.hold("pay/b");
    const [{ id, token }] = await first.revoke({ resource: "pay/b" });
    expectProblem(await holder.confirm(id, { ...as, token }), 403, "FORBIDDEN");
    expectProblem(await outside.confirm(id, { ...as, token }), 403, "FORBIDDEN");
    expect((await entriesOf(asked)).at(-1)?.details).toMatchObject({ why: "outOfScope" });
    expect(await outside.waiting()).toEqual([]);
    expect(await inside.waiting()).toHaveLength(2);
    expect((await inside.confirm(id, { ...as, token })).status).toBe(200);
  });

  it("finds nothing under an id of another tenant, of another action, or of none", async () => {
    const { asked, env, as, id, second } = await requested();
    const other = await callerOf(asked, "admin", { namespace: "shop" });
    await tick(env);
    expectProblem(await other.confirm(id, as), 404, "UNKNOWN_REVOCATION");
    for (const wrong of [1, 9_999]) {
      expectProblem(await second.confirm(wrong, as), 404, "UNKNOWN_REVOCATION");
    }
    const path = "/v1/revocations/x/confirm";
    expectProblem(
      await second.ask("POST", path, { ...as, reason: "r" }),
      404,
      "UNKNOWN_REVOCATION",
    );
  });

  it("works at another server, and after a restart", async () => {
    const { app, stores, second, id, as } = await requested({ env: systemEnv });
    await app.close();
    const options = { ...stores, auth: "keys", twoPersonRevoke: { prefixes: PREFIXES } } as const;
    const next = await openTestApp(options);
    const confirmed = await second.at(next.ask).confirm(id, as);
    expect(confirmed).toMatchObject({ status: 200, body: { status: "revoked", token: as.token } });
  });

  it("at the expiry leaves a resource that two operators must agree to free now", async () => {
    const { asked, first, second, third, id, as } = await requested();
    expect((await second.confirm(id, as)).status).toBe(200);
    expect(await first.waiting()).toEqual([]);
    // It is revoked so already.
    expect(await third.revoke({ resource: "pay/a" })).toMatchObject([{ status: "revoked" }]);
    const [now] = await third.revoke({ resource: "pay/a", free: "now" });
    expect(now.status).toBe("requested");
    const [view] = await asked.stores.leases.get([{ namespace: "default", resource: "pay/a" }]);
    expect(view?.freeInMs).toBeGreaterThan(0);
    expect(await first.waiting()).toHaveLength(1);
    const freed = await second.confirm(now.id, { ...as, free: "now" });
    expect(freed.body).toMatchObject({ status: "revoked", freeInMs: 0 });
  });

  it("of a recorded request needs no option, only another operator", async () => {
    const { stores, first, second, id, as } = await requested({ env: systemEnv });
    const next = await openTestApp({ ...stores, auth: "keys" });
    expectProblem(await first.at(next.ask).confirm(id, as), 403, "FORBIDDEN");
    expect((await second.at(next.ask).confirm(id, as)).status).toBe(200);
  });
});

it("tells identities of an issuer apart by their subject", async () => {
  const { stores } = await openTestApp();
  const { control } = stores;
  if (!control) throw new Error("no control");
  const entry = { namespace: "n", actor: "oidc:ann", action: "lease.requestRevoke", target: "r" };
  const [asked] = await control.audit.append([
    { ...entry, reason: null, phase: "done", details: "{}" },
  ]);
  if (!asked) throw new Error("no entry");
  const caller = { namespace: "n", role: "operator", prefixes: [], keyId: "oidc:1" } as const;
  expect(await isSameHand(control, asked, { ...caller, actor: "oidc:ann" })).toMatchObject({
    why: "samePerson",
  });
  expect(await isSameHand(control, asked, { ...caller, actor: "oidc:bob" })).toBeNull();
});

describe("without the control store", () => {
  it("nothing is requested, and nothing revoked", async () => {
    const { asked, holder, first, second, stores } = await open();
    const { fencingToken: token } = await holder.hold("pay/a");
    const [{ id }] = await first.revoke({ resource: "pay/a" });
    const { control } = stores;
    if (!control) throw new Error("no control");
    const down = () => Promise.reject(new StoreUnavailableError("it is down", { outcome: "none" }));
    for (const method of ["append", "read", "list"] as const) {
      const failing = vi.spyOn(control.audit, method).mockImplementation(down);
      const confirmed = await second.confirm(id, { token, free: "atExpiry" });
      expect([503, 504]).toContain(confirmed.status);
      const [again] = await first.revoke({ resource: "pay/a", free: "now" });
      if (method !== "read") expect(again).toMatchObject({ status: "failed", applied: "no" });
      expect(await stateOf(asked, "pay/a")).toBe("live");
      failing.mockRestore();
    }
  });

  it("the option is refused, and without keys too", async () => {
    const twoPersonRevoke = { prefixes: PREFIXES };
    const opening = (options: object) => openTestApp({ twoPersonRevoke, ...options });
    await expect(opening({ auth: "none" })).rejects.toThrow(/twoPersonRevoke needs auth: "keys"/);
    await expect(opening({ auth: "ifAny" })).rejects.toThrow(/twoPersonRevoke needs auth: "keys"/);
    await expect(opening({ auth: "none", control: undefined })).rejects.toThrow(/control store/);
    const tasks = { auth: "keys", twoPersonRevoke: { prefixes: ["task:"] } } as const;
    await expect(opening(tasks)).rejects.toThrow(/must not begin with "task:"/);
    for (const confirmWithinMs of [59_999, 86_400_001, Number.NaN]) {
      const wrong = {
        auth: "keys",
        twoPersonRevoke: { prefixes: PREFIXES, confirmWithinMs },
      } as const;
      await expect(opening(wrong)).rejects.toThrow(/confirmWithinMs/);
    }
  });
});
