/** Why a resource is not granted although it has no holder. */
import { LeaseholdError, type LeaseStores, LeaseUnavailableError } from "leasehold";
import { type Key, type Pause, pausesOf } from "leasehold/internal";
import { PAUSED_HOLDER } from "leasehold/port";
import type { Where } from "./options.js";
import { openLeasesAndControl } from "./stores.js";

/** The pauses that stop the resource from being granted; undefined if the store keeps no pauses. */
export async function pausesFor(
  { namespace, resource }: Key,
  { control, operator }: LeaseStores,
): Promise<readonly Pause[] | undefined> {
  const pauses = await (control ?? operator)?.pauses.list(namespace).catch(ifPermitted);
  return pauses && pausesOf(resource, pauses);
}

/** An API key may lack the right to read more than leases, and a server may keep nothing more. */
export function ifPermitted(error: unknown): undefined {
  if (error instanceof LeaseholdError && !error.retryable) return undefined;
  throw error;
}

/** The error, or for a resource that is paused one that names who paused it and why. */
export async function withPauses(
  error: unknown,
  where: Where,
  namespace: string,
): Promise<unknown> {
  if (!(error instanceof LeaseUnavailableError) || error.holder !== PAUSED_HOLDER) return error;
  const { resource, waitedMs } = error;
  try {
    const stores = await openLeasesAndControl(where);
    try {
      const [pause] = (await pausesFor({ namespace, resource }, stores)) ?? [];
      if (!pause) return error;
      const by = `${pause.actor}: ${pause.reason}`;
      return new LeaseUnavailableError(resource, waitedMs, PAUSED_HOLDER, by);
    } finally {
      await stores.close();
    }
  } catch {
    // The first error says enough.
    return error;
  }
}
