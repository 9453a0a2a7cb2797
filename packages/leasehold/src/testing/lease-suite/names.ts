import { grantIdOf } from "../../env/index.js";
import type { Section } from "./fixture.js";

/** Each names another resource than all the rest. */
const NAMES: readonly string[] = [
  "plain",
  "Plain",
  "plain ",
  " plain",
  "ä",
  "a\u0308",
  "ß",
  "ss",
  "日本語",
  "\u{10ffff}",
  "\uffff",
  "'; drop table leases; --",
  '"quoted"',
  "back\\slash",
  "\\x41",
  "A",
  "$1",
  "{a,b}",
  "null",
  "../up",
  "a/b",
  "a//b",
  "a%2Fb",
  "a:b",
  "a?b#c",
  "*",
  "%",
  "_",
  // 256 bytes each: of one, two and four bytes a character.
  "x".repeat(256),
  `${"x".repeat(255)}y`,
  "é".repeat(128),
  "🔑".repeat(64),
];

/** Stores keep them. What stands before a store may refuse them for something new, as servers do. */
const INVISIBLE: readonly string[] = [
  "plain\n",
  "\t",
  "👩‍👩‍👧",
  "\u0001",
  "plain\u200b",
  "\u202eplain",
];

export const names: Section = (test, expect) => {
  test("are kept apart and come back as they were", async (t) => {
    const requests = NAMES.map((name) => t.request(t.key(name)));
    const outcomes = await t.acquireAll(requests);
    for (const [index, name] of NAMES.entries()) {
      expect(outcomes[index]?.status, JSON.stringify(name)).toBe("acquired");
    }
    const views = await t.store.get(NAMES.map((name) => t.key(name)));
    expect(views.map((view) => view?.resource)).toEqual(NAMES);
    expect(views.map((view) => view?.holder)).toEqual(requests.map(({ holder }) => holder));
    const released = await t.releaseAll(requests);
    for (const outcome of released) expect(outcome).toEqual({ status: "released" });
  });

  test("with invisible characters are kept apart and come back, or are all refused", async (t) => {
    const requests = ["plain", ...INVISIBLE].map((name) => t.request(t.key(name)));
    // Not `acquireAll`, which fails for a refused request.
    const outcomes = await t.store.acquire(requests);
    const refused = outcomes.filter((outcome) => outcome.status === "failed");
    for (const outcome of refused) {
      expect(outcome).toMatchObject({ applied: "no", retryable: false });
      expect(outcome.error.code).toBe("INVALID_OPTION");
    }
    expect([0, INVISIBLE.length]).toContain(refused.length);
    const views = await t.store.get(
      requests.map(({ namespace, resource }) => ({ namespace, resource })),
    );
    const acquired = refused.length === 0 ? requests : requests.slice(0, 1);
    expect(views.flatMap((view) => view?.resource ?? [])).toEqual(
      acquired.map(({ resource }) => resource),
    );
    expect(new Set(views.flatMap((view) => view?.grantId ?? [])).size).toBe(acquired.length);
  });

  test("of holders and metadata come back as they were", async (t) => {
    for (const [index, text] of NAMES.entries()) {
      const key = t.key(`key ${index}`);
      await t.hold(key, { holder: text, metadata: JSON.stringify({ [text]: text }) });
      expect(await t.acquire(t.request(key))).toMatchObject({ status: "held", holder: text });
      const view = await t.view(key);
      expect(view?.holder).toBe(text);
      expect(view?.metadata).toBe(JSON.stringify({ [text]: text }));
    }
  });

  test("of namespaces are no part of resources: joined alike, they stay apart", async (t) => {
    const n = t.namespace;
    const keys = [":", "/", ".", "|", "~", " ", "%"].flatMap((joint) => [
      { namespace: `${n}a${joint}b`, resource: "c" },
      { namespace: `${n}a`, resource: `b${joint}c` },
    ]);
    const requests = keys.map((key) => t.request(key));
    for (const outcome of await t.acquireAll(requests)) t.expectAcquired(outcome);
    const views = await t.store.get(keys);
    expect(views.map((view) => view?.grantId)).toEqual(
      requests.map(({ leaseId }) => grantIdOf(leaseId)),
    );
    const { items } = await t.store.list({ namespace: `${n}a` });
    expect(items).toHaveLength(7);
    for (const outcome of await t.releaseAll(requests)) {
      expect(outcome).toEqual({ status: "released" });
    }
  });

  test("that look like another one's escape are another name", async (t) => {
    const names = "% { } / : = ~ | * $ _ . é".split(" ").flatMap((char) => {
      const [once, bare] = [encodeURIComponent(char), char.charCodeAt(0).toString(16)];
      return [
        char,
        `%${bare}`,
        once,
        encodeURIComponent(once),
        `=${bare}`,
        `_${bare}`,
        `\\x${bare}`,
      ];
    });
    const keys = [...new Set(names)].flatMap((name) => [
      { namespace: t.namespace, resource: `a${name}b` },
      { namespace: `${t.namespace}a${name}b`, resource: "r" },
    ]);
    const requests = keys.map((key) => t.request(key));
    for (const outcome of await t.acquireAll(requests)) t.expectAcquired(outcome);
    const views = await t.store.get(keys);
    expect(views.map((view) => view?.grantId)).toEqual(
      requests.map(({ leaseId }) => grantIdOf(leaseId)),
    );
    for (const outcome of await t.releaseAll(requests)) {
      expect(outcome).toEqual({ status: "released" });
    }
  });

  test("are independent between namespaces, to the last byte", async (t) => {
    const long = `${t.namespace}${"n".repeat(256 - t.namespace.length)}`;
    const one = await t.hold({ namespace: long, resource: "r" });
    const other = await t.hold({ namespace: `${long.slice(0, -1)}m`, resource: "r" });
    await t.release(one);
    expect(await t.renew(other)).toMatchObject({ status: "renewed" });
    expect((await t.store.list({ namespace: long, states: ["live"] })).items).toEqual([]);
  });
};
