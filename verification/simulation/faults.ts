/**
 * What goes wrong, drawn per seed: which kinds happen at all, how often, and how badly. Everything
 * heals at the end of the safety phase; what follows must converge.
 */
import type { Machine } from "./machine.js";
import type { Network } from "./network.js";
import { CALM } from "./network.js";
import type { Weakness } from "./weakness.js";
import type { World } from "./world.js";

export interface Faulty {
  readonly world: World;
  readonly network: Network;
  /** Machines that crash, pause and have clocks of their own. */
  readonly machines: readonly Machine[];
  /** The machine of the database. */
  readonly database: Machine;
  /** About how long a lease lasts: pauses are drawn around it. */
  readonly ttlMs: number;
  /** At any time at least one clock of a machine keeps time, within the driftRatio. */
  readonly clocksBounded: boolean;
  /** Starts what runs on the machine. */
  start(machine: Machine): void;
  /** Present where the database may keep less than it promises. */
  readonly weakness: Weakness | undefined;
  /** An operator's act on a random lease. */
  revoke(): void;
}

type Fault = (sim: Faulty) => void;

const pickMachine = ({ world, machines }: Faulty): Machine => world.pick(machines as [Machine]);

/** For how long something stays wrong: often about a ttl, sometimes much longer. */
const spellMs = ({ world, ttlMs }: Faulty) =>
  ttlMs * world.pick([0.2, 0.5, 1, 1.5, 3]) * world.between(0.8, 1.2);

const FAULTS: Readonly<Record<string, Fault>> = {
  crash(sim) {
    const machine = pickMachine(sim);
    machine.crash();
    sim.world.after(spellMs(sim), () => {
      if (!machine.process) sim.start(machine);
    });
  },
  pause(sim) {
    const machine = pickMachine(sim);
    machine.stop();
    sim.world.after(spellMs(sim), () => machine.resume());
  },
  suspend(sim) {
    const machine = pickMachine(sim);
    machine.suspend();
    sim.world.after(spellMs(sim), () => machine.resume());
  },
  freeze(sim) {
    const machine = pickMachine(sim);
    machine.freezeMonotonic();
    sim.world.after(spellMs(sim), () => machine.resume());
  },
  "wall clock set forward"(sim) {
    pickMachine(sim).jumpWall(spellMs(sim));
  },
  "wall clock set back"(sim) {
    pickMachine(sim).jumpWall(-10 * spellMs(sim));
  },
  "cut both ways"(sim) {
    const { name } = pickMachine(sim);
    sim.network.cut(name, sim.database.name);
    sim.network.cut(sim.database.name, name);
    sim.world.after(spellMs(sim), () => sim.network.mend());
  },
  "requests cut off"(sim) {
    sim.network.cut(pickMachine(sim).name, sim.database.name);
    sim.world.after(spellMs(sim), () => sim.network.mend());
  },
  "answers cut off"(sim) {
    sim.network.cut(sim.database.name, pickMachine(sim).name);
    sim.world.after(spellMs(sim), () => sim.network.mend());
  },
  "bad weather"(sim) {
    const { world, network, ttlMs } = sim;
    network.weather = {
      loss: world.pick([0, 0.02, 0.1, 0.3]),
      duplicate: world.pick([0, 0.02, 0.2]),
      fastestMs: 0.2,
      slowestMs: world.pick([5, 50, 0.2 * ttlMs, 0.4 * ttlMs]),
      late: world.pick([0, 0.01, 0.1]),
      latestMs: 3 * ttlMs,
    };
    world.tell("network", `has weather ${JSON.stringify(network.weather)}`);
    world.after(2 * spellMs(sim), () => {
      network.weather = CALM;
    });
  },
  "database down"(sim) {
    const { database, world } = sim;
    database.crash();
    world.after(spellMs(sim), () => {
      if (!database.process) sim.start(database);
    });
  },
  "database paused"(sim) {
    sim.database.stop();
    sim.world.after(spellMs(sim) / 2, () => sim.database.resume());
  },
  revoke: (sim) => sim.revoke(),
};

const WEAKNESSES: Readonly<Record<string, (weakness: Weakness, sim: Faulty) => void>> = {
  "lost suffix": (weakness, sim) => weakness.fallBack(spellMs(sim) / 4),
  "restored backup": (weakness, sim) => weakness.fallBack(20 * spellMs(sim)),
  "early expiry": (weakness, sim) => weakness.expireEarly(spellMs(sim)),
};

/** The monotonic clock stands still, so the wall clock must not be set back meanwhile. */
const STANDING_STILL = ["suspend", "freeze"];
const SET_BACK = "wall clock set back";

export const FAULT_NAMES = [...Object.keys(FAULTS), ...Object.keys(WEAKNESSES)];

/**
 * Lets faults happen until `untilMs` of true time, at most `mostFaults`; then heals everything.
 * @returns how many have happened so far
 */
export function letFaultsHappen(
  sim: Faulty,
  untilMs: number,
  mostFaults = Number.POSITIVE_INFINITY,
): () => number {
  const { world } = sim;
  const possible = sim.weakness ? FAULT_NAMES : Object.keys(FAULTS);
  const kinds = possible
    .filter(() => world.chance(0.45))
    .filter(
      (kind, _, all) =>
        !(sim.clocksBounded && all.includes(SET_BACK) && STANDING_STILL.includes(kind)),
    );
  const everyMs = sim.ttlMs * world.pick([0.3, 1, 3]);
  world.tell("world", `faults: ${kinds.join(", ") || "none"}`);
  let happened = 0;
  const next = () => {
    if (world.nowMs >= untilMs || happened >= mostFaults) return;
    const kind = kinds[Math.floor(world.random.float() * kinds.length)];
    if (kind) {
      happened += 1;
      world.cover(kind);
      FAULTS[kind]?.(sim);
      if (sim.weakness) WEAKNESSES[kind]?.(sim.weakness, sim);
    }
    world.after(everyMs * world.between(0.2, 1.8), next);
  };
  world.after(everyMs * world.random.float(), next);
  world.after(untilMs - world.nowMs, () => heal(sim));
  return () => happened;
}

function heal(sim: Faulty): void {
  const { world, network, machines, database } = sim;
  world.tell("world", "everything heals");
  network.weather = CALM;
  network.mend();
  for (const machine of [database, ...machines]) {
    machine.resume();
    if (!machine.process) sim.start(machine);
  }
}
