/** All commands as data: what completions and the reference of docs/cli.md are made of. */
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
  /** Below the program: `tasks retry`; empty: the program itself. */
  readonly path: string;
  /** Whether it stands in the tree by its own name too. */
  readonly isAlias: boolean;
  readonly usage: string;
  readonly description: string;
  /** Their names, and their other names. */
  readonly subcommands: readonly string[];
  /** Of its arguments. */
  readonly choices: readonly string[];
  readonly options: readonly OptionEntry[];
}

/** The program first, each command before its own. */
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
