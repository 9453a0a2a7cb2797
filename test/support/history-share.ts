/** A share of `npm run histories` as a test: right, each of them, and enough has happened in them. */
import { expect } from "vitest";
import type { Campaign, CampaignOptions, JudgedHistory } from "./history-campaign.js";
import { sums } from "./history-targets.js";

/** On a machine that is busy, a round can pass without a single renewal in time. */
const MAX_ROUNDS = 6;

/**
 * Runs rounds with fresh seeds until each answer of {@link answers} and each kind of fault was
 * seen: where nothing was granted, lost or broken, nothing was shown. A history that is not right
 * is printed, and fails at once.
 */
export async function expectRightHistories(
  run: (options: CampaignOptions) => Promise<Campaign>,
  {
    count,
    requests,
    answers = ["acquire acquired", "acquire held", "renew renewed", "release released"],
  }: { count: number; requests: number; answers?: readonly string[] },
): Promise<void> {
  let seen: { answers: Campaign["answers"]; faults: Campaign["faults"] } = {
    answers: {},
    faults: {},
  };
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const wrong: JudgedHistory[] = [];
    const made = await run({
      seeds: Array.from({ length: count }, (_, at) => round * count + at + 1),
      parallel: 10,
      size: { clients: 6, requests },
      onResult: (result) => result.verdict !== "right" && wrong.push(result),
    });
    for (const { seed, explanation } of wrong) console.info(`seed ${seed}`, explanation.join("\n"));
    expect(made.verdicts).toEqual({ right: count, wrong: 0, unknown: 0 });
    seen = {
      answers: sums([seen.answers, made.answers]),
      faults: sums([seen.faults, made.faults]),
    };
    if (missing(seen, answers).length === 0) return;
  }
  expect(missing(seen, answers), "never seen").toEqual([]);
}

function missing(
  seen: Pick<Campaign, "answers" | "faults">,
  answers: readonly string[],
): readonly string[] {
  const faults = Object.keys(seen.faults).filter((fault) => !seen.faults[fault]);
  return [...answers.filter((answer) => !seen.answers[answer]), ...faults];
}
