import { type Command, Option } from "commander";
import type { Capabilities, Diagnosis } from "leasehold/internal";
import { formatDuration, SHORTEST_TTL_MS, sleep, systemEnv } from "leasehold/internal";
import { checkDirectories } from "./directories.js";
import { type Measured, measurePauses, measureStore } from "./doctor/measure.js";
import { type Production, readProduction } from "./doctor/production.js";
import { adviseTtl, RULE_FACTOR, type Summary, type TtlAdvice } from "./doctor/ttl.js";
import { EXIT } from "./exit-codes.js";
import { Exit } from "./failures.js";
import { duration, integer, ownWhereOf, tenantOf, withStore } from "./options.js";
import { colors, print } from "./output.js";
import { shownUrl } from "./shown-url.js";
import { openLeases } from "./stores.js";
import { plainTable } from "./table.js";
import { shown } from "./terminal.js";

/** Leases do not depend on the clocks agreeing, but displayed times and `scheduledAt` do. */
const LARGE_OFFSET_MS = 2_000;

interface Options {
  readonly ttl?: number;
  readonly pause?: number;
  readonly metrics?: string;
  readonly for: number;
  readonly samples: number;
  readonly json?: boolean;
}

interface Report {
  readonly store: string;
  readonly openMs: number;
  readonly capabilities: Capabilities;
  readonly measured: Measured;
  readonly pauses: Summary;
  /** From the metrics of a running process; null if none were read. */
  readonly production: Production | null;
  readonly ttl: TtlAdvice;
  readonly checks: readonly Diagnosis[];
  readonly healthy: boolean;
}

export function addDoctor(command: Command): void {
  withStore(command, "own")
    .option("--ttl <duration>", "also judge this TTL", duration)
    .option(
      "--pause <duration>",
      "longest pause (garbage collection, blocked event loop) measured in your own program",
      duration,
    )
    .option(
      "--metrics <url>",
      "/metrics of a running server, worker or program, to recommend a TTL from production (default: that of a server's --store)",
    )
    .addOption(
      new Option("--for <duration>", "how long to measure the pauses of this process")
        .argParser(duration)
        .default(2_000, "2s"),
    )
    .option("--samples <n>", "number of renewals to measure", integer(5, 10_000), 100)
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (options: Options, command: Command) => {
      const report = await examine(command, options);
      await print(options.json, report, () => toText(report));
      throw new Exit(report.healthy ? 0 : EXIT.failed);
    });
}

async function examine(command: Command, options: Options): Promise<Report> {
  const { clock } = systemEnv;
  const beganMs = clock.monotonic();
  const where = ownWhereOf(command);
  checkDirectories(where);
  const { store: url, notify } = where;
  // The doctor examines what is there: tables in a mistyped database would be found healthy.
  const stores = await openLeases({ store: url, isReading: true, notify });
  const namespace = tenantOf(command, stores);
  const { leases } = stores;
  try {
    const openMs = Math.round(clock.monotonic() - beganMs);
    const pausesSoFar = measurePauses(systemEnv);
    const [measured, settings] = await Promise.all([
      measureStore(leases, systemEnv, { ...options, namespace }),
      stores.diagnose?.() ?? [],
      sleep(clock, options.for),
    ]);
    const pauses = pausesSoFar();
    const { production, problems } = await readProduction(url, options.metrics);
    const pauseMs = Math.max(
      pauses.p99Ms,
      options.pause ?? 0,
      production?.stall?.p999Ms ?? 0,
      production?.delay?.p999Ms ?? 0,
    );
    const { renewalMs } = decisiveRenewal(measured.renewal, production?.renewal ?? null);
    const ttl = adviseTtl(pauseMs, renewalMs, leases.capabilities.ttl);
    const checks = [
      ...settings,
      ...judgeClock(measured),
      ...problems,
      ...judgeLeft(production, ttl),
      ...judgeTtl(ttl, options.ttl, leases.capabilities.ttl),
    ];
    return {
      store: shownUrl(url),
      openMs,
      capabilities: leases.capabilities,
      measured,
      pauses,
      production,
      ttl,
      checks,
      healthy: checks.every(({ verdict }) => verdict !== "wrong"),
    };
  } finally {
    await stores.close();
  }
}

function judgeClock({ clock }: Measured): Diagnosis[] {
  if (!clock) return [];
  const { offsetMs, uncertainMs } = clock;
  const value = `${offsetMs} ms (± ${uncertainMs} ms)`;
  const isFine = Math.abs(offsetMs) <= LARGE_OFFSET_MS + uncertainMs;
  const remedy =
    "leases do not depend on it, but displayed times and scheduledAt are off by this much: run NTP on both";
  const what = "clock offset of the store";
  return [
    isFine
      ? { what, value, verdict: "fine", remedy: null }
      : { what, value, verdict: "doubtful", remedy },
  ];
}

type Renewals = Pick<Summary, "count" | "p99Ms">;

/** The renewal that the TTL counts on: the longer one of those measured here and in production. */
export function decisiveRenewal(
  measured: Renewals,
  inProduction: Renewals | null,
): { what: string; renewalMs: number } {
  const isLonger = inProduction !== null && inProduction.p99Ms > measured.p99Ms;
  const { count, p99Ms } = isLonger ? inProduction : measured;
  return { what: hasP99(count) ? "p99 renewal" : "longest renewal", renewalMs: p99Ms };
}

