/**
 * Stops a long-running process.
 *
 *   SIGINT or SIGTERM ──▶ drain ──▶ exit 0
 *                           └── a second signal ──▶ exit at once, 128 + its number
 *   DRAIN from the parent over IPC ──▶ drain ──▶ exit 0
 *   the parent is gone (the IPC channel closes) ──▶ exit at once: no other process would end this one
 *
 * One Ctrl-C may arrive several times: the terminal signals the whole process group, and a parent such
 * as npm forwards the signal. So a second signal within SAME_REQUEST_MS counts as the same.
 */
import { once } from "node:events";
import { constants } from "node:os";
import type { Clock } from "leasehold";
import { EXIT } from "./exit-codes.js";
import { Exit } from "./failures.js";

const SAME_REQUEST_MS = 500;
/** The message that a parent sends over IPC. */
export const DRAIN = "drain";

export interface Shutdown {
  /** Aborts when the process should drain. Its reason ends with 0 a command that has nothing to drain yet. */
  readonly signal: AbortSignal;
  /** Keeps the process alive until the signal aborts. */
  requested(): Promise<void>;
}

/** Listens until the process ends. */
export function listenForShutdown(clock: Clock): Shutdown {
  const controller = new AbortController();
  const { signal } = controller;
  const stop = () => controller.abort(new Exit(0));
  let firstAtMs: number | undefined;
  const onSignal = (name: "SIGINT" | "SIGTERM") => {
    const nowMs = clock.monotonic();
    if (firstAtMs !== undefined && nowMs - firstAtMs > SAME_REQUEST_MS) {
      process.exit(128 + constants.signals[name]);
    }
    firstAtMs ??= nowMs;
    stop();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  if (process.send) {
    process.on("message", (message) => {
      if (message === DRAIN) stop();
    });
    process.on("disconnect", () => process.exit(EXIT.failed));
    // The channel must not keep a drained process alive.
    process.channel?.unref();
  }
  return {
    signal,
    async requested() {
      // Only keeps the process alive.
      const hold = clock.timer(Infinity, () => {});
      if (!signal.aborted) await once(signal, "abort");
      hold.cancel();
    },
  };
}
