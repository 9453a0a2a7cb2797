/** Members that share the shards of one piece of work, while they come, go and fail. */

import type { Shards } from "leasehold";
import { LeaseClient, shardsOver, sleep } from "leasehold/internal";
import { GrantChecker } from "../checkers/grants.js";
import { Register } from "../register.js";
import type { Running, Simulation, Unsettled } from "../simulation.js";

const NAMESPACE = "default";
const NAME = "parts";

export function shards(sim: Simulation): Running {
  const { world, network, ttlMs, driftRatio } = sim;
  const checker = new GrantChecker(world, sim);
  const count = world.pick([1, 5, 24]);
  const parts = Array.from({ length: count }, (_, shard) => shard);
  const fenced = parts.map((shard) => new Register(world, `part ${shard}`, true));
  const control = parts.map((shard) => new Register(world, `part ${shard}`, false));
  const working = new Map<string, number>();
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
          const running = (working.get(own) ?? 0) + 1;
          working.set(own, running);
          if (running > 1) world.violate("a node's work never overlaps itself", own);
          try {
            while (checker.mayGoOn(host, lease) && !lease.signal.aborted) {
              network.send(host.name, "register", () => {
                const last = fenced[shard]?.lastToken ?? 0;
                if (fenced[shard]?.write(lease.token) === false) world.cover("stale write refused");
                else if (lease.token < last)
                  world.violate("fenced resource", `${lease.token} after ${last}`);
                control[shard]?.write(lease.token);
              });
              await sleep(clock, ttlMs * 0.4, { signal: lease.signal }).catch(() => {});
            }
            await sleep(clock, ttlMs * random.float() * 0.3);
          } finally {
            working.set(own, running - 1);
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
    /** Each shard must have one holder, and no member more than its share. */
    unsettled() {
      const unsettled: Unsettled[] = [];
      const held = [...members.values()].map((member) => member.held);
      const all = held.flat().sort((a, b) => a - b);
      if (String(all) !== String(parts))
        unsettled.push({
          property: "liveness",
          what: `held in the end: ${all.join(" ")} of ${count}`,
        });
      const loads = held.map((own) => own.length);
      if (Math.max(...loads) - Math.min(...loads) > 1)
        unsettled.push({ property: "shards are even", what: `in the end ${loads.join(", ")}` });
      return unsettled;
    },
    figures() {
      const stale = (registers: Register[]) => registers.reduce((sum, one) => sum + one.stale, 0);
      return { terms, overlaps: checker.overlaps, stale: stale(fenced), unfenced: stale(control) };
    },
  };
}
