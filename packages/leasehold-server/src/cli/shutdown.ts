/**
 * How a process that runs until it is told to stop is told.
 *
 *   SIGINT or SIGTERM ──▶ drain ──▶ exit 0
 *                           └── a second signal ──▶ exit at once, 128 + its number
 *   DRAIN from the parent over IPC ──▶ drain ──▶ exit 0
 *   the parent is gone (the IPC channel closes) ──▶ exit at once: nobody would end us otherwise
 *
 * One Ctrl-C may arrive several times: from the terminal to the whole process group, and again from
 * a parent such as npm that passes signals on. So a signal that follows at once counts as the same.
 */
import { once } from "node:events";
import { constants } from "node:os";
import type { Clock } from "leasehold";
import { EXIT } from "./exit-codes.js";

const SAME_REQUEST_MS = 500;
/** What a parent sends over IPC. */
export const DRAIN = "drain";
/** As long as a timer can be: it only holds the process open. */
const LONG_MS = 2 ** 31 - 1;

export interface Shutdown {
  /** Aborts when the process should drain. */
  readonly signal: AbortSignal;
  /** Holds the process open until then. */
  requested(): Promise<void>;
}

/** Listens from now on until the process ends. */
export function listenForShutdown(clock: Clock): Shutdown {
  const controller = new AbortController();
  const { signal } = controller;
  let firstAtMs: number | undefined;
  const onSignal = (name: "SIGINT" | "SIGTERM") => {
    const nowMs = clock.monotonic();
    if (firstAtMs !== undefined && nowMs - firstAtMs > SAME_REQUEST_MS) {
      process.exit(128 + constants.signals[name]);
    }
    firstAtMs ??= nowMs;
    controller.abort();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  if (process.send) {
    process.on("message", (message) => {
      if (message === DRAIN) controller.abort();
    });
    process.on("disconnect", () => process.exit(EXIT.failed));
    // It must not hold open a process that has drained.
    process.channel?.unref();
  }
  return {
    signal,
    async requested() {
      const hold = clock.timer(LONG_MS, () => {});
      if (!signal.aborted) await once(signal, "abort");
      hold.cancel();
    },
  };
}
