/**
 * One run: a seed draws a world, a scenario runs the real code in it, faults happen for a while, then
 * everything heals and the world must come to rest in a good state.
 */
import type { Clock, LeaseStore } from "leasehold";
import type { OnceStore, TaskStore } from "leasehold/internal";
import {
  MemoryLeaseState,
  MemoryOnceStore,
  MemoryTaskState,
  MemoryTaskStore,
} from "leasehold/internal/memory";
import { Expiries } from "./checkers/expiries.js";
import { letFaultsHappen } from "./faults.js";
import { overHttp, serve } from "./http.js";
import { Machine, type Process } from "./machine.js";
import { Network } from "./network.js";
import { observedStore, type Step } from "./observed.js";
import { type Opened, remoteLeases, remoteTasks } from "./remote.js";
import { settledByTurns } from "./settled.js";
import { Weakness } from "./weakness.js";
import { World } from "./world.js";

/** What the programs of a scenario find. */
export interface Simulation {
  readonly world: World;
  readonly network: Network;
  /** Where the programs run that contend and work. */
  readonly machines: readonly Machine[];
  readonly database: Machine;
  /** What the database keeps; a scenario may put a watched one in its place. */
  readonly kept: { leases: LeaseStore; tasks: TaskStore; readonly once: OnceStore };
  readonly ttlMs: number;
  readonly driftRatio: number;
  /** Whether driftRatio covers the rates of the machines' clocks. */
  readonly clocksBounded: boolean;
  /** The database may keep less than it promises: only the fence protects. */
  readonly weak: boolean;
  /** The way from a process to the stores: straight to the database, or over the servers. */
  open(process: Process): Promise<Opened>;
}

/** Counts that are added up over many runs. */
export type Figures = Readonly<Record<string, number>>;

export interface Unsettled {
  /** What is violated if it stays so. */
  readonly property: string;
  readonly what: string;
}

export interface Running {
  onStep(step: Step): void;
  /** Runs the program of a process that has just been made. */
  start(process: Process, stores: Opened): void;
  /** An operator's act on something of the scenario. */
  revoke(): void;
  onHealed(): void;
  /** What is not yet as it must be once everything has healed; nothing once the world is at rest. */
  unsettled(): Promise<readonly Unsettled[]> | readonly Unsettled[];
  figures(): Promise<Figures> | Figures;
}

export interface Scenario {
  readonly name: string;
  /** How many servers stand between the machines and the database; 0: none, and no HTTP. */
  readonly servers: number;
  /** At most so many machines; default 5. */
  readonly mostMachines?: number;
  /** The database may lose writes and time. Default false. */
  readonly weak?: boolean;
  set(sim: Simulation): Running;
}

export interface RunOptions {
  readonly seed: number;
  readonly scenario: Scenario;
  readonly keepStory?: boolean;
  /** As of the world. Default: settledByTurns. A faster one must lead to the same course. */
  readonly settled?: () => Promise<void>;
  /** No more faults after so many. */
  readonly mostFaults?: number;
}

export interface RunResult {
  readonly world: World;
  readonly figures: Figures;
  /** How many faults happened. */
  readonly faults: number;
}

const SAFETY_TTLS = 25;
const LIVENESS_TTLS = 40;
/** A world that is at rest earlier may end then; late messages have arrived by the first look. */
const LOOK_EVERY_TTLS = 5;
/** So many go on to the end all the same: what was at rest must stay so. */
const TO_THE_END = 0.1;
/**
 * Clocks that keep time; clocks up to 10 % off, whose holders allow for it; and the same with holders
 * who do not: there trust may outlive a grant, and only the fence protects.
 */
interface Clocks {
  /** By how much their rates may differ from true time. */
  readonly off: number;
  readonly driftRatio: number;
  readonly bounded: boolean;
}
const CLOCKS: readonly [Clocks, ...Clocks[]] = [
  { off: 0, driftRatio: 0.01, bounded: true },
  { off: 0.1, driftRatio: 0.2, bounded: true },
  { off: 0.1, driftRatio: 0.01, bounded: false },
];
const NAMES = [
  "ann",
  "bob",
  "cid",
  "dee",
  "eve",
  "fay",
  "gus",
  "hal",
  "ida",
  "jim",
  "kay",
  "leo",
  "may",
  "ned",
  "oda",
  "pam",
];
const MOST_MACHINES = 5;

