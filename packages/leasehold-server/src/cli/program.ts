import { Command } from "commander";
import { VERSION } from "./version.js";

type AddCommand = (program: Command, loadAll: () => Promise<Command>) => void;

/** In the order of the help. Loaded when used: a server's packages are of no use to `run`. */
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
  revoke: async () => (await import("./acts.js")).addRevoke,
  pause: async () => (await import("./acts.js")).addPause,
  resume: async () => (await import("./acts.js")).addResume,
  keys: async () => (await import("./keys.js")).addKeys,
  audit: async () => (await import("./audit.js")).addAudit,
  limits: async () => (await import("./limits.js")).addLimits,
  doctor: async () => (await import("./doctor.js")).addDoctor,
  migrate: async () => (await import("./migrate.js")).addMigrate,
  completion: async () => (await import("./completion.js")).addCompletion,
  conformance: async () => (await import("./conformance.js")).addConformance,
};

/** They need no command, and all of them together take a second to load. */
const VERSION_FLAGS = ["-V", "--version"];
const ALIASES: Readonly<Record<string, string>> = { generator: "generate" };

interface Settings {
  readonly verbose: boolean;
  readonly json: boolean;
}

export interface Program {
  readonly program: Command;
  /** How the command that runs wants its failures told. */
  readonly settings: () => Settings;
}

/**
 * The command that `word` names, or else all of them, for the help. Parsing throws where the
 * process would have to end.
 */
export async function loadProgram(word: string | undefined): Promise<Program> {
  const program = new Command("leasehold")
    .description("Leases with fencing tokens: locks, singletons and tasks on your database.")
    .version(VERSION)
    // What stands behind a command is that command's, at every level.
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

/** What every command has, and what an error about it says. */
function finish(command: Command): void {
  // A group that does nothing itself has no errors of its own.
  if (command.commands.length === 0 || command.registeredArguments.length > 0) {
    command.option("--verbose", "with an error, its stack and causes");
  }
  const names = command.commands.map((known) => known.name());
  const flags = command.options.map((option) => option.long ?? option.flags);
  const known =
    names.length > 0 ? `Commands: ${names.join(", ")}.` : `Options: ${flags.join(", ")}.`;
  command.showHelpAfterError(`${known} More by: ${pathOf(command)} --help`);
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
