/**
 * A soak: hours of load under faults, with quiet spells, and whether what it uses stays the same.
 *
 *   library (load.js) ──▶ proxy ──▶ ┐                     measured: library, server, worker
 *        │ HTTP                     ├─▶ PostgreSQL
 *   server (serve)    ──▶ proxy ──▶ ┘                     ended and started again: another worker
 *        ▲ HTTP
 *   workers
 */
import { setTimeout as delay } from "node:timers/promises";
import { seededRandom } from "leasehold/testing";
import { freePort } from "../../tests/support/engines/free-port.js";
import { openTcpProxy } from "../../tests/support/faults/tcp-proxy.js";
import { endAll } from "../../tests/support/processes/processes.js";
import { beside, closeAll } from "./beside.js";
import { SoakDatabase } from "./database.js";
import { type FaultRecord, type FaultSite, Faults } from "./faults.js";
import { judge } from "./judge.js";
import { type Latency, latencies } from "./latency.js";
import { type Cycle, type Phase, type Plan, type PlanOptions, planOf } from "./plan.js";
import {
  type Accepted,
  HANDLERS,
  LOAD,
  type Loss,
  Observed,
  type Probe,
  type Said,
} from "./processes.js";
import type { Claim, Sample, Seen } from "./seen.js";
import { Starvation } from "./starvation.js";

export interface SoakOptions extends PlanOptions {
  /** A PostgreSQL server, in which a database is made; default: one of its own. */
  readonly store?: string | undefined;
  readonly seed: number;
  /** Ends the run early. What it has recorded by then is judged. */
  readonly signal: AbortSignal;
  readonly onSample?: (sample: Sample, elapsedMs: number, plan: Plan) => void;
}

export interface SoakReport {
  readonly plan: Plan;
  readonly seed: number;
  readonly engine: string;
  readonly seconds: number;
  readonly cycles: readonly Cycle[];
  readonly claims: readonly Claim[];
  readonly holds: boolean;
  readonly latencies: Readonly<Record<string, Partial<Record<Phase, Latency>>>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly faultRecords: readonly FaultRecord[];
  /** How long the library, and what is between it and the database, waited for a processor. */
  readonly starvedMs: number;
  readonly losses: readonly Loss[];
  readonly counts: Readonly<Record<string, number>>;
}

/** How long tasks may take to be done when nothing is added any more: a part of the whole, but this at least. */
const DRAINED_WITHIN_MS = 60_000;
const NO_COUNTS: Readonly<Record<string, number>> = {};

export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const plan = planOf(options);
  // As often as it looks by default, where a cycle is as long as the longest.
  const database = await SoakDatabase.open(options.store, plan.cycleMs / 5);
  const closing: (() => Promise<unknown>)[] = [() => database.close()];
  try {
    const world = await startWorld(database, plan, (close) => closing.unshift(close));
    const began = performance.now();
    const random = seededRandom(options.seed);
    const faults = new Faults(world.site, random, plan.ttlMs);
    const samples: Sample[] = [];
    const cycles: Cycle[] = [];
    const { library } = world.site;
    const starving = new Starvation([process.pid, library.pid]);
    const sampling = (over: AbortSignal) =>
      sampleUntil(over, plan, world, (sample) => {
        samples.push(sample);
        options.onSample?.(sample, performance.now() - began, plan);
      });
    try {
      await beside(sampling, async (unsampled) => {
        unsampled.addEventListener("abort", () => library.tell("stop"), { once: true });
        const signal = AbortSignal.any([options.signal, world.broken, unsampled]);
        for (let at = 0; at < plan.cycles && !signal.aborted; at += 1) {
          cycles.push(await runCycle(at, plan, faults, signal));
        }
      });
    } finally {
      starving.stop();
    }
    if (world.broken.aborted) throw world.broken.reason as Error;
    const { accepted, losses, probes, counts } = await world.drain();
    const { tasks, taskProbes } = await checkTasks(database, accepted);
    const seen: Seen = {
      plan,
      cycles,
      samples,
      losses,
      faults: faults.records,
      tasks,
      counts,
      starved: starving.records,
      probes: [...probes, ...taskProbes],
    };
    const claims = judge(seen);
    return {
      plan,
      seed: options.seed,
      engine: await database.version(),
      seconds: (performance.now() - began) / 1_000,
      cycles,
      claims,
      holds: claims.every(({ holds }) => holds),
      latencies: latencies(seen),
      faults: faults.counts(),
      losses,
      counts,
      faultRecords: faults.records,
      starvedMs: starving.totalMs,
    };
  } finally {
    await closeAll(closing);
  }
}

async function runCycle(
  at: number,
  { cycleMs, quietMs }: Plan,
  faults: Faults,
  signal: AbortSignal,
): Promise<Cycle> {
  const beganMs = Date.now();
  // In every third, one that lasts longer than the leases do.
  if (at % 3 === 1) await faults.outage(signal);
  await faults.run(beganMs + cycleMs - quietMs, signal);
  const faultsEndedMs = Date.now();
  const leftMs = Math.max(0, beganMs + cycleMs - faultsEndedMs);
  await delay(leftMs, undefined, { signal }).catch(() => {});
  return { beganMs, faultsEndedMs, endedMs: Date.now() };
}

