/** The filtered event log. While it is paused it shows the events up to the pause. */
import { useState, useSyncExternalStore } from "react";
import { activityLog, type Logged } from "../../data/activity-log.js";
import { type ActivityFilter, fits } from "./activity-text.js";

export interface ReadLog {
  /** Newest first. */
  readonly shown: readonly Logged[];
  /** How many events there are before filtering. */
  readonly received: number;
  readonly paused: boolean;
  /** How many matching events have arrived since the pause. */
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
