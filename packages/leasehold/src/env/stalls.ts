import type { Env } from "./env.js";

const EVERY_MS = 100;

/**
 * Measures how late timers of this process fire, until the returned function is called. A blocked event loop, a
 * long garbage collection and a suspended process delay renewals by as much.
 */
export function measureStalls({ telemetry, clock }: Env): () => void {
  if (!telemetry) return () => {};
  const tick = () => {
    const dueMs = clock.monotonic() + EVERY_MS;
    return clock.timer(
      EVERY_MS,
      () => {
        const lateMs = Math.max(0, clock.monotonic() - dueMs);
        telemetry.measure("leasehold.process.stall", {}, lateMs);
        timer = tick();
      },
      { background: true },
    );
  };
  let timer = tick();
  return () => timer.cancel();
}
