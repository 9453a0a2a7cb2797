import type { Engine } from "../store-kit/index.js";
import type { OpenedLeaseStore } from "./lease-suite/index.js";

/**
 * Lets the suite act between the load and the save of an engine: pass what it returns as `interleave`. It replaces the engine's
 * `save`.
 * @example
 * ```ts
 * import { EMPTY_QUEUE, operationsOn } from "leasehold/port";
 * import { interleaving } from "leasehold/testing";
 *
 * const free = { record: null, version: 1, isPaused: false, leastToken: 1, queue: EMPTY_QUEUE };
 * const engine = {
 *   load: async (keys) => ({ nowMs: 0, keys: keys.map(() => free) }),
 *   save: async (changes) => changes.map(() => true),
 *   failed: (error) => ({ status: "failed", applied: "no", retryable: false, error }),
 * };
 * const interleave = interleaving(engine);
 * const { acquire } = operationsOn(engine);
 * const stop = interleave(async () => console.log("others act"));
 * const grant = { namespace: "default", resource: "report", leaseId: "a".repeat(48) };
 * const [outcome] = await acquire([{ ...grant, holder: "web-1", ttlMs: 30_000 }]);
 * console.log(outcome.status);
 * stop();
 * ```
 */
export function interleaving<Version>(
  engine: Engine<Version>,
): NonNullable<OpenedLeaseStore["interleave"]> {
  const save = engine.save.bind(engine);
  let act: (() => Promise<void>) | null = null;
  let isActing = false;
  engine.save = async (...call) => {
    // What the others do is saved, too.
    if (act && !isActing) {
      isActing = true;
      await act().finally(() => {
        isActing = false;
      });
    }
    return save(...call);
  };
  return (next) => {
    act = next;
    return () => {
      act = null;
    };
  };
}
