/** Warns about kinds of tasks that no live worker handles: in the log, and in the answer of /v1/workers. */
import type { Env } from "leasehold";
import {
  type Control,
  type DueKinds,
  FIRST_VERSION,
  type Repeating,
  repeat,
  type TaskQuery,
  type TaskStore,
  type UnhandledKind,
  unhandledKinds,
} from "leasehold/internal";
import type { Activities } from "../events/activity.js";
import { CachedRead } from "./cached-read.js";

const CHECK_MS = 15_000;
/** Tenants that are checked besides the own: the latest that enqueued a task through this instance. */
const MAX_TENANTS = 100;

interface Options {
  readonly env: Env;
  readonly tasks: Pick<TaskStore, "list" | "dueKinds">;
  readonly activities: Activities;
  readonly control: Control | undefined;
  /** The namespace of requests without a key: checked always, as its tasks may be older than the process. */
  readonly namespace: string;
}

export class UnhandledKinds {
  readonly #env: Env;
  readonly #read: CachedRead<readonly UnhandledKind[]>;
  readonly #own: string;
  /** The latest one last. */
  readonly #tenants = new Set<string>();
  readonly #warned = new Set<string>();
  readonly #checks: Repeating;

  constructor({ env, tasks, activities, control, namespace: own }: Options) {
    this.#env = env;
    this.#own = own;
    this.#read = new CachedRead(env.clock, async (namespace) => {
      const pauses = (await control?.pauses.list(namespace)) ?? [];
      const dueKinds = tasks.dueKinds?.bind(tasks);
      const source = {
        list: (query: Omit<TaskQuery, "namespace">) => tasks.list({ ...query, namespace }),
        dueKinds:
          dueKinds && ((query: Parameters<DueKinds>[0]) => dueKinds({ ...query, namespace })),
      };
      return unhandledKinds(source, {
        nowMs: env.clock.wall(),
        claimers: activities.of(namespace).recent.claimers(),
        pausedQueues: pauses.flatMap(({ kind, name }) => (kind === "queue" ? name : [])),
      });
    });
    this.#checks = repeat(env, "check for kinds without a worker", CHECK_MS, () => this.#warn());
  }

  /** Adds a tenant to those that are checked. */
  note(namespace: string): void {
    if (namespace === this.#own) return;
    this.#tenants.delete(namespace);
    this.#tenants.add(namespace);
    if (this.#tenants.size <= MAX_TENANTS) return;
    const [oldest = ""] = this.#tenants;
    this.#tenants.delete(oldest);
  }

  /** Rejects if a store is unavailable. */
  of(namespace: string): Promise<readonly UnhandledKind[]> {
    return this.#read.of(namespace);
  }

  stop(): Promise<void> {
    return this.#checks.stop();
  }

  /** Warns once about each kind and version, and again if it was handled in between. */
  async #warn(): Promise<void> {
    const found = new Set<string>();
    // A copy: a tenant that is noted meanwhile moves to the end, and would be checked again.
    for (const namespace of [this.#own, ...this.#tenants]) {
      for (const unhandled of await this.of(namespace)) {
        const { queue, kind, version } = unhandled;
        const name = JSON.stringify([namespace, queue, kind, version]);
        found.add(name);
        if (this.#warned.has(name)) continue;
        this.#warned.add(name);
        this.#env.logger.warn(
          { event: "kind_unhandled", namespace, ...unhandled },
          `no live worker handles tasks of ${version === FIRST_VERSION ? "" : `version ${version} of `}the kind ${kind} in the queue ${queue}: they stay pending`,
        );
      }
    }
    for (const name of this.#warned) if (!found.has(name)) this.#warned.delete(name);
  }
}
