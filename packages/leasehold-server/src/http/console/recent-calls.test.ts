/** The claims that an instance records. */

import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { RecentCalls } from "./recent-calls.js";

const CLAIM = { namespace: "n", claimId: "c", limit: 1, ttlMs: 1_000, kinds: null };

test("keeps a worker's claims per set of queues, latest last, for two minutes", async () => {
  const { clock } = manualEnv();
  const recent = new RecentCalls(clock);
  const wordy = Array.from({ length: 200 }, (_, n) => `${n}`.padEnd(250, "."));
  const answered = recent.claiming({ ...CLAIM, holder: "a", queues: wordy });
  await clock.advance(1);
  recent.claiming({ ...CLAIM, holder: "a", queues: ["q"] })();
  const shown = () => recent.claimers().map(({ queues, waiting }) => [queues.length, waiting]);
  expect(shown()).toEqual([
    [200, true],
    [1, false],
  ]);
  await clock.advance(120_001);
  expect(shown()).toEqual([[200, true]]);
  answered();
  expect(shown()).toEqual([[200, false]]);
});

test("keeps few claims with very many queues, so that memory stays bounded", () => {
  const recent = new RecentCalls(manualEnv().clock);
  for (let n = 0; n < 2_000; n += 1) {
    const queues = Array.from({ length: 200 }, (_, index) => `${n}-${index}`.padEnd(20, "."));
    recent.claiming({ ...CLAIM, holder: `long-${n}`, queues })();
    recent.claiming({ ...CLAIM, holder: `short-${n}`, queues: ["q"] })();
  }
  const holders = recent.claimers().map(({ holder }) => holder);
  const many = (of: string) => holders.filter((holder) => holder.startsWith(of)).length;
  expect(many("long")).toBeLessThanOrEqual(50);
  expect(many("short")).toBeGreaterThanOrEqual(500);
  expect(holders).toContain("long-1999");
});
