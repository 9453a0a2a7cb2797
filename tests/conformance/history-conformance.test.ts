/** Every history of ended grants against the port's promises. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type {
  GrantHistory,
  GrantHistoryQuery,
} from "../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseView } from "../../packages/leasehold/src/lease/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { PGLITE, POSTGRES, type SuiteEngine } from "../support/suites/suite-engines.js";

interface Opened {
  readonly history: GrantHistory;
  /** The same history over connections of its own, where there are any. */
  readonly other: GrantHistory;
  close(): Promise<void>;
}

interface Engine extends Pick<SuiteEngine, "name" | "describe"> {
  open(): Promise<Opened>;
}

const historyOn = (engine: SuiteEngine): Engine => ({
  name: engine.name,
  describe: engine.describe,
  async open() {
    const { stores, openOther, close } = await engine.open();
    const other = (await openOther?.()) ?? stores;
    if (!stores.history || !other.history) throw new Error(`${engine.name} has a history`);
    return {
      history: stores.history,
      other: other.history,
      async close() {
        if (other !== stores) await other.close();
        await close();
      },
    };
  },
});

const ENGINES: readonly Engine[] = [
  {
    name: "memory",
    describe,
    async open() {
      const source = memory();
      const { history, close } = await source.open(systemEnv);
      const { history: other } = await source.open(systemEnv);
      if (!history || !other) throw new Error("memory has a history");
      return { history, other, close };
    },
  },
  historyOn(PGLITE),
  historyOn(POSTGRES),
];

let spaces = 0;
let grants = 0;
/** Grants of a namespace of their own; each is later than the one before. */
function newSpace() {
  const namespace = `space-${++spaces}`;
  const grant = (change: Partial<LeaseView> = {}): LeaseView => {
    grants += 1;
    return {
      namespace,
      resource: "r",
      holder: "h",
      state: "released",
      grantId: grants.toString(16).padStart(16, "0"),
      token: 1_800_000_000_000_000 + grants,
      ttlMs: 30_000,
      remainingMs: 0,
      metadata: null,
      renewedAt: null,
      grantedAt: new Date(Date.now() - 60_000).toISOString(),
      expiresAt: new Date(Date.now() - 1_000).toISOString(),
      ...change,
    };
  };
  return { namespace, grant };
}

async function listAll(
  history: GrantHistory,
  query: GrantHistoryQuery,
  between?: () => Promise<void>,
): Promise<LeaseView[]> {
  const all: LeaseView[] = [];
  let { items, nextCursor } = await history.list(query);
  all.push(...items);
  while (nextCursor !== null) {
    await between?.();
    ({ items, nextCursor } = await history.list({ ...query, cursor: nextCursor }));
    all.push(...items);
  }
  return all;
}

