/** How keys are made, replaced and revoked, and what the audit says of it. */
import { describe, expect, it } from "vitest";
import { ADMIN, BY, HOLDER, openControl } from "../../../../tests/support/worlds/control-world.js";
import {
  type ApiKeyOrder,
  ApiKeyRotatedError,
  createApiKey,
  parseApiKeyText,
  revokeApiKey,
  rotateApiKey,
  TooManyApiKeysError,
} from "./index.js";

const NO_ID = "0".repeat(12);
const OPERATOR: ApiKeyOrder = { ...HOLDER, role: "operator", prefixes: ["a/"] };
const HOUR_MS = 3_600_000;

describe("a key", () => {
  it("has each prefix once", async () => {
    const { env, control } = await openControl();
    const order = { ...HOLDER, prefixes: ["b/", "a/", "b/"] };
    const { key } = await createApiKey(control, env.random, order, BY);
    expect(key.prefixes).toEqual(["b/", "a/"]);
  });

  it("is created with the rights that were ordered, and shown once", async () => {
    const { env, control, lastEntry } = await openControl();
    const { key, text } = await createApiKey(control, env.random, HOLDER, BY);
    const { lifetimeMs, ...rights } = HOLDER;
    expect(key).toMatchObject({ ...rights, remainingMs: lifetimeMs, revoked: false });
    expect(await control.keys.find(key.id)).toMatchObject({ ...parseApiKeyText(text), ...rights });
    const { namespace, name, role, prefixes } = HOLDER;
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace,
      action: "key.create",
      target: key.id,
      details: { name, role, prefixes, expiresAt: key.expiresAt },
    });
  });

  it.each<[string, Partial<ApiKeyOrder>, string]>([
    ["without a tenant", { namespace: "" }, "namespace"],
    ["without a name", { name: "" }, "name"],
    ["of a holder without prefixes", { prefixes: [] }, "prefixes"],
    ["with too many prefixes", { prefixes: Array.from({ length: 101 }, () => "a") }, "prefixes"],
    ["with a prefix that is no name", { prefixes: ["a".repeat(2_000)] }, "prefixes"],
    ["that has ended already", { lifetimeMs: 0 }, "lifetimeMs"],
    ["with no number as its lifetime", { lifetimeMs: Number.NaN }, "lifetimeMs"],
  ])("%s is refused, and enters no audit", async (_, change, path) => {
    const { env, control } = await openControl();
    const creating = createApiKey(control, env.random, { ...HOLDER, ...change }, BY);
    await expect(creating).rejects.toMatchObject({ code: "INVALID_OPTION", path });
    expect((await control.audit.list({ namespace: null })).items).toEqual([]);
  });

  it.each<[string, Partial<ApiKeyOrder>]>([
    ["a holder of any resource", { prefixes: [""] }],
    ["a hundred prefixes", { prefixes: Array.from({ length: 100 }, (_, at) => `p${at}/`) }],
    ["a viewer without prefixes", { role: "viewer", prefixes: [] }],
    ["no end", { lifetimeMs: null }],
  ])("may have %s", async (_, change) => {
    const { env, control } = await openControl();
    const { key } = await createApiKey(control, env.random, { ...HOLDER, ...change }, BY);
    expect(await control.keys.find(key.id)).not.toBeNull();
  });

  it("has no prefixes unless it is a holder's", async () => {
    const { env, control, lastEntry } = await openControl();
    const order = { ...ADMIN, prefixes: [""] };
    const { key } = await createApiKey(control, env.random, order, BY);
    expect(key.prefixes).toEqual([]);
    expect((await control.keys.find(key.id))?.prefixes).toEqual([]);
    expect((await lastEntry()).details).toMatchObject({ prefixes: [] });
  });

  it("is refused where the tenant has a thousand, and the audit says why", async () => {
    const { env, control, lastEntry, fill } = await openControl();
    await fill(1_000);
    const creating = createApiKey(control, env.random, ADMIN, BY);
    await expect(creating).rejects.toThrow(TooManyApiKeysError);
    await expect(creating).rejects.toMatchObject({ name: "TooManyApiKeysError" });
    expect((await lastEntry()).details).toMatchObject({ refused: "full" });
    const [newest] = (await control.keys.list({ namespace: "n", limit: 1 })).items;
    const rotation = { namespace: "n", id: newest?.id ?? "", overlapMs: 1_000 };
    await expect(rotateApiKey(control, env.random, rotation, BY)).rejects.toThrow(
      TooManyApiKeysError,
    );
    expect((await lastEntry()).details).toMatchObject({ refused: "full" });
    // A key that ends now makes room for its successor.
    const rotated = await rotateApiKey(control, env.random, { ...rotation, overlapMs: 0 }, BY);
    expect(rotated?.old.revoked).toBe(true);
  });

  it("is replaced by one of the same rights, and ends after the overlap", async () => {
    const { env, control, lastEntry } = await openControl();
    const { key } = await createApiKey(control, env.random, HOLDER, BY);
    const rotation = { namespace: "n", id: key.id, overlapMs: 5_000 };
    const rotated = await rotateApiKey(control, env.random, rotation, BY);
    expect(rotated?.key).toMatchObject({
      name: "CI",
      role: "holder",
      prefixes: ["a/"],
      remainingMs: 60_000,
    });
    expect(rotated?.old).toMatchObject({ id: key.id, remainingMs: 5_000, revoked: false });
    const successor = rotated?.key.id ?? "";
    expect(await control.keys.find(successor)).toMatchObject(parseApiKeyText(rotated?.text ?? "")!);
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "key.rotate",
      target: key.id,
      details: {
        successor,
        expiresAt: rotated?.key.expiresAt,
        oldExpiresAt: rotated?.old.expiresAt,
      },
    });
  });

  it("of another tenant is neither replaced nor revoked", async () => {
    const { env, control, lastEntry } = await openControl();
    const { key } = await createApiKey(control, env.random, HOLDER, BY);
    const rotation = { namespace: "other", id: key.id, overlapMs: 0 };
    expect(await rotateApiKey(control, env.random, rotation, BY)).toBeNull();
    expect((await lastEntry()).details).toMatchObject({ refused: "notGood" });
    expect(await revokeApiKey(control, { namespace: "other", id: key.id }, BY)).toBeNull();
    expect((await lastEntry()).details).toMatchObject({ found: false });
    expect(await control.keys.find(key.id)).toMatchObject({ remainingMs: 60_000, revoked: false });
  });

  it("is revoked at once", async () => {
    const { env, control, lastEntry } = await openControl();
    const { key } = await createApiKey(control, env.random, HOLDER, BY);
    const revoked = await revokeApiKey(control, { namespace: "n", id: key.id }, BY);
    expect(revoked).toMatchObject({ id: key.id, remainingMs: 0, revoked: true });
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "key.revoke",
      target: key.id,
      details: { found: true },
    });
    expect(await revokeApiKey(control, { namespace: "n", id: NO_ID }, BY)).toBeNull();
  });
});

