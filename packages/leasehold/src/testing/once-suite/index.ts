/**
 * The conformance suite of the records of `once`: every engine that keeps them passes it, and so can yours. It holds a
 * store against the port (once/port.ts).
 */
import { grantIdOf } from "../../env/index.js";
import type { TestFramework } from "../framework.js";
import type * as suite from "../suite.js";
import { defineSuite } from "../suite.js";
import { apart } from "./apart.js";
import { Fixture, type OpenedOnceStore } from "./fixture.js";
import { OnceWalk } from "./model.js";
import { times } from "./times.js";

export type { OpenedOnceStore };

/** What the suite needs to know of an engine. */
export interface OnceHarness {
  /** The prefix of the test names. */
  readonly name: string;
  readonly vitest: TestFramework;
  /** Called once; all tests share the store, each in a namespace of its own. */
  open(): Promise<OpenedOnceStore>;
}

type Section = suite.Section<Fixture>;

const succeeding: Section = (test, expect) => {
  test("records a success, and ends the lease in the same step", async (fixture) => {
    expect(await fixture.store.get({ namespace: fixture.namespace, key: "bill" })).toBe(null);
    const grant = await fixture.hold("bill");
    const value = { sent: [1, "é", null, { "": true }] };
    expect(await fixture.succeed(grant, { value })).toEqual({ status: "recorded" });
    const { at, ...view } = await fixture.view("bill");
    expect(view).toEqual({
      namespace: fixture.namespace,
      key: "bill",
      state: "done",
      value,
      by: "ada",
      token: grant.token,
      failures: 0,
      error: null,
      nextInMs: 0,
      keepUntil: null,
    });
    expect(Number.isFinite(Date.parse(at))).toBe(true);
    const lease = await fixture.lease("bill");
    expect(lease?.state).toBe("released");
    expect(lease?.grantId).toBe(grantIdOf(grant.leaseId));
  });

  test("answers a repeated call of the same grant as the first one", async (fixture) => {
    const grant = await fixture.hold("bill");
    await fixture.succeed(grant, { value: 1 });
    expect(await fixture.succeed(grant, { value: 2 })).toEqual({ status: "recorded" });
    expect((await fixture.view("bill")).value).toBe(1);
  });

  test("records nothing for a lease that has ended", async (fixture) => {
    const late = await fixture.hold("bill", "late", fixture.shortMs);
    await fixture.pass(fixture.shortMs);
    expect(await fixture.succeed(late)).toEqual({ status: "refused" });
    const next = await fixture.hold("bill", "next");
    expect(await fixture.succeed(late)).toEqual({ status: "refused" });
    expect(await fixture.fail(late)).toEqual({ status: "refused" });
    await fixture.succeed(next, { value: "next" });
    const { at } = await fixture.view("bill");
    expect(await fixture.succeed(late)).toEqual({ status: "done", by: "next", at });
    expect(await fixture.fail(late)).toEqual({ status: "refused" });
    expect((await fixture.view("bill")).value).toBe("next");
  });

  test("records nothing under a wrong secret, a wrong token or another key", async (fixture) => {
    const grant = await fixture.hold("bill");
    const wrong = `${grant.leaseId.slice(0, 16)}${"0".repeat(32)}`;
    await fixture.hold("mail");
    for (const other of [{ leaseId: wrong }, { token: grant.token + 1 }, { key: "mail" }]) {
      expect(await fixture.succeed({ ...grant, ...other })).toEqual({ status: "refused" });
      expect(await fixture.fail({ ...grant, ...other })).toEqual({ status: "refused" });
    }
    expect(await fixture.store.get(grant)).toBe(null);
    expect((await fixture.lease("bill"))?.state).toBe("live");
  });

  test("records one of many calls at once", async (fixture) => {
    const grant = await fixture.hold("bill");
    const calls = Array.from({ length: 20 }, (_, value) => fixture.succeed(grant, { value }));
    for (const outcome of await Promise.all(calls)) expect(outcome).toEqual({ status: "recorded" });
  });

  test("forgets a success after keepMs, and may then record another one", async (fixture) => {
    const keepMs = fixture.shortMs;
    await fixture.succeed(await fixture.hold("bill"), { value: 1, keepMs });
    expect((await fixture.view("bill")).keepUntil).not.toBe(null);
    await fixture.pass(keepMs);
    expect(await fixture.store.get({ namespace: fixture.namespace, key: "bill" })).toBe(null);
    await fixture.succeed(await fixture.hold("bill"), { value: 2 });
    const { value, keepUntil } = await fixture.view("bill");
    expect([value, keepUntil]).toEqual([2, null]);
  });

  test("deletes records whose time is over, and no others", async (fixture) => {
    const { namespace } = fixture;
    await fixture.succeed(await fixture.hold("short"), { keepMs: fixture.shortMs });
    await fixture.succeed(await fixture.hold("ever"));
    await fixture.fail(await fixture.hold("failing"));
    await fixture.pass(fixture.shortMs);
    expect(await fixture.store.collect()).toBeGreaterThanOrEqual(1);
    const { items } = await fixture.store.list({ namespace });
    expect(items.map(({ key }) => key)).toEqual(["ever", "failing"]);
  });
};

