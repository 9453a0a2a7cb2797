/** What the operator actions do, and what their entries in the audit say. */
import { describe, expect, it } from "vitest";
import { memory } from "../stores/memory/index.js";
import type { Stores } from "../stores/source.js";
import { manualEnv } from "../testing/index.js";
import {
  type Act,
  claimedActorOf,
  clearPause,
  createKey,
  type KeyOrder,
  NO_LIMITS,
  type Pause,
  parseKeyText,
  pausesOf,
  revokeKey,
  rotateKey,
  setPause,
  steerGenerator,
  TooManyKeysError,
  withLeasesApart,
} from "./index.js";

const BY = { actor: "cli:tester", reason: "a test" };
const HOLDER: KeyOrder = {
  namespace: "n",
  name: "CI",
  role: "holder",
  prefixes: ["a/"],
  lifetimeMs: 60_000,
};
const ADMIN: KeyOrder = { ...HOLDER, role: "admin", prefixes: [], lifetimeMs: null };
const NO_ID = "0".repeat(12);

async function open() {
  const env = manualEnv();
  const stores = (await memory().open(env)) as Required<Stores>;
  const { control } = stores;
  /** The last entry, with its details. */
  const lastEntry = async () => {
    const [entry] = (await control.audit.list({ namespace: null, limit: 1 })).items;
    return { ...entry, details: JSON.parse(entry?.details ?? "{}") as object };
  };
  const fill = async (count: number) => {
    for (let made = 0; made < count; made += 1) await createKey(control, env.random, ADMIN, BY);
  };
  return { env, ...stores, lastEntry, fill };
}

describe("a key", () => {
  it("has each prefix once", async () => {
    const { env, control } = await open();
    const order = { ...HOLDER, prefixes: ["b/", "a/", "b/"] };
    const { key } = await createKey(control, env.random, order, BY);
    expect(key.prefixes).toEqual(["b/", "a/"]);
  });

  it("is created with the rights that were ordered, and shown once", async () => {
    const { env, control, lastEntry } = await open();
    const { key, text } = await createKey(control, env.random, HOLDER, BY);
    const { lifetimeMs, ...rights } = HOLDER;
    expect(key).toMatchObject({ ...rights, remainingMs: lifetimeMs, revoked: false });
    expect(await control.keys.find(key.id)).toMatchObject({ ...parseKeyText(text), ...rights });
    const { namespace, name, role, prefixes } = HOLDER;
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace,
      action: "key.create",
      target: key.id,
      details: { name, role, prefixes, expiresAt: key.expiresAt },
    });
  });

  it.each<[string, Partial<KeyOrder>, string]>([
    ["without a tenant", { namespace: "" }, "namespace"],
    ["without a name", { name: "" }, "name"],
    ["of a holder without prefixes", { prefixes: [] }, "prefixes"],
    ["with too many prefixes", { prefixes: Array.from({ length: 101 }, () => "a") }, "prefixes"],
    ["with a prefix that is no name", { prefixes: ["a".repeat(2_000)] }, "prefixes"],
    ["that has ended already", { lifetimeMs: 0 }, "lifetimeMs"],
    ["with no number as its lifetime", { lifetimeMs: Number.NaN }, "lifetimeMs"],
  ])("%s is refused, and enters no audit", async (_, change, path) => {
    const { env, control } = await open();
    const creating = createKey(control, env.random, { ...HOLDER, ...change }, BY);
    await expect(creating).rejects.toMatchObject({ code: "INVALID_OPTION", path });
    expect((await control.audit.list({ namespace: null })).items).toEqual([]);
  });

  it.each<[string, Partial<KeyOrder>]>([
    ["a holder of any resource", { prefixes: [""] }],
    ["a hundred prefixes", { prefixes: Array.from({ length: 100 }, (_, at) => `p${at}/`) }],
    ["a viewer without prefixes", { role: "viewer", prefixes: [] }],
    ["no end", { lifetimeMs: null }],
  ])("may have %s", async (_, change) => {
    const { env, control } = await open();
    const { key } = await createKey(control, env.random, { ...HOLDER, ...change }, BY);
    expect(await control.keys.find(key.id)).not.toBeNull();
  });

  it("has no prefixes unless it is a holder's", async () => {
    const { env, control, lastEntry } = await open();
    const order = { ...ADMIN, prefixes: [""] };
    const { key } = await createKey(control, env.random, order, BY);
    expect(key.prefixes).toEqual([]);
    expect((await control.keys.find(key.id))?.prefixes).toEqual([]);
    expect((await lastEntry()).details).toMatchObject({ prefixes: [] });
  });

  it("is refused where the tenant has a thousand, and the audit says why", async () => {
    const { env, control, lastEntry, fill } = await open();
    await fill(1_000);
    const creating = createKey(control, env.random, ADMIN, BY);
    await expect(creating).rejects.toThrow(TooManyKeysError);
    await expect(creating).rejects.toMatchObject({ name: "TooManyKeysError" });
    expect((await lastEntry()).details).toMatchObject({ refused: "full" });
    const [newest] = (await control.keys.list({ namespace: "n", limit: 1 })).items;
    const rotation = { namespace: "n", id: newest?.id ?? "", overlapMs: 1_000 };
    await expect(rotateKey(control, env.random, rotation, BY)).rejects.toThrow(TooManyKeysError);
    expect((await lastEntry()).details).toMatchObject({ refused: "full" });
    // A key that ends now makes room for its successor.
    const rotated = await rotateKey(control, env.random, { ...rotation, overlapMs: 0 }, BY);
    expect(rotated?.old.revoked).toBe(true);
  });

  it("is replaced by one of the same rights, and ends after the overlap", async () => {
    const { env, control, lastEntry } = await open();
    const { key } = await createKey(control, env.random, HOLDER, BY);
    const rotation = { namespace: "n", id: key.id, overlapMs: 5_000 };
    const rotated = await rotateKey(control, env.random, rotation, BY);
    expect(rotated?.key).toMatchObject({
      name: "CI",
      role: "holder",
      prefixes: ["a/"],
      remainingMs: 60_000,
    });
    expect(rotated?.old).toMatchObject({ id: key.id, remainingMs: 5_000, revoked: false });
    const successor = rotated?.key.id ?? "";
    expect(await control.keys.find(successor)).toMatchObject(parseKeyText(rotated?.text ?? "")!);
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
    const { env, control, lastEntry } = await open();
    const { key } = await createKey(control, env.random, HOLDER, BY);
    const rotation = { namespace: "other", id: key.id, overlapMs: 0 };
    expect(await rotateKey(control, env.random, rotation, BY)).toBeNull();
    expect((await lastEntry()).details).toMatchObject({ refused: "notGood" });
    expect(await revokeKey(control, { namespace: "other", id: key.id }, BY)).toBeNull();
    expect((await lastEntry()).details).toMatchObject({ found: false });
    expect(await control.keys.find(key.id)).toMatchObject({ remainingMs: 60_000, revoked: false });
  });

  it("is revoked at once", async () => {
    const { env, control, lastEntry } = await open();
    const { key } = await createKey(control, env.random, HOLDER, BY);
    const revoked = await revokeKey(control, { namespace: "n", id: key.id }, BY);
    expect(revoked).toMatchObject({ id: key.id, remainingMs: 0, revoked: true });
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "key.revoke",
      target: key.id,
      details: { found: true },
    });
    expect(await revokeKey(control, { namespace: "n", id: NO_ID }, BY)).toBeNull();
  });
});

