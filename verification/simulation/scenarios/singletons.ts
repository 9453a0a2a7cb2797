/** One piece of work that runs on exactly one node, for as long as there is one. */

import { LeaseClient, singletonOver, sleep } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import { GrantChecker } from "../checkers/grants.js";
import { idleWork } from "../checkers/rest.js";
import { WorkChecker } from "../checkers/work.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const RESOURCE = "singleton";

export function singletons(sim: Simulation): Running {
  const { world, network, ttlMs, driftRatio } = sim;
  const checker = new GrantChecker(world, sim);
  const fence = new FenceChecker(world, RESOURCE);
  const working = new WorkChecker(world);
  let terms = 0;
  let ticksSinceHealed = 0;
  let healed = false;

  return {
    onStep: (step) => checker.step(step),
    start(host, stores) {
      const { clock, random } = host.env;
      const client = new LeaseClient(
        stores.leases,
        { env: host.env, namespace: NAMESPACE },
        { close: undefined },
      );
      const incarnation = `${host.name}/${Math.floor(random.float() * 2 ** 32)}`;
      singletonOver(
        client,
        RESOURCE,
        async (lease) => {
          terms += 1;
          checker.watch(host, lease);
          working.begin(incarnation);
          world.tell(host.name, `leads with token ${lease.token}`);
          try {
            while (checker.mayGoOn(host, lease)) {
              network.send(host.name, "register", () => fence.write(lease.token));
              if (healed) ticksSinceHealed += 1;
              await sleep(clock, ttlMs * 0.2, { signal: lease.signal }).catch(() => {});
              if (!healed && random.float() < 0.02) throw new Error("the work fails now and then");
              if (!healed && random.float() < 0.02) return world.cover("the work ended by itself");
            }
            // It takes its time to stop, and must not be started again meanwhile.
            await sleep(clock, ttlMs * random.float());
          } finally {
            working.end(incarnation);
          }
        },
        { ttlMs, driftRatio, restartDelayMs: 100, maxRestartDelayMs: ttlMs },
      ).start();
    },
    revoke() {
      const free = world.chance(0.5) ? "now" : "atExpiry";
      void sim.kept.leases.revoke([{ namespace: NAMESPACE, resource: RESOURCE, free }]);
    },
    onHealed() {
      healed = true;
    },
    unsettled: () => idleWork(ticksSinceHealed),
    figures: () => ({ terms, overlaps: checker.overlaps, ...fenceFigures([fence]) }),
  };
}
