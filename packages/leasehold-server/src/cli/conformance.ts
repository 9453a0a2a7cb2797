import { type Command, Option } from "commander";
import { systemClock } from "leasehold/internal";
import { exerciseLeaseStore, type OpenedLeaseStore } from "leasehold/testing";
import { conforms, type Report, toJson, toText } from "./conformance/report.js";
import { type Plan, type Property, planOf, runPlan } from "./conformance/runner.js";
import { openModule, openUrl } from "./conformance/subject.js";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { print } from "./output.js";
import { progressLine } from "./progress.js";
import { listenForShutdown } from "./shutdown.js";
import { shownUrl } from "./stores.js";

interface Options {
  readonly store?: string;
  readonly module?: string;
  readonly section?: string;
  readonly collect?: boolean;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

export function addConformance(program: Command): void {
  program
    .command("conformance")
    .description("hold a lease store against the suite that every store of this package passes")
    .addOption(new Option("--store <url>", "the store").env("LEASEHOLD_STORE"))
    .option("--module <file>", "a store of your own: a module that exports it, or `open`")
    .option("--section <name>", "only this chapter of the suite")
    .option("--collect", "also what deletes ended records, in all namespaces of the store")
    .option("--json", "for machines")
    .addHelpText("after", HELP)
    .action((options: Options, command: Command) => conformance(options, subjectOf(command)));
}

interface Subject {
  readonly name: string;
  /** As typed, for another run. */
  readonly flag: string;
  readonly open: () => Promise<OpenedLeaseStore>;
}

/** A module that was typed beats a store of the environment. */
function subjectOf(command: Command): Subject {
  const { store, module } = command.opts<Options>();
  if (module !== undefined) {
    if (command.getOptionValueSource("store") === "cli") {
      throw new UsageError("--store and --module name two stores: one at a time");
    }
    return { name: module, flag: `--module ${module}`, open: () => openModule(module) };
  }
  if (store === undefined) {
    throw new UsageError("which store? --store URL, or --module FILE for one of your own");
  }
  const name = shownUrl(store);
  return { name, flag: `--store ${name}`, open: () => openUrl(store) };
}

async function conformance(options: Options, { name, flag, open }: Subject): Promise<void> {
  await checkFastCheck();
  const shutdown = listenForShutdown(systemClock);
  const { collect = false, json, verbose = false } = options;
  const opened: OpenedLeaseStore[] = [];
  const all = planOf((vitest) =>
    exerciseLeaseStore({
      name,
      vitest,
      async open() {
        const subject = { ...(await open()), mayCollect: collect };
        opened.push(subject);
        warn(name, collect);
        return subject;
      },
    }),
  );
  const plan = { ...all, properties: chosen(all, options.section) };
  const beganMs = systemClock.monotonic();
  const total = plan.properties.length;
  const bar = !json && process.stderr.isTTY;
  const results = await runPlan(plan, {
    clock: systemClock,
    signal: shutdown.signal,
    onBegin: ({ section }, done) => {
      if (bar) process.stderr.write(`${progressLine(done, total, section)}${CLEAR_REST}`);
    },
  });
  if (bar) process.stderr.write(`\r${CLEAR_REST}`);
  const [subject] = opened;
  // Interrupted before there was a store: there is nothing to tell.
  if (!subject) throw new Exit(EXIT.failed);
  const report: Report = {
    store: name,
    command: `leasehold conformance ${flag}${collect ? " --collect" : ""}`,
    capabilities: subject.store.capabilities,
    results,
    total,
    ms: Math.round(systemClock.monotonic() - beganMs),
  };
  print(json, toJson(report), () => toText(report, { verbose }));
  // Whatever a store leaves open must not hold the terminal.
  throw new Exit(conforms(report) ? 0 : EXIT.failed);
}

/** To the end of the line. */
const CLEAR_REST = "\x1b[K";

/** @throws Error that says how to get it, before anything has begun */
async function checkFastCheck(): Promise<void> {
  try {
    await import("fast-check");
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new Error("the suite needs the package fast-check: npm install --save-dev fast-check", {
      cause: error,
    });
  }
}

/** @throws UsageError that names the sections */
function chosen({ properties }: Plan, wanted: string | undefined): readonly Property[] {
  if (wanted === undefined) return properties;
  const found = properties.filter(({ section }) => section === wanted);
  if (found.length > 0) return found;
  const known = new Set(properties.map(({ section }) => section));
  throw new UsageError(`there is no section "${wanted}": ${[...known].join(", ")}`);
}

function warn(name: string, collect: boolean): void {
  const lines = [
    `leasehold: the suite makes grants in namespaces suite-... of ${name}, and in no others.`,
    "  It cleans nothing up: what it leaves held runs out within ten minutes, and ended records stay",
    "  until they are collected like all others.",
  ];
  if (collect) lines.push("  --collect: ended records of all namespaces are deleted.");
  process.stderr.write(`${lines.join("\n")}\n`);
}

const HELP = `
It is safe beside data that is in use. Each test works in a namespace of its own, suite- and 128
random bits, and names no other in any call: what others hold, wait for and watch is not touched. It
is a load, though: up to 64 calls at once, and batches of 500. What would reach further is left out:
the tests of collection, which deletes ended records of all namespaces, run with --collect alone.

The module exports a function open that answers a LeaseStore, or { store, advance, restart, lockRow,
close } for more tests, or a LeaseStore as store; either may be the default export. The package
fast-check must be installed. Ends with 0 if all that applies has run and passed, else with 1.
Ctrl-C ends it with what was found so far.

Examples:
  leasehold conformance --store postgres://localhost/app
  leasehold conformance --module ./my-store.js --collect
  leasehold conformance --store memory: --section "get and list" --json | jq '.results[].verdict'`;
