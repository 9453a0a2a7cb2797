/** How keys of leases are loaded. No rule is stated here: store-kit/ decides on what this reads. */
import type { Key } from "../../lease/index.js";
import { EMPTY_QUEUE, type Found } from "../../store-kit/index.js";
import type { Received } from "./objects.js";
import { durationMsOf, isOurs, nextTokenOf, recordOf, viewIn } from "./records.js";
import type { Times } from "./records-changes.js";

/** The object that a save changes, and the clocks when it was loaded. */
export interface Version extends Received, Times {}

export function foundOf(key: Key, received: Received, times: Times): Found<Version> {
  const { object, serverWallMs, trustFromMs } = received;
  const { nowMs } = times;
  const record = recordOf(received);
  return {
    nowMs,
    loaded: {
      record,
      version: { ...received, ...times },
      isPaused: false,
      leastToken: nextTokenOf(object, serverWallMs),
      queue: EMPTY_QUEUE,
      // The store knows only of its own writes since when other clients have seen the grant.
      trustedUntilMs: trustFromMs === null ? null : trustFromMs + durationMsOf(object),
      view: () => (record && isOurs(object, record) ? viewIn(key, received, nowMs) : null),
    },
  };
}
