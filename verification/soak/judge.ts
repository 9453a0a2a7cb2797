/** What a soak has to show, and whether it did. Pure: what was seen goes in, claims come out. */
import { FAULT_KINDS } from "./faults.js";
import { latencyClaims } from "./latency.js";
import { type Phase, phaseAt } from "./plan.js";
import type { Loss, Measured } from "./processes.js";
import { type Claim, type Sample, type Seen, type TaskTotals, tooRare } from "./seen.js";
import { coveredMs, median, type Point, slope } from "./statistics.js";

const MB = 1e6;
/**
 * A server remembers the latest grants of leases, and those of tasks, for people to look at: in an hour
 * more and more of them, up to a bound that is reached in many hours. By its heap with 5,000 to 35,000
 * grants, which was no larger with the last than with 20,000, and with 1,000 to 6,000 tasks one by one:
 * so many bytes each.
 */
const REMEMBERED = { most: 20_000, grantBytes: 330, taskBytes: 530 };
/** Code that is compiled late and buffers that find their size; a leak of 100 bytes in each task is 7 MB an hour. */
const HEAP = { ratio: 0.05, bytes: 3 * MB };
/** What the allocator keeps moves with the load of the machine; the heap is what tells of leaks. */
const RSS = { ratio: 0.15, bytes: 30 * MB };
/** Autovacuum begins at a share of the rows, by table; what is dead may grow as that does. */
const VACUUM_SCALE: Readonly<Record<string, number>> = { task: 0.01 };
const VACUUM_SCALE_DEFAULT = 0.2;
/** Its rows are those of what is held or waits now, so it must not grow at all. */
const BOUNDED_TABLES = ["lease", "waiter"];
const FEWEST_PER_THIRD = 2;

export function judge(seen: Seen): Claim[] {
  const { plan, samples } = seen;
  const beganMs = samples[0]?.atMs ?? 0;
  const measured = samples.filter(({ atMs }) => atMs >= beganMs + plan.warmUpMs);
  return [
    ...processClaims(seen, measured),
    ...databaseClaims(seen, measured),
    ...latencyClaims(seen),
    ...leaseClaims(seen),
    taskClaim(seen.tasks),
    ...occurrenceClaims(seen),
  ];
}

interface Thirds {
  readonly first: readonly number[];
  readonly last: readonly number[];
}

function thirdsOf(points: readonly Point[], all: readonly { readonly atMs: number }[]): Thirds {
  const [fromMs, toMs] = [all[0]?.atMs ?? 0, all.at(-1)?.atMs ?? 0];
  const third = (toMs - fromMs) / 3;
  const values = (holds: (atMs: number) => boolean) =>
    points.filter(({ atMs }) => holds(atMs)).map(({ value }) => value);
  return {
    first: values((atMs) => atMs <= fromMs + third),
    last: values((atMs) => atMs >= toMs - third),
  };
}

function processClaims(seen: Seen, measured: readonly Sample[]): Claim[] {
  const names = [...new Set(measured.flatMap(({ processes }) => Object.keys(processes)))].sort();
  return names.flatMap((name) => {
    const points = (of: (measured: Measured, sample: Sample) => number, among = measured) =>
      among.flatMap((sample): Point[] => {
        const process = sample.processes[name];
        return process ? [{ atMs: sample.atMs, value: of(process, sample) }] : [];
      });
    const still = quietOf(seen, measured);
    const kinds = new Set(
      measured.flatMap(({ processes }) => Object.keys(processes[name]?.resources ?? {})),
    );
    return [
      name === "server"
        ? flatBytes(
            "server: heap less what it remembers of the latest",
            points(({ heapUsed }, { served }) => heapUsed - rememberedBytes(served)),
            measured,
            HEAP,
          )
        : flatBytes(
            `${name}: heap`,
            points(({ heapUsed }) => heapUsed),
            measured,
            HEAP,
          ),
      flatBytes(
        `${name}: external memory`,
        points(({ external }) => external),
        measured,
        HEAP,
      ),
      flatBytes(
        `${name}: resident memory`,
        points(({ rss }) => rss),
        measured,
        RSS,
      ),
      ...[...kinds].sort().map((kind) =>
        flatCount(
          `${name}: ${kind} active`,
          points(({ resources }) => resources[kind] ?? 0, still),
          measured,
        ),
      ),
      flatCount(
        `${name}: timers`,
        points(({ timers }) => timers, still),
        measured,
      ),
      ...(["process", "emitters", "signals"] as const).map((of) =>
        flatCount(
          `${name}: listeners of ${of}`,
          points(({ listeners }) => listeners[of], still),
          measured,
        ),
      ),
    ];
  });
}

