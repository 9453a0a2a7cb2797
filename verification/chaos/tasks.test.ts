/**
 * The main promise, on real processes and a real PostgreSQL server: while workers, servers and the
 * database are killed and stopped, every task that was accepted is done, its completion is accepted
 * once, every late one is refused, and what the tasks write to never goes back.
 *
 *   enqueuer, zombies ─┐               ┌─▶ server 1 ─┐
 *                      ├─▶ proxies ────┤             ├─▶ PostgreSQL
 *   four workers ──────┘  (lose some   └─▶ server 2 ─┘
 *        │                 answers)
 *        └──▶ recorder: one register per task with a fence, and one without, which must suffer
 *
 * CHAOS_SEED repeats the plan of a run: its tasks and the order of its faults. What they hit is up
 * to the machine.
 * @module-tag safety
 */
import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { seededRandom } from "leasehold/testing";
import { expect, it } from "vitest";
import {
  describePostgres,
  type PostgresServer,
  startPostgres,
} from "../../tests/support/engines/postgres.js";
import { repetitions } from "../../tests/support/runner/full.js";
import { checkLogs, checkRegisters, checkSayings, checkTask } from "./tasks/checks.js";
import { enqueueAll, makeTasks, runZombie } from "./tasks/clients.js";
import { type FaultTally, hitWorkers } from "./tasks/faults.js";
import { NO_SERVER, type ServerProcess } from "./tasks/processes.js";
import { World } from "./tasks/world.js";

const TASKS = repetitions({ usual: 250, full: 500 });
const ENQUEUED_PER_SECOND = 25;
const ZOMBIES = 2;
const TTL_MS = 1_500;
const ZOMBIE_TTL_MS = 500;
/** Longer than the lease, so that another worker takes the task over and writes. */
const LONG_BLOCK_MS = 2 * TTL_MS;
/** A slow machine, which has not finished by then, finishes in peace. */
const FAULTS_MS = 60_000;
const DEADLINE_MS = 180_000;
const TEST_TIMEOUT_MS = DEADLINE_MS + 40_000;

/** Something that happens once, when so many tasks are done. */
interface Turn {
  readonly whenDone: number;
  happens(world: World): Promise<void>;
}

describePostgres("hundreds of tasks, two servers, four workers", () => {
  it(
    "are done once each while workers are killed and stopped, a server and the database too",
    async () => {
      const postgres = await startPostgres();
      try {
        await chaos(postgres.url, [
          { whenDone: TASKS / 4, happens: killServer },
          { whenDone: TASKS / 2, happens: (world) => killDatabase(postgres, world) },
        ]);
      } finally {
        await postgres.remove();
      }
    },
    TEST_TIMEOUT_MS,
  );
});

async function killServer({ servers }: World): Promise<void> {
  await servers[0]!.current.end("SIGKILL");
  await delay(2_500);
  await servers[0]!.start();
}

/** For longer than a lease. The servers stay up, say what is the matter, and recover by themselves. */
async function killDatabase(postgres: PostgresServer, { servers, client }: World): Promise<void> {
  const before = servers.map(({ current }) => current);
  /** A connection may be lost, a server may not. */
  const status = async ({ port, current }: ServerProcess, path: string) => {
    const answer = await client.once(`http://127.0.0.1:${port}`, "GET", path).catch(() => null);
    if (!current.up) throw new Error(`${current.how}:\n${current.lines.slice(-20).join("\n")}`);
    return answer?.status;
  };
  await postgres.kill9();
  const outage = delay(TTL_MS + 500);
  for (const server of servers) {
    for (const [path, expected] of [["/readyz", 503] as const, ["/healthz", 200] as const]) {
      const answered = () => status(server, path);
      expect(await client.until(answered, (value) => value !== undefined)).toBe(expected);
    }
  }
  await outage;
  await postgres.start();
  for (const server of servers) {
    await client.until(
      () => status(server, "/readyz"),
      (value) => value === 200,
    );
  }
  expect(servers.map(({ current }) => current)).toEqual(before);
}

async function chaos(databaseUrl: string, turns: readonly Turn[]): Promise<void> {
  const seed = Number(process.env.CHAOS_SEED ?? randomInt(2 ** 31));
  console.info(`CHAOS_SEED=${seed}`);
  const world = new World({
    databaseUrl,
    servers: 2,
    workers: 4,
    concurrency: 6,
    ttlMs: TTL_MS,
    dropRatio: 0.05,
    random: seededRandom(seed),
    deadline: AbortSignal.timeout(DEADLINE_MS),
  });
  try {
    await world.start();
    await judge(world, await run(world, turns, seed));
  } catch (error) {
    console.error(`CHAOS_SEED=${seed}, logs in ${await world.keepLogs()}`);
    throw error;
  } finally {
    await world.close();
  }
}