export async function run(options: RunOptions): Promise<RunResult> {
  const { scenario, seed, settled = settledByTurns, keepStory = false } = options;
  const world = new World(seed, { keepStory, settled });
  const network = new Network(world);
  const ttlMs = world.pick([500, 1_000, 3_000]);
  const clocks = world.pick(CLOCKS);
  const { driftRatio, bounded: clocksBounded } = clocks;
  const newMachine = (name: string) =>
    new Machine(world, name, {
      rate: world.between(1 - clocks.off, 1 + clocks.off),
      wallOffsetMs: world.between(-1e6, 1e6),
    });
  const { mostMachines = MOST_MACHINES } = scenario;
  const size = 2 + Math.floor(world.random.float() * (mostMachines - 1));
  const machines = NAMES.slice(0, size).map(newMachine);
  const servers = Array.from({ length: scenario.servers }, (_, index) =>
    newMachine(`server-${index + 1}`),
  );
  const database = new Machine(world, "database");
  database.start();
  const clock: Clock = {
    wall: () => database.wallMs,
    // In whole milliseconds: what happens at the very moment of an expiry happens often then.
    monotonic: () => Math.floor(database.monotonicMs),
    timer: () => {
      throw new Error("a store in memory sets no timers");
    },
  };
  let running: Running | undefined;
  const state = new MemoryLeaseState(clock, () => Math.floor(database.wallMs * 1_000));
  const weakness = scenario.weak ? new Weakness(world, state, database) : undefined;
  const expiries = new Expiries();
  const leases = observedStore(state, (step) => {
    expiries.step(step);
    running?.onStep(step);
  });
  const kept = {
    leases,
    once: new MemoryOnceStore(new Map(), leases, state),
    tasks: new MemoryTaskStore(new MemoryTaskState({ clock, random: world.random })) as TaskStore,
  };
  const direct = (process: Process): Opened => ({
    leases: remoteLeases(network, process, database, () => kept.leases),
    tasks: remoteTasks(network, process, database, () => kept.tasks),
  });
  const open =
    servers.length === 0
      ? async (process: Process) => direct(process)
      : overHttp(world, network, servers);
  const sim: Simulation = {
    world,
    network,
    machines,
    database,
    kept,
    ttlMs,
    driftRatio,
    clocksBounded,
    open,
    weak: scenario.weak ?? false,
  };
  running = scenario.set(sim);
  const start = (machine: Machine): void => {
    const process = machine.start();
    if (machine === database) return;
    if (servers.includes(machine)) serve(process, direct(process));
    else void open(process).then((stores) => running?.start(process, stores));
  };
  const all = [...servers, ...machines];
  for (const machine of all) start(machine);
  const healMs = SAFETY_TTLS * ttlMs;
  const faulty = { ...sim, machines: all, start, weakness, revoke: () => running?.revoke() };
  const faults = letFaultsHappen(faulty, healMs, options.mostFaults);
  let figures: Figures = {};
  if (await world.runUntil(healMs)) {
    running.onHealed();
    await comeToRest(world, running, ttlMs);
    if (!world.violation) figures = { expiries: expiries.count, ...(await running.figures()) };
  }
  for (const machine of all) machine.crash();
  return { world, figures, faults: faults() };
}

async function comeToRest(world: World, running: Running, ttlMs: number): Promise<void> {
  const healMs = world.nowMs;
  const toTheEnd = world.chance(TO_THE_END);
  for (let ttls = LOOK_EVERY_TTLS; ; ttls += LOOK_EVERY_TTLS) {
    if (!(await world.runUntil(healMs + ttls * ttlMs))) return;
    const over = ttls >= LIVENESS_TTLS;
    if (toTheEnd && !over) continue;
    const unsettled = await running.unsettled();
    if (over) for (const { property, what } of unsettled) world.violate(property, what);
    if (over || unsettled.length === 0) return;
  }
}
