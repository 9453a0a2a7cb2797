/** Candidates for one leadership, observers of it, and leaders that resign, fail and die. */

import { type Elector, type Lease, LeaseholdError, type Term } from "leasehold";
import { electorOver, LeaseClient, sleep } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import { GrantChecker } from "../checkers/grants.js";
import { LeaderChecker } from "../checkers/leaders.js";
import { WorkChecker } from "../checkers/work.js";
import type { Process } from "../machine.js";
import type { Opened } from "../remote.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const NAME = "election";
/** Once everything has healed, a leader dies at this interval, and another must lead in time. */
const DEATH_EVERY_TTLS = 5;
/** Until then, messages from before the healing may arrive and grant a lease that no client holds. */
const STRAGGLERS_MS = 4_000;

export function elections(sim: Simulation): Running {
  const { world, network, ttlMs, driftRatio } = sim;
  const checker = new GrantChecker(world, sim);
  const fence = new FenceChecker(world, NAME);
  const working = new WorkChecker(world);
  const leaders = new LeaderChecker(world, ttlMs);
  const candidates = new Map<string, { readonly holder: string; readonly elector: Elector }>();
  const count = { terms: 0, resigned: 0 };
  let healed = false;

  const write = (host: Process, token: number) =>
    network.send(host.name, "register", () => fence.write(token));

  const lead = (host: Process, incarnation: string) => async (term: Term) => {
    // A term is a lease, but for what ends it.
    checker.watch(host, term as Lease);
    working.begin(incarnation, term.signal);
    count.terms += 1;
    leaders.led();
    const { clock, random } = host.env;
    try {
      while (checker.mayGoOn(host, term as Lease) && !term.signal.aborted) {
        write(host, term.token);
        await sleep(clock, ttlMs * 0.2, { signal: term.signal }).catch(() => {});
        if (!healed && random.float() < 0.01) return world.cover("a leader's work ended by itself");
      }
      await sleep(clock, ttlMs * random.float() * 0.5);
    } finally {
      working.end(incarnation);
    }
  };

  /** What others on the host do: work for the leader only, resignations. */
  const meddle = async (host: Process, elector: Elector): Promise<void> => {
    const { clock, random } = host.env;
    for (;;) {
      await sleep(clock, ttlMs * (0.5 + 2 * random.float()));
      try {
        if (elector.term && !healed && random.float() < 0.1) {
          const [successor] = [...candidates.values()].filter((one) => one.elector !== elector);
          await elector.resign(successor ? { successor: successor.holder } : {});
          count.resigned += 1;
          world.cover("a leader resigned");
        } else {
          await elector.runIfLeader((_, token) => write(host, token), { leaderWrite: true });
        }
      } catch (error) {
        if (!(error instanceof LeaseholdError)) throw error;
        world.cover(`${error.code} (${error.outcome})`);
      }
    }
  };

  const observe = async (host: Process, elector: Elector): Promise<void> => {
    const see = leaders.observer();
    const { signal } = new AbortController();
    for await (const { token } of elector.observe({ signal })) see(token);
    world.tell(host.name, "observes no more");
  };

  const start = (host: Process, stores: Opened): void => {
    const { random, clock } = host.env;
    const holder = `${host.name}/${Math.floor(random.float() * 2 ** 32)}`;
    const options = { env: host.env, namespace: NAMESPACE, holder };
    const client = new LeaseClient(stores.leases, options, { close: undefined });
    const elector = electorOver(client, NAME, {
      ttlMs,
      driftRatio,
      retryDelayMs: 100,
      handoverMs: ttlMs,
    });
    candidates.set(host.name, { holder, elector });
    void elector.lead(lead(host, holder));
    void meddle(host, elector);
    if (random.float() < 0.3) void observe(host, elector);
    if (random.float() < 0.1) clock.timer(ttlMs, () => void elector.resign().catch(() => {}));
  };

  /** Crashes the leader at intervals, and demands a successor in time. */
  const kill = (): void => {
    world.after(DEATH_EVERY_TTLS * ttlMs, kill);
    const leading = sim.machines.find(({ name }) => candidates.get(name)?.elector.term);
    if (!leading) return;
    leading.crash();
    candidates.delete(leading.name);
    world.after(DEATH_EVERY_TTLS * 0.9 * ttlMs, () => {
      // What was to be repaired anyway may have been repaired.
      if (leading.process) return;
      const process = leading.start();
      void sim.open(process).then((stores) => start(process, stores));
    });
    leaders.died();
  };

  return {
    onStep: (step) => checker.step(step),
    start,
    revoke() {
      const free = world.chance(0.5) ? "now" : "atExpiry";
      void sim.kept.leases.revoke([{ namespace: NAMESPACE, resource: NAME, free }]);
    },
    onHealed() {
      healed = true;
      if (sim.machines.length > 1) world.after(STRAGGLERS_MS + ttlMs, kill);
    },
    unsettled: () => leaders.unsettled(sim.machines.length),
    figures: () => ({
      ...count,
      deaths: leaders.deaths,
      overlaps: checker.overlaps,
      ...fenceFigures([fence]),
    }),
  };
}
