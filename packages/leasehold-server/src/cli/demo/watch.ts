import type { Env, Stores } from "leasehold";
import { repeat } from "leasehold/internal";
import { GENERATOR_RESOURCE } from "../../generator/shared.js";
import type { DemoEvent } from "./events.js";

const NAMESPACE = "default";
const POLL_MS = 500;

export interface Watch {
  /** Polls a last time. */
  stop(): Promise<void>;
}

/** Polls for state without events: the number of tasks in each state, and the generating instance. */
export function watchStores(stores: Stores, env: Env, take: (event: DemoEvent) => void): Watch {
  const poll = async () => {
    const [counts, [lease]] = await Promise.all([
      stores.tasks.counts(NAMESPACE),
      stores.leases.get([{ namespace: NAMESPACE, resource: GENERATOR_RESOURCE }]),
    ]);
    take({ type: "counts", counts });
    take({ type: "leads", leader: lease?.state === "live" ? lease : null });
  };
  const polling = repeat(env, "poll the stores", POLL_MS, poll);
  return {
    stop: async () => {
      await polling.stop();
      // An unavailable store must not prevent the shutdown.
      await poll().catch(() => {});
    },
  };
}
