/**
 * The conformance suite of published kinds: every engine that keeps them passes it, and so can yours. It holds a store
 * against the port (tasks/kinds/port.ts).
 */
import { newLeaseId, systemRandom } from "../env/index.js";
import { type KindStore, type KindView, MOST_KINDS } from "../tasks/kinds/port.js";
import type { TestFramework } from "./framework.js";
import type * as suite from "./suite.js";
import { defineSuite } from "./suite.js";

/** A store under test. */
export interface OpenedKindStore {
  readonly store: KindStore;
  close(): Promise<void>;
}

/** What the suite needs to know of an engine. */
export interface KindHarness {
  /** The prefix of the test names. */
  readonly name: string;
  readonly vitest: TestFramework;
  /** Called once; all tests share the store, each in a namespace of its own. */
  open(): Promise<OpenedKindStore>;
}

const SCHEMA = '{"type":"object","properties":{"päth":{"type":"string"}},"required":["päth"]}';
const OTHER = '{"type":"object","properties":{"__proto__":true},"maxProperties":3}';

class Fixture {
  readonly namespace = `suite-${newLeaseId(systemRandom)}`;
  readonly store: KindStore;

  constructor({ store }: OpenedKindStore) {
    this.store = store;
  }

  key(kind = "mail", version = 1) {
    return { namespace: this.namespace, kind, version };
  }

  publish(kind?: string, version?: number, schema = SCHEMA, by = "ada") {
    return this.store.publish({ ...this.key(kind, version), schema, by });
  }

  /** Reads page by page. */
  async list(limit: number, kind?: string): Promise<KindView[]> {
    const found: KindView[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const query = { namespace: this.namespace, limit, ...(kind !== undefined && { kind }) };
      const more = cursor === undefined ? {} : { cursor };
      const page = await this.store.list({ ...query, ...more });
      found.push(...page.items);
      cursor = page.nextCursor;
    }
    return found;
  }
}
type Section = suite.Section<Fixture>;

