/** What an instance remembers of workers, by itself. */

import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { Seen } from "./seen.js";

const CLAIM = { namespace: "n", claimId: "c", limit: 1, ttlMs: 1_000, kinds: null };

test("knows a worker for each that it asks for, the latest last, while it asks and two minutes on", async () => {
  const { clock } = manualEnv();
  const seen = new Seen(clock);
  const wordy = Array.from({ length: 200 }, (_, n) => `${n}`.padEnd(250, "."));
  const answered = seen.claiming({ ...CLAIM, holder: "a", queues: wordy });
  await clock.advance(1);
  seen.claiming({ ...CLAIM, holder: "a", queues: ["q"] })();
  const shown = () => seen.claimers().map(({ queues, waiting }) => [queues.length, waiting]);
  expect(shown()).toEqual([
    [200, true],
    [1, false],
  ]);
  await clock.advance(120_001);
  expect(shown()).toEqual([[200, true]]);
  answered();
  expect(shown()).toEqual([[200, false]]);
});

test("remembers few that name very many queues, so that nobody fills the memory", () => {
  const seen = new Seen(manualEnv().clock);
  for (let n = 0; n < 2_000; n += 1) {
    const queues = Array.from({ length: 200 }, (_, index) => `${n}-${index}`.padEnd(20, "."));
    seen.claiming({ ...CLAIM, holder: `long-${n}`, queues })();
    seen.claiming({ ...CLAIM, holder: `short-${n}`, queues: ["q"] })();
  }
  const holders = seen.claimers().map(({ holder }) => holder);
  const many = (of: string) => holders.filter((holder) => holder.startsWith(of)).length;
  expect(many("long")).toBeLessThanOrEqual(50);
  expect(many("short")).toBeGreaterThanOrEqual(500);
  expect(holders).toContain("long-1999");
});
