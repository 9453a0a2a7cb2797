import { expect, it } from "vitest";
import { manualEnv } from "../testing/index.js";
import { StoreUnavailableError } from "./errors.js";
import type { Failed } from "./port.js";
import { releaseAgain } from "./release-again.js";

const failed = (retryable: boolean): Failed => {
  const error = new StoreUnavailableError("cut off", { outcome: "unknown" });
  return { status: "failed", applied: "maybe", retryable, error };
};

it.each([
  ["twice, if that may help", true, 2],
  ["not at all, if that does not help", false, 0],
])("a release that fails again and again is repeated %s", async (_, retryable, repetitions) => {
  const env = manualEnv();
  const failures: Failed[] = [];
  const release = async () => {
    const failure = failed(retryable);
    failures.push(failure);
    return failure;
  };
  const first = failed(retryable);
  const releasing = releaseAgain({ release }, first, env).catch((error: unknown) => error);
  await env.clock.advance(10_000);
  expect(await releasing).toBe((failures.at(-1) ?? first).error);
  expect(failures).toHaveLength(repetitions);
});