function rememberedBytes({ grants, tasks }: Sample["served"]): number {
  const { grantBytes, taskBytes } = REMEMBERED;
  return grantBytes * rememberedOf(grants) + taskBytes * rememberedOf(tasks);
}

/** Two halves of the most, of which the older one is dropped when the younger is full: see packages/leasehold/src/env/recent.ts. */
function rememberedOf(count: number): number {
  const half = REMEMBERED.most / 2;
  return count <= half ? count : half + ((count - 1) % half) + 1;
}

/** Samples in which nothing recovers any more. What they show as open stays open. */
function quietOf({ cycles, plan }: Seen, samples: readonly Sample[]): readonly Sample[] {
  const isQuiet = (phase: Phase | undefined) => phase === "after" || phase === "quiet";
  return samples.filter(({ atMs }) => isQuiet(phaseAt(cycles, atMs, plan.ttlMs)));
}

function flatBytes(
  claim: string,
  points: readonly Point[],
  all: readonly Sample[],
  allowance: { readonly ratio: number; readonly bytes: number },
): Claim {
  const { first, last } = thirdsOf(points, all);
  const from = median(first);
  const to = median(last);
  const most = Math.max(allowance.bytes, allowance.ratio * from);
  const spanMs = (all.at(-1)?.atMs ?? 0) - (all[0]?.atMs ?? 0);
  // What the trend adds up to over the whole time that was measured.
  const trend = slope(points) * spanMs;
  const enough = Math.min(first.length, last.length) >= FEWEST_PER_THIRD;
  return {
    claim: `${claim} is flat`,
    holds: enough && to - from <= most && trend <= 1.5 * most,
    figure: enough
      ? `median ${mb(from)} in the first third, ${mb(to)} in the last; trend ${mb(trend)} over all`
      : tooRare(first.length, last.length),
    allowed: `+${mb(most)}, and a trend of 1.5 times that, which is as much between the thirds`,
  };
}

function flatCount(claim: string, points: readonly Point[], all: readonly Sample[]): Claim {
  const { first, last } = thirdsOf(points, all);
  const enough = Math.min(first.length, last.length) >= FEWEST_PER_THIRD;
  // The work in progress varies between samples.
  const most = Math.ceil(1.1 * Math.max(...first)) + 2;
  return {
    claim: `${claim}: no more than before`,
    holds: enough && median(last) <= most,
    figure: enough
      ? `when quiet, median ${median(first)} in the first third, ${median(last)} in the last`
      : tooRare(first.length, last.length),
    allowed: `${most}: a tenth and 2 more than the most that the first third had when quiet`,
  };
}

function databaseClaims(seen: Seen, measured: readonly Sample[]): Claim[] {
  const still = quietOf(seen, measured);
  const connections = still.map(({ atMs, database }) => ({ atMs, value: database.connections }));
  const tables = Object.keys(measured.at(-1)?.database.tables ?? {});
  const of = (name: string, field: "dead" | "live" | "bytes") =>
    measured.map(({ atMs, database }) => ({ atMs, value: database.tables[name]?.[field] ?? 0 }));
  return [
    flatCount("database: connections", connections, measured),
    ...tables.flatMap((name) => {
      const dead = thirdsOf(of(name, "dead"), measured);
      const live = thirdsOf(of(name, "live"), measured);
      const bytes = thirdsOf(of(name, "bytes"), measured);
      const scale = VACUUM_SCALE[name] ?? VACUUM_SCALE_DEFAULT;
      const grown = Math.max(0, Math.max(...live.last) - Math.max(...live.first));
      const mostDead = Math.round(1.5 * Math.max(...dead.first) + scale * grown + 1_000);
      const mostBytes = 1.5 * Math.max(...bytes.first) + MB;
      const enough = Math.min(dead.first.length, dead.last.length) >= FEWEST_PER_THIRD;
      const deadClaim: Claim = {
        claim: `table ${name}: dead rows stay few`,
        holds: enough && Math.max(...dead.last) <= mostDead,
        figure: enough
          ? `at most ${Math.max(...dead.first)} in the first third, ${Math.max(...dead.last)} in the last`
          : tooRare(dead.first.length, dead.last.length),
        allowed: `${mostDead}: autovacuum comes by the clock, at a share of ${scale} of the rows`,
      };
      if (!BOUNDED_TABLES.includes(name)) return [deadClaim];
      const sizeClaim: Claim = {
        claim: `table ${name}: does not grow`,
        holds: enough && Math.max(...bytes.last) <= mostBytes,
        figure: `at most ${mb(Math.max(...bytes.first))} in the first third, ${mb(Math.max(...bytes.last))} in the last`,
        allowed: `${mb(mostBytes)}: its rows are always the same`,
      };
      return [deadClaim, sizeClaim];
    }),
  ];
}

/** Three renewals fit into a ttl: to miss all of them takes most of it. */
const EXPLAINING_RATIO = 0.6;

