/** The load of the scenarios of tasks: producers enqueue, workers work, both crash and pause, until all is healed. */

import { LeaseholdError, type TaskDefinition, type Tasks } from "leasehold";
import { type NewTask, sleep, type TaskStore, tasksOver } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import type { TaskChecker } from "../checkers/tasks.js";
import type { Process } from "../machine.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const TASKS = 30;
/** Attempts and crashes never use a task up, and retries come soon. */
export const LASTING = {
  maxAttempts: 1_000,
  crashLimit: 1_000,
  backoff: { firstMs: 100, longestMs: 1_000, factor: 2, jitter: 0.5 },
} as const;

interface Load<Data> {
  /** What the program that a process starts defines. */
  readonly jobOf: (host: Process) => TaskDefinition<Data>;
  /** Of the task with this number, which that program enqueues. */
  readonly dataOf: (number: number, job: TaskDefinition<Data>) => Data;
  /** Called when a handler begins. */
  readonly begun?: (
    job: TaskDefinition<Data>,
    data: Data,
    task: { readonly id: string; readonly version: number },
  ) => void;
  /** The longest pause between two tasks of a producer. */
  readonly pauseMs: number;
  /** The most steps of the work on a task. */
  readonly steps: number;
  /** The most tasks of a worker at once. */
  readonly concurrency: number;
}

/** @param store what the tasks are really in, below what a scenario has put around `sim.kept.tasks` */
export function taskLoad<Data>(
  { world, network, ttlMs }: Simulation,
  store: TaskStore,
  checker: TaskChecker,
  { jobOf, dataOf, begun, pauseMs, steps: most, concurrency }: Load<Data>,
): Running {
  const fences = new Map<string, FenceChecker>();
  let healed = false;

  const fenceOf = (id: string) => {
    const found = fences.get(id) ?? new FenceChecker(world, id);
    fences.set(id, found);
    return found;
  };

  const find = (id: string) => store.get({ namespace: NAMESPACE, id });

  const produce = async (host: Process, client: Tasks, job: TaskDefinition<Data>) => {
    const { clock, random } = host.env;
    while (checker.enqueued < TASKS) {
      const data = dataOf(checker.enqueued++, job);
      try {
        const { id } = await client.enqueue(job, data);
        checker.accepted.add(id);
      } catch (error) {
        if (!(error instanceof LeaseholdError)) throw error;
        world.cover(`enqueue ${error.code} (${error.outcome})`);
      }
      await sleep(clock, pauseMs * random.float());
    }
  };

  return {
    start(host, stores) {
      const { tasks: client } = tasksOver(
        { tasks: stores.tasks },
        { env: host.env, namespace: NAMESPACE, holder: host.name },
        { close: undefined },
      );
      const job = jobOf(host);
      void produce(host, client, job);
      const { clock, random } = host.env;
      const handler = job.handle(async (data, { task, lease, signal }) => {
        begun?.(job, data, task);
        world.tell(host.name, `does ${task.id} with token ${lease.token}`);
        const steps = healed ? 1 : 1 + Math.floor(random.float() * most);
        for (let step = 0; step < steps; step++) {
          await sleep(clock, ttlMs * 0.1, { signal });
          network.send(host.name, "register", () => fenceOf(task.id).write(lease.token));
        }
        if (!healed && random.float() < 0.1) throw new Error("a handler fails now and then");
        return { by: host.name };
      });
      client.work([handler], { ttlMs, concurrency: 1 + Math.floor(random.float() * concurrency) });
    },
    onStep() {},
    revoke() {},
    onHealed() {
      healed = true;
    },
    async unsettled() {
      return checker.unsettled(await store.counts(NAMESPACE), async (id) => !!(await find(id)));
    },
    async figures() {
      const tasks = await Promise.all([...checker.accepted].map(find));
      const attempts = tasks.flatMap((task) => task?.attempts ?? []);
      return {
        done: (await store.counts(NAMESPACE)).done,
        unfenced: fenceFigures(fences.values()).unfenced,
        expiries: attempts.filter(({ result }) => result === "expired").length,
      };
    },
  };
}

/** The store's methods as properties, so that some can be replaced. */
export function bound(store: TaskStore): TaskStore {
  return {
    capabilities: store.capabilities,
    enqueue: (added, options) => store.enqueue(added, options),
    claim: (request, options) => store.claim(request, options),
    heartbeat: (requests, options) => store.heartbeat(requests, options),
    complete: (requests, options) => store.complete(requests, options),
    fail: (requests, options) => store.fail(requests, options),
    requeue: (requests, options) => store.requeue(requests, options),
    cancel: (keys) => store.cancel(keys),
    retry: (keys) => store.retry(keys),
    delete: (keys) => store.delete(keys),
    get: (key) => store.get(key),
    list: (query) => store.list(query),
    counts: (namespace) => store.counts(namespace),
    results: (keys) => store.results(keys),
    watchResults: (namespace, options) => store.watchResults(namespace, options),
    ...(store.limits && { limits: store.limits }),
    stats: (query) => store.stats(query),
    leases: (query) => store.leases(query),
    reap: () => store.reap(),
    collect: (limit) => store.collect(limit),
    watch: (namespace, options) => store.watch(namespace, options),
    close: () => store.close(),
  };
}

/** Judges the grants on tasks. Times are the store's. */
export interface GrantJudge {
  /** The store has the task, for the first time or again. */
  added?(task: NewTask): void;
  /** A claim was answered with it, for the first time or again. */
  claimed(id: string, token: number, untilMs: number, nowMs: number): void;
  renewed(id: string, token: number, untilMs: number): void;
  /** It has failed, or was requeued: it is pending again. */
  returned(id: string): void;
  finished(id: string): void;
}

/** The store with everything judged where it takes effect: in the store. */
export function judged(
  store: TaskStore,
  nowMs: () => number,
  judge: GrantJudge,
  done: TaskChecker,
): TaskStore {
  return {
    ...bound(store),
    async enqueue(added, options) {
      const outcomes = await store.enqueue(added, options);
      for (const task of added) judge.added?.(task);
      return outcomes;
    },
    async claim(request, options) {
      const atMs = nowMs();
      const outcome = await store.claim(request, options);
      for (const { id, token, remainingMs } of outcome.status === "claimed" ? outcome.tasks : []) {
        judge.claimed(id, token, atMs + remainingMs, atMs);
      }
      return outcome;
    },
    async heartbeat(requests, options) {
      const atMs = nowMs();
      const outcomes = await store.heartbeat(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "renewed") judge.renewed(id, token, atMs + outcome.remainingMs);
      }
      return outcomes;
    },
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== "completed" || outcome.repeated) continue;
        done.completed(id, token);
        judge.finished(id);
      }
      return outcomes;
    },
    async fail(requests, options) {
      const outcomes = await store.fail(requests, options);
      for (const [index, { id }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "recorded" && !outcome.repeated) judge.returned(id);
      }
      return outcomes;
    },
    async requeue(requests, options) {
      const outcomes = await store.requeue(requests, options);
      for (const [index, { id }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "returned" && !outcome.repeated) judge.returned(id);
      }
      return outcomes;
    },
  };
}
