/** Describes all commands as data. Shell completions and the reference in docs/cli.md are generated from it. */
import type { Command, Option } from "commander";

export interface OptionEntry {
  /** As the help shows them: `-V, --version`, `--store <url>`. */
  readonly flags: string;
  readonly long: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
  readonly description: string;
  readonly env: string | null;
  readonly defaultText: string | null;
}

export interface CommandEntry {
  /** Path below the program, such as `tasks retry`; empty for the program itself. */
  readonly path: string;
  /** Whether the path contains an alias. The tree also lists the command by its main name. */
  readonly isAlias: boolean;
  readonly usage: string;
  readonly description: string;
  /** The names and aliases of its subcommands. */
  readonly subcommands: readonly string[];
  /** The allowed values of its arguments. */
  readonly choices: readonly string[];
  readonly options: readonly OptionEntry[];
}

/** Lists the program first, and each command before its subcommands. */
export function commandTree(program: Command): CommandEntry[] {
  return entriesOf(program, [], false);
}

function entriesOf(command: Command, path: readonly string[], isAlias: boolean): CommandEntry[] {
  const help = command.createHelp();
  const options = help.visibleOptions(command);
  const namesOf = (subcommand: Command) => [subcommand.name(), ...subcommand.aliases()];
  return [
    {
      path: path.join(" "),
      isAlias,
      usage: command.usage(),
      description: command.description(),
      subcommands: command.commands.flatMap(namesOf),
      choices: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
      options: options.map(optionOf),
    },
    ...command.commands.flatMap((subcommand) =>
      namesOf(subcommand).flatMap((name, index) =>
        entriesOf(subcommand, [...path, name], isAlias || index > 0),
      ),
    ),
  ];
}

function optionOf(option: Option): OptionEntry {
  const { flags, long, required, optional, argChoices, description, envVar } = option;
  const defaultValue: unknown = option.defaultValue;
  const isPlain = typeof defaultValue === "string" || typeof defaultValue === "number";
  const text = option.defaultValueDescription ?? (isPlain ? String(defaultValue) : null);
  return {
    flags,
    long: long ?? flags,
    takesValue: required || optional,
    choices: argChoices ?? [],
    description,
    env: envVar ?? null,
    defaultText: text === "" ? null : text,
  };
}
