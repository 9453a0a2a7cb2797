/** Three processes tick, crash and pause, and the clock of the store steps: each fire time makes one task. */
import type { Overlap } from "leasehold";
import {
  loadTicker,
  type ScheduleDeclaration,
  type TaskStore,
  type Ticking,
} from "leasehold/internal";
import { MemoryScheduleStore, MemoryTaskState, MemoryTaskStore } from "leasehold/internal/memory";
import { ScheduleChecker } from "../checkers/schedules.js";
import { remoteTicking } from "../remote.js";
import type { Running, Simulation } from "../simulation.js";

const { startTicker } = await loadTicker();

const NAMESPACE = "default";
const OVERLAPS = ["allow", "queue", "skip"] as const;
/** Fire times of a TTL. */
const PER_TTL = 5;
/** Every process looks at least this often; see ticker.ts. */
const POLL_MS = 1_200;

/** Tasks by a clock that steps. */
class SteppingState extends MemoryTaskState {
  offsetMs = 0;
  /** The latest time that it has shown: since then it may have been set back. */
  latestMs = Number.NEGATIVE_INFINITY;

  override nowMs(): number {
    const nowMs = super.nowMs() + this.offsetMs;
    this.latestMs = Math.max(this.latestMs, nowMs);
    return nowMs;
  }
}

export function schedules(sim: Simulation): Running {
  const { world, network, database, ttlMs } = sim;
  const clock = {
    wall: () => database.wallMs,
    monotonic: () => Math.floor(database.monotonicMs),
    timer: () => {
      throw new Error("a store in memory sets no timers");
    },
  };
  const state = new SteppingState({ clock, random: world.random });
  const checker = new ScheduleChecker(world);
  const everyMs = ttlMs / PER_TTL;
  let healed = false;

  /** Tasks are counted where they are added. */
  class Observed extends MemoryTaskStore {
    override async enqueue(...[added, options]: Parameters<TaskStore["enqueue"]>) {
      const present = state.namespace(NAMESPACE).tasks;
      const fresh = added.filter(({ id }) => present.get(id) === null);
      const outcomes = await super.enqueue(added, options);
      for (const { id, kind } of fresh) {
        const fireAtMs = Date.parse(id.slice(kind.length + 1));
        checker.made(kind, fireAtMs, state.latestMs, pending(kind).length);
      }
      return outcomes;
    }
  }
  const tasks = new Observed(state);
  const store = new MemoryScheduleStore(new Map(), state, tasks);

  const pending = (kind: string) =>
    [...state.namespace(NAMESPACE).tasks.newestFirst(undefined)].filter(
      (task) => task.kind === kind && task.state === "pending",
    );

  const declare = (overlap: Overlap) => {
    checker.declared(overlap, everyMs, overlap, Math.floor(state.nowMs()));
    void store.declare({
      namespace: NAMESPACE,
      name: overlap,
      declaration: declarationOf(overlap, everyMs),
    });
  };
  for (const overlap of OVERLAPS) declare(overlap);

  /** Ends tasks and deletes them: what is over must leave no gap that a fire time could fill again. */
  const work = () => {
    for (const kind of OVERLAPS) {
      for (const { id } of pending(kind)) {
        if (!world.chance(healed ? 0.9 : 0.4)) continue;
        void tasks.cancel([{ namespace: NAMESPACE, id }]);
        if (world.chance(0.7)) void tasks.delete([{ namespace: NAMESPACE, id }]);
      }
    }
    world.after(ttlMs * world.between(0.1, 0.5), work);
  };
  work();

  const step = () => {
    if (healed) return;
    const byMs = Math.round(ttlMs * world.between(-2, 2));
    state.offsetMs += byMs;
    world.tell("database", `has its clock set by ${byMs} ms`);
    world.cover(byMs > 0 ? "the store's clock set forward" : "the store's clock set back");
    world.after(ttlMs * world.between(2, 8), step);
  };
  world.after(ttlMs * world.between(1, 4), step);

  /** What the ticks of all processes reach. */
  const observed: Ticking = {
    due: (...page) => store.ticking.due(...page),
    async fire(request) {
      const outcome = await store.ticking.fire(request);
      if (outcome.status === "moved") world.cover("another process had moved the schedule on");
      return outcome;
    },
  };

  return {
    start(host) {
      const ticking = remoteTicking(network, host, database, () => observed);
      startTicker({ ticking }, host.env);
    },
    onStep() {},
    revoke() {},
    onHealed() {
      healed = true;
    },
    async unsettled() {
      const { items } = await store.list({ namespace: NAMESPACE });
      return checker.unsettled(items, state.nowMs(), everyMs + POLL_MS + ttlMs);
    },
    figures: () => ({ fireTimes: checker.count }),
  };
}

function declarationOf(overlap: Overlap, everyMs: number): ScheduleDeclaration {
  return {
    cron: null,
    timeZone: "UTC",
    everyMs,
    catchUp: { most: 1_000 },
    overlap,
    jitterMs: 0,
    task: {
      kind: overlap,
      queue: "default",
      priority: 0,
      data: null,
      maxAttempts: 1,
      crashLimit: 1,
      backoff: { firstMs: 0, longestMs: 0, factor: 2, jitter: 0.5 },
      maxRunMs: null,
      startByMs: null,
      retain: { doneMs: null, deadMs: null },
      concurrency: null,
      version: 1,
    },
  };
}
