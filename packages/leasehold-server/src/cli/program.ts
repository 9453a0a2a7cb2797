import { Command } from "commander";
import { VERSION } from "./version.js";

type AddCommand = (program: Command, loadAll: () => Promise<Command>) => void;

/** In the order of the help. Each is loaded when used, so that `run` does not load the server's packages. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  demo: async () => (await import("./demo.js")).addDemo,
  serve: async () => (await import("./serve.js")).addServe,
  worker: async () => (await import("./worker.js")).addWorker,
  generate: async () => (await import("./generate.js")).addGenerate,
  enqueue: async () => (await import("./enqueue.js")).addEnqueue,
  tasks: async () => (await import("./tasks.js")).addTasks,
  run: async () => (await import("./run.js")).addRun,
  acquire: async () => (await import("./grants.js")).addAcquire,
  renew: async () => (await import("./grants.js")).addRenew,
  release: async () => (await import("./grants.js")).addRelease,
  elect: async () => (await import("./elect.js")).addElect,
  ls: async () => (await import("./lease-views.js")).addLs,
  show: async () => (await import("./lease-views.js")).addShow,
  why: async () => (await import("./why.js")).addWhy,
  watch: async () => (await import("./watch.js")).addWatch,
  revoke: async () => (await import("./operator-actions.js")).addRevoke,
  pause: async () => (await import("./operator-actions.js")).addPause,
  resume: async () => (await import("./operator-actions.js")).addResume,
  keys: async () => (await import("./keys.js")).addKeys,
  audit: async () => (await import("./audit.js")).addAudit,
  limits: async () => (await import("./limits.js")).addLimits,
  doctor: async () => (await import("./doctor.js")).addDoctor,
  migrate: async () => (await import("./migrate.js")).addMigrate,
  completion: async () => (await import("./completion.js")).addCompletion,
  conformance: async () => (await import("./conformance.js")).addConformance,
};

/** These flags need no command, and loading all commands takes a second. */
const VERSION_FLAGS = ["-V", "--version"];
const ALIASES: Readonly<Record<string, string>> = { generator: "generate", lock: "run" };

interface Settings {
  readonly verbose: boolean;
  readonly json: boolean;
}

export interface Program {
  readonly program: Command;
  /** How to report a failure of the command that runs. */
  readonly settings: () => Settings;
}

/**
 * Loads the command that `word` names, or all commands for the help. Parsing throws instead of
 * ending the process.
 */
export async function loadProgram(word: string | undefined): Promise<Program> {
  const program = new Command("leasehold")
    .description("Leases with fencing tokens: locks, singletons and tasks on your database.")
    .version(VERSION)
    // Options after a subcommand belong to that subcommand, at every level.
    .enablePositionalOptions()
    .exitOverride();
  const loadAll = async () => (await loadProgram(undefined)).program;
  for (const name of namesFor(word)) (await COMMANDS[name]?.())?.(program, loadAll);
  let settings: Settings = { verbose: false, json: false };
  program.hook("preAction", (_, command) => {
    const { verbose = false, json = false } = command.opts<Partial<Settings>>();
    settings = { verbose, json };
  });
  for (const command of everyCommand(program)) finish(command);
  return { program, settings: () => settings };
}

function namesFor(word: string | undefined): readonly string[] {
  if (word === undefined) return Object.keys(COMMANDS);
  if (VERSION_FLAGS.includes(word)) return [];
  const known = ALIASES[word] ?? word;
  return Object.hasOwn(COMMANDS, known) ? [known] : Object.keys(COMMANDS);
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

const NO_DEFAULT =
  "\n--store has no default. The examples without it take it from LEASEHOLD_STORE.";

/** Adds --verbose, a word on the store to the help, and the text that follows a usage error. */
function finish(command: Command): void {
  const store = command.options.find((option) => option.long === "--store");
  if (store && store.defaultValue === undefined) command.addHelpText("after", NO_DEFAULT);
  // A group without an action cannot fail.
  if (command.commands.length === 0 || command.registeredArguments.length > 0) {
    command.option("--verbose", "print the stack and causes of an error");
  }
  const names = command.commands.map((known) => known.name());
  const flags = command.options.map((option) => option.long ?? option.flags);
  const known =
    names.length > 0 ? `Commands: ${names.join(", ")}.` : `Options: ${flags.join(", ")}.`;
  command.showHelpAfterError(`${known} For help: ${pathOf(command)} --help`);
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