it("keys are listed from a cursor that a page has given", async () => {
  const { control, fill } = await open();
  await fill(3);
  const { items, nextCursor } = await control.keys.list({ namespace: "n", limit: 2 });
  const rest = await control.keys.list({ namespace: "n", cursor: nextCursor ?? "" });
  expect([...items, ...rest.items]).toHaveLength(3);
  const listing = control.keys.list({ namespace: "n", cursor: "no cursor" });
  await expect(listing).rejects.toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
});

describe("a pause", () => {
  const QUEUE = { namespace: "n", kind: "queue", name: "mail" } as const;

  it("keeps its time when it is repeated, and says who and why", async () => {
    const { env, control, lastEntry } = await open();
    const { since } = await setPause(control, QUEUE, BY);
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "queue.pause",
      target: "mail",
      details: { kind: "queue", since },
    });
    await env.clock.advance(1_000);
    await setPause(control, QUEUE, { actor: "cli:other", reason: "longer" });
    expect(await control.pauses.list("n")).toEqual([
      { ...QUEUE, actor: "cli:other", reason: "longer", since },
    ]);
  });

  it("ends, and the audit says whether there was one", async () => {
    const { control, lastEntry } = await open();
    await setPause(control, QUEUE, BY);
    expect(await clearPause(control, QUEUE, BY)).toBe(true);
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "queue.resume",
      target: "mail",
      details: { kind: "queue", wasPaused: true },
    });
    expect(await control.pauses.list("n")).toEqual([]);
    expect(await clearPause(control, QUEUE, BY)).toBe(false);
    expect((await lastEntry()).details).toMatchObject({ wasPaused: false });
  });

  it("closes its resource, or those below its prefix", () => {
    const pause = (kind: Pause["kind"], name: string): Pause => ({
      namespace: "n",
      kind,
      name,
      actor: "a",
      reason: "r",
      since: "",
    });
    const all = [
      pause("resource", "a/b"),
      pause("resource", "a"),
      pause("prefix", "a/"),
      pause("prefix", "b"),
      pause("prefix", ""),
      pause("queue", "a/b"),
    ];
    const names = (resource: string) =>
      pausesOf(resource, all).map(({ kind, name }) => `${kind} ${name}`);
    expect(names("a/b")).toEqual(["resource a/b", "prefix a/", "prefix "]);
    expect(names("ab")).toEqual(["prefix "]);
  });
});

