/** A share of `npm run verify -- histories` as a test: right, each of them, and enough has happened in them. */
import { expect } from "vitest";
import type { Campaign, CampaignOptions, JudgedHistory } from "./campaign.js";
import { sums } from "./targets.js";

/** Enough for all rounds: a machine with much else to do takes a minute for one. */
export const ROUNDS_TIMEOUT_MS = 400_000;

/** On a machine that is busy, a round can pass without a single renewal in time. */
const MAX_ROUNDS = 6;

/**
 * Runs rounds with fresh seeds until `count` histories were right and each answer of {@link answers}
 * and each kind of fault was seen: where nothing was granted, lost or broken, nothing was shown. A
 * history that is wrong is printed, and fails at once; one that is too hard to judge says nothing, and
 * another is made in its place.
 */
export async function expectRightHistories(
  run: (options: CampaignOptions) => Promise<Campaign>,
  {
    count,
    requests,
    answers = ["acquire acquired", "acquire held", "renew renewed", "release released"],
  }: { count: number; requests: number; answers?: readonly string[] },
): Promise<void> {
  let right = 0;
  let seen: { answers: Campaign["answers"]; faults: Campaign["faults"] } = {
    answers: {},
    faults: {},
  };
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const others: JudgedHistory[] = [];
    const made = await run({
      seeds: Array.from({ length: count }, (_, at) => round * count + at + 1),
      parallel: 10,
      size: { clients: 6, requests },
      onResult: (result) => result.verdict !== "right" && others.push(result),
    });
    const textOf = ({ seed, verdict, explanation }: JudgedHistory) =>
      `seed ${seed}: ${verdict}\n${explanation.join("\n")}`;
    for (const history of others) console.info(textOf(history));
    const wrong = others.filter(({ verdict }) => verdict === "wrong");
    expect(made.verdicts.wrong, wrong.map(textOf).join("\n")).toBe(0);
    right += made.verdicts.right;
    seen = {
      answers: sums([seen.answers, made.answers]),
      faults: sums([seen.faults, made.faults]),
    };
    if (right >= count && missing(seen, answers).length === 0) return;
  }
  expect(right, "were right").toBeGreaterThanOrEqual(count);
  expect(missing(seen, answers), "never seen").toEqual([]);
}

function missing(
  seen: Pick<Campaign, "answers" | "faults">,
  answers: readonly string[],
): readonly string[] {
  const faults = Object.keys(seen.faults).filter((fault) => !seen.faults[fault]);
  return [...answers.filter((answer) => !seen.answers[answer]), ...faults];
}
