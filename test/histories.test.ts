/** A share of `npm run histories`: small ones, on each store, with the same faults. */
import { expect, it } from "vitest";
import { systemEnv } from "../src/env/index.js";
import { memory } from "../src/stores/memory/index.js";
import {
  type Campaign,
  type CampaignOptions,
  type JudgedHistory,
  makeHistories,
  runCampaign,
} from "./support/history-campaign.js";
import { type HistoryTarget, httpTarget, postgresTarget } from "./support/history-targets.js";
import { describePostgres, freshDatabase } from "./support/postgres.js";

const TIMEOUT_MS = 120_000;

function share(count: number, wrong: JudgedHistory[]): CampaignOptions {
  return {
    seeds: Array.from({ length: count }, (_, at) => at + 1),
    parallel: 10,
    size: { clients: 6, requests: 60 },
    onResult(result) {
      if (result.verdict !== "right") wrong.push(result);
    },
  };
}

/** Runs them, shows what is wrong with those that are, and asks that enough has happened. */
async function expectRight(
  count: number,
  run: (options: CampaignOptions) => Promise<Campaign>,
): Promise<void> {
  const wrong: JudgedHistory[] = [];
  const { verdicts, answers, faults } = await run(share(count, wrong));
  for (const { seed, explanation } of wrong) console.info(`seed ${seed}`, explanation.join("\n"));
  expect(verdicts).toEqual({ right: count, wrong: 0, unknown: 0 });
  // Where nothing was granted, lost or broken, nothing was shown.
  expect(answers).toMatchObject({
    "acquire acquired": expect.any(Number),
    "acquire held": expect.any(Number),
    "acquire unknown": expect.any(Number),
    "renew renewed": expect.any(Number),
    "release released": expect.any(Number),
    "revoke revoked": expect.any(Number),
  });
  expect(Object.values(faults).every((times) => times > 0)).toBe(true);
}

it(
  "are right on memory behind a line that loses requests and answers",
  () => expectRight(10, (options) => runCampaign({ ...options, target: "memory" })),
  TIMEOUT_MS,
);

it(
  "are wrong where clients do not share a memory",
  async () => {
    const split: HistoryTarget = {
      name: "split memory",
      async open(clients) {
        const halves = [await memory().open(systemEnv), await memory().open(systemEnv)] as const;
        return {
          stores: Array.from({ length: clients }, (_, at) => halves[at % 2 === 0 ? 0 : 1].leases),
          direct: halves[0].leases,
          disturb: async () => {},
          faults: () => ({}),
          close: async () => {
            await Promise.all(halves.map((half) => half.close()));
          },
        };
      },
    };
    const wrong: JudgedHistory[] = [];
    const { verdicts } = await makeHistories(split, share(3, wrong));
    expect(verdicts).toEqual({ right: 0, wrong: 3, unknown: 0 });
    expect(wrong[0]?.explanation.join("\n")).toContain("no order explains: ");
  },
  TIMEOUT_MS,
);

describePostgres("histories on PostgreSQL", () => {
  it.each([
    ["through the fault proxy", 20, 60, postgresTarget],
    // Each request may also have been repeated: longer ones can take too long to judge.
    ["behind servers, through the fault proxy", 6, 40, httpTarget],
  ])(
    "are right %s",
    async (_, count, requests, target) => {
      const { url, drop } = await freshDatabase();
      try {
        const size = { clients: 6, requests };
        await expectRight(count, (options) => makeHistories(target(url), { ...options, size }));
      } finally {
        await drop();
      }
    },
    TIMEOUT_MS,
  );
});
