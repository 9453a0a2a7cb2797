/**
 * A share of `npm run verify -- histories`: small ones, on each store, with the same faults.
 * @module-tag safety
 */

import { systemEnv } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { expect, it } from "vitest";
import { describePostgres, freshDatabase } from "../../tests/support/engines/postgres.js";
import { repetitions } from "../../tests/support/runner/full.js";
import { type JudgedHistory, makeHistories, runCampaign } from "./campaign.js";
import { expectRightHistories, ROUNDS_TIMEOUT_MS } from "./share.js";
import { type HistoryTarget, httpTarget, postgresTarget } from "./targets.js";

const ANSWERS = [
  "acquire acquired",
  "acquire held",
  "acquire unknown",
  "renew renewed",
  "release released",
  "revoke revoked",
];

it(
  "are right on memory behind a line that loses requests and answers",
  () =>
    expectRightHistories((options) => runCampaign({ ...options, target: "memory" }), {
      count: 5,
      requests: 60,
      answers: ANSWERS,
    }),
  ROUNDS_TIMEOUT_MS,
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
    const { verdicts } = await makeHistories(split, {
      seeds: [1, 2, 3],
      parallel: 3,
      size: { clients: 6, requests: 60 },
      onResult: (result) => wrong.push(result),
    });
    expect(verdicts).toEqual({ right: 0, wrong: 3, unknown: 0 });
    expect(wrong[0]?.explanation.join("\n")).toContain("no order explains: ");
  },
  ROUNDS_TIMEOUT_MS,
);

describePostgres("histories on PostgreSQL", () => {
  it.each([
    ["through the fault proxy", repetitions({ usual: 5, full: 10 }), 60, postgresTarget],
    ["behind servers, through the fault proxy", 4, 60, httpTarget],
  ])(
    "are right %s",
    async (_, count, requests, target) => {
      const { url, drop } = await freshDatabase();
      try {
        await expectRightHistories((options) => makeHistories(target(url), options), {
          count,
          requests,
          answers: ANSWERS,
        });
      } finally {
        await drop();
      }
    },
    ROUNDS_TIMEOUT_MS,
  );
});