const failing: Section = (test, expect) => {
  test("counts failures, and ends the lease in the same step", async (fixture) => {
    const grant = await fixture.hold("bill");
    const outcome = await fixture.fail(grant, {
      error: "the bank is closed",
      retryDelayMs: 60_000,
    });
    expect(outcome).toEqual({ status: "recorded", state: "failing", failures: 1 });
    const view = await fixture.view("bill");
    expect([view.state, view.failures, view.error]).toEqual(["failing", 1, "the bank is closed"]);
    expect([view.by, view.token, view.value]).toEqual(["ada", grant.token, null]);
    expect(view.nextInMs).toBeGreaterThan(30_000);
    expect(view.nextInMs).toBeLessThanOrEqual(60_000);
    expect((await fixture.lease("bill"))?.state).toBe("released");
  });

  test("answers a repeated failure of the same grant as the first one", async (fixture) => {
    const first = await fixture.hold("bill");
    const once = { status: "recorded", state: "failing", failures: 1 };
    expect(await fixture.fail(first)).toEqual(once);
    expect(await fixture.fail(first, { error: "again", maxAttempts: 1 })).toEqual(once);
    const { failures, error } = await fixture.view("bill");
    expect([failures, error]).toEqual([1, "no"]);
    const second = await fixture.hold("bill", "joan");
    expect(await fixture.fail(first)).toEqual(once);
    const last = { status: "recorded", state: "failed", failures: 2 };
    expect(await fixture.fail(second, { maxAttempts: 2 })).toEqual(last);
    expect(await fixture.fail(second, { maxAttempts: 2 })).toEqual(last);
    expect(await fixture.fail(first)).toEqual({ status: "refused" });
  });

  test("waits anew after each failure", async (fixture) => {
    for (const retryDelayMs of [0, 60_000, 0]) {
      await fixture.fail(await fixture.hold("bill"), { retryDelayMs });
      expect((await fixture.view("bill")).nextInMs > 0).toBe(retryDelayMs > 0);
    }
  });

  test("keeps of an error what a database can keep", async (fixture) => {
    await fixture.fail(await fixture.hold("bill"), { error: "a\0b \ud800 é" });
    expect((await fixture.view("bill")).error).toBe("a\ufffdb \ufffd é");
  });

  test("is failed after maxAttempts, until it is retried", async (fixture) => {
    const { namespace, store } = fixture;
    const key = "bill";
    for (const [failures, state] of [
      [1, "failing"],
      [2, "failed"],
    ] as const) {
      const outcome = await fixture.fail(await fixture.hold(key), { maxAttempts: 2 });
      expect(outcome).toEqual({ status: "recorded", state, failures });
    }
    expect((await fixture.view(key)).nextInMs).toBe(0);
    expect(await store.retry({ namespace, key })).toBe(true);
    expect(await store.retry({ namespace, key })).toBe(false);
    expect(await store.get({ namespace, key })).toBe(null);
  });

  test("keeps the failures at a success that is refused", async (fixture) => {
    await fixture.fail(await fixture.hold("bill"));
    const late = await fixture.hold("bill", "late", fixture.shortMs);
    await fixture.pass(fixture.shortMs);
    expect(await fixture.succeed(late)).toEqual({ status: "refused" });
    const wrong = { ...(await fixture.hold("bill", "next")), token: late.token };
    expect(await fixture.succeed(wrong)).toEqual({ status: "refused" });
    const { state, failures } = await fixture.view("bill");
    expect([state, failures]).toEqual(["failing", 1]);
  });

  test("forgets the failures at a success", async (fixture) => {
    const { namespace, store } = fixture;
    await fixture.fail(await fixture.hold("bill"));
    await fixture.succeed(await fixture.hold("bill", "joan"), { value: "sent" });
    const { state, failures, error, by } = await fixture.view("bill");
    expect([state, failures, error, by]).toEqual(["done", 0, null, "joan"]);
    expect(await store.retry({ namespace, key: "bill" })).toBe(false);
    expect(await store.delete({ namespace, key: "bill" })).toBe(true);
    expect(await store.get({ namespace, key: "bill" })).toBe(null);
    expect(await store.delete({ namespace, key: "bill" })).toBe(false);
  });
};

