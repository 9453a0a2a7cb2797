/**
 * Leases as Lease objects by the rules:
 *
 *   batch ─▶ GET each object ─▶ rules ─▶ held, lost, ended
 *                 ▲               │ changes
 *                 │ conflict      ▼
 *                 └───────── PUT each, under the resourceVersion that was read
 *
 * Renewals and releases start from the version that this store saw last, without the GET. Acquires read first: by the time that a
 * grant has expired, another contender has often replaced it, and the PUT would fail. Revocations read first, too: operators act on
 * the current grant.
 */
import { type Clock, zip } from "../../env/index.js";
import { type AcquireRequest, failedOutcome, type Grant } from "../../lease/index.js";
import { type Engine, type LeaseOperations, operationsOn } from "../../store-kit/index.js";
import { DEFAULT_BUDGET_MS } from "./connection.js";
import { objectNameOf } from "./keys.js";
import { foundOf, type Version } from "./lease-load.js";
import { saveChange } from "./lease-save.js";
import { inParallel, type LeaseObjects } from "./objects.js";
import { storedIdOf, WHOLE_MS } from "./records.js";

export function operationsByRules(objects: LeaseObjects, clock: Clock): LeaseOperations {
  const general: Engine<Version> = {
    async load(keys, _, timeoutMs) {
      // A key that gets no response fails alone: the others have the other half of the time to be saved.
      const deadlineMs = objects.deadlineMs(keys.length > 1 ? timeoutMs / 2 : timeoutMs);
      const received = await inParallel(keys, (key) =>
        objects.find(key, deadlineMs).catch(failedOutcome),
      );
      const times = objects.times();
      const loaded = zip(keys, received).map(([key, one]) =>
        "status" in one ? one : foundOf(key, one, times).loaded,
      );
      return { nowMs: times.nowMs, keys: loaded };
    },
    save(changes, _, timeoutMs) {
      const deadlineMs = objects.deadlineMs(timeoutMs);
      return inParallel(changes, (change) =>
        saveChange(objects, change, deadlineMs).catch(failedOutcome),
      );
    },
    failed: failedOutcome,
  };
  const control: Engine<Version> = {
    ...general,
    guess(key) {
      const last = objects.observations.get(objectNameOf(key));
      return last ? foundOf(key, { ...last, serverWallMs: null }, objects.times()) : null;
    },
  };
  const options = { clock, timeoutMs: DEFAULT_BUDGET_MS, textOf: () => null };
  const { acquire, revoke } = operationsOn(general, options);
  const { renew, release } = operationsOn(control, options);
  return {
    acquire: (requests, options) => acquire(requests.map(unqueued).map(inSeconds), options),
    renew: (requests, options) => renew(requests.map(inSeconds), options),
    release: (requests, options) => release(requests.map(withStoredId), options),
    revoke,
  };
}

/** There is no wait queue. */
function unqueued({ queueMs: _, ...request }: AcquireRequest): AcquireRequest {
  return request;
}

/** Rounds the TTL up to whole seconds, and takes the lease id as it is stored. */
function inSeconds<Request extends Grant & { readonly ttlMs: number }>(request: Request): Request {
  const ttlMs = Math.ceil(request.ttlMs / WHOLE_MS) * WHOLE_MS;
  return withStoredId({ ...request, ttlMs });
}

function withStoredId<Request extends Grant>(request: Request): Request {
  return { ...request, leaseId: storedIdOf(request.leaseId) };
}
