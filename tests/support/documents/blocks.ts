/** The code blocks of the repository's Markdown, and the command lines in it. */
import type { CommandEntry } from "../../../packages/leasehold-server/src/cli/command-tree.js";

export interface CodeBlock {
  readonly path: string;
  /** Of its first line of code, from 1. */
  readonly line: number;
  /** Empty for what is no code: diagrams and output. */
  readonly lang: string;
  /** Without the indentation of a list. */
  readonly code: string;
}

export function blocksOf(path: string, text: string): CodeBlock[] {
  return [...text.matchAll(/^( *)```(\w*)[^\n]*\n([^]*?)^\1```$/gm)].map((found) => {
    const [, indent = "", lang = "", code = ""] = found;
    const line = text.slice(0, found.index).split("\n").length + 1;
    return { path, line, lang, code: code.replaceAll(new RegExp(`^${indent}`, "gm"), "") };
  });
}

/** Commands in code within sentences: `leasehold why RESOURCE`. */
export function inlineCommands(text: string): string[] {
  const prose = text.replaceAll(/^ *```[^]*?^ *```$/gm, "");
  return [...prose.matchAll(/`((?:npx )?leasehold(?:-server)? [^`]+)`/g)].map(
    ([, code = ""]) => code,
  );
}

/** Where a command may begin: a line, or behind another one. */
const BEGIN = /(?:^|[;&|(]\s*|\bexec |\bnpx |[A-Z_]+=\S* |\* {2})leasehold(?:-server)? (?=\S)/gm;

/** What the command lines of a script say that the program does not know. */
export function wrongCommands(script: string, tree: readonly CommandEntry[]): string[] {
  const text = script.replaceAll(/\\\n\s*/g, " ");
  return [...text.matchAll(BEGIN)].flatMap((found) => {
    const words = wordsOf(text.slice(found.index + found[0].length));
    return problemsOf(words, tree).map((problem) => `leasehold ${words.join(" ")}: ${problem}`);
  });
}

/** The words of the first command of a text, as a shell reads them. */
function wordsOf(text: string): string[] {
  const [command = ""] = /^(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\n;&|()#><])*/.exec(text) ?? [];
  const words = command.match(/(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|\S)+/g) ?? [];
  return words.map((word) => word.replaceAll(/^["']|["']$/g, ""));
}

function problemsOf(words: readonly string[], tree: readonly CommandEntry[]): string[] {
  const [program] = tree;
  const command = commandOf(words, tree);
  const [first = ""] = words;
  // A placeholder, or only options of the program.
  if (/^(?:[A-Z]+|-.*|…|\.\.\.)$/.test(first)) return [];
  if (!command || !program) return [`there is no command ${first}`];
  const end = words.indexOf("--");
  const own = words.slice(command.path.split(" ").length, end < 0 ? undefined : end);
  const options = [...command.options, ...program.options];
  return own.flatMap((word, at) => {
    const [, flag = "", , inWord] = /^(--[\w-]+)(=(.*))?$/.exec(word) ?? [];
    if (flag === "") return [];
    const option = options.find(({ long }) => long === flag);
    if (!option) return [`${command.path} has no ${flag}`];
    const value = inWord ?? own[at + 1];
    const isPlain =
      option.takesValue && /^[a-z][\w-]*$/i.test(value ?? "") && !/^[A-Z_]+$/.test(value ?? "");
    if (option.choices.length === 0 || !isPlain) return [];
    return option.choices.includes(value ?? "") ? [] : [`${flag} cannot be ${value}`];
  });
}

function commandOf(words: readonly string[], tree: readonly CommandEntry[]) {
  for (const length of [3, 2, 1]) {
    const path = words.slice(0, length).join(" ");
    const found = tree.find((entry) => entry.path === path && words.length >= length);
    if (found && path !== "") return found;
  }
  return undefined;
}
