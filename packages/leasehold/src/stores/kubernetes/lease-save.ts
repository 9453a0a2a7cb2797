/**
 * How decisions about keys are saved: each as the next version of the object that was loaded. No rule is stated here.
 *
 *   PUT ──▶ 200: saved
 *    │ ├──▶ 409, 404: another client wrote first
 *    │ └──▶ no response: unknown (`maybe`)
 *    └── no object yet: POST a free one, on which the key is decided anew, because the token needs its revision
 */
import { type Change, mayStillSave, type SaveResult } from "../../store-kit/index.js";
import { foundOf, type Version } from "./lease-load.js";
import type { LeaseObjects } from "./objects.js";
import { durationMsOf, recordOf, WHOLE_MS } from "./records.js";
import { freedIn, grantedIn, isVisiblyChanged, renewedIn, revokedIn } from "./records-changes.js";

export async function saveChange(
  objects: LeaseObjects,
  change: Change<Version>,
  deadlineMs: number,
): Promise<SaveResult<Version>> {
  const { version, record, changesGrant } = change;
  const { object, nowMs, trustFromMs } = version;
  const before = recordOf(version);
  if (record === null) return true;
  const current = { record: before, tokenFloor: 0 };
  if (!mayStillSave(change, current, objects.times().nowMs)) return false;
  if (object.metadata.resourceVersion === undefined) {
    const created = await objects.create(object, deadlineMs);
    return created !== null && foundOf(change, created, objects.times());
  }
  const next = (build: typeof grantedIn) => build(object, change, record, version);
  if (record.expiresAtMs <= nowMs) return objects.put(next(freedIn), deadlineMs);
  if (record.ended) {
    // Another write would extend the grant.
    if (before?.ended) return true;
    const revoked = next(revokedIn);
    return (await objects.put(revoked, deadlineMs)) && { freeInMs: durationMsOf(revoked) };
  }
  const granted = next(changesGrant ? renewedIn : grantedIn);
  // Other clients count from when they see the object change, so a write that looks like the previous one extends nothing. One by
  // another client that looks the same is less than a second old.
  const fromMs = isVisiblyChanged(object, granted) ? nowMs : (trustFromMs ?? nowMs - WHOLE_MS);
  if (!(await objects.put(granted, deadlineMs, fromMs))) return false;
  // Rounded down, so that the holder stops early rather than late.
  return { remainingMs: Math.max(0, Math.floor(fromMs + durationMsOf(granted) - nowMs)) };
}
