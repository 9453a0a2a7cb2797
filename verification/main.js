// Starts a campaign, which tries to break the code: `npm run verify -- CAMPAIGN [options]`.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Command } from "commander";

/** @type {Record<string, { module: string, needsBuild?: boolean, what: string }>} */
const CAMPAIGNS = {
  sim: {
    module: "simulation/main.js",
    what: "runs the real code in simulated worlds full of faults",
  },
  model: {
    module: "model/main.js",
    what: "compares random programs of the public API with models of it",
  },
  spin: {
    module: "spin/main.js",
    what: "visits every state of the protocol model",
  },
  histories: {
    module: "histories/main.js",
    what: "judges histories of clients on real stores under faults",
  },
  chaos: {
    module: "chaos/main.js",
    needsBuild: true,
    what: "kills, stops and cuts off processes and engines",
  },
  matrix: {
    module: "matrix/main.js",
    what: "tries each feature on each engine under each fault",
  },
  upgrade: {
    module: "upgrade/main.js",
    what: "runs two versions at the same time",
  },
  fuzz: {
    module: "fuzz/main.js",
    what: "sends invalid requests and raw bytes to a server",
  },
  overload: {
    module: "overload/main.js",
    needsBuild: true,
    what: "sends more load than a server can serve",
  },
  soak: {
    module: "soak/main.js",
    needsBuild: true,
    what: "runs hours of load under faults, and looks for growth",
  },
  rehearsal: {
    module: "rehearsal/main.js",
    needsBuild: true,
    what: "starts the fleet of deploy/compose, and kills parts of it",
  },
  "planted-bugs": {
    module: "planted-bugs/run.js",
    what: "plants known mistakes, and shows which test catches each",
  },
  mutants: {
    module: "mutants/run.js",
    what: "changes the code in small ways that unit tests must notice",
  },
  nightly: {
    module: "nightly/run.js",
    needsBuild: true,
    what: "runs all long campaigns, one after the other",
  },
  reliability: {
    module: "reliability/write.js",
    what: "writes the figures of a night into docs/reliability.md",
  },
};
const BUILD = fileURLToPath(new URL("../scripts/build.js", import.meta.url));
/** As the campaigns end if their arguments are wrong. */
const USAGE = 64;

const args = process.argv.slice(2);
const program = new Command("npm run verify --")
  .description("Each campaign tries to break the code in another way.")
  .helpCommand(false)
  .addHelpText("after", "\nnpm run verify -- CAMPAIGN --help lists the options of a campaign.")
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE));
for (const [name, { module, needsBuild = false, what }] of Object.entries(CAMPAIGNS)) {
  program
    .command(name)
    .usage("[options]")
    .description(what)
    // The campaign reads them itself.
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => start(module, needsBuild, args.slice(1)));
}
if (args.length === 0) program.outputHelp();
else await program.parseAsync(args, { from: "user" });

/**
 * In this process, so that signals reach the campaign, and its exit code the caller.
 * @param {string} module
 * @param {boolean} needsBuild
 * @param {readonly string[]} options
 */
async function start(module, needsBuild, options) {
  if (needsBuild && !options.includes("--help")) {
    const { status } = spawnSync(process.execPath, [BUILD], { stdio: "inherit" });
    if (status !== 0) process.exit(status ?? 1);
  }
  const url = new URL(module, import.meta.url);
  // Campaigns read their arguments there, and reports name their command by it.
  process.argv.splice(1, Infinity, fileURLToPath(url), ...options);
  await import(url.href);
}
