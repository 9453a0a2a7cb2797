import { once } from "node:events";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import Table from "cli-table3";
import { Command, Option } from "commander";
import { systemClock } from "leasehold/internal";
import { colors, EXIT, integer, print, progressLine } from "leasehold-server/internal";
import {
  addReport,
  EXPECTED,
  EXPECTED_FIGURES,
  FAULT_KINDS,
  type Failure,
  missing,
  newReport,
  type Report,
  SCENARIOS,
  shortest,
} from "./index.js";
import type { Order } from "./worker.js";

interface Options {
  readonly seeds: number;
  readonly from: number;
  readonly scenario?: string;
  readonly jobs: number;
  readonly story?: boolean;
  readonly json?: boolean;
}

/** From so many seeds on, every fault and rare branch must have been hit: the rarest is, once in 1,000. */
const SEEDS_FOR_COVERAGE = 10_000;
/** As shells answer for a command that SIGINT has ended. */
const INTERRUPTED = 130;
/** Print the stories of the first failures only: more are too long to read. */
const MOST_STORIES = 3;
/** A world leaves much behind at once: with room for it a thread collects a tenth less often. */
const YOUNG_MB = 128;
const LARGEST_SEED = 2 ** 40;

/** @param argv as Node has it */
export async function simulate(argv: readonly string[]): Promise<void> {
  await new Command("npm run verify -- sim")
    .description("run the real code in a simulated world full of faults, one world a seed")
    .addOption(
      new Option("--seeds <n>", "how many").argParser(integer(1, 10_000_000)).default(1_000),
    )
    .addOption(
      new Option("--from <seed>", "the first one").argParser(integer(1, LARGEST_SEED)).default(1),
    )
    .addOption(
      new Option("--scenario <name>", "only this one").choices(SCENARIOS.map(({ name }) => name)),
    )
    .addOption(
      new Option("--jobs <n>", "threads (default: one per processor)")
        .argParser(integer(1, 256))
        .default(availableParallelism()),
    )
    .option("--story", "tell what happened in the first seed, whether it fails or not")
    .option("--json", "for machines")
    .addHelpText("after", HELP)
    .action(runSeeds)
    .parseAsync(argv);
}

async function runSeeds(options: Options): Promise<void> {
  if (options.story) return tell(options.from, options.scenario);
  const startedMs = systemClock.monotonic();
  const stopping = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stopping.abort());
  const report = await runAll(options, stopping.signal, (done) =>
    progress(options, done, startedMs),
  );
  const minutes = (systemClock.monotonic() - startedMs) / 60_000;
  const seedsPerMinute = Math.round(report.seeds / minutes);
  // So few, or of one kind, cannot have seen everything: what they missed says nothing.
  const isJudged = report.seeds >= SEEDS_FOR_COVERAGE && options.scenario === undefined;
  const unseen = isJudged
    ? [...missing(report.covered, EXPECTED), ...missing(report.figures, EXPECTED_FIGURES)]
    : null;
  const faults = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, report.covered[kind] ?? 0]));
  await print(options.json, { from: options.from, ...report, faults, seedsPerMinute, unseen }, () =>
    describe(report, seedsPerMinute),
  );
  if (!options.json) {
    for (const failure of report.failures.slice(0, MOST_STORIES)) await tellFailure(failure);
    for (const name of unseen ?? [])
      process.stdout.write(`${colors.red("never happened:")} ${name}\n`);
  }
  if (report.failures.length > 0 || unseen?.length) process.exitCode = EXIT.failed;
  else if (report.seeds < options.seeds) process.exitCode = INTERRUPTED;
}

/** Threads take the next seeds as they come free. */
async function runAll(
  { seeds, from, scenario, jobs }: Options,
  stopping: AbortSignal,
  onProgress: (done: number) => void,
): Promise<Report> {
  const sum = newReport();
  let next = from;
  const chunk = Math.max(1, Math.min(50, Math.ceil(seeds / jobs / 4)));
  const work = async () => {
    const worker = new Worker(new URL("./worker.js", import.meta.url), {
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    try {
      while (next < from + seeds && !stopping.aborted) {
        const order: Order = {
          from: next,
          seeds: Math.min(chunk, from + seeds - next),
          scenario: scenario ?? null,
        };
        next += order.seeds;
        addReport(sum, await ask(worker, order));
        onProgress(sum.seeds);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, seeds) }, work));
  sum.failures.sort((a, b) => a.seed - b.seed);
  return sum;
}

async function ask(worker: Worker, order: Order): Promise<Report> {
  const answered = once(worker, "message");
  worker.postMessage(order);
  const [report] = (await answered) as [Report];
  return report;
}

function progress({ seeds }: Options, done: number, startedMs: number): void {
  if (!process.stderr.isTTY) return;
  const perMinute = Math.round((done * 60_000) / Math.max(1, systemClock.monotonic() - startedMs));
  const end = done === seeds ? "\n" : "";
  process.stderr.write(`${progressLine(done, seeds, `seeds, ${perMinute} a minute`)} ${end}`);
}

function describe(report: Report, seedsPerMinute: number): string {
  const { seeds, events, covered, figures, failures } = report;
  const table = new Table({ head: ["fault or branch", "times"], style: { head: [], border: [] } });
  for (const [name, times] of Object.entries(covered).sort(([a], [b]) => (a < b ? -1 : 1)))
    table.push([name, times]);
  const sums = Object.entries(figures).map(([name, count]) => `${name} ${count}`);
  const verdict = failures.length === 0 ? colors.green : colors.red;
  return [
    table.toString(),
    `figures: ${sums.join(", ")}`,
    `${seeds} seeds, ${events} events, ${seedsPerMinute} seeds a minute`,
    verdict(`${failures.length} violations`),
  ].join("\n");
}

async function tellFailure({ seed, scenario, violation }: Failure): Promise<void> {
  const found = await shortest(seed, scenario);
  process.stdout.write(
    `\n${colors.red(`seed ${seed} (${scenario})`)}: ${violation.property}: ${violation.what}\n`,
  );
  process.stdout.write(
    `replay: npm run verify -- sim --story --from ${seed} --scenario ${scenario}\n`,
  );
  if (!found) return;
  process.stdout.write(`shortest: ${found.faults} faults\n${found.result.world.trace.story()}\n`);
}

async function tell(seed: number, scenario: string | undefined): Promise<void> {
  const { run, scenarioOf } = await import("./index.js");
  const { world } = await run({ seed, scenario: scenarioOf(seed, scenario), keepStory: true });
  process.stdout.write(`${world.trace.story()}\ntrace ${world.trace.hash}\n`);
  if (!world.violation) return;
  const { property, what } = world.violation;
  process.stdout.write(`${colors.red(property)}: ${what}\n`);
  process.exitCode = 1;
}

const HELP = `
Each seed draws machines with clocks of their own, a network, faults and a program, and takes the same
course each time. What must hold is checked at every step. From 10000 seeds on, a fault or a rare branch
that never happened fails the run. Ctrl-C reports of the seeds so far.

Examples:
  npm run verify -- sim --seeds 10000
  npm run verify -- sim --story --from 90 --scenario leases`;
