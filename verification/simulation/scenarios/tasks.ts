/** Producers enqueue, workers work, both crash and pause; every task is done once, none is lost. */

import { defineTask, LeaseholdError, type Tasks } from "leasehold";
import { sleep, type TaskStore, tasksOver } from "leasehold/internal";
import type { Process } from "../machine.js";
import { Register } from "../register.js";
import type { Running, Simulation, Unsettled } from "../simulation.js";

const NAMESPACE = "default";
const TASKS = 30;
const job = defineTask<{ number: number }>("job", {
  maxAttempts: 1_000,
  crashLimit: 1_000,
  backoffMs: 100,
  maxBackoffMs: 1_000,
});

export function tasks(sim: Simulation): Running {
  const { world, network, ttlMs } = sim;
  /** Ids that the store has said to have; how often each was completed for the first time. */
  const accepted = new Set<string>();
  const completed = new Map<string, number>();
  const results = new Map<string, Register>();
  const unfenced = new Map<string, Register>();
  let enqueued = 0;
  let healed = false;

  const register = (registers: Map<string, Register>, id: string, fenced: boolean) => {
    const found = registers.get(id) ?? new Register(world, id, fenced);
    registers.set(id, found);
    return found;
  };

  const find = (id: string) => store.get({ namespace: NAMESPACE, id });

  /** Counts completions where they take effect: in the store. */
  const { tasks: store } = sim.kept;
  sim.kept.tasks = {
    ...bound(store),
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "refused")
          world.cover(`late completion refused: ${outcome.reason}`);
        if (outcome?.status !== "completed") continue;
        if (outcome.repeated) {
          world.cover("repeated completion answered");
          continue;
        }
        const times = (completed.get(id) ?? 0) + 1;
        completed.set(id, times);
        if (times > 1)
          world.violate(
            "a task completes once",
            `${id} completed ${times} times, by token ${token}`,
          );
      }
      return outcomes;
    },
  };

  const produce = async (host: Process, client: Tasks) => {
    const { clock, random } = host.env;
    while (enqueued < TASKS) {
      const number = enqueued++;
      try {
        const { id } = await client.enqueue(job, { number });
        accepted.add(id);
      } catch (error) {
        if (!(error instanceof LeaseholdError)) throw error;
        world.cover(`enqueue ${error.code} (${error.outcome})`);
      }
      await sleep(clock, ttlMs * random.float());
    }
  };

  return {
    start(host, stores) {
      const { tasks: client } = tasksOver(
        stores.tasks,
        { env: host.env, namespace: NAMESPACE, holder: host.name },
        { close: undefined },
      );
      void produce(host, client);
      const { clock, random } = host.env;
      const handler = job.handle(async (_data, { task, lease, signal }) => {
        world.tell(host.name, `does ${task.id} with token ${lease.token}`);
        const steps = healed ? 1 : 1 + Math.floor(random.float() * 15);
        for (let step = 0; step < steps; step++) {
          await sleep(clock, ttlMs * 0.1, { signal });
          network.send(host.name, "register", () => {
            const last = register(results, task.id, true).lastToken;
            if (!register(results, task.id, true).write(lease.token))
              world.cover("stale write refused");
            else if (lease.token < last)
              world.violate("fenced resource", `${lease.token} after ${last}`);
            register(unfenced, task.id, false).write(lease.token);
          });
        }
        if (!healed && random.float() < 0.1) throw new Error("a handler fails now and then");
        return { by: host.name };
      });
      client.work([handler], { ttlMs, concurrency: 1 + Math.floor(random.float() * 3) });
    },
    onStep() {},
    revoke() {},
    onHealed() {
      healed = true;
    },
    async unsettled() {
      const unsettled: Unsettled[] = [];
      const counts = await store.counts(NAMESPACE);
      const rest = Object.entries(counts).filter(([state, count]) => state !== "done" && count > 0);
      const all = JSON.stringify(counts);
      if (rest.length > 0) unsettled.push({ property: "liveness", what: `not all done: ${all}` });
      for (const id of accepted) {
        const what = `${id} was accepted and is gone`;
        if (!(await find(id))) unsettled.push({ property: "no lost task", what });
      }
      if (counts.done < accepted.size || counts.done > enqueued) {
        const what = `${accepted.size} accepted, ${enqueued} asked for, ${counts.done} done`;
        unsettled.push({ property: "no lost task", what });
      }
      return unsettled;
    },
    async figures() {
      const tasks = await Promise.all([...accepted].map(find));
      const attempts = tasks.flatMap((task) => task?.attempts ?? []);
      return {
        done: (await store.counts(NAMESPACE)).done,
        unfenced: [...unfenced.values()].reduce((sum, { stale }) => sum + stale, 0),
        expiries: attempts.filter(({ result }) => result === "expired").length,
      };
    },
  };
}

/** The store's methods as properties, so that some can be replaced. */
function bound(store: TaskStore): TaskStore {
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
    get: (key) => store.get(key),
    list: (query) => store.list(query),
    counts: (namespace) => store.counts(namespace),
    leases: (query) => store.leases(query),
    reap: () => store.reap(),
    watch: (namespace, options) => store.watch(namespace, options),
    close: () => store.close(),
  };
}