it("keys are listed from a cursor that a page has given", async () => {
  const { control, fill } = await openControl();
  await fill(3);
  const { items, nextCursor } = await control.keys.list({ namespace: "n", limit: 2 });
  const rest = await control.keys.list({ namespace: "n", cursor: nextCursor ?? "" });
  expect([...items, ...rest.items]).toHaveLength(3);
  const listing = control.keys.list({ namespace: "n", cursor: "no cursor" });
  await expect(listing).rejects.toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
});

describe("a key of an operator", () => {
  it("is limited to its prefixes and queues, each of them once", async () => {
    const { env, control, lastEntry } = await openControl();
    const order = {
      ...OPERATOR,
      prefixes: ["b/", "a/", "b/"],
      queues: ["mail", "reports", "mail"],
    };
    const { key } = await createApiKey(control, env.random, order, BY);
    const limits = { prefixes: ["b/", "a/"], queues: ["mail", "reports"] };
    expect(key).toMatchObject(limits);
    expect(await control.keys.find(key.id)).toMatchObject(limits);
    expect((await lastEntry()).details).toMatchObject(limits);
  });

  it("has no queues unless some are given, and the audit names none", async () => {
    const { env, control, lastEntry } = await openControl();
    const { key } = await createApiKey(control, env.random, OPERATOR, BY);
    expect((await control.keys.find(key.id))?.queues ?? []).toEqual([]);
    expect((await lastEntry()).details).not.toHaveProperty("queues");
  });

  it("alone has queues", async () => {
    const { env, control, lastEntry } = await openControl();
    const { key } = await createApiKey(control, env.random, { ...HOLDER, queues: ["mail"] }, BY);
    expect((await control.keys.find(key.id))?.queues ?? []).toEqual([]);
    expect((await lastEntry()).details).not.toHaveProperty("queues");
  });

  it.each<[string, readonly string[]]>([
    ["too many queues", Array.from({ length: 101 }, (_, at) => `q${at}`)],
    ["a queue that is no name", [""]],
  ])("is refused with %s", async (_, queues) => {
    const { env, control } = await openControl();
    const creating = createApiKey(control, env.random, { ...OPERATOR, queues }, BY);
    await expect(creating).rejects.toMatchObject({ code: "INVALID_OPTION", path: "queues" });
  });

  it("may have a hundred queues", async () => {
    const { env, control } = await openControl();
    const queues = Array.from({ length: 100 }, (_, at) => `q${at}`);
    const { key } = await createApiKey(control, env.random, { ...OPERATOR, queues }, BY);
    expect(key.queues).toEqual(queues);
  });
});

