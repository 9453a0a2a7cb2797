/** One piece of work that runs on exactly one node, for as long as there is one. */

import { LeaseClient, singletonOver, sleep } from "leasehold/internal";
import { GrantChecker } from "../checkers/grants.js";
import { Register } from "../register.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const RESOURCE = "singleton";
/** Steps of the work after which it is seen to go on. */
const ENOUGH_TICKS = 50;

export function singletons(sim: Simulation): Running {
  const { world, network, ttlMs, driftRatio } = sim;
  const checker = new GrantChecker(world, sim);
  const fenced = new Register(world, RESOURCE, true);
  const control = new Register(world, RESOURCE, false);
  const working = new Map<string, number>();
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
          const running = (working.get(incarnation) ?? 0) + 1;
          working.set(incarnation, running);
          if (running > 1)
            world.violate(
              "a node's work never overlaps itself",
              `${running} at once on ${incarnation}`,
            );
          world.tell(host.name, `leads with token ${lease.token}`);
          try {
            while (checker.mayGoOn(host, lease)) {
              network.send(host.name, "register", () => {
                const last = fenced.lastToken;
                if (!fenced.write(lease.token)) world.cover("stale write refused");
                else if (lease.token < last)
                  world.violate("fenced resource", `${lease.token} after ${last}`);
                control.write(lease.token);
              });
              if (healed) ticksSinceHealed += 1;
              await sleep(clock, ttlMs * 0.2, { signal: lease.signal }).catch(() => {});
              if (!healed && random.float() < 0.02) throw new Error("the work fails now and then");
              if (!healed && random.float() < 0.02) return world.cover("the work ended by itself");
            }
            // It takes its time to stop, and must not be started again meanwhile.
            await sleep(clock, ttlMs * random.float());
          } finally {
            working.set(incarnation, (working.get(incarnation) ?? 1) - 1);
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
    unsettled() {
      if (ticksSinceHealed >= ENOUGH_TICKS) return [];
      const what = `the work ran ${ticksSinceHealed} steps since everything healed`;
      return [{ property: "liveness", what }];
    },
    figures: () => ({
      terms,
      overlaps: checker.overlaps,
      stale: fenced.stale,
      unfenced: control.stale,
    }),
  };
}
