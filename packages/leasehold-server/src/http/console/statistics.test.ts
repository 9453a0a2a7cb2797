/** Statistics of more leases than fit on one page. */

import { newLeaseId, systemEnv, systemRandom } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { expect, onTestFinished, test } from "vitest";
import { statisticsOf } from "./statistics.js";

test("reads 10 pages at most, and says that there are more", async () => {
  let reads = 0;
  const list = async () => {
    reads += 1;
    return { items: [], nextCursor: "more" };
  };
  expect(await statisticsOf({ list }, "n")).toMatchObject({ complete: false });
  expect(reads).toBe(10);
});

test("counts page by page, and lets other requests run in between", async () => {
  const { leases, close } = await memory().open(systemEnv);
  onTestFinished(() => close());
  const requests = Array.from({ length: 2_500 }, (_, index) => ({
    namespace: "n",
    resource: `r${index}`,
    holder: "h",
    leaseId: newLeaseId(systemRandom),
    ttlMs: 60_000,
  }));
  await leases.acquire(requests);
  await leases.release(requests.slice(0, 500));
  let turns = 0;
  let next = setImmediate(function count() {
    turns += 1;
    next = setImmediate(count);
  });
  const statistics = await statisticsOf(leases, "n");
  clearImmediate(next);
  expect(statistics).toMatchObject({ held: 2_000, ended: 500, complete: true });
  expect(turns).toBeGreaterThanOrEqual(2);
});
