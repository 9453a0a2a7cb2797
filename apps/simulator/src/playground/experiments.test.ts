import { describe, expect, it } from "vitest";
import { EXPERIMENTS, Playground, QUIZ } from "./index.js";

/** The choice that each explanation calls right. */
const SHOWN = {
  cost: "steady",
  crash: "drained",
  pause: "refused",
  unfenced: "older",
  release: "moment",
  follower: "nothing",
  short: "no",
  partition: "clock",
  drift: "both",
  lostAnswer: "same",
  herd: "one",
};

describe("experiments", () => {
  it("are all listed here", () => {
    expect(EXPERIMENTS.map(({ id }) => id)).toEqual(Object.keys(SHOWN));
  });

  it.each(EXPERIMENTS)("$id shows what its explanation says, for any seed", async (experiment) => {
    const { script, untilMs, shown, choices, id } = experiment;
    for (const seed of [1, 2, 3]) {
      const playground = new Playground({ ...script(), seed });
      expect(shown(playground.frame)).toBe(null);
      expect(shown(await playground.runTo(untilMs))).toBe(SHOWN[id as keyof typeof SHOWN]);
    }
    expect(choices.map((choice) => choice.id)).toContain(SHOWN[id as keyof typeof SHOWN]);
    expect(choices.length).toBeGreaterThan(1);
  });

  it("show another result under other conditions", async () => {
    const short = EXPERIMENTS.find(({ id }) => id === "short");
    if (!short) return expect.unreachable();
    const script = short.script();
    const settings = { ...script.settings, ttlMs: 10_000, renewEveryMs: 3_000 };
    const playground = new Playground({ ...script, settings });
    expect(short.shown(await playground.runTo(short.untilMs))).toBe("yes");
  });
});

it.each(QUIZ)("the question $id has one right choice", ({ choices, right, explanation }) => {
  expect(choices.filter(({ id }) => id === right)).toHaveLength(1);
  expect(new Set(choices.map(({ id }) => id)).size).toBe(choices.length);
  expect(explanation).toMatch(/\.$/);
});
