/** How many records a page looks at, and that pages together have all. */
import { expect, it } from "vitest";
import type { LeaseRecord, LeaseView, ListQuery } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { MemoryLeaseState, MemoryLeaseStore } from "./store.js";

const nameOf = (number: number) => `r${`${number}`.padStart(6, "0")}`;

/** A store of so many records, of which every hundredth is live, and how often one was looked at. */
function storeOf(count: number) {
  let reads = 0;
  const state = new MemoryLeaseState(manualEnv().clock);
  const { records } = state.namespace("n");
  for (let number = count - 1; number >= 0; number -= 1) {
    const isLive = number % 100 === 0;
    const record: Omit<LeaseRecord, "ended"> = {
      leaseId: "l",
      holder: number % 1_000 === 0 ? "a" : "b",
      token: 1,
      ttlMs: 1_000,
      grantedAtMs: 0,
      renewedAtMs: null,
      expiresAtMs: isLive ? 1_000 : 0,
      metadata: null,
    };
    records.set(nameOf(number), {
      ...record,
      get ended() {
        reads += 1;
        return isLive ? null : ("released" as const);
      },
    });
  }
  const store = new MemoryLeaseStore(state);
  const pages = async (query: Omit<ListQuery, "namespace">) => {
    const found: LeaseView[] = [];
    const most: { reads: number; items: number }[] = [];
    let cursor: string | null | undefined;
    while (cursor !== null) {
      reads = 0;
      const page = await store.list({ namespace: "n", ...query, ...(cursor && { cursor }) });
      found.push(...page.items);
      most.push({ reads, items: page.items.length });
      cursor = page.nextCursor;
    }
    return { resources: found.map(({ resource }) => resource), pages: most };
  };
  return { pages };
}

it("looks at the records of a page only, wherever it begins", async () => {
  const { pages } = storeOf(5_000);
  for (const prefix of ["", "r0012"]) {
    const all = Array.from({ length: 5_000 }, (_, number) => nameOf(number));
    const states = ["live", "expired", "released", "revoked"] as const;
    const found = await pages({ prefix, states, limit: 50 });
    expect(found.resources).toEqual(all.filter((name) => name.startsWith(prefix)));
    for (const page of found.pages) expect(page.reads).toBeLessThan(50 * 5);
  }
});

it("ends a page that passes over many records, and goes on in the next", async () => {
  const { pages } = storeOf(35_000);
  const live = await pages({ states: ["live"], limit: 1_000 });
  expect(live.resources).toEqual(Array.from({ length: 350 }, (_, number) => nameOf(number * 100)));
  const none = await pages({ states: ["revoked"], limit: 1 });
  expect(none.resources).toEqual([]);
  expect(none.pages.map(({ items }) => items)).toEqual([0, 0, 0, 0]);
  for (const page of [...live.pages, ...none.pages]) expect(page.reads).toBeLessThan(25_000);
});

it("applies the filters that a store may leave to its caller", async () => {
  const { pages } = storeOf(3_000);
  const holders = await pages({ holder: "a", states: ["live"], limit: 2 });
  expect(holders.resources).toEqual([0, 1_000, 2_000].map(nameOf));
  expect((await pages({ heldForMs: 0, limit: 1_000 })).resources).toHaveLength(30);
  expect((await pages({ heldForMs: 1 })).resources).toHaveLength(0);
  expect((await pages({ expiringWithinMs: 1_000 })).resources).toHaveLength(30);
  expect((await pages({ expiringWithinMs: 999 })).resources).toHaveLength(0);
});
