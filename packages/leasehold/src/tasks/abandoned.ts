/**
 * Handlers that do not stop when their task is lost. Each keeps its slot for a grace, and then the worker goes on without
 * it: a handler that never returns would otherwise take one of the worker's slots for good.
 *
 *   task lost, cancelled or out of time ── signal aborts ──┬── the handler ends within graceMs ──▶ its slot is free
 *                                                          └── graceMs ──▶ abandoned, its slot is free ──▶ it ends, or never
 *
 * Failure cases. *An abandoned handler still writes*: its token is an old one, so a fence refuses it. *Ever more handlers are
 * abandoned*: with more than `most`, the worker claims nothing until one of them ends, because each holds memory and connections.
 */
import type { Env, Timer } from "../env/index.js";

/** What is abandoned, as logs name it. */
export interface Abandonable {
  readonly id: string;
  readonly kind: string;
  /** Ends the task without its handler. */
  abandon(): void;
}

export class AbandonedHandlers {
  readonly #env: Env;
  readonly #graceMs: number;
  readonly #most: number;
  readonly #onStuck: () => void;
  readonly #graces = new Map<Abandonable, Timer>();
  readonly #abandoned = new Set<Abandonable>();
  #isStuck = false;

  /**
   * @param graceMs how long a handler may go on after its signal has aborted
   * @param onStuck called when more than `most` are abandoned
   */
  constructor(env: Env, graceMs: number, most: number, onStuck: () => void) {
    this.#env = env;
    this.#graceMs = graceMs;
    this.#most = most;
    this.#onStuck = onStuck;
  }

  /** How many handlers run without a slot. */
  get count(): number {
    return this.#abandoned.size;
  }

  /** Whether the worker may claim nothing. */
  get isStuck(): boolean {
    return this.count > this.#most;
  }

  /** The task is lost or out of time, and its handler still runs. A task that is out of time may be lost besides. */
  lost(task: Abandonable): void {
    if (this.#graces.has(task) || this.#abandoned.has(task)) return;
    const over = () => this.#abandon(task);
    const timer = this.#env.clock.timer(this.#graceMs, over, { background: true });
    this.#graces.set(task, timer);
  }

  /**
   * The handler has ended.
   * @returns whether it was abandoned, so that its slot is not its own any more
   */
  ended(task: Abandonable): boolean {
    this.#graces.get(task)?.cancel();
    this.#graces.delete(task);
    if (!this.#abandoned.delete(task)) return false;
    const { id, kind } = task;
    this.#env.logger.info(
      { event: "handler_returned", id, kind },
      "an abandoned handler has ended",
    );
    if (this.#isStuck && !this.isStuck) {
      this.#isStuck = false;
      this.#env.logger.info({ event: "worker_recovered" }, "the worker claims tasks again");
    }
    return true;
  }

  #abandon(task: Abandonable): void {
    this.#graces.delete(task);
    this.#abandoned.add(task);
    const { id, kind } = task;
    const [graceMs, abandoned] = [this.#graceMs, this.count];
    this.#env.logger.error(
      { event: "handler_abandoned", id, kind, graceMs, abandoned },
      "a handler still runs after its grace: its slot is used for other tasks",
    );
    this.#env.telemetry?.count("leasehold.task.abandoned", {});
    task.abandon();
    if (!this.isStuck || this.#isStuck) return;
    this.#isStuck = true;
    this.#env.logger.error(
      { event: "worker_stuck", abandoned },
      "restart this process: too many abandoned handlers still run, so the worker claims no more tasks",
    );
    this.#onStuck();
  }
}
