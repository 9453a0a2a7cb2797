/**
 * How a program adds tasks. Tasks that are enqueued one by one at the same time share a statement and its commit, unless the
 * statement could wait for one of them: a transaction may be open that adds a task with the same dedupeKey or id, and the
 * others must not wait for it.
 */
import { Backoff, type Env, sleep } from "../env/index.js";
import { Batcher } from "../lease/index.js";
import type { EnqueueOptions, EnqueueOutcome, Json, NewTask, TaskStore } from "./port.js";
import { type Enqueued, settled } from "./results.js";

const BUDGET_MS = 10_000;
const RETRY = { firstMs: 50, longestMs: 1_000 };
/** Larger data, in characters of JSON, goes in a statement of its own: a thousand tasks may share one. */
const SHARED_LENGTH = 10_000;

export class Adding {
  readonly #store: TaskStore;
  readonly #env: Env;
  readonly #shared: Batcher<NewTask, EnqueueOutcome>;

  constructor(store: TaskStore, env: Env) {
    [this.#store, this.#env] = [store, env];
    this.#shared = new Batcher(store.enqueue.bind(store), env.clock, env.telemetry);
  }

  /** Adds tasks of one kind, in a transaction of the caller's or as {@link Adding.add}, under a span. Throws what failed. */
  enqueue(
    tasks: readonly NewTask[],
    areIdsNew: boolean,
    { client }: Pick<EnqueueOptions, "client">,
  ): Promise<Enqueued[]> {
    const [first] = tasks;
    if (!first) return Promise.resolve([]);
    // The span of the worker that runs the task carries the same id.
    const ids = tasks.length === 1 ? { "leasehold.task.id": first.id } : {};
    const attributes = { "leasehold.task.kind": first.kind, ...ids };
    const add = async () =>
      settled(
        client ? await this.#store.enqueue(tasks, { client }) : await this.add(tasks, areIdsNew),
      );
    return this.#env.telemetry?.span("leasehold.task enqueue", { attributes }, add) ?? add();
  }

  /**
   * Adds them, and tries again for up to 10 s. The retries send the same ids, so they never add a task twice.
   * @param areIdsNew whether the ids were made for these tasks, so that no other transaction has them
   */
  async add(tasks: readonly NewTask[], areIdsNew: boolean): Promise<EnqueueOutcome[]> {
    const { clock, random } = this.#env;
    const backoff = new Backoff(random, RETRY);
    const deadlineMs = clock.monotonic() + BUDGET_MS;
    const [only] = tasks.length === 1 && areIdsNew ? tasks : [];
    const shared = only?.dedupeKey === null && isSmall(only.data) ? only : undefined;
    for (;;) {
      const timeoutMs = Math.max(1, deadlineMs - clock.monotonic());
      const outcomes = shared
        ? [await this.#shared.submit(shared, timeoutMs)]
        : await this.#store.enqueue(tasks, { timeoutMs });
      const delayMs = backoff.nextMs();
      const shouldRetry = outcomes.some(
        (outcome) => outcome.status === "failed" && outcome.retryable,
      );
      if (!shouldRetry || delayMs >= timeoutMs) return outcomes;
      await sleep(clock, delayMs);
    }
  }
}

function isSmall(data: Json): boolean {
  return (JSON.stringify(data)?.length ?? 0) <= SHARED_LENGTH;
}
