import { grantIdOf } from "../../env/index.js";
import type { LeaseView, ListQuery } from "../../lease/index.js";
import { type Fixture, type Held, needsStoreClock, type Section } from "./fixture.js";

export const views: Section = (test, expect) => {
  test("show a live grant", async (t) => {
    const metadata = JSON.stringify({ host: "a", job: "b" });
    const held = await t.hold(t.key(), { metadata });
    const view = await t.view(held);
    expect(view).toMatchObject({
      ...t.key(),
      holder: held.holder,
      grantId: grantIdOf(held.leaseId),
      token: held.answer.token,
      state: "live",
      ttlMs: held.answer.ttlMs,
      renewedAt: null,
      metadata,
    });
    expect(view?.remainingMs).toBeGreaterThan(0);
    expect(view?.remainingMs).toBeLessThanOrEqual(held.answer.ttlMs);
    for (const time of [view?.grantedAt, view?.expiresAt]) {
      if (time !== null) expect(time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    }
    expect(await t.renew(held)).toMatchObject({ status: "renewed", token: held.answer.token });
    const renewed = await t.view(held);
    expect(renewed).toMatchObject({ token: held.answer.token, metadata });
    if (t.store.capabilities.clock === "store") expect(renewed?.renewedAt).toMatch(/^\d{4}-/);
  });

  test("say how a grant ended, and show its successor as a new one", async (t) => {
    const shows = async (held: Held, state: LeaseView["state"]) => {
      const view = await t.view(held);
      // An engine without records of its own forgets what has ended.
      if (view === null && t.store.capabilities.clock !== "store") return;
      expect(view).toMatchObject({ state, token: held.answer.token, remainingMs: 0 });
    };
    const first = await t.hold(t.key(), { metadata: `{"first":"yes"}` });
    await t.release(first);
    await shows(first, "released");
    const second = await t.hold(t.key());
    expect(await t.view(second)).toMatchObject({
      state: "live",
      holder: second.holder,
      metadata: null,
      renewedAt: null,
    });
    await t.revoke(second, "atExpiry");
    await shows(second, "revoked");
    const blocking = await t.view(second);
    expect(blocking?.freeInMs).toBeGreaterThan(0);
    expect(blocking?.freeInMs).toBeLessThanOrEqual(second.answer.ttlMs);
    await t.revoke(second, "now");
    await shows(second, "revoked");
    expect((await t.view(second))?.freeInMs).toBe(undefined);
    const third = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
    await t.expire(third);
    await shows(third, "expired");
  });

  test("are answered in the order of the keys, null where nothing was granted", async (t) => {
    const [a, b] = [await t.hold(t.key("a")), await t.hold(t.key("b"))];
    const keys = ["b", "none", "a", "b"].map((name) => t.key(name));
    const found = await t.store.get([...keys, { ...t.key("a"), namespace: `${t.namespace}-` }]);
    expect(found.map((view) => view?.grantId ?? null)).toEqual([
      grantIdOf(b.leaseId),
      null,
      grantIdOf(a.leaseId),
      grantIdOf(b.leaseId),
      null,
    ]);
  });

  test("are the same in lists, ordered by the bytes of UTF-8", async (t) => {
    const names = ["\u{1f511}", "\uffff", "b", "a", "B", "a/b", "ä", "a\u0308", "~", "a b", "a-b"];
    await holdAll(t, names);
    const { items, nextCursor } = await t.store.list({ namespace: t.namespace });
    const bytes = (text: string) => Array.from(new TextEncoder().encode(text), hex).join("");
    const ordered = [...names].sort((a, b) => (bytes(a) < bytes(b) ? -1 : 1));
    expect(items.map(({ resource }) => resource)).toEqual(ordered);
    expect(nextCursor).toBe(null);
    const got = await t.store.get(items);
    const still = (view: LeaseView | null) => ({ ...view, remainingMs: 0 });
    expect(items.map(still)).toEqual(got.map(still));
  });

  test("are listed page by page, each once, names of 256 bytes too", async (t) => {
    const names = ["a", "a!", "%", "_", "é".repeat(128), "é".repeat(127), "🔑".repeat(64)];
    await holdAll(t, names);
    const all = await pages(t, { namespace: t.namespace, limit: 100 });
    expect([...all].sort()).toEqual([...names].sort());
    for (const limit of [1, 2, 3, 6, 7, 8]) {
      expect(await pages(t, { namespace: t.namespace, limit })).toEqual(all);
    }
  });

  test("have 100 items a page by default", async (t) => {
    await holdAll(
      t,
      Array.from({ length: 101 }, (_, index) => `key ${index}`),
    );
    const first = await t.store.list({ namespace: t.namespace });
    expect(first.items).toHaveLength(100);
    const { nextCursor: cursor } = first;
    expect(typeof cursor).toBe("string");
    const second = await t.store.list({ namespace: t.namespace, cursor: cursor ?? "" });
    expect(second.items).toHaveLength(1);
    expect(second.nextCursor).toBe(null);
  });

  test("are not listed after a cursor that no page has given", async (t) => {
    await holdAll(t, ["a", "b"]);
    for (const cursor of ["zbogus", "a", "", "after:", "after:\0", `after:${"x".repeat(257)}`]) {
      const refusal = await t.store.list({ namespace: t.namespace, cursor }).then(
        () => null,
        (error: unknown) => error,
      );
      expect(refusal).toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
    }
  });

  test("are found by a prefix that is taken literally", async (t) => {
    const names = ["a%b", "a%", "axb", "a_b", "a*b", "a/b", "a/b/c", "a\\b", "a\\", "a?b", "a[x]b"];
    await holdAll(t, [...names, "b", "A%b", "a", "é1", "e\u03011"]);
    const byPrefix = (prefix: string) => pages(t, { namespace: t.namespace, prefix, limit: 3 });
    const expected: readonly (readonly [string, readonly string[]])[] = [
      ["a%", ["a%", "a%b"]],
      ["a_", ["a_b"]],
      ["a*", ["a*b"]],
      ["a/", ["a/b", "a/b/c"]],
      ["a/b/", ["a/b/c"]],
      ["a\\", ["a\\", "a\\b"]],
      ["a?", ["a?b"]],
      ["a[x", ["a[x]b"]],
      ["a[", ["a[x]b"]],
      ["A", ["A%b"]],
      ["b", ["b"]],
      ["é", ["é1"]],
      ["%", []],
      ["_", []],
      ["*", []],
      ["ab", []],
    ];
    for (const [prefix, found] of expected) {
      expect(await byPrefix(prefix), JSON.stringify(prefix)).toEqual(found);
    }
    expect([...(await byPrefix("a"))].sort()).toEqual(["a", ...names].sort());
    expect(await byPrefix("")).toHaveLength(names.length + 5);
  });

  test("are left out of lists of live ones when ended", async (t) => {
    const live = await t.hold(t.key("live"));
    await t.release(await t.hold(t.key("released")));
    await t.revoke(await t.hold(t.key("revoked")), "now");
    await t.revoke(await t.hold(t.key("revoked later")), "atExpiry");
    const expired = await t.hold(t.key("expired"), { ttlMs: t.shortTtlMs });
    await t.expire(expired);
    const query: ListQuery = { namespace: t.namespace, states: ["live"], limit: 1 };
    expect(await pages(t, query)).toEqual([live.resource]);
  });

  test(
    "are listed by their states, and by whether they were renewed",
    async (t) => {
      await t.renew(await t.hold(t.key("live")));
      await t.release(await t.hold(t.key("released")));
      await t.revoke(await t.hold(t.key("revoked")), "now");
      await t.expire(await t.hold(t.key("expired"), { ttlMs: t.shortTtlMs }));
      const listed = (query: Omit<ListQuery, "namespace">) =>
        pages(t, { namespace: t.namespace, ...query });
      for (const state of ["live", "released", "revoked", "expired"] as const) {
        expect(await listed({ states: [state] })).toEqual([state]);
      }
      expect(await listed({ states: ["live", "expired"], limit: 1 })).toEqual(["expired", "live"]);
      expect(await listed({ states: [] })).toEqual([]);
      expect(await listed({ renewedOnly: true })).toEqual(["live"]);
      expect(await listed({ renewedOnly: true, states: ["released"] })).toEqual([]);
    },
    needsStoreClock,
  );

  test(
    "are listed by prefix, state and renewal together, page by page, each once",
    async (t) => {
      const names = Array.from({ length: 9 }, (_, at) => `b/${at}`);
      for (const name of ["a", "ab", "c"]) await t.renew(await t.hold(t.key(name)));
      for (const [at, name] of names.entries()) {
        const held = await t.hold(t.key(name));
        if (at % 3 > 0) await t.renew(held);
        if (at % 4 === 1) await t.release(held);
      }
      const query = { namespace: t.namespace, prefix: "b/", renewedOnly: true } as const;
      const [live, renewed] = [
        ["b/2", "b/4", "b/7", "b/8"],
        ["b/1", "b/2", "b/4", "b/5", "b/7", "b/8"],
      ];
      for (const limit of [1, 2, 3, 4, 6]) {
        expect(await pages(t, { ...query, states: ["live"], limit })).toEqual(live);
        expect(await pages(t, { ...query, limit })).toEqual(renewed);
      }
      // After the cursor of a page of all resources, which lies before those with the prefix.
      const { nextCursor } = await t.store.list({ namespace: t.namespace, limit: 1 });
      const { items } = await t.store.list({ ...query, cursor: nextCursor ?? "" });
      expect(items.map(({ resource }) => resource)).toEqual(renewed);
    },
    needsStoreClock,
  );

  test("are left behind by a grant that took over their record, once", async (t) => {
    const first = await t.hold(t.key(), { metadata: "{}" });
    await t.renew(first);
    await t.release(first);
    const last = await t.view(first);
    const second = await t.hold(t.key());
    // A store that is far away or keeps no records says nothing.
    const { replaced } = second.answer;
    if (replaced) expect(replaced).toEqual(last);
    const repeated = await t.acquire(second);
    expect(repeated).toMatchObject({ status: "acquired", token: second.answer.token });
    expect(Object.keys(repeated)).not.toContain("replaced");
  });

  test(
    "stay in lists of all when ended",
    async (t) => {
      await t.release(await t.hold(t.key("released")));
      await t.hold(t.key("live"));
      expect(await pages(t, { namespace: t.namespace })).toEqual(["live", "released"]);
    },
    needsStoreClock,
  );

  test("and answers never give a lease id away", async (t) => {
    const held = await t.hold(t.key(), { metadata: "{}" });
    const rival = t.request(t.key());
    const watching = await t.watch();
    const said: unknown[] = [
      await t.acquire({ ...rival, queueMs: 60_000 }),
      await t.acquire(held),
      await t.renew(held),
      await t.renew(rival),
      await t.view(held),
      await t.store.list({ namespace: t.namespace }),
      await t.revoke(held, "atExpiry"),
      await t.acquire(rival),
      await t.release(held),
      await t.release(rival),
      await t.view(held),
    ];
    if (t.store.capabilities.watch === "push") {
      await t.until("a notification", () => watching.changed.length > 0);
    }
    await watching.stop();
    const text = JSON.stringify([said, watching.events]);
    for (const { leaseId } of [held, rival]) expect(text.includes(leaseId.slice(-32))).toBe(false);
    expect(text.includes(grantIdOf(held.leaseId))).toBe(true);
  });
};

async function holdAll(t: Fixture, names: readonly string[]): Promise<void> {
  const outcomes = await t.acquireAll(names.map((name) => t.request(t.key(name))));
  for (const outcome of outcomes) t.expectAcquired(outcome);
}

/** More than any test here lists. */
const MOST_LISTED = 1_000;

/** The resources of all pages of a list. */
async function pages(t: Fixture, query: ListQuery): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await t.store.list(cursor === undefined ? query : { ...query, cursor });
    found.push(...page.items.map(({ resource }) => resource));
    if (found.length > MOST_LISTED) throw new Error("the pages of a list do not end");
    cursor = page.nextCursor;
  }
  return found;
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
