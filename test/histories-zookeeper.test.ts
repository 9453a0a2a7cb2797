/** A share of `npm run histories -- --target zookeeper`. */
import { afterAll, expect, it } from "vitest";
import { type JudgedHistory, makeHistories } from "./support/history-campaign.js";
import { onZooKeeper } from "./support/history-target-zookeeper.js";
import { endAll } from "./support/processes.js";
import { describeZooKeeper } from "./support/zookeeper-engine.js";

describeZooKeeper("histories on ZooKeeper", () => {
  afterAll(() => endAll());

  it("are right through the fault proxy", async () => {
    const wrong: JudgedHistory[] = [];
    const { verdicts, answers, faults } = await onZooKeeper((target) =>
      makeHistories(target, {
        seeds: Array.from({ length: 10 }, (_, at) => at + 1),
        parallel: 10,
        size: { clients: 6, requests: 40 },
        onResult: (result) => result.verdict !== "right" && wrong.push(result),
      }),
    );
    for (const { seed, explanation } of wrong) console.info(`seed ${seed}`, explanation.join("\n"));
    expect(verdicts).toEqual({ right: 10, wrong: 0, unknown: 0 });
    // Where nothing was granted, lost or broken, nothing was shown.
    for (const answer of [
      "acquire acquired",
      "acquire held",
      "renew renewed",
      "release released",
    ]) {
      expect(answers[answer], answer).toBeGreaterThan(0);
    }
    expect(Object.values(faults).every((times) => times > 0)).toBe(true);
  });
});
