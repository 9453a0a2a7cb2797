import type { LeaseStore } from "../../packages/leasehold/src/core/index.js";
import type { OpenedLeaseStore } from "../../packages/leasehold/src/testing/index.js";

interface Engine {
  kill9(): Promise<unknown>;
  start(): Promise<unknown>;
  remove(): Promise<unknown>;
}

interface Stores {
  readonly leases: LeaseStore;
  close(): Promise<void>;
}

/** The store of an engine that survives being killed; `open` is called again after each restart. */
export async function openRestartable(
  engine: Engine,
  open: () => Promise<Stores>,
): Promise<OpenedLeaseStore> {
  let stores = await open();
  return {
    store: stores.leases,
    async restart() {
      const before = stores;
      await engine.kill9();
      await engine.start();
      stores = await open();
      await before.close();
      return stores.leases;
    },
    async close() {
      await stores.close();
      await engine.remove();
    },
  };
}
