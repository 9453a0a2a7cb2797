// What people read in a file, apart from what machines read. Both texts are as long as the file, so
// that a position in them is one in the file.
import { parseSync, Visitor } from "oxc-parser";

/** Replaces what is left out. No pattern matches it, so none reaches from one string into the next. */
const GAP = ";";

/**
 * @param {string} path names the language by its end
 * @param {string} source
 * @returns {{ prose: string, names: string }} prose: comments, strings, JSX text, and all of a
 *   Markdown file; names: identifiers
 */
export function read(path, source) {
  return path.endsWith(".md") ? { prose: source, names: "" } : readCode(path, source);
}

/** @param {string} path @param {string} source */
function readCode(path, source) {
  const { program, comments, errors } = parseSync(path, source);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  const strings = [];
  const identifiers = [];
  // Paths of modules follow the names of files, which are checked themselves.
  const modules = new Set();
  // A parameter's range has its type too.
  const name = ({ start, name: { length } }) => identifiers.push({ start, end: start + length });
  const module = ({ source: specifier }) => specifier && modules.add(specifier.start);
  new Visitor({
    ImportDeclaration: module,
    ImportExpression: module,
    ExportNamedDeclaration: module,
    ExportAllDeclaration: module,
    TSImportType: module,
    Literal: (node) => typeof node.value === "string" && strings.push(node),
    TemplateElement: (node) => strings.push(node),
    JSXText: (node) => strings.push(node),
    Identifier: name,
    PrivateIdentifier: (node) => identifiers.push(node),
    JSXIdentifier: name,
  }).visit(program);
  const prose = [...comments, ...strings.filter(({ start }) => !modules.has(start))];
  const unmarked = withoutMarks(source, comments, strings);
  return { prose: keep(unmarked, prose), names: keep(source, identifiers) };
}

/** With spaces for the marks of comments and for escapes, so that only words are left. */
function withoutMarks(source, comments, strings) {
  const chars = source.split("");
  const blank = (from, length) => chars.fill(" ", from, from + length);
  for (const { type, start, end } of comments) {
    blank(start, 2);
    if (type === "Line") continue;
    for (const { index, 0: mark } of source.slice(start, end).matchAll(/^[ \t]*\*/gm))
      blank(start + index, mark.length);
  }
  for (const { start, end } of strings)
    for (const { index } of source.slice(start, end).matchAll(/\\[nrt]/g)) blank(start + index, 2);
  return chars.join("");
}

/** Only these parts of a text, and its white space. */
function keep(source, ranges) {
  const chars = Array.from({ length: source.length }, (_, at) =>
    /\s/.test(source[at]) ? source[at] : GAP,
  );
  for (const { start, end } of ranges)
    for (let at = start; at < end; at += 1) chars[at] = source[at];
  return chars.join("");
}
