/**
 * Reads a page of the documentation as its reader does: files to save, commands to run, and what they print.
 *
 *   ```js [worker.mjs]     a file. In a code group the label names the alternative, and a first line `// worker.mjs` the file
 *   ```sh                  commands. With the label [server], those of a terminal of their own that stay
 *   ```txt                 directly after commands: what they print. Directly after code: what the program prints
 *   <!-- walk: MARK -->    before a block or a group: `in any order` (of the printed lines), `warns TEXT` (on stderr), or
 *                          `not run, REASON`; before a group, `without LABEL, REASON`
 */

/** Of a code group, by its label; a block that is in none has the alternative null. */
export interface Block {
  readonly lang: string;
  readonly label: string | null;
  readonly group: number | null;
  readonly code: string;
  /** Of its first line of code, from 1. */
  readonly line: number;
  readonly mark: string | null;
  /** What it prints. */
  readonly printed: string | null;
}

export type Step =
  | { readonly do: "save"; readonly name: string; readonly code: string }
  | {
      readonly do: "run";
      readonly code: string;
      readonly line: number;
      readonly printed: string | null;
      readonly anyOrder: boolean;
      /** A text on stderr, of which the page speaks. */
      readonly warns: string | null;
      /** In a terminal of its own, where it stays. */
      readonly stays: boolean;
    };

export interface Walk {
  /** `[Express]`, of the code groups; empty on a page without any. */
  readonly alternative: string;
  /** Why it is not followed, or null. */
  readonly leftOut: string | null;
  /** The packages that the page tells its reader to install. */
  readonly installed: readonly string[];
  readonly steps: readonly Step[];
}

export interface Snippet {
  readonly lang: "js" | "ts";
  readonly code: string;
  readonly line: number;
}

const FENCE = /^```(\w*)(?: \[([^\]]+)\])?\s*$/;
const MARK = /^<!-- walk: (.*) -->$/;
const NAME = /^\/\/ ([\w./[\]-]+\.\w+)$/;
const FILE = /^[\w./[\]-]+\.\w+$/;
const INSTALLS = /^(npm|pnpm|yarn|bun) (install|add|init|create)\b/;

export function readBlocks(text: string): Block[] {
  const blocks: (Block & { printed: string | null })[] = [];
  const lines = text.split("\n");
  let group: number | null = null;
  let groups = 0;
  let mark: string | null = null;
  /** The block that the next one follows directly, or all those of the group that has ended. */
  let before: (Block & { printed: string | null })[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    if (fence) {
      const [, lang = "", label = null] = fence;
      const end = lines.indexOf("```", at + 1);
      if (end < 0) throw new Error(`line ${at + 1}: this block has no end`);
      const code = `${lines.slice(at + 1, end).join("\n")}\n`;
      if (lang === "txt" && before.length > 0) {
        for (const block of before) block.printed = code;
        before = [];
      } else {
        const block = { lang, label, group, code, line: at + 2, mark, printed: null };
        blocks.push(block);
        before = group === null ? [block] : [...before, block];
      }
      if (group === null) mark = null;
      at = end;
    } else if (line.startsWith("::: code-group")) {
      group = groups++;
      before = [];
    } else if (line === ":::") {
      group = null;
      mark = null;
    } else if (MARK.test(line)) {
      mark = MARK.exec(line)?.[1] ?? null;
      before = [];
    } else if (line !== "") {
      before = [];
    }
  }
  return blocks;
}

/** One for each alternative of the code groups: a reader follows one of them. */
export function walksOf(blocks: readonly Block[]): Walk[] {
  const inGroups = blocks.filter(({ group, mark }) => group !== null && !isLeftOut(mark));
  const labels = new Set(inGroups.flatMap(({ label }) => label ?? []));
  const alternatives = labels.size === 0 ? [null] : [...labels];
  const walks = alternatives.map((label) => ({
    alternative: label ?? "",
    leftOut: blocks.find(({ mark }) => mark?.startsWith(`without ${label}, `))?.mark ?? null,
    installed: blocks
      .filter((block) => isFor(block, label))
      .flatMap(({ code }) => packagesIn(code)),
    steps: blocks.filter((block) => isFor(block, label)).flatMap(stepsOf),
  }));
  return walks.filter(({ steps }) => steps.some((step) => step.do === "run"));
}

/** Whether the block is outside of all groups, or the one of its group that the reader of this alternative takes. */
function isFor(block: Block, label: string | null): boolean {
  return block.group === null || block.label === label;
}

/** What the commands install. */
function packagesIn(code: string): string[] {
  const lines = code.split("\n").filter((line) => INSTALLS.test(line));
  return lines.flatMap((line) => line.split(" ").slice(2)).filter((word) => !word.startsWith("-"));
}

function stepsOf(block: Block): Step[] {
  if (isLeftOut(block.mark)) return [];
  const { code, line, printed, lang, label } = block;
  const anyOrder = block.mark === "in any order";
  const [, warns = null] = /^warns (.+)$/.exec(block.mark ?? "") ?? [];
  const run = { do: "run", line, printed, anyOrder, warns, stays: label === "server" } as const;
  if (lang === "sh") {
    const commands = code
      .split("\n")
      .map((command) => (INSTALLS.test(command) ? "" : command))
      .join("\n");
    if (commands.trim() === "") return [];
    return [{ ...run, code: commands }];
  }
  const files = filesOf(block);
  const saves = files.map((file): Step => ({ do: "save", ...file }));
  if (files.length > 0 || printed === null || !/^(js|ts)$/.test(lang)) return saves;
  const name = `program-${line}.mjs`;
  return [
    { do: "save", name, code },
    { ...run, code: `node ${name}\n` },
  ];
}

function isLeftOut(mark: string | null): boolean {
  return mark?.startsWith("not run, ") ?? false;
}

function filesOf({ label, group, code }: Block): { name: string; code: string }[] {
  if (group === null) return label !== null && FILE.test(label) ? [{ name: label, code }] : [];
  const files: { name: string; code: string }[] = [];
  for (const line of code.split("\n")) {
    const [, name] = NAME.exec(line) ?? [];
    if (name !== undefined) files.push({ name, code: "" });
    else if (files.length > 0) files[files.length - 1]!.code += `${line}\n`;
  }
  return files;
}

/** Code that no walk runs: it is compiled instead. */
export function snippetsOf(blocks: readonly Block[]): Snippet[] {
  return blocks.flatMap((block): Snippet[] => {
    const { lang, code, line, printed, mark } = block;
    const isRun = printed !== null || filesOf(block).length > 0;
    if ((lang !== "js" && lang !== "ts") || isRun || isLeftOut(mark)) return [];
    return [{ lang, code, line }];
  });
}
