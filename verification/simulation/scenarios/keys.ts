/** Tasks with a concurrency key on workers that crash and pause: at most so many of a key at a time, in order, all done. */

import { defineTask, LeaseholdError, type Tasks } from "leasehold";
import { sleep, tasksOver } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import { KeyChecker } from "../checkers/keys.js";
import { TaskChecker } from "../checkers/tasks.js";
import type { Process } from "../machine.js";
import type { Running, Simulation } from "../simulation.js";
import { bound } from "./tasks.js";

const NAMESPACE = "default";
const TASKS = 30;
const KEYS = 3;

export function keys(sim: Simulation): Running {
  const { world, network, database, ttlMs } = sim;
  const perKey = 1 + Math.floor(world.random.float() * 2);
  const job = defineTask<{ key: string }>("job", {
    concurrencyKey: ({ key }) => key,
    perKey,
    maxAttempts: 1_000,
    crashLimit: 1_000,
    backoffMs: 100,
    maxBackoffMs: 1_000,
  });
  const done = new TaskChecker(world);
  const checker = new KeyChecker(world, perKey);
  const fences = new Map<string, FenceChecker>();
  let healed = false;

  const fenceOf = (id: string) => {
    const found = fences.get(id) ?? new FenceChecker(world, id);
    fences.set(id, found);
    return found;
  };

  const { tasks: store } = sim.kept;
  const find = (id: string) => store.get({ namespace: NAMESPACE, id });

  /** Everything is judged where it takes effect: in the store. */
  sim.kept.tasks = {
    ...bound(store),
    async enqueue(added, options) {
      const outcomes = await store.enqueue(added, options);
      for (const { id, concurrency } of added) checker.added(id, concurrency?.key ?? "");
      return outcomes;
    },
    async claim(request, options) {
      const nowMs = database.monotonicMs;
      const outcome = await store.claim(request, options);
      for (const { id, token, remainingMs } of outcome.status === "claimed" ? outcome.tasks : []) {
        checker.claimed(id, token, nowMs + remainingMs, nowMs);
      }
      return outcome;
    },
    async heartbeat(requests, options) {
      const nowMs = database.monotonicMs;
      const outcomes = await store.heartbeat(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "renewed") checker.renewed(id, token, nowMs + outcome.remainingMs);
      }
      return outcomes;
    },
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== "completed" || outcome.repeated) continue;
        done.completed(id, token);
        checker.finished(id);
      }
      return outcomes;
    },
    async fail(requests, options) {
      const outcomes = await store.fail(requests, options);
      for (const [index, { id }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "recorded" && !outcome.repeated) checker.returned(id);
      }
      return outcomes;
    },
    async requeue(requests, options) {
      const outcomes = await store.requeue(requests, options);
      for (const [index, { id }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "returned" && !outcome.repeated) checker.returned(id);
      }
      return outcomes;
    },
  };

  const produce = async (host: Process, client: Tasks) => {
    const { clock, random } = host.env;
    while (done.enqueued < TASKS) {
      const key = `key-${done.enqueued++ % KEYS}`;
      try {
        const { id } = await client.enqueue(job, { key });
        done.accepted.add(id);
      } catch (error) {
        if (!(error instanceof LeaseholdError)) throw error;
        world.cover(`enqueue ${error.code} (${error.outcome})`);
      }
      await sleep(clock, ttlMs * 0.5 * random.float());
    }
  };

  return {
    start(host, stores) {
      const { tasks: client } = tasksOver(
        { tasks: stores.tasks },
        { env: host.env, namespace: NAMESPACE, holder: host.name },
        { close: undefined },
      );
      void produce(host, client);
      const { clock, random } = host.env;
      const handler = job.handle(async (_data, { task, lease, signal }) => {
        world.tell(host.name, `does ${task.id} with token ${lease.token}`);
        const steps = healed ? 1 : 1 + Math.floor(random.float() * 12);
        for (let step = 0; step < steps; step++) {
          await sleep(clock, ttlMs * 0.1, { signal });
          network.send(host.name, "register", () => fenceOf(task.id).write(lease.token));
        }
        if (!healed && random.float() < 0.1) throw new Error("a handler fails now and then");
      });
      client.work([handler], { ttlMs, concurrency: 1 + Math.floor(random.float() * 4) });
    },
    onStep() {},
    revoke() {},
    onHealed() {
      healed = true;
    },
    async unsettled() {
      return done.unsettled(await store.counts(NAMESPACE), async (id) => !!(await find(id)));
    },
    async figures() {
      const tasks = await Promise.all([...done.accepted].map(find));
      const attempts = tasks.flatMap((task) => task?.attempts ?? []);
      return {
        done: (await store.counts(NAMESPACE)).done,
        unfenced: fenceFigures(fences.values()).unfenced,
        expiries: attempts.filter(({ result }) => result === "expired").length,
      };
    },
  };
}
