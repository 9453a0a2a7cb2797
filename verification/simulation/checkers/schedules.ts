/** Schedules: each fire time makes one task, and none is left out, whatever clocks, processes and tasks do. */
import type { Overlap, ScheduleView } from "leasehold";
import type { Unsettled } from "../simulation.js";
import type { World } from "../world.js";

/** Of a schedule whose every fire time counts. */
interface Fired {
  readonly everyMs: number;
  readonly overlap: Overlap;
  /** When it was declared, by the store's clock. */
  readonly beganMs: number;
  readonly madeMs: Set<number>;
  lastMs: number;
}

export class ScheduleChecker {
  readonly #world: World;
  readonly #schedules = new Map<string, Fired>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Fire times of which a task was made. */
  get count(): number {
    return [...this.#schedules.values()].reduce((sum, { madeMs }) => sum + madeMs.size, 0);
  }

  declared(name: string, everyMs: number, overlap: Overlap, beganMs: number): void {
    const madeMs = new Set<number>();
    this.#schedules.set(name, { everyMs, overlap, beganMs, madeMs, lastMs: beganMs });
  }

  /**
   * The store has made a task of a fire time. Times are the store's.
   * @param unfinished how many tasks of the schedule are pending or running, this one included
   */
  made(name: string, fireAtMs: number, nowMs: number, unfinished: number): void {
    const fired = this.#schedules.get(name);
    const what = `${name}: ${fireAtMs}`;
    if (!fired) return this.#world.violate("a task is of a schedule", what);
    if (fired.madeMs.has(fireAtMs)) this.#world.violate("a fire time makes one task", what);
    const isFireTime = fireAtMs % fired.everyMs === 0 && fireAtMs > fired.beganMs;
    if (!isFireTime || fireAtMs > nowMs) this.#world.violate("no task before its time", what);
    if (fireAtMs < fired.lastMs) this.#world.violate("fire times are made in order", what);
    if (fired.overlap !== "allow" && unfinished > 1) {
      this.#world.violate("tasks of a schedule do not overlap", `${what} of ${unfinished}`);
    }
    fired.madeMs.add(fireAtMs);
    fired.lastMs = Math.max(fired.lastMs, fireAtMs);
  }

  /**
   * @param nowMs by the store's clock
   * @param lateMs a fire time may be over for this time without a task
   */
  unsettled(views: readonly ScheduleView[], nowMs: number, lateMs: number): Unsettled[] {
    const unsettled: Unsettled[] = [];
    for (const [name, { everyMs, overlap, beganMs, madeMs }] of this.#schedules) {
      const view = views.find((one) => one.name === name);
      const lastMs = view ? Date.parse(view.lastFireAt) : Number.NEGATIVE_INFINITY;
      if (lastMs < nowMs - lateMs) {
        unsettled.push({ property: "liveness", what: `${name} does not fire: ${lastMs} ${nowMs}` });
      }
      if (overlap === "skip" || !view) continue;
      const passed = Math.floor(lastMs / everyMs) - Math.floor(beganMs / everyMs);
      if (madeMs.size + view.waiting < passed) {
        const what = `${name}: ${madeMs.size} tasks of ${passed} fire times`;
        unsettled.push({ property: "no fire time is lost", what });
      }
    }
    return unsettled;
  }
}
