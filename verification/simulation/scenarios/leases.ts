/** Processes that contend for a few resources in every way that the library offers. */

import { type Lease, LeaseholdError } from "leasehold";
import { LeaseClient, sleep } from "leasehold/internal";
import { GrantChecker } from "../checkers/grants.js";
import type { Process } from "../machine.js";
import { Register } from "../register.js";
import type { Running, Simulation, Unsettled } from "../simulation.js";

const NAMESPACE = "default";
/** While nothing fails and work is short, each waiter is granted its lease within this time. */
const LONGEST_WAIT_TTLS = 25;

export function leases(sim: Simulation): Running {
  const { world, network } = sim;
  const resources = ["alpha", "beta", "gamma"].slice(0, 1 + Math.floor(world.random.float() * 3));
  const fenced = new Map(resources.map((name) => [name, new Register(world, name, true)]));
  const control = new Map(resources.map((name) => [name, new Register(world, name, false)]));
  const checker = new GrantChecker(world, sim);
  /** Work done since everything healed, by machine. */
  const done = new Map<string, number>();
  /** Since when the program of a machine has been waiting for a lease, in true time. */
  const waiting = new Map<string, number>();
  let healed = false;
  let healedAtMs = Infinity;

  const write = (host: Process, lease: Lease): void => {
    network.send(host.name, "register", () => {
      const { resource, token } = lease;
      const last = fenced.get(resource)?.lastToken ?? 0;
      if (fenced.get(resource)?.write(token) === false) world.cover("stale write refused");
      else if (token < last) world.violate("fenced resource", `${token} accepted after ${last}`);
      control.get(resource)?.write(token);
    });
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
    /** Each host must have worked since. No waiter from before may still wait, and none may wait too long. */
    unsettled() {
      const unsettled: Unsettled[] = [];
      for (const [name, sinceMs] of waiting) {
        const waitedMs = world.nowMs - sinceMs;
        if (sinceMs > healedAtMs && waitedMs < LONGEST_WAIT_TTLS * sim.ttlMs) continue;
        const what = `${name} has waited for ${Math.round(waitedMs)} ms`;
        unsettled.push({ property: "waiters", what });
      }
      for (const { name } of sim.machines) {
        const what = `${name} has not worked since everything healed`;
        if (!done.get(name)) unsettled.push({ property: "liveness", what });
      }
      return unsettled;
    },
    figures() {
      const count = (registers: Map<string, Register>) =>
        [...registers.values()].reduce((sum, { stale }) => sum + stale, 0);
      return { overlaps: checker.overlaps, stale: count(fenced), unfenced: count(control) };
    },
  };
}
