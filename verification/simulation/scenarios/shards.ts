/** Members that share the shards of one piece of work, while they come, go and fail. */

import type { Shards } from "leasehold";
import { LeaseClient, shardsOver, sleep } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import { GrantChecker } from "../checkers/grants.js";
import { unevenShards } from "../checkers/rest.js";
import { WorkChecker } from "../checkers/work.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const NAME = "parts";

export function shards(sim: Simulation): Running {
  const { world, network, ttlMs, driftRatio } = sim;
  const checker = new GrantChecker(world, sim);
  const count = world.pick([1, 5, 24]);
  const parts = Array.from({ length: count }, (_, shard) => shard);
  const fences = parts.map((shard) => new FenceChecker(world, `part ${shard}`));
  const working = new WorkChecker(world);
  const members = new Map<string, Shards>();
  let terms = 0;

  return {
    onStep: (step) => checker.step(step),
    start(host, stores) {
      const { clock, random } = host.env;
      const holder = `${host.name}/${Math.floor(random.float() * 2 ** 32)}`;
      const options = { env: host.env, namespace: NAMESPACE, holder };
      const client = new LeaseClient(stores.leases, options, { close: undefined });
      const member = shardsOver(client, NAME, {
        count,
        ttlMs,
        driftRatio,
        pollIntervalMs: ttlMs / 3,
        async work(shard, lease) {
          terms += 1;
          checker.watch(host, lease);
          const own = `${holder} on ${shard}`;
          working.begin(own);
          try {
            while (checker.mayGoOn(host, lease) && !lease.signal.aborted) {
              network.send(host.name, "register", () => fences[shard]?.write(lease.token));
              await sleep(clock, ttlMs * 0.4, { signal: lease.signal }).catch(() => {});
            }
            await sleep(clock, ttlMs * random.float() * 0.3);
          } finally {
            working.end(own);
          }
        },
      }).start();
      members.set(host.name, member);
    },
    revoke() {
      const resource = world.pick([
        `${NAME}/coordinator`,
        `${NAME}/plan`,
        ...parts.map((shard) => `${NAME}/shards/${shard}`),
      ]);
      const free = world.chance(0.5) ? "now" : "atExpiry";
      void sim.kept.leases.revoke([{ namespace: NAMESPACE, resource, free }]);
    },
    onHealed() {},
    unsettled() {
      return unevenShards(
        [...members.values()].map((member) => member.held),
        count,
      );
    },
    figures: () => ({ terms, overlaps: checker.overlaps, ...fenceFigures(fences) }),
  };
}
