import { Command } from "commander";
import { UsageError } from "./failures.js";
import { writeHelp } from "./output.js";
import { refuseRepeated } from "./repeated-options.js";
import { indented, say } from "./terminal.js";
import { VERSION } from "./version.js";

type AddCommand = (program: Command, loadAll: () => Promise<Command>) => void;

/** In the order of the help. Each command is imported when used, so that `run` does not load the packages of `serve`. */
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

/** With these flags no command is loaded, because loading all of them takes about a second. */
const VERSION_FLAGS = ["-V", "--version"];
const ALIASES: Readonly<Record<string, string>> = {
  "force-unlock": "revoke",
  generator: "generate",
  lock: "run",
};

interface Settings {
  readonly verbose: boolean;
  readonly json: boolean;
}

export interface Program {
  readonly program: Command;
  /** The output options of the command that runs; a failure is reported by them. */
  readonly settings: () => Settings;
}

/**
 * Builds the program. Its parser throws instead of ending the process.
 * @param firstWord the first word of the command line. If it names a command, only that command is loaded,
 *   otherwise all of them, which the help needs
 * @param json whether errors are JSON, before it is known which command runs
 */
export async function loadProgram(firstWord: string | undefined, json = false): Promise<Program> {
  const program = new Command("leasehold")
    .description("Leases with fencing tokens: locks, singletons and tasks on your database.")
    .version(VERSION)
    .configureOutput({
      writeOut: writeHelp,
      writeErr: (text) => say(indented(text.trimEnd())),
      // main.ts reports usage errors as JSON like all others.
      outputError: (text, write) => json || write(text),
    })
    // Options after a subcommand belong to that subcommand, at every level.
    .enablePositionalOptions()
    .exitOverride();
  const loadAll = async () => (await loadProgram(undefined)).program;
  for (const name of commandsToLoad(firstWord)) (await COMMANDS[name]?.())?.(program, loadAll);
  let settings: Settings = { verbose: false, json };
  program.hook("preAction", (_, command) => {
    const { verbose: isVerbose = false, json: isJson = false } = command.opts<Partial<Settings>>();
    settings = { verbose: isVerbose, json: isJson };
    checkEncoding(command);
    refuseMisplaced(command);
  });
  for (const command of everyCommand(program)) {
    addErrorHelp(command, json);
    refuseRepeated(command);
  }
  return { program, settings: () => settings };
}

/**
 * Node replaces each byte of the command line that is not UTF-8 by U+FFFD, so that two names become one.
 * @throws UsageError
 */
function checkEncoding(command: Command): void {
  const named = Object.entries(command.opts<Record<string, unknown>>());
  const given = [...command.args.map((text) => ["an argument", text] as const), ...named];
  const invalid = given.find(([, text]) => typeof text === "string" && text.includes("\ufffd"));
  if (!invalid) return;
  const [what, text] = invalid;
  throw new UsageError(`${what} is not UTF-8, or contains U+FFFD: ${JSON.stringify(text)}`);
}

/**
 * A subcommand does not see the options of its parents.
 * @throws UsageError
 */
function refuseMisplaced(command: Command): void {
  for (let { parent } = command; parent; { parent } = parent) {
    const isTyped = (name: string) => parent?.getOptionValueSource(name) === "cli";
    const misplaced = parent.options.find((option) => isTyped(option.attributeName()));
    if (!misplaced) continue;
    const name = misplaced.long ?? misplaced.flags;
    throw new UsageError(
      `${name} has no effect before a subcommand: write options after "${pathOf(command)}"`,
    );
  }
}

function commandsToLoad(firstWord: string | undefined): readonly string[] {
  if (firstWord === undefined) return Object.keys(COMMANDS);
  if (VERSION_FLAGS.includes(firstWord)) return [];
  const name = ALIASES[firstWord] ?? firstWord;
  return Object.hasOwn(COMMANDS, name) ? [name] : Object.keys(COMMANDS);
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

const NO_DEFAULT =
  "\n--store has no default. The examples without it take it from LEASEHOLD_STORE.";

/** Adds --verbose, a sentence on the store to the help, and the text that follows a usage error. */
function addErrorHelp(command: Command, json: boolean): void {
  const store = command.options.find((option) => option.long === "--store");
  if (store && store.defaultValue === undefined) command.addHelpText("after", NO_DEFAULT);
  // A command that only groups others has no action, so nothing in it can fail.
  if (command.commands.length === 0 || command.registeredArguments.length > 0) {
    command.option("--verbose", "print the stack and causes of an error");
  }
  if (json) return;
  const names = command.commands.map((subcommand) => subcommand.name());
  const flags = command.options.map((option) => option.long ?? option.flags);
  const choices =
    names.length > 0 ? `Commands: ${names.join(", ")}.` : `Options: ${flags.join(", ")}.`;
  command.showHelpAfterError(`${choices} For help: ${pathOf(command)} --help`);
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
