import { type Failed, InvalidOptionError } from "../core/index.js";
import type { ClaimRequest } from "./port.js";
import { FIRST_VERSION } from "./values.js";

/** The largest version of a kind that a claim takes. A claim for any kind takes any version. */
export function versionTaken(
  { kinds, versions }: Pick<ClaimRequest, "kinds" | "versions">,
  kind: string,
): number {
  if (!kinds) return Number.POSITIVE_INFINITY;
  return versions && Object.hasOwn(versions, kind)
    ? (versions[kind] ?? FIRST_VERSION)
    : FIRST_VERSION;
}

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