const publishing: Section = (test, expect) => {
  test("publishes a version once, and says what a repetition changes", async (fixture) => {
    const { namespace, store } = fixture;
    expect(await fixture.publish()).toEqual({ status: "published", change: "added" });
    const before = await store.list({ namespace });
    expect(await fixture.publish()).toEqual({ status: "published", change: "none" });
    // Nothing was written, not even who published it last.
    expect(await fixture.publish("mail", 1, SCHEMA, "joan")).toEqual({
      status: "published",
      change: "none",
    });
    expect(await store.list({ namespace })).toEqual(before);
    expect(before.items).toMatchObject([
      { kind: "mail", version: 1, schema: JSON.parse(SCHEMA) as object, by: "ada" },
    ]);
  });

  test("replaces the schema of a version, and keeps when it was first published", async (fixture) => {
    await fixture.publish();
    const [before] = await fixture.list(10);
    const changed = await fixture.publish("mail", 1, OTHER, "joan");
    expect(changed).toEqual({ status: "published", change: "changed" });
    expect(await fixture.store.schemas([fixture.key()])).toEqual([OTHER]);
    const [after] = await fixture.list(10);
    expect(after).toMatchObject({ by: "joan", publishedAt: before?.publishedAt ?? "" });
    expect(before?.changedAt).toBe(before?.publishedAt);
    expect((after?.changedAt ?? "") >= (before?.changedAt ?? "")).toBe(true);
  });

  test("returns the schemas in the order of the keys, and null for those not published", async (fixture) => {
    await fixture.publish("mail", 1, SCHEMA);
    await fixture.publish("mail", 3, OTHER);
    const keys = [fixture.key("mail", 3), fixture.key("mail", 2), fixture.key(), fixture.key("x")];
    expect(await fixture.store.schemas(keys)).toEqual([OTHER, null, SCHEMA, null]);
    expect(await fixture.store.schemas([])).toEqual([]);
  });

  test("keeps namespaces apart", async (fixture) => {
    await fixture.publish();
    const another = { namespace: `${fixture.namespace}-2`, kind: "mail", version: 1 };
    expect(await fixture.store.schemas([another])).toEqual([null]);
    expect((await fixture.store.list({ namespace: another.namespace })).items).toEqual([]);
    expect(await fixture.store.withdraw(another)).toBe(false);
    expect(await fixture.store.schemas([fixture.key()])).toEqual([SCHEMA]);
  });

  test("lists by kind and version, page by page, and the versions of one kind", async (fixture) => {
    const kinds = ["b", "a/1", "b", "ä", "b:2", "b"];
    const versions = [10, 1, 2, 1, 1, 1];
    for (const [at, kind] of kinds.entries()) await fixture.publish(kind, versions[at]);
    const sorted = ["a/1 1", "b 1", "b 2", "b 10", "b:2 1", "ä 1"];
    const named = (views: readonly KindView[]) => views.map((one) => `${one.kind} ${one.version}`);
    for (const limit of [1, 2, 10]) expect(named(await fixture.list(limit))).toEqual(sorted);
    expect(named(await fixture.list(2, "b"))).toEqual(["b 1", "b 2", "b 10"]);
    expect(await fixture.list(2, "c")).toEqual([]);
  });

  test("withdraws a version alone", async (fixture) => {
    await fixture.publish("mail", 1);
    await fixture.publish("mail", 2, OTHER);
    expect(await fixture.store.withdraw(fixture.key())).toBe(true);
    expect(await fixture.store.withdraw(fixture.key())).toBe(false);
    expect(await fixture.store.schemas([fixture.key(), fixture.key("mail", 2)])).toEqual([
      null,
      OTHER,
    ]);
  });

  test("publishes a version anew that was withdrawn, by whom and with what it is given", async (fixture) => {
    await fixture.publish("mail", 1, SCHEMA, "ada");
    await fixture.publish("mail", 1, OTHER, "ada");
    const [before] = await fixture.list(10);
    await fixture.store.withdraw(fixture.key());
    const anew = await fixture.publish("mail", 1, OTHER, "joan");
    expect(anew).toEqual({ status: "published", change: "added" });
    const [after] = await fixture.list(10);
    expect(after).toMatchObject({ by: "joan", changedAt: after?.publishedAt ?? "" });
    expect((after?.publishedAt ?? "") >= (before?.changedAt ?? "")).toBe(true);
    expect(await fixture.store.schemas([fixture.key()])).toEqual([OTHER]);
  });

  test("lists twenty by default, and throws at a cursor that no page has given", async (fixture) => {
    for (let version = 1; version <= 21; version += 1) await fixture.publish("mail", version);
    const { namespace, store } = fixture;
    const { items, nextCursor } = await store.list({ namespace });
    expect(items).toHaveLength(20);
    const rest = await store.list({ namespace, cursor: nextCursor ?? "" });
    expect([rest.items.map(({ version }) => version), rest.nextCursor]).toEqual([[21], null]);
    const wrong = store.list({ namespace, cursor: "page 2" });
    const error = await wrong.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
  });

  test("adds a version once when many publish it at the same time", async (fixture) => {
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => fixture.publish()));
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => "published"));
    const added = outcomes.filter((outcome) => "change" in outcome && outcome.change === "added");
    expect(added.length).toBe(1);
  });

  test("keeps a bounded number of versions, and still changes them", async (fixture) => {
    for (let version = 1; version <= MOST_KINDS; version += 100) {
      const some = Array.from({ length: 100 }, (_, at) => version + at);
      await Promise.all(some.map((each) => fixture.publish("mail", each)));
    }
    expect(await fixture.publish("another")).toEqual({ status: "full" });
    expect(await fixture.publish("mail", 7, OTHER)).toMatchObject({ change: "changed" });
    // Each namespace has as many.
    const abroad = { namespace: `${fixture.namespace}-2`, kind: "mail", version: 1 };
    const published = await fixture.store.publish({ ...abroad, schema: SCHEMA, by: "ada" });
    expect(published).toMatchObject({ change: "added" });
    await fixture.store.withdraw(fixture.key("mail", 8));
    expect(await fixture.publish("another")).toMatchObject({ change: "added" });
  });
};

/**
 * Tests a store of published kinds against its port.
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { exerciseKindStore } from "leasehold/testing";
 * import * as vitest from "vitest";
 *
 * exerciseKindStore({
 *   name: "memory",
 *   vitest,
 *   async open() {
 *     const { kinds: store, close } = await openStores("memory:");
 *     if (!store) throw new Error("memory keeps kinds");
 *     return { store, close };
 *   },
 * });
 * ```
 */
export function exerciseKindStore(harness: KindHarness): void {
  defineSuite<OpenedKindStore, Fixture>({
    name: harness.name,
    kind: "kinds",
    vitest: harness.vitest,
    sections: [["publishing", publishing]],
    open: () => harness.open(),
    close: (opened) => opened.close(),
    fixtureOf: (opened) => new Fixture(opened),
  });
}
