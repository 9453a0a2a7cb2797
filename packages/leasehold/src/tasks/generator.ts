/**
 * Makes tasks at a steady rate, on one node at a time. What it should be doing (running, rate) is
 * kept in the store, so that start, stop and status answer alike on every instance; who does it is
 * said by the lease on GENERATOR_RESOURCE.
 */

import { defaultTtlMs, type Lease, type LeaseClient } from "../core/index.js";
import { type Singleton, singletonOver } from "../election/index.js";
import { type Env, sleep, taskIds } from "../env/index.js";
import type { GeneratorState, Json, NewTask, TaskStore } from "./port.js";
import { DEFAULTS } from "./settings.js";

/** The holder of this resource generates. */
export const GENERATOR_RESOURCE = "generator";

export interface GeneratorOptions {
  /** The lease of the node that generates, in milliseconds. Default 5,000, or what the store allows that is nearest: a gap few would notice. */
  ttlMs?: number;
  /** What to make. Default: a `sleep` task of 1 to 5 s, as the sample worker takes them. */
  make?: (env: Env) => { kind: string; data: Json };
}

/** How often the wanted state is read, and tasks are added, while generating. */
const TICK_MS = 200;
/** After a pause the backlog of the rate is not made up for: at most this much is added at once. */
const LONGEST_BURST_MS = 1_000;

export class Generator implements AsyncDisposable {
  readonly #store: TaskStore;
  readonly #state: GeneratorState;
  readonly #leases: LeaseClient;
  readonly #make: (env: Env) => { kind: string; data: Json };
  readonly #newId: () => string;
  readonly #singleton: Singleton;

  /** Contends at once; generates while it holds the lease and the stored state says so. */
  constructor(
    leases: LeaseClient,
    store: TaskStore,
    state: GeneratorState,
    options: GeneratorOptions = {},
  ) {
    const { ttlMs = defaultTtlMs(leases.capabilities.ttl, 5_000), make = sleepTask } = options;
    this.#leases = leases;
    this.#store = store;
    this.#state = state;
    this.#make = make;
    this.#newId = taskIds(leases.env.clock, leases.env.random);
    this.#singleton = singletonOver(leases, GENERATOR_RESOURCE, (lease) => this.#generate(lease), {
      ttlMs,
    }).start();
  }

  /** A store that does not answer is waited for, up to the singleton's grace; then the lease expires. */
  close(): Promise<void> {
    return this.#singleton[Symbol.asyncDispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #generate(lease: Lease): Promise<void> {
    const { env, namespace } = this.#leases;
    const { clock, logger } = env;
    const { token } = lease;
    let wasRunning: boolean | undefined;
    let lastMs = clock.monotonic();
    let owed = 0;
    while (!lease.signal.aborted) {
      await sleep(clock, TICK_MS, { signal: lease.signal }).catch(() => {});
      try {
        const { running, ratePerSecond } = await this.#state.read(namespace);
        if (running !== wasRunning) {
          if (running) logger.info({ token, ratePerSecond }, "generating");
          else logger.info({ token }, "leading, but generation is stopped");
          wasRunning = running;
        }
        const nowMs = clock.monotonic();
        const elapsedMs = Math.min(nowMs - lastMs, LONGEST_BURST_MS);
        lastMs = nowMs;
        owed = running ? owed + (elapsedMs * ratePerSecond) / 1_000 : 0;
        const count = Math.floor(owed);
        if (count === 0 || !lease.checkAlive()) continue;
        owed -= count;
        const added = Array.from({ length: count }, () => this.#newTask());
        const outcomes = await this.#store.enqueue(added);
        const failed = outcomes.filter((outcome) => outcome.status === "failed");
        const [first] = failed;
        if (first) logger.warn({ err: first.error, tasks: failed.length }, "could not generate");
      } catch (error) {
        // Nothing is owed for the time of an outage.
        logger.warn({ err: error }, "could not generate");
      }
    }
  }

  #newTask(): NewTask {
    const { env, namespace } = this.#leases;
    return {
      ...DEFAULTS,
      namespace,
      id: this.#newId(),
      scheduledAt: null,
      dedupeKey: null,
      ...this.#make(env),
    };
  }
}

function sleepTask({ random }: Env): { kind: string; data: Json } {
  const seconds = Math.round(10 + 40 * random.float()) / 10;
  return { kind: "sleep", data: { sleep_duration_seconds: seconds } };
}
