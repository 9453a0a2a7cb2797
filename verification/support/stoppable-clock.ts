import type { Clock } from "leasehold";
import { systemClock } from "leasehold/internal";

/** A clock that can be frozen. */
export function stoppable(): Clock & { freeze(): void; thaw(): void } {
  let frozen: { wallMs: number; monotonicMs: number } | undefined;
  const due: (() => void)[] = [];
  return {
    wall: () => frozen?.wallMs ?? systemClock.wall(),
    monotonic: () => frozen?.monotonicMs ?? systemClock.monotonic(),
    timer: (delayMs, callback, options) => {
      let cancelled = false;
      const fire = () => {
        if (cancelled) return;
        if (frozen) due.push(fire);
        else callback();
      };
      const timer = systemClock.timer(delayMs, fire, options);
      return {
        cancel() {
          cancelled = true;
          timer.cancel();
        },
      };
    },
    freeze() {
      frozen ??= { wallMs: systemClock.wall(), monotonicMs: systemClock.monotonic() };
    },
    thaw() {
      frozen = undefined;
      for (const fire of due.splice(0)) fire();
    },
  };
}