interface Explained {
  readonly byFaults: readonly Loss[];
  /** By faults and a machine that had too much to do, together. */
  readonly byMachine: readonly Loss[];
  readonly not: readonly Loss[];
}

/** What took most of the ttl before each loss. */
function explain({ losses, faults, starved, plan }: Seen): Explained {
  const groups = { byFaults: [] as Loss[], byMachine: [] as Loss[], not: [] as Loss[] };
  const most = EXPLAINING_RATIO * plan.ttlMs;
  for (const loss of losses) {
    const { resource, atMs } = loss;
    const fromMs = atMs - plan.ttlMs;
    const overHttp = resource.startsWith("http/");
    const cuts = faults.filter(({ cuts }) => cuts === "library" || (overHttp && cuts === "server"));
    const cutMs = coveredMs(cuts, fromMs, atMs);
    // Two looks within one millisecond have nothing between them to divide by.
    const lasting = starved.filter((window) => window.toMs > window.fromMs);
    const waitedMs = lasting.reduce((total, window) => {
      const share = coveredMs([window], fromMs, atMs) / (window.toMs - window.fromMs);
      return total + share * window.waitedMs;
    }, 0);
    const why = cutMs >= most ? "byFaults" : cutMs + waitedMs >= most ? "byMachine" : "not";
    groups[why].push(loss);
  }
  return groups;
}

function leaseClaims(seen: Seen): Claim[] {
  const { counts, plan } = seen;
  const { byFaults, byMachine, not } = explain(seen);
  const [first] = not;
  const none = (claim: string, key: string): Claim => ({
    claim,
    holds: counts[key] === 0,
    figure: `${counts[key]} times`,
    allowed: "never",
  });
  return [
    {
      claim: "no live lease is lost, but to a fault that explains it",
      holds: not.length === 0,
      figure: `${plan.live + plan.liveOverHttp} leases; ${byFaults.length} losses that faults explain, ${byMachine.length} for want of a processor, ${not.length} unexplained${first ? `, the first of ${first.resource}: ${first.reason}` : ""}`,
      allowed: `none, unless its way to the database was cut off, or waited for a processor, for ${EXPLAINING_RATIO} of a ttl`,
    },
    none("tokens of a resource grow", "tokensBack"),
    none("two never trust one lease at once", "overlaps"),
  ];
}

function taskClaim({ accepted, doneOnce, wrong }: TaskTotals): Claim {
  return {
    claim: "every accepted task is done once",
    holds: accepted > 0 && doneOnce === accepted,
    figure: `${doneOnce} of ${accepted}${wrong.length > 0 ? `; ${wrong.join("; ")}` : ""}`,
    allowed: "all",
  };
}

/**
 * Leases without a holder at the very end. A load that is stopped reacquires neither the lease that it was
 * rotating nor leases that were changing hands.
 */
const CHANGING_HANDS = 3;

/** A run in which little happened proves little. */
function occurrenceClaims({ faults, counts, plan, tasks }: Seen): Claim[] {
  const kinds = new Set(faults.map(({ kind }) => kind));
  const missing = FAULT_KINDS.filter((kind) => !kinds.has(kind));
  const doings = ["rotated", "contended", "gaveUp", "terms", "singletons", "shards", "visits"];
  const idle = [...doings, "notifications", "observed", "grantsOverHttp"].filter(
    (name) => !counts[name],
  );
  // Each way for itself: one of them alone has more than a quarter of both.
  const served = counts["tasksOverHttp"] ?? 0;
  const seconds = plan.totalMs / 1_000;
  const [direct, overHttp] = [seconds * plan.tasksPerSecond, seconds * plan.servedPerSecond];
  const supplied = tasks.accepted - served >= direct / 4 && served >= overHttp / 4;
  const kept = plan.live + plan.liveOverHttp - CHANGING_HANDS;
  return [
    {
      claim: "every kind of fault occurred",
      holds: missing.length === 0,
      figure: `${faults.length} faults of ${kinds.size} kinds${missing.length > 0 ? `; too rare to prove anything: ${missing.join(", ")}` : ""}`,
      allowed: "each at least once",
    },
    {
      claim: "the load was there",
      holds: idle.length === 0 && supplied && (counts["live"] ?? 0) >= kept,
      figure: `${tasks.accepted} tasks accepted; ${Object.entries(counts)
        .map(([name, count]) => `${name} ${count}`)
        .join(", ")}`,
      allowed: `a quarter of ${Math.round(direct)} tasks and of ${Math.round(overHttp)} over HTTP, for a busy machine, ${kept} leases live at the end, and each of the others`,
    },
  ];
}

const mb = (bytes: number) => `${(bytes / MB).toFixed(2)} MB`;
