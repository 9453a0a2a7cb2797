/** A clock that all threads of a process share, for Node alone. */
import { type Clock, systemClock } from "./clock.js";

/** `performance.now()` counts from the start of its thread, and `process.hrtime()` from one time for all. */
export const processClock: Clock = {
  ...systemClock,
  monotonic() {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1_000 + nanoseconds / 1_000_000;
  },
};
