import type { Engine } from "../store-kit/index.js";
import type { OpenedLeaseStore } from "./lease-suite/index.js";

/**
 * Lets the suite act between the load and the save of an engine: pass what it returns as `interleave`. It replaces the engine's
 * `load`.
 * @example
 * ```ts
 * import { operationsOn } from "leasehold/port";
 * import { interleaving } from "leasehold/testing";
 *
 * const engine = {
 *   load: async () => ({ nowMs: 0, keys: [] }),
 *   save: async () => [],
 *   failed: (error) => ({ status: "failed", applied: "no", retryable: false, error }),
 * };
 * const interleave = interleaving(engine);
 * const { acquire } = operationsOn(engine);
 * const stop = interleave(async () => console.log("others act"));
 * await acquire([]);
 * stop();
 * ```
 */
export function interleaving<Version>(
  engine: Engine<Version>,
): NonNullable<OpenedLeaseStore["interleave"]> {
  const load = engine.load.bind(engine);
  let act: (() => Promise<void>) | null = null;
  let isActing = false;
  engine.load = async (...call) => {
    const loaded = await load(...call);
    // What the others do loads keys, too.
    if (act && !isActing) {
      isActing = true;
      await act().finally(() => {
        isActing = false;
      });
    }
    return loaded;
  };
  return (next) => {
    act = next;
    return () => {
      act = null;
    };
  };
}
