/** The handle on a task that a program has enqueued. */
import { checkKnown, checkNumber, checkSignal } from "../lease/index.js";
import type { Json } from "./port.js";
import type { Enqueued } from "./results.js";

/** How long a call waits. */
export interface ResultOptions {
  /** How long to wait, in milliseconds. Default: no limit. */
  timeoutMs?: number;
  /** Ends the wait: the call rejects with its reason. Default: none. */
  signal?: AbortSignal;
}

const RESULT_OPTIONS: Readonly<Record<keyof ResultOptions, true>> = {
  timeoutMs: true,
  signal: true,
};

/** @throws INVALID_OPTION */
export function checkResultOptions(options: ResultOptions): void {
  checkKnown(options, RESULT_OPTIONS);
  const { timeoutMs, signal } = options;
  if (timeoutMs !== undefined) checkNumber("timeoutMs", timeoutMs, 0, Number.POSITIVE_INFINITY);
  if (signal !== undefined) checkSignal(signal);
}

/** What a definition says of the output: any JSON value unless it says more. */
export type OutputOf<Output> = unknown extends Output ? Json : Output;

type Wait = (id: string, options?: ResultOptions) => Promise<Json>;

/** `enqueue` calls it. Apart from the class, whose public type shows no constructor. */
export let handleOver: <Output>(enqueued: Enqueued, wait: Wait) => TaskHandle<Output>;

/**
 * A task that was enqueued, or the unfinished one that has the same `dedupeKey`.
 * @example
 * ```ts
 * import { connect, defineTask } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const greet = defineTask("greet");
 * leasehold.tasks.work([greet.handle((name) => `Hello ${name}`)]);
 * const handle = await leasehold.tasks.enqueue(greet, "Ada");
 * console.log(handle.id, handle.status, await handle.result({ timeoutMs: 5_000 }));
 * await leasehold.close();
 * ```
 */
export class TaskHandle<Output = unknown> {
  static {
    handleOver = (enqueued, wait) => new TaskHandle(enqueued, wait);
  }

  /** `duplicate`: an unfinished task has the same `dedupeKey`, and none was added. */
  readonly status: "enqueued" | "duplicate";
  /** The id of the task. */
  readonly id: string;
  readonly #wait: Wait;

  private constructor({ status, id }: Enqueued, wait: Wait) {
    this.status = status;
    this.id = id;
    this.#wait = wait;
  }

  /**
   * Waits until the task has ended, and returns its output. The store notifies of the end; one that cannot is read again
   * and again. Any number of waits share that. If the store does not answer, the wait goes on.
   * @throws TASK_FAILED if the task is dead or cancelled, or does not exist (in a transaction: before it commits);
   *   TIMED_OUT, INVALID_OPTION, CLOSED; the signal's reason
   */
  async result(options?: ResultOptions): Promise<OutputOf<Output>> {
    return (await this.#wait(this.id, options)) as OutputOf<Output>;
  }
}
