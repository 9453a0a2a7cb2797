/**
 * Reads the examples of docs/http.md; CONTRIBUTING.md describes their form. A section is what stands
 * under one heading of the second level; its steps are in the order of the text.
 */

export interface Message {
  readonly line: number;
  /** By name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** As printed; empty if there is none. */
  readonly body: string;
}
export interface Example {
  readonly kind: "example";
  readonly line: number;
  readonly request: Message & { readonly method: string; readonly path: string };
  readonly answer: Message & { readonly status: number };
}
export interface Shell {
  readonly kind: "shell";
  readonly line: number;
  readonly command: string;
  /** What the command prints, as JSON; null: anything. */
  readonly output: string | null;
}
export interface Later {
  readonly kind: "later";
  readonly line: number;
  readonly ms: number;
}
export type Step = Example | Shell | Later;

export interface Section {
  readonly title: string;
  readonly line: number;
  readonly steps: readonly Step[];
}

/** One row of the table of problems: a status and its codes. */
export interface ProblemRow {
  readonly line: number;
  readonly status: number;
  readonly codes: readonly string[];
}

interface Block {
  readonly line: number;
  readonly info: string;
  readonly text: string;
  /** Of its closing fence, to tell what follows directly. */
  readonly endLine: number;
}

const LATER = /^\*(\d+) (seconds?|milliseconds) later.*\*$/;
const REQUEST = /^([A-Z]+) (\/\S*)$/;
const ANSWER = /^HTTP\/1\.1 (\d{3})( [A-Z][A-Za-z ]*)?$/;

/** @throws naming the line of what is not in the form */
export function readHttpDocument(markdown: string): readonly Section[] {
  const sections: (Section & { steps: Step[] })[] = [];
  const lines = markdown.split("\n");
  let steps: Step[] = [];
  let request: Block | undefined;
  let last: Block | undefined;
  for (let index = 0; index < lines.length; index++) {
    const text = lines[index] ?? "";
    const line = index + 1;
    if (text.startsWith("```")) {
      const block = readBlock(lines, index);
      index = block.endLine - 1;
      const between = last ? lines.slice(last.endLine, block.line - 1) : ["nothing before"];
      const follows = between.every((each) => each.trim() === "");
      if (block.info === "http" && ANSWER.test(firstLine(block))) {
        if (!request || !follows) throw wrong(block.line, "an answer follows its request directly");
        steps.push(readExample(request, block));
        request = undefined;
      } else {
        if (request) throw wrong(request.line, "a request is followed by its answer");
        if (block.info === "http") request = block;
        if (block.info === "sh") steps.push(readShell(block));
        const step = steps.at(-1);
        if (block.info === "json" && follows && last?.info === "sh" && step?.kind === "shell") {
          steps.splice(-1, 1, { ...step, output: block.text });
        }
      }
      last = block;
      continue;
    }
    const [, title] = /^## (.+)$/.exec(text) ?? [];
    if (title !== undefined) {
      steps = [];
      sections.push({ title, line, steps });
    }
    const [, count, unit] = LATER.exec(text) ?? [];
    if (count !== undefined) {
      const ms = Number(count) * (unit === "milliseconds" ? 1 : 1_000);
      steps.push({ kind: "later", line, ms });
    }
  }
  if (request) throw wrong(request.line, "a request is followed by its answer");
  return sections;
}

/** The rows of the table of problems, which begin with a status. */
export function readProblemTable(markdown: string): readonly ProblemRow[] {
  return matchLines(markdown, /^\| (\d{3}) \| ([^|]+)\|/, (line, [, status, codes = ""]) => {
    const named = [...codes.matchAll(/`([A-Z_]+)`/g)].map(([, code = ""]) => code);
    return { line, status: Number(status), codes: named };
  });
}

/** The routes that have a heading of their own. */
export function readHeadings(markdown: string): readonly string[] {
  return matchLines(markdown, /^### `([A-Z]+ \/\S+)`$/, (_, [, route = ""]) => route);
}

/** The routes in the tables. After one of them, `/name` is the same with another end. */
export function readRouteTables(markdown: string): readonly string[] {
  return matchLines(markdown, /^\| (`[A-Z]+ \/[^|]+) \|/, (_, [, cell = ""]) => {
    let [method, path]: string[] = [];
    return [...cell.matchAll(/`(?:([A-Z]+) )?(\/[^` ?]+)`/g)].map(([, own, route = ""]) => {
      if (own) [method, path] = [own, route];
      else path = path?.replace(/\/[^/]*$/, route);
      return `${method} ${path}`;
    });
  }).flat();
}

function matchLines<T>(
  markdown: string,
  pattern: RegExp,
  read: (line: number, match: RegExpExecArray) => T,
): T[] {
  return markdown.split("\n").flatMap((text, index) => {
    const match = pattern.exec(text);
    return match ? [read(index + 1, match)] : [];
  });
}

export function wrong(line: number, problem: string): Error {
  return new Error(`docs/http.md:${line}: ${problem}`);
}

function readBlock(lines: readonly string[], start: number): Block {
  const end = lines.indexOf("```", start + 1);
  if (end < 0) throw wrong(start + 1, "a fence that does not end");
  const info = (lines[start] ?? "").slice(3).trim();
  const text = lines.slice(start + 1, end).join("\n");
  return { line: start + 1, info, text, endLine: end + 1 };
}

function firstLine({ text }: Block): string {
  return text.split("\n", 1)[0] ?? "";
}

function readExample(request: Block, answer: Block): Example {
  const [, method, path] = REQUEST.exec(firstLine(request)) ?? [];
  if (method === undefined || path === undefined) {
    throw wrong(request.line + 1, "a request begins with its method and path");
  }
  const [, status] = ANSWER.exec(firstLine(answer)) ?? [];
  return {
    kind: "example",
    line: request.line,
    request: { ...readMessage(request), method, path },
    answer: { ...readMessage(answer), status: Number(status) },
  };
}

function readMessage(block: Block): Message {
  const [head = "", ...rest] = block.text.split("\n\n");
  const headers = new Map<string, string>();
  for (const [index, text] of head.split("\n").slice(1).entries()) {
    const [, name, value] = /^([\w-]+): (.+)$/.exec(text) ?? [];
    if (name === undefined || value === undefined) {
      throw wrong(block.line + index + 2, "not a header; a body stands after an empty line");
    }
    headers.set(name.toLowerCase(), value);
  }
  return { line: block.line, headers, body: rest.join("\n\n") };
}

function readShell({ line, text }: Block): Shell {
  return { kind: "shell", line, command: text, output: null };
}