const listing: Section = (test, expect) => {
  test("lists by key, by state and prefix, in pages, and of one namespace", async (fixture) => {
    const { namespace, store } = fixture;
    for (const key of ["b/2", "b/é", "a", "b/1"]) await fixture.succeed(await fixture.hold(key));
    await fixture.fail(await fixture.hold("b/1x"));
    await fixture.fail(await fixture.hold("c"), { maxAttempts: 1 });
    const keys = async (query: object) =>
      (await store.list({ namespace, ...query })).items.map(({ key }) => key);
    expect(await keys({})).toEqual(["a", "b/1", "b/1x", "b/2", "b/é", "c"]);
    expect(await keys({ prefix: "b/" })).toEqual(["b/1", "b/1x", "b/2", "b/é"]);
    expect(await keys({ states: ["failing"] })).toEqual(["b/1x"]);
    expect(await keys({ states: ["failed", "failing"] })).toEqual(["b/1x", "c"]);
    expect(await keys({ namespace: `${namespace}-other` })).toEqual([]);
    const first = await store.list({ namespace, prefix: "b/", limit: 3 });
    expect(first.items.map(({ key }) => key)).toEqual(["b/1", "b/1x", "b/2"]);
    const cursor = first.nextCursor ?? "";
    const second = await store.list({ namespace, prefix: "b/", limit: 3, cursor });
    expect(second.items.map(({ key }) => key)).toEqual(["b/é"]);
    expect(second.nextCursor).toBe(null);
  });

  test("lists each once, page by page, by state and prefix together", async (fixture) => {
    const { namespace, store } = fixture;
    const names = Array.from({ length: 9 }, (_, at) => `b/${at}`);
    for (const [at, key] of ["a", ...names, "c"].entries()) {
      const grant = await fixture.hold(key);
      if (at % 3 === 0) await fixture.succeed(grant);
      else await fixture.fail(grant, { maxAttempts: at % 3 });
    }
    const query = { namespace, prefix: "b/", states: ["failing", "done"] as const };
    const all = names.filter((_, at) => (at + 1) % 3 !== 1);
    for (const limit of [1, 2, 5, 6]) {
      const pages: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const page = await store.list({ ...query, limit, ...(cursor && { cursor }) });
        expect(page.items.length).toBeLessThanOrEqual(limit);
        pages.push(...page.items.map(({ key }) => key));
        cursor = page.nextCursor;
      }
      expect(pages).toEqual(all);
    }
    // The cursor of a page of all keys, which lies before those with the prefix.
    const { nextCursor } = await store.list({ namespace, limit: 1 });
    const { items } = await store.list({ ...query, cursor: nextCursor ?? "" });
    expect(items.map(({ key }) => key)).toEqual(all);
  });
};

const model: Section = (test, expect) => {
  for (const seed of [1, 2, 3]) {
    test(`holds for random calls (seed ${seed})`, async (fixture) => {
      const walk = new OnceWalk(fixture, expect, seed);
      for (let step = 0; step < fixture.steps; step += 1) {
        await walk.step();
        await walk.compareAll();
      }
      await walk.compareAll();
    });
  }
};

const SECTIONS: readonly (readonly [string, Section])[] = [
  ["succeed", succeeding],
  ["fail", failing],
  ["list", listing],
  ["times", times],
  ["records", apart],
  ["the model", model],
];

/**
 * Defines the conformance tests of a store that keeps the records of `once`. Call it where tests are defined.
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { exerciseOnceStore } from "leasehold/testing";
 * import * as vitest from "vitest";
 *
 * exerciseOnceStore({
 *   name: "memory",
 *   vitest,
 *   open: async () => {
 *     const { once, close } = await openStores("memory:");
 *     if (!once) throw new Error("memory keeps the records of once");
 *     return { store: once, close };
 *   },
 * });
 * ```
 */
export function exerciseOnceStore(harness: OnceHarness): void {
  defineSuite<OpenedOnceStore, Fixture>({
    name: harness.name,
    kind: "records of once",
    vitest: harness.vitest,
    sections: SECTIONS,
    open: () => harness.open(),
    close: (opened) => opened.close(),
    fixtureOf: (opened, expect) => new Fixture(opened, expect),
  });
}