describe("the longest life of a key", () => {
  it.each<[string, number | null]>([
    ["a longer one", HOUR_MS + 1],
    ["one without an end", null],
  ])("refuses %s, and what the remedy is", async (_, lifetimeMs) => {
    const { env, control } = await openControl();
    const order = { ...HOLDER, lifetimeMs, maxLifeMs: HOUR_MS };
    await expect(createApiKey(control, env.random, order, BY)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "lifetimeMs",
      message: expect.stringMatching(
        lifetimeMs === null ? /is missing: give at most/ : /must be at most/,
      ),
    });
    expect((await control.audit.list({ namespace: null })).items).toEqual([]);
  });

  it("allows one that is just as long", async () => {
    const { env, control } = await openControl();
    const order = { ...HOLDER, lifetimeMs: HOUR_MS, maxLifeMs: HOUR_MS };
    const { key } = await createApiKey(control, env.random, order, BY);
    const rotation = { namespace: "n", id: key.id, overlapMs: 1_000, maxLifeMs: HOUR_MS };
    // A successor lives as long, whatever is left of the old one.
    await env.clock.advance(HOUR_MS / 2);
    const rotated = await rotateApiKey(control, env.random, rotation, BY);
    expect(rotated?.key.remainingMs).toBe(HOUR_MS);
  });

  it.each<[string, number | null]>([
    ["lives longer", HOUR_MS + 1],
    ["has no end", null],
  ])("refuses the successor of a key that %s", async (_, lifetimeMs) => {
    const { env, control } = await openControl();
    const { key } = await createApiKey(control, env.random, { ...HOLDER, lifetimeMs }, BY);
    const rotation = { namespace: "n", id: key.id, overlapMs: 1_000, maxLifeMs: HOUR_MS };
    const rotating = rotateApiKey(control, env.random, rotation, BY);
    await expect(rotating).rejects.toMatchObject({ code: "INVALID_OPTION", path: "lifetimeMs" });
    expect(await control.keys.find(key.id)).toMatchObject({ revoked: false });
    expect((await control.keys.list({ namespace: "n" })).items).toHaveLength(1);
  });

  it("says nothing of keys that the tenant has not", async () => {
    const { env, control } = await openControl();
    const { key } = await createApiKey(control, env.random, ADMIN, BY);
    const rotation = { overlapMs: 0, maxLifeMs: HOUR_MS };
    for (const other of [
      { namespace: "other", id: key.id },
      { namespace: "n", id: NO_ID },
    ]) {
      expect(await rotateApiKey(control, env.random, { ...rotation, ...other }, BY)).toBeNull();
    }
  });
});

it("a key is rotated once, and a second call names its successor", async () => {
  const { env, control } = await openControl();
  const { key } = await createApiKey(control, env.random, HOLDER, BY);
  const rotation = { namespace: "n", id: key.id, overlapMs: 5_000 };
  const rotated = await rotateApiKey(control, env.random, rotation, BY);
  const again = rotateApiKey(control, env.random, rotation, BY);
  await expect(again).rejects.toThrow(ApiKeyRotatedError);
  await expect(again).rejects.toMatchObject({ name: "ApiKeyRotatedError" });
  await expect(again).rejects.toThrow(rotated?.key.id);
});