for (const engine of ENGINES) {
  engine.describe(`history in ${engine.name}`, () => {
    let opened: Opened;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());

    it("answers what was added, as it was", async () => {
      const { namespace, grant } = newSpace();
      const odd = `${"\u{1F600}".repeat(60)}"\\'%_\n\t\u0001\u{10FFFF}`;
      expect(new TextEncoder().encode(odd).length).toBeLessThanOrEqual(256);
      const added = [
        grant(),
        grant({ resource: odd, holder: odd, metadata: JSON.stringify({ [odd]: odd }) }),
        grant({ resource: "x".repeat(256), renewedAt: "2030-01-01T12:00:00.001Z" }),
        grant({ state: "expired", grantedAt: null, expiresAt: null, ttlMs: 2 ** 31 - 1 }),
        grant({ state: "revoked", expiresAt: new Date(Date.now() + 60_000).toISOString() }),
      ];
      await opened.history.append(added);
      expect(await opened.other.list({ namespace })).toEqual({
        items: added.toReversed(),
        nextCursor: null,
      });
      for (const one of added) {
        expect(await opened.history.find(one, one.grantId)).toEqual(one);
        expect(await opened.history.find({ ...one, namespace: "none" }, one.grantId)).toBeNull();
      }
      expect(await listAll(opened.history, { namespace, limit: 1 })).toEqual(added.toReversed());
      expect(await opened.history.list({ namespace, resource: odd })).toMatchObject({
        items: [added[1]],
      });
    });

    it("keeps a grant as it was first added, however often it is", async () => {
      const { namespace, grant } = newSpace();
      const first = grant();
      const elsewhere = { ...first, resource: "other" };
      await opened.history.append([first, { ...first, holder: "changed" }, elsewhere]);
      await opened.history.append([{ ...first, state: "revoked" }, elsewhere]);
      await opened.history.append([]);
      const { items } = await opened.history.list({ namespace });
      expect(items).toHaveLength(2);
      expect(items).toEqual(expect.arrayContaining([first, elsewhere]));
    });

    it("is paged whole and once while grants are added", async () => {
      const { namespace, grant } = newSpace();
      const resources = ["a", "b", "c"];
      // Of one statement: the tokens of its grants may be the same.
      const some = () => {
        const { token } = grant();
        return resources.map((resource) => grant({ resource, token }));
      };
      const before = Array.from({ length: 20 }, some).flat();
      await opened.history.append(before);
      for (const limit of [1, 4, 60, 100]) {
        const seen = await listAll(opened.history, { namespace, limit }, () =>
          opened.history.append(some()),
        );
        const names = seen.map(({ grantId }) => grantId);
        expect(new Set(names).size).toBe(names.length);
        expect(names).toEqual(expect.arrayContaining(before.map(({ grantId }) => grantId)));
        const tokens = seen.map(({ token }) => token);
        expect(tokens).toEqual(tokens.toSorted((a, b) => b - a));
      }
      const b = before.filter(({ resource }) => resource === "b");
      const listed = await listAll(opened.history, { namespace, resource: "b", limit: 7 });
      expect(listed.slice(-b.length)).toEqual(b.toReversed());
      expect(new Set(listed.map(({ resource }) => resource))).toEqual(new Set(["b"]));
    });

    it("finds by how grants ended", async () => {
      const { namespace, grant } = newSpace();
      const released = [grant(), grant({ resource: "s" }), grant()];
      const expired = [grant({ state: "expired" }), grant({ state: "expired", resource: "s" })];
      const revoked = [grant({ state: "revoked" })];
      await opened.history.append([...released, ...expired, ...revoked]);
      const list = (query: Partial<GrantHistoryQuery>) =>
        listAll(opened.history, { namespace, limit: 2, ...query });
      expect(await list({ states: ["released"] })).toEqual(released.toReversed());
      expect(await list({ states: ["expired"] })).toEqual(expired.toReversed());
      expect(await list({ states: ["expired", "revoked"] })).toEqual(
        [...expired, ...revoked].toReversed(),
      );
      expect(await list({ states: ["released", "revoked"], resource: "r" })).toEqual([
        revoked[0],
        released[2],
        released[0],
      ]);
      expect(await list({ states: [] })).toEqual([]);
    });

    it("refuses a cursor that no page has given", async () => {
      const { namespace } = newSpace();
      for (const cursor of ["x", "1.x", "1'", `${"9".repeat(30)}.1`, ""]) {
        await expect(opened.history.list({ namespace, cursor })).rejects.toMatchObject({
          code: "INVALID_OPTION",
          path: "cursor",
        });
      }
    });

    it("deletes what ended long ago", async () => {
      const { namespace, grant } = newSpace();
      const ended = (agoMs: number, change: Partial<LeaseView> = {}) =>
        grant({ ...change, expiresAt: new Date(Date.now() - agoMs).toISOString() });
      const old = Array.from({ length: 1_500 }, () => ended(7_200_000));
      const young = [ended(1_800_000), grant({ expiresAt: null })];
      await opened.history.append([...old, ...young]);
      expect(await opened.history.collect(3_600_000)).toBeGreaterThanOrEqual(old.length);
      expect(await opened.history.list({ namespace })).toEqual({
        items: young.toReversed(),
        nextCursor: null,
      });
      expect(await opened.history.collect(3_600_000)).toBe(0);
      // Forgotten: it may be added again.
      await opened.history.append(old.slice(0, 1));
      expect(await listAll(opened.history, { namespace })).toHaveLength(3);
    });

    it("takes the same grants from several at once", async () => {
      const { namespace, grant } = newSpace();
      const all = Array.from({ length: 300 }, (_, n) => grant({ resource: `r-${n % 7}` }));
      for (let round = 0; round < 10; round++) {
        const some = all.slice(round * 20, round * 20 + 120);
        await Promise.all([
          opened.history.append(some),
          opened.other.append(some.toReversed()),
          opened.other.append(some.slice(30)),
          opened.history.append([...some.slice(50), ...some]),
        ]);
      }
      const { items } = await opened.history.list({ namespace, limit: 1_000 });
      expect(items).toHaveLength(300);
      expect(new Set(items.map(({ grantId }) => grantId)).size).toBe(300);
    });
  });
}
