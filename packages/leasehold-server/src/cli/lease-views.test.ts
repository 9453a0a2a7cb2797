/** Which leases `leasehold ls` lists, page by page. */
import { type LeaseStore, type LeaseView, openStores } from "leasehold";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { directLeases } from "../../../../tests/support/worlds/direct-leases.js";
import { listLeases } from "./lease-views.js";

const namespace = "default";

async function open() {
  const env = manualEnv();
  const stores = await openStores("memory:", { env });
  const { leases } = stores;
  // Most stores return what these filters leave out, and `ls` leaves it out.
  const unfiltered: Pick<LeaseStore, "list"> = {
    list: ({ holder: _h, expiringWithinMs: _e, heldForMs: _f, ...query }) => leases.list(query),
  };
  onTestFinished(() => stores.close());
  const acquire = directLeases(leases, env, namespace);
  type Given = Partial<Parameters<typeof listLeases>[2]>;
  const page = (given: Given, prefix = "") =>
    listLeases(unfiltered, prefix, { namespace, state: "held", limit: 100, ...given });
  /** Every page, by its cursor. */
  const pages = async (given: Given) => {
    const found: LeaseView[] = [];
    let cursor: string | undefined;
    for (let asked = 0; asked < 1_000; asked += 1) {
      const next = await page({ ...given, ...(cursor !== undefined && { cursor }) });
      found.push(...next.items);
      if (next.nextCursor === null) return { names: found.map(({ resource }) => resource), asked };
      cursor = next.nextCursor;
    }
    throw new Error("the cursors do not end");
  };
  return { env, leases, acquire, page, pages };
}

const nameOf = (n: number) => `r${String(n).padStart(4, "0")}`;
const range = (count: number) => Array.from({ length: count }, (_, n) => n);

test.each([1, 2, 7, 50, 199, 200, 201, 1_000])(
  "with a filter, pages of %i list each lease once",
  async (limit) => {
    const { acquire, pages } = await open();
    // Some are of the other holder, over three pages of the store, and so that a page of ls ends anywhere within one.
    const isOther = (n: number) => n % 5 === 0 || n % 7 === 3;
    const holderOf = (n: number) => (isOther(n) ? "b" : "a");
    await Promise.all(range(450).map((n) => acquire(nameOf(n), { holder: holderOf(n) })));
    const wanted = range(450).filter(isOther);
    const { names } = await pages({ owner: "b", limit });
    expect(names).toEqual(wanted.map(nameOf));
  },
);

test("filters of live leases leave out others, and held ones include revoked ones that still exclude", async () => {
  const { env, leases, acquire, page } = await open();
  await acquire("long", { ttlMs: 600_000 });
  await env.clock.advance(60_000);
  await acquire("soon", { ttlMs: 5_000 });
  await acquire("revoked", { ttlMs: 5_000 });
  await acquire("free", { ttlMs: 5_000 });
  await leases.revoke([{ namespace, resource: "revoked", free: "atExpiry" }]);
  await leases.revoke([{ namespace, resource: "free", free: "now" }]);
  const names = async (...given: Parameters<typeof page>) =>
    (await page(...given)).items.map(({ resource }) => resource);
  expect(await names({})).toEqual(["long", "revoked", "soon"]);
  expect(await names({ state: "any" })).toEqual(["free", "long", "revoked", "soon"]);
  expect(await names({ state: "revoked" })).toEqual(["free", "revoked"]);
  expect(await names({ expiringWithin: 5_000 })).toEqual(["soon"]);
  expect(await names({ expiringWithin: 4_999 })).toEqual([]);
  expect(await names({ longHeld: 60_000 })).toEqual(["long"]);
  expect(await names({ longHeld: 60_001 })).toEqual([]);
  expect(await names({ state: "any", longHeld: 0 })).toEqual(["long", "soon"]);
  expect(await names({}, "s")).toEqual(["soon"]);
  await env.clock.advance(5_000);
  expect(await names({})).toEqual(["long"]);
});
