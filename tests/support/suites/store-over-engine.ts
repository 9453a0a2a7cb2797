/** A store in which the rules alone decide, on what its engine loads and saves, while others act in between. */
import { ClosedError, type LeaseStore } from "../../../packages/leasehold/src/lease/index.js";
import {
  type Engine,
  type OperationsOptions,
  operationsOn,
} from "../../../packages/leasehold/src/store-kit/index.js";
import { interleaving } from "../../../packages/leasehold/src/testing/index.js";

/**
 * @param others what the store has beside those operations
 * @param engineOf an engine that calls the function before it loads or saves: it throws once the store is closed
 */
export function storeOverEngine<Version>(
  others: LeaseStore,
  engineOf: (assertOpen: () => void) => Engine<Version>,
  options?: OperationsOptions,
) {
  let isClosed = false;
  const engine = engineOf(() => {
    if (isClosed) throw new ClosedError("the store");
  });
  const interleave = interleaving(engine);
  const store: LeaseStore = {
    capabilities: others.capabilities,
    ...operationsOn(engine, options),
    get: (keys) => others.get(keys),
    list: (query) => others.list(query),
    watch: (...call) => others.watch(...call),
    collect: (olderThanMs) => others.collect(olderThanMs),
    async close() {
      isClosed = true;
      await others.close();
    },
  };
  return { store, interleave };
}
