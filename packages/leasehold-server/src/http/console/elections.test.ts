/** Very many elections. */

import type { LeaseView } from "leasehold";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { electionsOf, Terms } from "./elections.js";

test("a long list is truncated, and marked incomplete", async () => {
  const view = (resource: string): LeaseView => ({
    namespace: "n",
    resource,
    holder: "h",
    token: 1,
    state: "live",
    ttlMs: 1,
    remainingMs: 1,
    grantId: "0".repeat(16),
    grantedAt: null,
    renewedAt: null,
    expiresAt: null,
    metadata: null,
  });
  const statisticsWith = (count: number) => ({
    held: count,
    ended: 0,
    complete: true,
    shards: [],
    elections: Array.from({ length: count }, (_, index) => ({
      kind: "elector" as const,
      view: view(`r${index}`),
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