it.each([
  [{ running: true }, "generator.start"],
  [{ running: false }, "generator.stop"],
  [{ ratePerSecond: 7 }, "generator.rate"],
])("steering the generator by %j is the action %s", async (change, action) => {
  const { control, generator, lastEntry } = await open();
  const wanted = await steerGenerator(control, "n", change, BY);
  expect(wanted).toMatchObject(change);
  expect(await generator.read("n")).toMatchObject(wanted);
  expect(await lastEntry()).toMatchObject({
    ...BY,
    namespace: "n",
    action,
    target: "generator",
    details: { ...wanted, intent: expect.any(Number) },
  });
});

it("no tenant is limited by default", async () => {
  const { control } = await open();
  expect(NO_LIMITS).toEqual({ leases: null, tasks: null, ratePerSecond: null });
  expect(await control.limits.read("n")).toEqual(NO_LIMITS);
});

describe("a claimed actor", () => {
  const aimed = { namespace: "n", action: "lease.collect", target: "t" } as const;
  const act: Act = { ...BY, ...aimed, claimedActor: "Ann" };

  it("is in the details of each entry, and is no actor", async () => {
    const { control } = await open();
    await control.perform(act, async () => ({ value: 1, details: { done: true } }));
    const { items } = await control.audit.list({ namespace: "n" });
    expect(items.map(({ actor, details }) => [actor, claimedActorOf(details)])).toEqual([
      ["cli:tester", "Ann"],
      ["cli:tester", "Ann"],
    ]);
    expect(items[0]).not.toHaveProperty("claimedActor");
    expect(JSON.parse(items[0]?.details ?? "")).toEqual({
      intent: 1,
      done: true,
      claimedActor: "Ann",
    });
  });

  it.each([
    ["none", "{}"],
    ["no text", '{"claimedActor":7}'],
    ["details that are no JSON", "{"],
  ])("is null for %s", (_, details) => {
    expect(claimedActorOf(details)).toBeNull();
  });
});

describe("a control store beside the store of the leases", () => {
  it("takes two steps for an action on a lease, with the leases of that store", async () => {
    const { control } = await open();
    const other = await memory().open(manualEnv());
    const apart = withLeasesApart(control, other.leases);
    expect(control.leasesApart).toBe(false);
    expect(apart.leasesApart).toBe(true);
    const phases: string[] = [];
    const act: Act = { ...BY, namespace: "n", action: "lease.revoke", target: "r" };
    await apart.perform(
      act,
      async ({ leases }) => ({ value: expect(leases).toBe(other.leases), details: {} }),
      ({ phase }) => phases.push(phase),
    );
    expect(phases).toEqual(["intent"]);
    const { items } = await control.audit.list({ namespace: "n" });
    expect(items.map(({ phase }) => phase)).toEqual(["result", "intent"]);
  });

  it("performs others as it does alone", async () => {
    const { control } = await open();
    const other = await memory().open(manualEnv());
    const performed: string[] = [];
    const alone: typeof control = {
      ...control,
      perform(act, work, onEntry) {
        performed.push(act.action);
        return control.perform(act, work, onEntry);
      },
    };
    const apart = withLeasesApart(alone, other.leases);
    const act: Act = { ...BY, namespace: "n", action: "key.create", target: "r" };
    const seen: number[] = [];
    const work = async ({ leases, keys }: Parameters<Parameters<typeof apart.perform>[1]>[0]) => {
      expect(leases).toBe(other.leases);
      expect(keys).toBe(control.actors.keys);
      return { value: 7, details: {} };
    };
    expect(await apart.perform(act, work, ({ seq }) => seen.push(seq))).toBe(7);
    await apart.perform({ ...act, action: "lease.revoke" }, work);
    expect(performed).toEqual(["key.create"]);
    expect(seen).toEqual([1]);
  });
});
