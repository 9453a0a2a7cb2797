import type { Env, Stores } from "leasehold";
import { GENERATOR_RESOURCE, repeat } from "leasehold/internal";
import type { DemoEvent } from "./events.js";

const NAMESPACE = "default";
const LOOK_EVERY_MS = 500;

export interface Watch {
  /** Looks a last time. */
  stop(): Promise<void>;
}

/** Looks at what no event tells: how many tasks are in each state, and who generates. */
export function watchStores(stores: Stores, env: Env, take: (event: DemoEvent) => void): Watch {
  const look = async () => {
    const [counts, [lease]] = await Promise.all([
      stores.tasks.counts(NAMESPACE),
      stores.leases.get([{ namespace: NAMESPACE, resource: GENERATOR_RESOURCE }]),
    ]);
    take({ type: "counts", counts });
    take({ type: "leads", leader: lease?.state === "live" ? lease : null });
  };
  const looking = repeat(env, "look at the stores", LOOK_EVERY_MS, look);
  return {
    stop: async () => {
      await looking.stop();
      // A store that has gone away does not keep us from ending.
      await look().catch(() => {});
    },
  };
}
