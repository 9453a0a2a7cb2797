/** All commands as data, from which completions and the reference in docs/cli.md are generated. */
import type { Command, Option } from "commander";

export interface OptionEntry {
  /** As in the help: `-V, --version`, `--store <url>`. */
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
  /** Whether the tree also has this command by its main name. */
  readonly isAlias: boolean;
  readonly usage: string;
  readonly description: string;
  /** Their names and aliases. */
  readonly subcommands: readonly string[];
  /** Of its arguments. */
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
  const namesOf = (one: Command) => [one.name(), ...one.aliases()];
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
    ...command.commands.flatMap((one) =>
      namesOf(one).flatMap((name, index) => entriesOf(one, [...path, name], isAlias || index > 0)),
    ),
  ];
}

function optionOf(option: Option): OptionEntry {
  const { flags, long, required, optional, argChoices, description, envVar } = option;
  const given: unknown = option.defaultValue;
  const isPlain = typeof given === "string" || typeof given === "number";
  const shown = option.defaultValueDescription ?? (isPlain ? String(given) : null);
  return {
    flags,
    long: long ?? flags,
    takesValue: required || optional,
    choices: argChoices ?? [],
    description,
    env: envVar ?? null,
    defaultText: shown === "" ? null : shown,
  };
}