interface Ran extends FaultTally {
  readonly seconds: number;
  /** Ids of the tasks that were accepted. */
  readonly accepted: ReadonlySet<string>;
  readonly refusalsOfZombies: number;
}

/** Until every task is done. */
async function run(world: World, turns: readonly Turn[], seed: number): Promise<Ran> {
  const { client, workers } = world;
  const begin = performance.now();
  const over = new AbortController();
  const peace = AbortSignal.any([over.signal, AbortSignal.timeout(FAULTS_MS)]);
  const faults = hitWorkers(workers, seededRandom(seed + 1), peace);
  const names = Array.from({ length: ZOMBIES }, (_, index) => `zombie${index + 1}`);
  const zombies = Promise.all(
    names.map((name) => runZombie(client, name, ZOMBIE_TTL_MS, over.signal)),
  );
  const random = seededRandom(seed + 2);
  const tasks = makeTasks(TASKS, LONG_BLOCK_MS, random);
  const enqueued = enqueueAll(client, tasks, ENQUEUED_PER_SECOND, random);
  const done = (count: number) =>
    client.until(
      () => client.counts(),
      (counts) => counts.done >= count,
    );
  const story = (async () => {
    for (const { whenDone, happens } of turns) {
      await done(whenDone);
      await happens(world);
    }
    await done(TASKS);
    over.abort();
  })();
  try {
    const [accepted, refusals, tally] = await Promise.all([enqueued, zombies, faults, story]);
    const seconds = Math.round((performance.now() - begin) / 1_000);
    return { ...tally, accepted, seconds, refusalsOfZombies: sum(refusals) };
  } finally {
    over.abort();
    await faults;
  }
}

/** Expects the right final state, and that each fault and check was exercised. */
async function judge(world: World, ran: Ran): Promise<void> {
  const { client, recorder, proxies, servers } = world;
  // Late completions may still be on their way.
  await delay(1_000);
  const counts = await client.counts();
  expect(counts).toEqual({
    pending: 0,
    running: 0,
    done: TASKS,
    dead: 0,
    cancelled: 0,
    expired: 0,
  });
  const ids = await client.ids();
  expect(ids.length).toBe(TASKS);
  expect(new Set(ids)).toEqual(ran.accepted);
  const tasks = await Promise.all(ids.map((id) => client.details(id)));

  const ends = await world.end("SIGTERM");
  expect(ends).toEqual(ends.map(() => "exit 0"));
  // A worker may have been started while its server was gone; its supervisor tries again.
  const alone = world.processes
    .filter(({ endRequested, how }) => !endRequested && how !== NO_SERVER)
    .map(({ name, how }) => `${name}: ${how}`);
  expect(alone, "ended by themselves").toEqual([]);

  const sayings = proxies.flatMap((proxy) => proxy.sayings);
  const log = servers.flatMap(({ incarnations }) => incarnations.flatMap((server) => server.log));
  expect([
    ...tasks.flatMap((task) => checkTask(task)),
    ...tasks.flatMap((task) => checkSayings(task, sayings)),
    ...checkRegisters(tasks, recorder),
    ...checkLogs(sayings, log),
  ]).toEqual([]);

  const attempts = tasks.flatMap((task) => task.attempts);
  const registers = [...recorder.registers.values()];
  const completions = sayings.filter(({ operation }) => operation === "complete");
  const tally = {
    seconds: ran.seconds,
    kills: ran.kills,
    pauses: ran.pauses,
    expirations: attempts.filter(({ result }) => result === "expired").length,
    refusalsOfZombies: ran.refusalsOfZombies,
    refusedCompletions: completions.filter(({ outcome }) => outcome === "refused").length,
    repeatedCompletions: completions.filter(({ outcome }) => outcome === "repeated").length,
    droppedAnswers: sum(proxies.map(({ dropped }) => dropped)),
    fencedWrites: sum(registers.map(({ refused }) => refused.length)),
    unfencedViolations: sum(registers.map(({ violations }) => violations)),
  };
  console.info(tally);
  const least = {
    kills: 5,
    pauses: 5,
    expirations: 20,
    refusalsOfZombies: 24,
    refusedCompletions: 10,
    repeatedCompletions: 1,
    droppedAnswers: 10,
    fencedWrites: 1,
    unfencedViolations: 1,
  };
  const vacuous = Object.entries(least).filter(
    ([name, n]) => tally[name as keyof typeof least] < n,
  );
  expect(vacuous, "happened too rarely to prove anything").toEqual([]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
