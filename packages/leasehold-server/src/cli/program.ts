import { Command } from "commander";
import { COMMANDS } from "./commands.js";
import { UsageError } from "./failures.js";
import { writeHelp } from "./output.js";
import { refuseRepeated } from "./repeated-options.js";
import { indented, say } from "./terminal.js";
import { VERSION } from "./version.js";

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
 * @param words of the command line. The first that names a command loads it; the others are as the list of commands
 *   shows them. Undefined: all commands are loaded
 * @param json whether errors are JSON, before it is known which command runs
 */
export async function loadProgram(words?: readonly string[], json = false): Promise<Program> {
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
  const loadAll = async () => (await loadProgram()).program;
  const named = words?.map(nameOf).find((name) => name !== undefined);
  for (const [name, { usage, aliases = [], description, load }] of Object.entries(COMMANDS)) {
    const command = program.command(name).description(description).aliases(aliases);
    if (words === undefined || name === named) {
      (await load())(command, loadAll);
      for (const each of everyCommand(command)) complete(each, json);
    } else {
      outline(command, usage);
    }
  }
  complete(program, json);
  let settings: Settings = { verbose: false, json };
  program.hook("preAction", (_, command) => {
    const { verbose: isVerbose = false, json: isJson = false } = command.opts<Partial<Settings>>();
    settings = { verbose: isVerbose, json: isJson };
    checkEncoding(command);
    refuseMisplaced(command);
  });
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

/** The name of the command that a word names, maybe by an alias. */
function nameOf(word: string): string | undefined {
  if (Object.hasOwn(COMMANDS, word)) return word;
  return Object.keys(COMMANDS).find((name) => COMMANDS[name]?.aliases?.includes(word));
}

/** Adds what the list of commands shows of a command. */
function outline(command: Command, usage: string): void {
  for (const part of usage.split(" ").filter((text) => text !== "")) {
    if (part === "[options]") command.option(...VERBOSE);
    else command.argument(part);
  }
}

function complete(command: Command, json: boolean): void {
  addErrorHelp(command, json);
  refuseRepeated(command);
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

const VERBOSE = ["--verbose", "print the stack and causes of an error"] as const;

const NO_DEFAULT =
  "\n--store has no default. The examples without it take it from LEASEHOLD_STORE.";

/** Adds --verbose, a sentence on the store to the help, and the text that follows a usage error. */
function addErrorHelp(command: Command, json: boolean): void {
  const store = command.options.find((option) => option.long === "--store");
  if (store && store.defaultValue === undefined) command.addHelpText("after", NO_DEFAULT);
  // A command that only groups others has no action, so nothing in it can fail.
  if (command.commands.length === 0 || command.registeredArguments.length > 0) {
    command.option(...VERBOSE);
  }
  if (json) return;
  const names = command.commands.map((subcommand) => subcommand.name());
  const flags = command.options.map((option) => option.long ?? option.flags);
  const choices =
    names.length > 0 ? `Commands: ${names.join(", ")}.` : `Options: ${flags.join(", ")}.`;
  const usage = names.length > 0 ? "" : `Usage: ${pathOf(command)} ${command.usage()}\n`;
  command.showHelpAfterError(`${usage}${choices} For help: ${pathOf(command)} --help`);
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
