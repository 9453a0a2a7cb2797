import { expect, it } from "vitest";
import { reasonsOf } from "./why.js";

it("names the holder before what only the role of the caller refuses", () => {
  const detail = "an operator's key cannot do this: use a key of holder or admin";
  const pause = {
    namespace: "n",
    kind: "resource" as const,
    name: "r",
    actor: "key:1",
    reason: "because",
  };
  const paused = [{ ...pause, since: "", enforcedBy: "store", refusesHere: true }] as const;
  const found = { lease: null, onceHolder: null, heldMs: null, waiters: [], paused };
  const reasons = reasonsOf("r", { ...found, denied: { code: "FORBIDDEN", detail } });
  expect(reasons.map(({ code }) => code)).toEqual(["paused", "forbidden"]);
  const limited = reasonsOf("r", { ...found, denied: { code: "LIMIT_REACHED", detail: "full" } });
  expect(limited.map(({ code }) => code)).toEqual(["limit", "paused"]);
});
