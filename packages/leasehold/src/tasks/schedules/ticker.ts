/** Ticks: enqueues the tasks of schedules at their fire times. */
import { type Env, jittered, type Repeating, type Timer } from "../../env/index.js";
import { type DueSchedule, type ScheduleStore, type Ticking, taskIdOf } from "./port.js";
import { type FireTimes, type Step, stepOf } from "./rules.js";
import { timesOf } from "./times.js";

/** Another process may declare a schedule at any time, so every process looks at least this often. */
const POLL_MS = 1_000;
/** Between two rounds, so that a schedule that cannot move on takes no process's time. */
const SHORTEST_MS = 5;
/** Schedules of one round. */
const AT_ONCE = 100;
/** Cron expressions whose fire times a process keeps. */
const MOST_KNOWN = 1_000;
/** A schedule that could not be moved on is left out for this long, so that the others are. */
const LEFT_OUT_MS = 2_000;
/** Schedules that a process remembers as left out. */
const MOST_LEFT_OUT = 10_000;

/**
 * Enqueues tasks of all namespaces at their fire times until stopped, without holding the process open. Any number of
 * processes may tick at once; a store behind a server needs none here.
 */
export function startTicker({ ticking }: Pick<ScheduleStore, "ticking">, env: Env): Repeating {
  if (!ticking) return { stop: async () => {} };
  const { clock, random, logger } = env;
  const ticker = new Ticker(ticking, env);
  let stopped = false;
  let failing = false;
  let timer: Timer;
  let round: Promise<void> = Promise.resolve();
  const run = async () => {
    let waitMs = jittered(random, POLL_MS, 0.2);
    try {
      waitMs = await ticker.tick();
      failing = false;
    } catch (err) {
      if (!failing) logger.warn({ err }, "the schedules could not be read or moved on");
      failing = true;
    }
    if (!stopped) arm(waitMs);
  };
  const arm = (waitMs: number) => {
    const start = () => {
      round = run();
    };
    timer = clock.timer(waitMs, start, { background: true });
  };
  arm(0);
  return {
    stop() {
      stopped = true;
      timer.cancel();
      return round;
    },
  };
}

class Ticker {
  readonly #ticking: Ticking;
  readonly #env: Env;
  /** By declaration: a cron expression is parsed once. */
  readonly #times = new Map<string, FireTimes>();
  /**
   * Until when schedules are left out, by revision: always where this process cannot read one, such as one in a time zone
   * that it does not know, or the store refuses for good to move it on. A declaration draws a new revision.
   */
  readonly #leftOut = new Map<number, number>();

  constructor(ticking: Ticking, env: Env) {
    [this.#ticking, this.#env] = [ticking, env];
  }

  /** @returns when to tick again, in milliseconds from now */
  async tick(): Promise<number> {
    const { clock } = this.#env;
    const { schedules, nowMs, nextInMs } = await this.#ticking.due(AT_ONCE, this.#except());
    const readMs = clock.monotonic();
    let dueInMs = schedules.length === AT_ONCE ? 0 : Math.min(nextInMs ?? POLL_MS, POLL_MS);
    for (const schedule of schedules) {
      const step = await this.#read(schedule, nowMs);
      if (step) dueInMs = Math.min(dueInMs, (await this.#move(schedule, nowMs, step)) - nowMs);
    }
    return Math.max(SHORTEST_MS, dueInMs - (clock.monotonic() - readMs));
  }

  #except(): number[] {
    const nowMs = this.#env.clock.monotonic();
    for (const [revision, untilMs] of this.#leftOut) {
      if (untilMs <= nowMs) this.#leftOut.delete(revision);
    }
    return [...this.#leftOut.keys()];
  }

  #leaveOut({ revision }: DueSchedule, forMs: number): void {
    if (this.#leftOut.size >= MOST_LEFT_OUT) this.#leftOut.clear();
    this.#leftOut.set(revision, this.#env.clock.monotonic() + forMs);
  }

  /** @returns whether it was not left out yet, and is to be logged */
  #leaveOutForGood(schedule: DueSchedule): boolean {
    if (this.#leftOut.has(schedule.revision)) return false;
    this.#leaveOut(schedule, Number.POSITIVE_INFINITY);
    return true;
  }

  /** @returns null: this process cannot read the schedule */
  async #read(schedule: DueSchedule, nowMs: number): Promise<Step | null> {
    try {
      return stepOf(schedule, nowMs, await this.#timesOf(schedule.declaration));
    } catch (err) {
      if (this.#leaveOutForGood(schedule)) {
        const { namespace, name } = schedule;
        this.#env.logger.warn({ err, namespace, schedule: name }, "a schedule cannot be read here");
      }
      return null;
    }
  }

  async #timesOf({ cron, everyMs, timeZone }: DueSchedule["declaration"]): Promise<FireTimes> {
    const key = JSON.stringify([cron, everyMs, timeZone]);
    const known = this.#times.get(key);
    if (known) return known;
    const times = await timesOf({ cron, everyMs, timeZone });
    if (this.#times.size >= MOST_KNOWN) this.#times.clear();
    this.#times.set(key, times);
    return times;
  }

  /** @returns when the schedule is due again */
  async #move(schedule: DueSchedule, nowMs: number, { fireAtMs, ...step }: Step): Promise<number> {
    const { namespace, name, revision, declaration } = schedule;
    const { random, telemetry } = this.#env;
    const fires = fireAtMs.map((atMs) => ({
      id: taskIdOf(name, atMs),
      scheduledAtMs: atMs + Math.floor(random.float() * declaration.jitterMs),
    }));
    const outcome = await this.#ticking.fire({ namespace, name, revision, fires, ...step });
    if (outcome.status === "failed") {
      const { error, retryable } = outcome;
      if (retryable) {
        this.#leaveOut(schedule, LEFT_OUT_MS);
        throw error;
      }
      if (this.#leaveOutForGood(schedule)) {
        const { namespace, name } = schedule;
        this.#env.logger.warn(
          { err: error, namespace, schedule: name },
          "the store refuses the task of a schedule",
        );
      }
      return step.dueAtMs;
    }
    if (outcome.status === "moved") return step.dueAtMs;
    const made = outcome.taskIds.length;
    for (const atMs of fireAtMs.slice(fireAtMs.length - made)) {
      telemetry?.measure("leasehold.schedule.delay", {}, nowMs - atMs);
    }
    if (made > 0) telemetry?.count("leasehold.task.events", { event: "enqueued" }, made);
    const skipped = step.skipped + fires.length - made;
    if (skipped > 0) telemetry?.count("leasehold.schedule.skipped", {}, skipped);
    return step.dueAtMs;
  }
}