async function sampleUntil(
  signal: AbortSignal,
  { sampleMs }: Plan,
  { site: { database, library, server, worker }, counts }: World,
  take: (sample: Sample) => void,
): Promise<void> {
  const watched = [library, server, worker];
  for (let dueMs = Date.now(); !signal.aborted; dueMs = Math.max(Date.now(), dueMs + sampleMs)) {
    await delay(dueMs - Date.now(), undefined, { signal }).catch(() => {});
    const atMs = Date.now();
    const [state, ...measured] = await Promise.all([
      database.state(),
      ...watched.map((process) => process.measure()),
    ]);
    const processes = Object.fromEntries(
      watched.flatMap(({ name }, index) => {
        const one = measured[index];
        return one ? [[name, one]] : [];
      }),
    );
    const { grantsOverHttp: grants = 0, tasksOverHttp: tasks = 0 } = counts();
    const served = { grants, tasks };
    take({ atMs, doneMs: Date.now(), processes, database: state, served });
  }
}

interface Drained {
  readonly accepted: readonly Accepted[];
  readonly losses: readonly Loss[];
  readonly probes: readonly Probe[];
  readonly counts: Readonly<Record<string, number>>;
}

interface World {
  readonly site: FaultSite;
  /** Aborts when a process that is watched ends before its time. */
  readonly broken: AbortSignal;
  /** By the load, so far. */
  counts(): Readonly<Record<string, number>>;
  /** Nothing is added any more; resolves when all is done, or when that took too long. */
  drain(): Promise<Drained>;
}

async function startWorld(
  database: SoakDatabase,
  plan: Plan,
  later: (close: () => Promise<unknown>) => void,
): Promise<World> {
  const { hostname: host, port } = new URL(database.url);
  const through = async () => {
    const proxy = await openTcpProxy({ host, port: Number(port || 5432) });
    later(() => proxy.close());
    const url = new URL(database.url);
    url.host = `127.0.0.1:${proxy.port}`;
    return { proxy, url: url.href };
  };
  const [toLibrary, toServer] = [await through(), await through()];
  later(() => endAll());
  const serverPort = await freePort();
  const server = new Observed("server", [
    "serve",
    "--store",
    toServer.url,
    "--port",
    `${serverPort}`,
    "--limits",
    "shortestTtlMs=100",
  ]);
  await server.said("listening on");
  const serverUrl = `http://127.0.0.1:${serverPort}`;
  const startWorker = async (name: string) => {
    const one = new Observed(name, [
      "worker",
      "--store",
      serverUrl,
      "--handlers",
      HANDLERS,
      "--queue",
      "served",
      "--ttl",
      `${plan.ttlMs}ms`,
      "--grace",
      "1s",
    ]);
    await Promise.race([one.said('"working"'), one.ended]);
    return one;
  };
  const worker = await startWorker("worker");
  let other = await startWorker("another worker");
  const { ttlMs, live, liveOverHttp, tasksPerSecond, servedPerSecond } = plan;
  const rates = { ttlMs, live, liveOverHttp, tasksPerSecond, servedPerSecond };
  const settings = { databaseUrl: toLibrary.url, serverUrl, ...rates };
  const library = new Observed("library", [JSON.stringify(settings)], LOAD);
  const accepted: Accepted[] = [];
  const losses: Loss[] = [];
  const probes: Probe[] = [];
  let counts = NO_COUNTS;
  let begin = () => {};
  const loaded = new Promise<void>((resolve) => {
    begin = resolve;
  });
  library.onMessage((message) => {
    const report = message as { said?: Said; counts?: Readonly<Record<string, number>> };
    if (!report.said) return;
    accepted.push(...report.said.accepted);
    losses.push(...report.said.lost);
    probes.push(...report.said.probes);
    counts = report.counts ?? NO_COUNTS;
    begin();
  });
  // Connected while all is well: a program that cannot do that at its start, ends.
  await Promise.race([loaded, library.ended]);
  const site: FaultSite = {
    database,
    library,
    server,
    worker,
    ways: { library: toLibrary.proxy, server: toServer.proxy },
    async replaceWorker(signal) {
      await other.end(signal);
      other = await startWorker("another worker");
    },
  };
  const broken = new AbortController();
  let draining = false;
  for (const one of [library, server, worker]) {
    void one.ended.then(({ code, stderr }) => {
      const what = `the process ${one.name} ended (${code}): ${stderr.slice(-2_000)}`;
      if (!draining) broken.abort(new Error(what));
    });
  }
  return {
    site,
    broken: broken.signal,
    counts: () => counts,
    async drain() {
      draining = true;
      library.tell("stop");
      const giveUpAtMs = Date.now() + Math.max(DRAINED_WITHIN_MS, plan.totalMs / 12);
      // Within this time the last enqueue calls succeed or fail.
      await delay(2_000);
      while ((await database.unfinishedTasks()) > 0 && Date.now() < giveUpAtMs) await delay(200);
      library.tell("close");
      await library.ended;
      return { accepted, losses, probes, counts };
    },
  };
}

/** What became of the accepted tasks, and how long each took. */
async function checkTasks(
  database: SoakDatabase,
  accepted: readonly Accepted[],
): Promise<{ tasks: Seen["tasks"]; taskProbes: readonly Probe[] }> {
  const aheadMs = await database.aheadMs();
  const ends = await database.tasks(accepted.map(({ id }) => id));
  const wrong: string[] = [];
  let doneOnce = 0;
  const taskProbes = accepted.flatMap(({ id, askedMs, queue, probe }): readonly Probe[] => {
    const end = ends.get(id);
    const ok = end?.state === "done" && end.completions === 1;
    if (ok) doneOnce += 1;
    else if (wrong.length < 5) wrong.push(`${id} is ${JSON.stringify(end ?? "gone")}`);
    const kind = queue === "direct" ? "task" : "task over HTTP";
    const tookMs = Math.max(0, (end?.endedMs ?? 0) - aheadMs - askedMs);
    return probe ? [{ kind, startMs: askedMs, tookMs, ok }] : [];
  });
  return { tasks: { accepted: accepted.length, doneOnce, wrong }, taskProbes };
}
