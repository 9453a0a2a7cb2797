import { type Failed, InvalidOptionError } from "../lease/index.js";

/**
 * Refuses a claim whose id names a claim of another holder: both would run its tasks. Null if no task that
 * the earlier claim still has is another holder's.
 */
export function refuseAnothersClaim(
  holder: string,
  holders: readonly (string | undefined)[],
): Failed | null {
  const another = holders.find((one) => one !== holder);
  if (another === undefined) return null;
  const remedy = "choose a new claim id at random for each claim";
  const error = new InvalidOptionError(
    "claimId",
    `names a claim of the holder "${another}": ${remedy}`,
  );
  return { status: "failed", applied: "no", retryable: false, error };
}
