/** The tasks of a failover: what was enqueued, what a worker has done, and how often. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Tasks } from "leasehold";
import { defineTask } from "leasehold";

/** Of those that are done before the failover. */
export const EACH = 10;
const POLL_MS = 50;
/** Workers of a server that is gone claim again within this. */
const TTL_MS = 4_000;

const EARLY = defineTask<null>("early", { queue: "early" });
const LATE = defineTask<null>("late", { queue: "late" });

export class TaskWork {
  /** Whose enqueueing was answered. */
  readonly #answered: string[] = [];
  /** Tasks of a queue that has no worker before the end. */
  readonly #late: string[] = [];
  /** How often a task was worked on. */
  readonly #runs = new Map<string, number>();
  /** Those that were said to be done before the failover, with their runs by then. */
  readonly #done = new Map<string, number>();

  constructor(readonly tasks: Tasks) {}

  /** @param later whether the first ones are to be done after the cut only */
  async beforeCut(later: boolean): Promise<void> {
    for (let at = 1; at <= EACH; at += 1) await this.#enqueue(EARLY, this.#answered);
    if (!later) await this.afterCut();
  }

  /** A worker does what there is. */
  async afterCut(): Promise<void> {
    this.#work("early");
    while ((await this.tasks.counts()).done < EACH) await delay(POLL_MS);
  }

  async enqueueLate(): Promise<void> {
    await this.#enqueue(LATE, this.#late);
  }

  async noteDone(): Promise<void> {
    for (const id of this.#answered) {
      const task = await this.tasks.get(id);
      if (task?.state === "done") this.#done.set(id, this.#runs.get(id) ?? 0);
    }
  }

  async afterFailover() {
    const all = [...this.#answered, ...this.#late];
    const lost: string[] = [];
    for (const id of all) if ((await this.tasks.get(id)) === null) lost.push(id);
    this.#work("late");
    const undone = await this.#untilDone(all.filter((id) => !lost.includes(id)));
    const lostCompletions = [...this.#done].filter(
      ([id, runs]) => (this.#runs.get(id) ?? 0) > runs,
    ).length;
    for (const id of lost) await this.tasks.enqueue(LATE, null, { id });
    const undoneAgain = await this.#untilDone(lost);
    return {
      answeredTasks: all.length,
      lostTasks: lost.length,
      tasksAddedAgain: lost.length - undoneAgain,
      lostCompletions,
      undoneTasks: undone + undoneAgain,
    };
  }

  async #enqueue(definition: typeof EARLY, answered: string[]): Promise<void> {
    const id = randomUUID();
    await this.tasks.enqueue(definition, null, { id });
    answered.push(id);
  }

  #work(queue: string): void {
    const handle = (_: null, { task }: { task: { id: string } }) => {
      this.#runs.set(task.id, (this.#runs.get(task.id) ?? 0) + 1);
      return null;
    };
    const handlers = [EARLY.handle(handle), LATE.handle(handle)];
    this.tasks.work(handlers, { queues: [queue], ttlMs: TTL_MS, graceMs: 0 });
  }

  /** Waits as long as anything becomes done. @returns how many are not */
  async #untilDone(ids: readonly string[]): Promise<number> {
    const left = new Set(ids);
    const patienceMs = 30_000;
    for (let until = performance.now() + patienceMs; left.size > 0; await delay(POLL_MS)) {
      for (const id of left) {
        if ((await this.tasks.get(id))?.state !== "done") break;
        left.delete(id);
        until = performance.now() + patienceMs;
      }
      if (performance.now() > until) break;
    }
    return left.size;
  }
}
