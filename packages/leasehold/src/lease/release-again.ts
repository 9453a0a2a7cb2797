/** What follows a release that failed: until it is confirmed, contenders wait for the expiry of the grant. */
import { Backoff, type Env, sleep } from "../env/index.js";
import type { Failed, ReleaseOutcome } from "./port.js";

export const RELEASE_TIMEOUT_MS = 5_000;
const TRIES = 3;
const RETRY = { firstMs: 50, longestMs: 100 };

/** @throws the error of the last try */
export async function releaseAgain(
  actions: { release(timeoutMs: number): Promise<ReleaseOutcome> },
  failed: Failed,
  { clock, random }: Env,
): Promise<void> {
  const backoff = new Backoff(random, RETRY);
  let last = failed;
  for (let tries = 1; last.retryable && tries < TRIES; tries += 1) {
    await sleep(clock, backoff.nextMs());
    const outcome = await actions.release(RELEASE_TIMEOUT_MS);
    if (outcome.status !== "failed") return;
    last = outcome;
  }
  throw last.error;
}
