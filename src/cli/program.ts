import { Command } from "commander";
import { addDemo } from "./demo.js";
import { addEnqueue } from "./enqueue.js";
import { addGenerate } from "./generate.js";
import { addMigrate } from "./migrate.js";
import { addRun } from "./run.js";
import { addServe } from "./serve.js";
import { addTasks } from "./tasks.js";
import { VERSION } from "./version.js";
import { addWorker } from "./worker.js";

interface Settings {
  readonly verbose: boolean;
  readonly json: boolean;
}

export interface Program {
  readonly program: Command;
  /** How the command that runs wants its failures told. */
  readonly settings: () => Settings;
}

/** All commands; parsing one throws where the process would have to end. */
export function buildProgram(): Program {
  const program = new Command("leasehold")
    .description("Leases with fencing tokens: locks, singletons and tasks on your database.")
    .version(VERSION)
    .exitOverride()
    .configureHelp({ showGlobalOptions: false });
  for (const add of [
    ...[addDemo, addServe, addWorker, addGenerate, addEnqueue, addTasks, addRun, addMigrate],
  ]) {
    add(program);
  }
  let settings: Settings = { verbose: false, json: false };
  program.hook("preAction", (_, command) => {
    const { verbose = false, json = false } = command.opts<Partial<Settings>>();
    settings = { verbose, json };
  });
  for (const command of everyCommand(program)) finish(command);
  return { program, settings: () => settings };
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

/** What every command has, and what an error about it says. */
function finish(command: Command): void {
  if (command.commands.length === 0) {
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
