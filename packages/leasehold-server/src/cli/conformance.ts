import { type Command, Option } from "commander";
import { systemClock } from "leasehold/internal";
import { exerciseLeaseStore, type OpenedLeaseStore } from "leasehold/testing";
import { passes, type Report, toJson, toText } from "./conformance/report.js";
import { type Plan, type Property, planOf, runPlan } from "./conformance/runner.js";
import { openModule, openUrl } from "./conformance/subject.js";
import { checkDirectories } from "./directories.js";
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
    .description("run the conformance suite that every built-in store passes against a lease store")
    .addOption(new Option("--store <url>", "URL of the store to test").env("LEASEHOLD_STORE"))
    .option("--module <file>", "module that exports your own store, or a function `open`")
    .option("--section <name>", "run only this section of the suite")
    .option(
      "--collect",
      "also run the tests that delete ended records in all namespaces of the store",
    )
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action((options: Options, command: Command) => conformance(options, subjectOf(command)));
}

interface Subject {
  readonly name: string;
  /** As typed, for another run. */
  readonly flag: string;
  readonly open: () => Promise<OpenedLeaseStore>;
}

/** --module takes precedence over LEASEHOLD_STORE. */
function subjectOf(command: Command): Subject {
  const { store, module } = command.opts<Options>();
  if (module !== undefined) {
    if (command.getOptionValueSource("store") === "cli") {
      throw new UsageError("--store and --module exclude each other: name one store");
    }
    return { name: module, flag: `--module ${module}`, open: () => openModule(module) };
  }
  if (store === undefined) {
    throw new UsageError("no store to test: pass --store URL, or --module FILE for your own store");
  }
  checkDirectories({ store, control: undefined });
  const name = shownUrl(store);
  return { name, flag: `--store ${name}`, open: () => openUrl(store) };
}

/** The sections with tests that delete ended records. */
const COLLECTING = ["tokens", "the rules as a model"];

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
  if (collect && options.section !== undefined && !COLLECTING.includes(options.section)) {
    const known = COLLECTING.map((section) => `"${section}"`).join(" and ");
    throw new UsageError(`--collect has no effect on this section: only on ${known}`);
  }
  const beganMs = systemClock.monotonic();
  const total = plan.properties.length;
  const bar = !json && process.stderr.isTTY;
  const { results, closeFailure } = await runPlan(plan, {
    clock: systemClock,
    signal: shutdown.signal,
    onBegin: ({ section }, done) => {
      if (bar) process.stderr.write(`${progressLine(done, total, section)}${CLEAR_REST}`);
    },
  });
  if (bar) process.stderr.write(`\r${CLEAR_REST}`);
  const [subject] = opened;
  if (!subject) throw new Error(`interrupted before ${name} had opened its store`);
  const report: Report = {
    store: name,
    command: `leasehold conformance ${flag}${collect ? " --collect" : ""}`,
    capabilities: subject.store.capabilities,
    results,
    total,
    section: options.section ?? null,
    others: othersOf(all, plan),
    ms: Math.round(systemClock.monotonic() - beganMs),
  };
  await print(json, toJson(report), () => toText(report, { verbose }));
  if (closeFailure) throw closeFailure;
  // Handles that a store leaves open must not keep the process alive.
  throw new Exit(passes(report) ? 0 : EXIT.failed);
}

/** To the end of the line. */
const CLEAR_REST = "\x1b[K";

/** @throws Error that says how to install it, before the run begins */
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

/** What --section leaves out. */
function othersOf(all: Plan, { properties }: Plan): Report["others"] {
  const left = all.properties.filter((property) => !properties.includes(property));
  return { tests: left.length, sections: new Set(left.map(({ section }) => section)).size };
}

function warn(name: string, collect: boolean): void {
  const lines = [
    `leasehold: the suite creates grants in namespaces suite-... of ${name}, and in no others.`,
    "  It does not clean up: its last leases expire within ten minutes, and the store collects ended",
    "  records as usual.",
  ];
  if (collect) lines.push("  --collect deletes ended records of all namespaces.");
  process.stderr.write(`${lines.join("\n")}\n`);
}

const HELP = `
You can run the suite against a store that is in use. Each test has its own namespace (suite- and 128
random bits) and does not touch the leases, waiters or watchers of other namespaces. It does put load on
the store: up to 64 concurrent calls, and batches of 500. Tests of collection, which deletes ended records
of all namespaces, run only with --collect.

The module exports a function open that returns a LeaseStore, or { store, advance, restart, lockRow,
close } to run more tests. It can also export a LeaseStore as store. Either may be the default export.
Install the package fast-check first. Ctrl-C stops the run and prints the results so far.

With --section, the report says what did not run, and makes no statement on conformance ("conforms": null).

Exit codes: 0 all applicable tests, or those of --section, passed; 1 a test failed, the run was interrupted, or the
store was not closed within 10s; 64 the module cannot be used, or its top-level await or open has not settled after 2m.

Examples:
  leasehold conformance --store postgres://localhost/app
  leasehold conformance --module ./my-store.js --collect
  leasehold conformance --store memory: --section "get and list" --json | jq '.results[].verdict'`;
