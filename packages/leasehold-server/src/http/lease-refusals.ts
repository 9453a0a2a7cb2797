/** What the server refuses of an acquire by itself: for a paused resource, and by a lease id that another holder uses. */
import { InvalidOptionError, type LeaseStore } from "leasehold";
import {
  type AcquireOutcome,
  type AcquireRequest,
  asStoreError,
  grantIdOf,
  PAUSED_HOLDER,
} from "leasehold/internal";

/**
 * The outcome of an acquire for a paused resource: `held`, or `ended` if the request repeats the one that the last grant
 * came from. Null if the resource is not paused, or if that grant is live.
 */
export async function refuseIfPaused(
  paused: boolean | Promise<boolean>,
  leases: Pick<LeaseStore, "get">,
  { namespace, resource, leaseId }: AcquireRequest,
): Promise<AcquireOutcome | null> {
  try {
    if (!(await paused)) return null;
    const [last] = await leases.get([{ namespace, resource }]);
    // If the grant is live, the store compares the whole lease id. If it has ended, the store would grant the resource to
    // another lease id with this grant id.
    if (last?.grantId === grantIdOf(leaseId)) {
      return last.state === "live" ? null : { status: "ended" };
    }
    return { status: "held", holder: PAUSED_HOLDER, grantId: null, remainingMs: null };
  } catch (cause) {
    const error = asStoreError(cause, "no");
    return { status: "failed", applied: "no", retryable: error.retryable, error };
  }
}

/**
 * Whether an acquired grant may be older than its request. It is new if it has replaced another one or, by a store's
 * clock of milliseconds, as much of it is left as a new one has. So on such a store, a repetition within a millisecond
 * passes.
 */
export function mayBeAnothers(
  outcome: AcquireOutcome,
  { capabilities: { clock, ttl } }: Pick<LeaseStore, "capabilities">,
  { ttlMs }: AcquireRequest,
): boolean {
  if (outcome.status !== "acquired" || outcome.replaced) return false;
  const offMs = outcome.remainingMs - ttlMs;
  // Whole seconds hide a repetition, and so does a session or an observer, for which each answer has all of its TTL.
  const tellsAge = clock === "store" && ttl.stepMs === 1;
  return !tellsAge || offMs < -1 || offMs > 1;
}

/**
 * Refuses a lease id that names the grant of another holder: two callers with one lease id would both have the lease.
 */
export async function refuseIfAnothers(
  leases: Pick<LeaseStore, "get">,
  { namespace, resource, leaseId, holder }: AcquireRequest,
): Promise<AcquireOutcome | null> {
  // A repeated request after a lost answer must not fail because this read does.
  const [last] = await leases.get([{ namespace, resource }]).catch(() => []);
  if (last?.grantId !== grantIdOf(leaseId) || last.holder === holder) return null;
  const error = new InvalidOptionError(
    "leaseId",
    `names a grant of the holder "${last.holder}": choose a new lease id at random for each acquire`,
  );
  return { status: "failed", applied: "no", retryable: false, error };
}
