/** Why a resource is not granted although it has no holder. */
import { LeaseholdError, type LeaseStores, LeaseUnavailableError } from "leasehold";
import { type Key, PAUSED_HOLDER, type Pause, pausesOf } from "leasehold/internal";
import type { Where } from "./options.js";
import { openLeasesAndControl } from "./stores.js";

/**
 * The pauses that stop the resource from being granted; undefined if the store keeps no pauses.
 * @throws STORE_MISCONFIGURED if an API key may not read them: a server of an older version needs the prefix ""
 */
export async function pausesFor(
  { namespace, resource }: Key,
  { control, operator }: LeaseStores,
): Promise<readonly Pause[] | undefined> {
  const pauses = await (control ?? operator)?.pauses.list(namespace);
  return pauses && pausesOf(resource, pauses);
}

/**
 * Who refuses acquires because of a pause. `store`: the store itself, every acquire, at once. `servers`: only servers,
 * within seconds; callers of the store itself are granted what is paused.
 */
export type EnforcedBy = "store" | "servers";

/** Servers enforce pauses of prefixes and queues, and those of resources whose leases are kept apart from the pauses. */
export function enforcedBy(
  { kind }: Pick<Pause, "kind">,
  { control }: Pick<LeaseStores, "control">,
): EnforcedBy {
  return kind === "resource" && control && !control.leasesApart ? "store" : "servers";
}

/** Whether a pause refuses the callers of these stores. Without direct access to the pauses, they are a server's. */
export function refusesHere(
  pause: Pick<Pause, "kind">,
  stores: Pick<LeaseStores, "control">,
): boolean {
  return stores.control === undefined || enforcedBy(pause, stores) === "store";
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
      const pauses = (await pausesFor({ namespace, resource }, stores)) ?? [];
      const pause = pauses.find((one) => refusesHere(one, stores));
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
