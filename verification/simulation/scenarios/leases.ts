/** Processes that contend for a few resources in every way that the library offers. */

import { type Lease, LeaseholdError } from "leasehold";
import { LeaseClient, sleep } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import { GrantChecker } from "../checkers/grants.js";
import { idleMachines, lateWaiters } from "../checkers/rest.js";
import type { Process } from "../machine.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";

export function leases(sim: Simulation): Running {
  const { world, network } = sim;
  const resources = ["alpha", "beta", "gamma"].slice(0, 1 + Math.floor(world.random.float() * 3));
  const fences = new Map(resources.map((name) => [name, new FenceChecker(world, name)]));
  const checker = new GrantChecker(world, sim);
  /** Work done since everything healed, by machine. */
  const done = new Map<string, number>();
  /** Since when the program of a machine has been waiting for a lease, in true time. */
  const waiting = new Map<string, number>();
  let healed = false;
  let healedAtMs = Infinity;

  const write = (host: Process, lease: Lease): void => {
    network.send(host.name, "register", () => fences.get(lease.resource)?.write(lease.token));
  };

  const work = (host: Process) => async (lease: Lease) => {
    checker.watch(host, lease);
    waiting.delete(host.name);
    const { clock } = host.env;
    world.tell(host.name, `works on ${lease.resource} with token ${lease.token}`);
    const untilMs = clock.monotonic() + sim.ttlMs * (healed ? 0.1 : world.pick([0.1, 0.5, 2]));
    while (clock.monotonic() < untilMs) {
      if (!checker.mayGoOn(host, lease)) break;
      write(host, lease);
      await sleep(clock, sim.ttlMs * 0.1, { signal: lease.signal }).catch(() => {});
    }
    if (!lease.checkAlive()) world.cover("lost while working");
    if (healed) done.set(host.name, (done.get(host.name) ?? 0) + 1);
  };

  const contend = async (host: Process, client: LeaseClient): Promise<void> => {
    const { clock, random } = host.env;
    // Some renew by themselves only: their trust is that of the grant.
    const autoRenew = random.float() < 0.8;
    const options = { ttlMs: sim.ttlMs, driftRatio: sim.driftRatio, autoRenew };
    for (;;) {
      await sleep(clock, sim.ttlMs * random.float());
      const resource = world.pick(resources as [string]);
      try {
        const way = random.float();
        if (way < 0.5) {
          const waitMs = random.float() < 0.3 ? sim.ttlMs * random.float() : Infinity;
          waiting.set(host.name, world.nowMs);
          await client.run(resource, { ...options, waitMs }, work(host));
        } else if (way < 0.8) {
          const result = await client.tryRun(resource, options, work(host));
          if (!result.ran) world.cover("tryRun found it held");
        } else {
          await using lease = client.reusableLease(resource, options);
          if (await lease.acquire()) {
            if (lease.held) await work(host)(lease.held);
            if (random.float() < 0.3) await lease.acquire();
          } else world.cover("Lease.acquire found it held");
        }
      } catch (error) {
        if (!(error instanceof LeaseholdError)) throw error;
        world.cover(`${error.code} (${error.outcome})`);
      } finally {
        waiting.delete(host.name);
      }
    }
  };

  return {
    onStep: (step) => checker.step(step),
    start(host, stores) {
      waiting.delete(host.name);
      const client = new LeaseClient(
        stores.leases,
        { env: host.env, namespace: NAMESPACE },
        { close: undefined },
      );
      void contend(host, client);
    },
    revoke() {
      const resource = world.pick(resources as [string]);
      const free = world.chance(0.5) ? "now" : "atExpiry";
      void sim.kept.leases.revoke([{ namespace: NAMESPACE, resource, free }]);
    },
    onHealed() {
      healed = true;
      healedAtMs = world.nowMs;
    },
    unsettled() {
      const { nowMs } = world;
      const times = { healedAtMs, nowMs, ttlMs: sim.ttlMs };
      return [...lateWaiters(waiting, times), ...idleMachines(sim.machines, done)];
    },
    figures: () => ({ overlaps: checker.overlaps, ...fenceFigures(fences.values()) }),
  };
}
