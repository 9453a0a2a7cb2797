/** Very many elections, and the earlier terms of one. */

import type { LeaseView } from "leasehold";
import type { GrantHistory } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { leaseView } from "../../../../../tests/support/worlds/lease-view.js";
import { electionsOf, Terms } from "./elections.js";

/** A history with two ended terms of each election, one of which may be the current one. */
function history() {
  const state = { reads: [] as string[], fails: false };
  const list: GrantHistory["list"] = async ({ namespace, resource = "" }) => {
    state.reads.push(`${namespace} ${resource}`);
    if (state.fails) throw new Error("unavailable");
    const term = (token: number) =>
      leaseView(resource, {
        namespace,
        holder: `of ${namespace}`,
        token,
        grantId: `${token}`.repeat(16),
        state: "expired",
      });
    return { items: [term(2), term(1)], nextCursor: null };
  };
  return { state, list };
}

test("earlier terms are read once for each term, tenant and election, until they are 5 s old", async () => {
  const { clock } = manualEnv();
  const { state, list } = history();
  const terms = new Terms(clock, { list });
  const current = leaseView("r", { token: 3, grantId: "3".repeat(16) });
  const holders = async (view: LeaseView) =>
    (await terms.of(view)).map(({ view: { holder, token } }) => [holder, token]);
  for (let times = 0; times < 3; times += 1) {
    expect(await holders(current)).toEqual([
      ["h", 3],
      ["of n", 2],
      ["of n", 1],
    ]);
  }
  expect(state.reads).toEqual(["n r"]);
  expect(await holders({ ...current, namespace: "m" })).toContainEqual(["of m", 2]);
  await holders({ ...current, resource: "s" });
  expect(state.reads).toEqual(["n r", "m r", "n s"]);
  // A new term, and the one before it is in the history.
  await holders({ ...current, token: 4, grantId: "4".repeat(16) });
  expect(state.reads).toHaveLength(4);
  await clock.advance(4_999);
  await holders({ ...current, token: 4 });
  expect(state.reads).toHaveLength(4);
  await clock.advance(1);
  await holders({ ...current, token: 4 });
  expect(state.reads).toHaveLength(5);
});

test("an ended term that the history has already is listed once", async () => {
  const terms = new Terms(manualEnv().clock, { list: history().list });
  const ended = leaseView("r", { token: 2, grantId: "2".repeat(16), state: "expired" });
  expect((await terms.of(ended)).map(({ view: { token } }) => token)).toEqual([2, 1]);
});

test("a failed read of the history is not kept", async () => {
  const { state, list } = history();
  const terms = new Terms(manualEnv().clock, { list });
  const current = leaseView("r", { token: 3 });
  state.fails = true;
  for (let times = 0; times < 2; times += 1) {
    await expect(terms.of(current)).rejects.toThrow("unavailable");
  }
  state.fails = false;
  expect(await terms.of(current)).toHaveLength(3);
});

test("earlier terms are read for the first 50 of many elections", async () => {
  const { state, list } = history();
  const elections = Array.from({ length: 60 }, (_, index) => ({
    kind: "elector" as const,
    view: leaseView(`r${index}`, { token: 3, grantId: "3".repeat(16) }),
  }));
  const statistics = { held: 60, ended: 0, complete: true, shards: [], elections };
  const { items } = await electionsOf(statistics, new Terms(manualEnv().clock, { list }));
  expect(state.reads).toHaveLength(50);
  const counts = items.map(({ terms }) => terms.length);
  expect(counts).toEqual([...Array(50).fill(3), ...Array(10).fill(1)]);
});

test("a long list is truncated, and marked incomplete", async () => {
  const statisticsWith = (count: number) => ({
    held: count,
    ended: 0,
    complete: true,
    shards: [],
    elections: Array.from({ length: count }, (_, index) => ({
      kind: "elector" as const,
      view: leaseView(`r${index}`),
    })),
  });
  const terms = new Terms(manualEnv().clock, undefined);
  for (const [count, listed, complete] of [
    [1_000, 1_000, true],
    [1_001, 1_000, false],
  ] as const) {
    const elections = await electionsOf(statisticsWith(count), terms);
    expect([elections.items.length, elections.complete]).toEqual([listed, complete]);
  }
});
