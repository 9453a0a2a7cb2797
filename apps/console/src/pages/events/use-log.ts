/** The log of events as a reader sees it: held still while it is paused. */
import { useState, useSyncExternalStore } from "react";
import { activityLog, type Logged } from "../../data/activity-log.js";
import { type ActivityFilter, fits } from "./activity-text.js";

export interface ReadLog {
  /** The newest first. */
  readonly shown: readonly Logged[];
  /** So many in all, before the filters. */
  readonly received: number;
  readonly paused: boolean;
  /** So many that fit have come since it was paused. */
  readonly waiting: number;
  readonly pause: () => void;
  readonly resume: () => void;
}

export function useLog(filter: ActivityFilter): ReadLog {
  const now = useSyncExternalStore(activityLog.subscribe, activityLog.entries);
  const [held, setHeld] = useState<readonly Logged[]>();
  const read = held ?? now;
  const lastSeq = held?.at(-1)?.seq ?? 0;
  const waiting = held
    ? now.filter((event) => event.seq > lastSeq && fits(event, filter)).length
    : 0;
  return {
    received: read.length,
    paused: held !== undefined,
    waiting,
    shown: read.filter((event) => fits(event, filter)).toReversed(),
    pause: () => setHeld(now),
    resume: () => setHeld(undefined),
  };
}
