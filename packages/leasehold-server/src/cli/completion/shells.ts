/**
 * Completions are plain scripts, so pressing Tab starts no process. Each script follows the words before
 * the cursor to the command that they name, and offers its subcommands and options.
 */
import type { CommandEntry, OptionEntry } from "../command-tree.js";

const LOCAL_NAME = "_leasehold";

export function bashScript(tree: readonly CommandEntry[]): string {
  return `# leasehold completion for bash
${LOCAL_NAME}() {
  local at= cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} i word
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word == -- ]] && return
    case "$at $word" in
      ${stepsOf(tree).join("|")}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at $prev" in
${valuesOf(tree, (values) => `COMPREPLY=($(compgen -W ${quoted(values.join(" "))} -- "$cur")); return`)}
  esac
  case "$at" in
${wordsOf(tree, (words) => `COMPREPLY=($(compgen -W ${quoted(words.join(" "))} -- "$cur"))`)}
  esac
}
complete -o default -F ${LOCAL_NAME} leasehold
`;
}

export function zshScript(tree: readonly CommandEntry[]): string {
  return `#compdef leasehold
${LOCAL_NAME}() {
  local at= word prev=\${words[CURRENT-1]}
  local -i i
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    [[ $word == -- ]] && { _files; return }
    case "$at $word" in
      ${stepsOf(tree).join("|")}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at $prev" in
${valuesOf(tree, (values) => (values.length > 0 ? `compadd -- ${values.map(quoted).join(" ")}; return` : "_files; return"))}
  esac
  case "$at" in
${wordsOf(tree, (words) => `compadd -- ${words.map(quoted).join(" ")}`)}
  esac
}
compdef ${LOCAL_NAME} leasehold
`;
}

export function fishScript(tree: readonly CommandEntry[]): string {
  const lines = tree.flatMap(({ path, subcommands, choices, options }) => {
    const where = `complete -c leasehold -n "__leasehold_at '${path}'"`;
    const words = [...subcommands, ...choices];
    const offered = words.length > 0 ? [`${where} -f -a ${quoted(words.join(" "))}`] : [];
    return [...offered, ...options.map((option) => `${where} ${fishOption(option)}`)];
  });
  return `# leasehold completion for fish
function __leasehold_at
  set -l at
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case ${stepsOf(tree).join(" ")}
        set at (string trim -- "$at $word")
    end
  end
  test "$at" = "$argv"
end
${lines.join("\n")}
`;
}

function fishOption({ long, takesValue, choices, description }: OptionEntry): string {
  const value =
    choices.length > 0 ? ` -x -a ${quoted(choices.join(" "))}` : takesValue ? " -r" : "";
  return `-l ${long.replace(/^--/, "")}${value} -d ${quoted(description)}`;
}

/** Each subcommand after the path of its parent: `' tasks'`, `'tasks retry'`. */
function stepsOf(tree: readonly CommandEntry[]): string[] {
  return tree.flatMap(({ path, subcommands }) =>
    subcommands.map((word) => quoted(`${path} ${word}`)),
  );
}

/** The values that may follow each option that takes one. */
function valuesOf(
  tree: readonly CommandEntry[],
  offer: (values: readonly string[]) => string,
): string {
  const lines = tree.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ long, choices }) => {
        const then = choices.length > 0 ? offer(choices) : "return";
        return `    ${quoted(`${path} ${long}`)}) ${then} ;;`;
      }),
  );
  return lines.join("\n");
}

function wordsOf(tree: readonly CommandEntry[], offer: (words: readonly string[]) => string) {
  const lines = tree.map(({ path, subcommands, choices, options }) => {
    const words = [...subcommands, ...choices, ...options.map(({ long }) => long)];
    return `    ${quoted(path)}) ${offer(words)} ;;`;
  });
  return lines.join("\n");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
