/** What is made of the verdicts of both checkers, and of a campaign's, by hand. */
import { describe, expect, it, vi } from "vitest";
import {
  acquire,
  acquired,
  held,
  release,
  released,
  renew,
  renewed,
  revoke,
  revoked,
} from "../../tests/support/worlds/history-entries.js";
import { type Campaign, type JudgedHistory, judged } from "./campaign.js";
import { expectRightHistories } from "./share.js";

describe("a history", () => {
  const A = acquire([0, 1], "A", acquired(1));
  const judge = (entries: readonly object[], target = {}) =>
    judged(target, { seed: 1, entries: entries as never, faults: {}, answers: {} });

  it("is right if both checkers pass it", () => {
    const { verdict, explanation } = judge([A, release([2, 3], "A", released)]);
    expect({ verdict, explanation }).toEqual({ verdict: "right", explanation: [] });
  });

  it("is wrong if one of them does not, and says why", () => {
    const late = judge([A, renew([110, 111], "A", renewed(1))]);
    expect(late.verdict).toBe("wrong");
    expect(late.explanation.join("\n")).toContain("no order explains: 110.0..111.0");
    // Both allow for what clocks may be off, the one more than the other.
    const two = judge([A, acquire([97, 98], "B", acquired(2))]);
    expect(two.verdict).toBe("wrong");
    expect(two.explanation).toHaveLength(4);
    expect(two.explanation[0]).toBe("overlap:");
  });

  it("is right if an acquire without an answer explains it, whose grant only a token reports, too", () => {
    const lost = [0, 1, 2, 3].map((at) => acquire([at, at], `lost ${at}`, "unknown"));
    const reported = { ...held("lost 2"), grantId: "lost 2" as never };
    const byAnswer = [acquire([4, 5], "B", reported)];
    const byToken = [revoke([4, 5], {}, revoked(7)), acquire([6, 7], "B", acquired(8))];
    for (const answers of [byAnswer, byToken]) {
      expect(judge([...lost, ...answers]).verdict).toBe("right");
      expect(judge(answers).verdict).toBe("wrong");
    }
  });

  it("is judged by what its store promises", () => {
    const late = [A, acquire([110, 111], "B", held("A"))];
    expect([judge(late).verdict, judge(late, { lateMs: 50 }).verdict]).toEqual(["wrong", "right"]);
  });
});

describe("a share of histories", () => {
  type Made = Pick<Campaign, "answers" | "faults"> & { readonly verdict: JudgedHistory["verdict"] };
  /** Two histories in each round, of which the later rounds are as the last one given. */
  const share = (...rounds: readonly Made[]) => {
    let round = 0;
    const run = vi.fn(async (): Promise<Campaign> => {
      const { verdict, ...made } = rounds[Math.min(round, rounds.length - 1)]!;
      round += 1;
      const verdicts = { right: 0, wrong: 0, unknown: 0, [verdict]: 2 };
      return { ...made, verdicts, requests: 1 };
    });
    const options = { count: 2, requests: 1, answers: ["renew renewed"] };
    return { run, done: expectRightHistories(run, options) };
  };
  const right: Made = { verdict: "right", answers: { "renew renewed": 1 }, faults: { cut: 1 } };

  it("passes when enough were right and all was seen", async () => {
    const { run, done } = share(right);
    await done;
    expect(run).toHaveBeenCalledOnce();
  });

  it("makes others where some were too hard, or something was not seen", async () => {
    for (const first of [
      { ...right, verdict: "unknown" } as const,
      { ...right, answers: {} },
      { ...right, faults: { cut: 0 } },
    ]) {
      const { run, done } = share(first, right);
      await done;
      expect(run).toHaveBeenCalledTimes(2);
    }
  });

  it.each<[string, Made, string]>([
    ["one was wrong", { ...right, verdict: "wrong" }, "to be +0"],
    ["too few were right", { ...right, verdict: "unknown" }, "were right"],
    ["an answer was never seen", { ...right, answers: {} }, "never seen"],
    ["a fault never happened", { ...right, faults: { cut: 0 } }, "never seen"],
  ])("fails when %s", async (_, made, message) => {
    await expect(share(made).done).rejects.toThrow(message);
  });
});