/** Whether renewals in production have the time for one more attempt. */
export function judgeLeft(
  production: Production | null,
  { renewalMs, marginMs }: TtlAdvice,
): Diagnosis[] {
  const leftMs = production?.leastLeftMs ?? null;
  if (leftMs === null) return [];
  const what = "time left at renewals";
  const count = production?.leftCount ?? 0;
  // One of 1,000 is an event that fewer renewals need not have had.
  const of = count < 1_000 ? `all ${count} renewals` : `999 of 1,000, of ${count} renewals`;
  const value = `at least ${leftMs} ms for ${of}`;
  if (leftMs > renewalMs + marginMs) return [{ what, value, verdict: "fine", remedy: null }];
  const remedy = "some holders renew just before or after the expiry: use the recommended TTL";
  return [{ what, value, verdict: "doubtful", remedy }];
}

/** @param bounds of the TTLs that the store, or its server, grants */
export function judgeTtl(
  { leastMs, advisedMs }: TtlAdvice,
  ttlMs: number | undefined,
  bounds: Capabilities["ttl"],
): Diagnosis[] {
  if (ttlMs === undefined) return [];
  const [what, value] = ["--ttl", formatDuration(ttlMs)];
  const minMs = Math.max(SHORTEST_TTL_MS, bounds.minMs);
  if (ttlMs < minMs || ttlMs > bounds.maxMs) {
    const range = `from ${formatDuration(minMs)} to ${formatDuration(bounds.maxMs)}`;
    return [{ what, value, verdict: "wrong", remedy: `refused by this store: use one ${range}` }];
  }
  if (ttlMs >= advisedMs) return [{ what, value, verdict: "fine", remedy: null }];
  return [
    ttlMs > leastMs
      ? {
          what,
          value,
          verdict: "doubtful",
          remedy: `a healthy lease may expire after one failed renewal and a pause: use ${formatDuration(advisedMs)}`,
        }
      : {
          what,
          value,
          verdict: "wrong",
          remedy: `a healthy holder loses its lease: use more than ${formatDuration(leastMs)}, better ${formatDuration(advisedMs)}`,
        },
  ];
}

const COLORS: Readonly<Record<Diagnosis["verdict"], (text: string) => string>> = {
  fine: colors.green,
  doubtful: colors.yellow,
  wrong: colors.red,
};

function toText(report: Report): string {
  const { store, openMs, capabilities, measured, pauses, production, ttl, checks, healthy } =
    report;
  const { clock, grants, watch, queue } = capabilities;
  const times = plainTable(["measured", "count", "p50", "p99", "max"]);
  for (const [name, { count, p50Ms, p99Ms, maxMs }] of [
    ["renewal", measured.renewal],
    ["pauses of this process", pauses],
  ] as const) {
    times.push([name, count, `${p50Ms} ms`, p99Of(count, `${p99Ms} ms`), `${maxMs} ms`]);
  }
  for (const [name, found] of [
    ["renewal in production", production?.renewal],
    ["delay of renewals in production", production?.delay],
    ["pauses in production", production?.stall],
  ] as const) {
    if (!found) continue;
    const { count, p50Ms, p99Ms, maxMs } = found;
    times.push([name, count, `< ${p50Ms} ms`, p99Of(count, `< ${p99Ms} ms`), `< ${maxMs} ms`]);
  }
  const table = plainTable(["check", "value", "verdict", "what to do"]);
  for (const { what, value, verdict, remedy } of checks) {
    table.push([shown(what), shown(value), COLORS[verdict](verdict), shown(remedy ?? "")]);
  }
  const { pauseMs, renewalMs, marginMs, leastMs, ruleMs, advisedMs } = ttl;
  const { what: renewal } = decisiveRenewal(measured.renewal, production?.renewal ?? null);
  return [
    `${store}: opened in ${openMs} ms; clock ${clock}, grants ${grants}, watch ${watch}, queue ${queue ? "yes" : "no"}`,
    times.toString(),
    ...(checks.length > 0 ? [table.toString()] : []),
    `ttl: more than ${ruleMs} ms = (pause ${pauseMs} + 2 × ${renewal} ${renewalMs} + margin ${marginMs}) × ${RULE_FACTOR}; never ${leastMs} ms or less`,
    `     recommended: ${formatDuration(advisedMs)}; to survive an outage of the store that is longer than the pause, count it instead of the pause`,
    healthy ? colors.green("healthy") : colors.red("not healthy"),
  ].join("\n");
}

/** Of fewer than 100 events, none is the 99th of 100: the TTL then counts on the longest. */
function hasP99(count: number): boolean {
  return count >= 100;
}

function p99Of(count: number, text: string): string {
  return hasP99(count) ? text : "";
}

const HELP = `
The doctor acquires a lease on its own resource (leasehold-doctor:...), renews it --samples times in a row and
releases it. It reads the settings of PostgreSQL, Redis, etcd and Consul that affect leases. It measures the
pauses of its own idle process.

From the metrics of a running process it reads what production needs: how late timers of that process fire, how
late its holders renew (longer than a third of the TTL after the last renewal), and how long renewals take. A
server sees the renewals of all its holders; a worker or program, with --metrics-port or an endpoint of its own,
shows its own pauses. The TTL then survives 999 of 1,000 such events, or all if there were fewer. Without metrics,
measure your program with perf_hooks.monitorEventLoopDelay of Node and pass the result as --pause.

At a server with API keys, the doctor needs a key that may lease leasehold-doctor:... and read the metrics:
  leasehold keys create --name doctor --role holder --prefix leasehold-doctor:
An admin's key may do both, too. Pass the key in LEASEHOLD_KEY.

Exit codes: 0 no check is wrong (some may be doubtful); 1 a check is wrong; 69 the store is unavailable;
64 usage error, or the database has no Leasehold tables.

Examples:
  leasehold doctor --store postgres://localhost/app --ttl 10s
  leasehold doctor --store http://leases:4040 --metrics http://worker-1:9464/metrics
  leasehold doctor --pause 800ms --samples 1000 --json | jq .ttl`;
