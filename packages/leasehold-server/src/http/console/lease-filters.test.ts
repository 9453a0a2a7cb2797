import type { LeaseView } from "leasehold";
import { cursorAfter, type ListQuery, resourceOfCursor } from "leasehold/internal";
import { expect, it } from "vitest";
import { filteredPage } from "./lease-filters.js";

const view = (n: number): LeaseView => ({
  namespace: "n",
  resource: `r${String(n).padStart(6, "0")}`,
  holder: n % 5 ? "a" : "b",
  grantId: "",
  token: n,
  state: "live",
  ttlMs: 60_000,
  remainingMs: n,
  metadata: null,
  grantedAt: null,
  renewedAt: null,
  expiresAt: null,
});

/** A store with many leases that ignores filters. */
function storeOf(count: number) {
  const all = Array.from({ length: count }, (_, n) => view(n));
  const reads: ListQuery[] = [];
  const read = async (query: ListQuery) => {
    reads.push(query);
    const { limit = 100, cursor } = query;
    const after = cursor === undefined ? "" : resourceOfCursor(cursor);
    const rest = all.filter(({ resource }) => resource > after);
    const items = rest.slice(0, limit);
    const last = rest.length > limit ? items.at(-1) : undefined;
    const nextCursor = last ? cursorAfter(last.resource) : null;
    return { items, nextCursor };
  };
  return { all, reads, read };
}

async function everything(read: ReturnType<typeof storeOf>["read"], query: object) {
  const found: LeaseView[] = [];
  const sizes: number[] = [];
  let cursor: string | null | undefined;
  do {
    const from = cursor ? { cursor } : {};
    const page = await filteredPage(read, { namespace: "n", limit: 7, ...query, ...from });
    found.push(...page.items);
    sizes.push(page.items.length);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return { found, sizes };
}

it.each([
  [{ holder: "b" }, ({ holder }: LeaseView) => holder === "b"],
  [{ expiringWithinMs: 20 }, ({ remainingMs }: LeaseView) => remainingMs <= 20],
  [{ holder: "b", expiringWithinMs: 20 }, ({ token }: LeaseView) => token % 5 === 0 && token <= 20],
  [{ heldForMs: 0 }, () => false],
])(
  "finds all that fit %o and nothing twice, whatever the size of the pages",
  async (query, fits) => {
    const { all, read } = storeOf(2_345);
    expect((await everything(read, query)).found).toEqual(all.filter(fits));
  },
);

it("fills each page before it returns it, but for the last", async () => {
  const { read } = storeOf(10_000);
  const { sizes } = await everything(read, { holder: "b", limit: 300 });
  expect(sizes).toEqual([300, 300, 300, 300, 300, 300, 200]);
});

it("takes no ended lease for one that is about to expire", async () => {
  const ended = { ...view(1), state: "released" as const, remainingMs: 0 };
  const read = async () => ({ items: [ended, view(2)], nextCursor: null });
  const query = { namespace: "n", limit: 10, expiringWithinMs: 5_000 };
  expect((await filteredPage(read, query)).items).toEqual([view(2)]);
});

it("reads 10,000 leases in one request, and continues in the next", async () => {
  const { reads, read } = storeOf(25_000);
  const { found, sizes } = await everything(read, { holder: "absent" });
  expect([found, sizes]).toEqual([[], [0, 0, 0]]);
  expect(reads.map(({ limit }) => limit)).toEqual(Array.from({ length: 25 }, () => 1_000));
});

it("passes the query on if there is no filter", async () => {
  const { reads, read } = storeOf(10);
  await filteredPage(read, { namespace: "n", limit: 3, prefix: "r" });
  expect(reads).toEqual([{ namespace: "n", limit: 3, prefix: "r" }]);
});
