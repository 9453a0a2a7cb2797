/** How many ended grants are kept in memory, and which. */
import { expect, it } from "vitest";
import type { LeaseView } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { MemoryGrantHistory } from "./control-history.js";

const grant = (token: number): LeaseView => ({
  namespace: "n",
  resource: "r",
  holder: "h",
  grantId: `${token}`,
  token,
  state: "released",
  ttlMs: 1,
  remainingMs: 0,
  grantedAt: null,
  renewedAt: null,
  expiresAt: null,
  metadata: null,
});

it("keeps the newest 100,000 grants of a namespace, and finds no dropped one", async () => {
  const history = new MemoryGrantHistory(manualEnv().clock);
  const find = (token: number) => history.find({ namespace: "n", resource: "r" }, `${token}`);
  await history.append([{ ...grant(1), namespace: "other" }]);
  await history.append(Array.from({ length: 110_000 }, (_, number) => grant(number + 1)));
  expect(await find(1)).toMatchObject({ token: 1 });
  await history.append([grant(110_001)]);
  const { items } = await history.list({ namespace: "n", limit: 200_000 });
  expect([items.length, items[0]?.token, items.at(-1)?.token]).toEqual([100_001, 110_001, 10_001]);
  expect(await find(10_000)).toBeNull();
  expect(await find(10_001)).toMatchObject({ token: 10_001 });
  // Other namespaces keep theirs.
  expect((await history.list({ namespace: "other" })).items).toHaveLength(1);
});
