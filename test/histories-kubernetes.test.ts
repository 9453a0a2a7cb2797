/** A share of `npm run histories -- --target kubernetes`. */
import { expect, it } from "vitest";
import { type JudgedHistory, makeHistories } from "./support/history-campaign.js";
import { onKubernetes } from "./support/history-target-kubernetes.js";

it("are right on Kubernetes through the fault proxy", async () => {
  const wrong: JudgedHistory[] = [];
  const { verdicts, answers, faults } = await onKubernetes((target) =>
    makeHistories(target, {
      seeds: Array.from({ length: 6 }, (_, at) => at + 1),
      parallel: 6,
      size: { clients: 6, requests: 60 },
      onResult: (result) => result.verdict !== "right" && wrong.push(result),
    }),
  );
  for (const { seed, explanation } of wrong) console.info(`seed ${seed}`, explanation.join("\n"));
  expect(verdicts).toEqual({ right: 6, wrong: 0, unknown: 0 });
  // Where nothing was granted, lost or broken, nothing was shown.
  for (const answer of ["acquire acquired", "acquire held", "renew renewed", "release released"]) {
    expect(answers[answer], answer).toBeGreaterThan(0);
  }
  expect(Object.values(faults).every((times) => times > 0)).toBe(true);
});
