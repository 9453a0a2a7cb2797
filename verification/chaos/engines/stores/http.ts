/**
 * Servers of ours on PostgreSQL, two of them, as processes. Beside the holders, workers do tasks:
 *
 *   holders ──▶ ways of their own ──▶ proxies that know requests ──┐
 *   workers ──▶ proxies that lose some answers ────────────────────┴──▶ two servers ──▶ PostgreSQL
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import type { TaskDetails } from "leasehold/internal/wire";
import { startPostgres } from "../../../../tests/support/engines/postgres-engine.js";
import { type FaultProxy, openFaultProxy } from "../../../../tests/support/faults/fault-proxy.js";
import { checkRegisters, checkTask } from "../../tasks/checks.js";
import { enqueueAll, makeTasks } from "../../tasks/clients.js";
import { World } from "../../tasks/world.js";
import { nowMs } from "../clock.js";
import { httpKinds } from "../faults/http.js";
import type { Engine, StoreSettings } from "../site.js";

const TTL_MS = 1_500;
const TASKS_PER_SECOND = 2;
const BATCH = 6;
/** For tasks that were enqueued last, on a slow machine. */
const FINISH_MS = 60_000;

export const http: StoreSettings = {
  name: "http",
  ttlMs: TTL_MS,
  lifeMs: TTL_MS,
  epsilonMs: 1_000,
  deadWaiter: { ticketMs: 6_000, costMs: 500 },
  missing: () => null,
  open: openHttp,
};

async function openHttp(random: Random): Promise<Engine> {
  const postgres = await startPostgres();
  const world = new World({
    databaseUrl: postgres.url,
    servers: 2,
    workers: 2,
    concurrency: 2,
    ttlMs: TTL_MS,
    dropRatio: 0.02,
    random,
    deadline: new AbortController().signal,
  });
  const proxies: FaultProxy[] = [];
  const close = async () => {
    await world.close();
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await postgres.remove();
  };
  try {
    await world.start();
    for (const { port } of world.servers) proxies.push(await openFaultProxy(port));
  } catch (error) {
    await close();
    throw error;
  }
  const tasks = enqueueing(world, random);
  return {
    version: "two servers on PostgreSQL",
    kinds: httpKinds({ world, postgres, proxies }),
    portsFor: (holder) => [Number(new URL(proxies[holder % proxies.length]!.url).port)],
    urlOf: ([port]) => `http://127.0.0.1:${port}`,
    finish: () => judge(world, tasks),
    async remove() {
      await tasks.stop().catch(() => {});
      await close();
    },
  };
}

interface Enqueueing {
  /** Resolves to the ids of those that were accepted. */
  stop(): Promise<ReadonlySet<string>>;
}

/** A few tasks a second, of which one in a while blocks its worker for longer than its lease. */
function enqueueing(world: World, random: Random): Enqueueing {
  const accepted = new Set<string>();
  let over = false;
  const running = (async () => {
    for (let batches = 0; !over; batches += 1) {
      const tasks = makeTasks(BATCH, 0, random);
      const late = { waitMs: 0, blockMs: 2 * TTL_MS, onlyFirst: true };
      if (batches % 4 === 1) tasks[0]!.task_data.steps[0] = late;
      for (const id of await enqueueAll(world.client, tasks, TASKS_PER_SECOND, random)) {
        accepted.add(id);
      }
    }
  })();
  // stop() awaits `running`, and so reports its failure.
  running.catch(() => {});
  return {
    async stop() {
      over = true;
      await running;
      return accepted;
    },
  };
}

/** Each task that was accepted is done, once, and wrote what it had to. */
async function judge(world: World, enqueued: Enqueueing) {
  const accepted = await enqueued.stop();
  const { client, recorder } = world;
  const deadlineMs = nowMs() + FINISH_MS;
  let done = 0;
  while (done < accepted.size && nowMs() < deadlineMs) {
    done = (await client.counts()).done;
    await delay(100);
  }
  // Late completions may still be on their way.
  await delay(1_000);
  const ids = await client.ids();
  const tasks: TaskDetails[] = [];
  for (const id of ids) tasks.push(await client.details(id));
  const lost = [...accepted].filter((id) => !ids.includes(id));
  const expired = tasks
    .flatMap(({ attempts }) => attempts)
    .filter(({ result }) => result === "expired");
  return {
    complaints: [
      ...lost.map((id) => `task ${id} was accepted, and is not there`),
      ...tasks.flatMap((task) => checkTask(task)),
      ...checkRegisters(tasks, recorder),
    ],
    beside: { tasks: tasks.length, expiredAttempts: expired.length },
  };
}
