import { silentLogger } from "../../../packages/leasehold/src/env/index.js";
import { connect, openStores } from "../../../packages/leasehold/src/index.js";
import { type Leasehold, leasesOf } from "../../../packages/leasehold/src/leasehold.js";
import { onceOver } from "../../../packages/leasehold/src/once/once.js";
import type { OnceStore } from "../../../packages/leasehold/src/once/port.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { instead } from "./instead.js";

let names = 0;

/** Two clients of one memory store under a manual clock, and its records of `once`. */
export async function onceWorld() {
  const env = manualEnv({ logger: { ...silentLogger } });
  const name = `memory:once-${names++}`;
  const stores = await openStores(name, { env });
  const client = (holder: string) => connect(name, { env, holder });
  const records = stores.once as OnceStore;
  const view = (key: string) => records.get({ namespace: "default", key });
  return { env, records, view, a: await client("a"), b: await client("b") };
}

/** `once` of a client over records of which some methods are replaced. */
export function onceWith(client: Leasehold, records: OnceStore, changed: Partial<OnceStore>) {
  return onceOver(instead(records, changed), leasesOf(client), false);
}
