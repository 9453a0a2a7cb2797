/** Candidates for one leadership, observers of it, and leaders that resign, fail and die. */

import { type Elector, type Lease, LeaseholdError, type Term } from "leasehold";
import { electorOver, LeaseClient, sleep } from "leasehold/internal";
import { GrantChecker } from "../checkers/grants.js";
import type { Process } from "../machine.js";
import { Register } from "../register.js";
import type { Opened } from "../remote.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const NAME = "election";
/** Once everything has healed, a leader dies at this interval, and another must lead within `LONGEST_VACANCY`. */
const DEATH_EVERY_TTLS = 5;
const LONGEST_VACANCY = { ttls: 1.5, ms: 2_500 };
/** Until then, messages from before the healing may arrive and grant a lease that no client holds. */
const STRAGGLERS_MS = 4_000;

export function elections(sim: Simulation): Running {
  const { world, network, ttlMs, driftRatio } = sim;
  const checker = new GrantChecker(world, sim);
  const fenced = new Register(world, NAME, true);
  const control = new Register(world, NAME, false);
  const working = new Map<string, number>();
  const candidates = new Map<string, { readonly holder: string; readonly elector: Elector }>();
  const count = { terms: 0, resigned: 0, deaths: 0 };
  let healed = false;
  let vacantSinceMs: number | undefined;

  const write = (host: Process, token: number) =>
    network.send(host.name, "register", () => {
      const last = fenced.lastToken;
      if (!fenced.write(token)) world.cover("stale write refused");
      else if (token < last) world.violate("fenced resource", `${token} after ${last}`);
      control.write(token);
    });

  const lead = (host: Process, incarnation: string) => async (term: Term) => {
    // A term is a lease, but for what ends it.
    checker.watch(host, term as Lease);
    if (term.signal.aborted)
      world.violate("nothing is stopped that has not begun", `${host.name} led when it was over`);
    const running = (working.get(incarnation) ?? 0) + 1;
    working.set(incarnation, running);
    if (running > 1) world.violate("a node's work never overlaps itself", incarnation);
    count.terms += 1;
    vacantSinceMs = undefined;
    const { clock, random } = host.env;
    try {
      while (checker.mayGoOn(host, term as Lease) && !term.signal.aborted) {
        write(host, term.token);
        await sleep(clock, ttlMs * 0.2, { signal: term.signal }).catch(() => {});
        if (!healed && random.float() < 0.01) return world.cover("a leader's work ended by itself");
      }
      await sleep(clock, ttlMs * random.float() * 0.5);
    } finally {
      working.set(incarnation, running - 1);
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
    let last = 0;
    for await (const { token } of elector.observe({ signal: new AbortController().signal })) {
      if ((token ?? 0) < last) world.violate("tokens never go back", `${token} after ${last}`);
      last = token ?? last;
    }
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
    count.deaths += 1;
    vacantSinceMs = world.nowMs;
    leading.crash();
    candidates.delete(leading.name);
    world.after(DEATH_EVERY_TTLS * 0.9 * ttlMs, () => {
      // What was to be repaired anyway may have been repaired.
      if (leading.process) return;
      const process = leading.start();
      void sim.open(process).then((stores) => start(process, stores));
    });
    const died = count.deaths;
    world.after(LONGEST_VACANCY.ttls * ttlMs + LONGEST_VACANCY.ms, () => {
      if (vacantSinceMs === undefined || count.deaths !== died) return;
      const vacantMs = Math.round(world.nowMs - vacantSinceMs);
      world.violate("a leader within ttl and epsilon of a death", `none for ${vacantMs} ms`);
    });
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
    unsettled() {
      if (sim.machines.length === 1 || count.deaths >= 2) return [];
      const what = `${count.deaths} leaders since everything healed`;
      return [{ property: "liveness", what }];
    },
    figures: () => ({
      ...count,
      overlaps: checker.overlaps,
      stale: fenced.stale,
      unfenced: control.stale,
    }),
  };
}
