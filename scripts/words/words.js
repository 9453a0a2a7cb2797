// Finds retired words, by the rules of retired.yml.
import { readFileSync } from "node:fs";
import { fromRowConfig } from "prh";
import { parse } from "yaml";
import { read } from "./read.js";

const FILE = new URL("retired.yml", import.meta.url);

/** @typedef {{ path: string, line: number, column: number, word: string, instead: string }} Finding */

/** @param {string} text the text of retired.yml */
export function parseRules(text = readFileSync(FILE, "utf8")) {
  const { skip, notYet, rules } = parse(text);
  const engineOf = (kind) =>
    fromRowConfig("retired.yml", {
      version: 1,
      rules: rules
        .filter((rule) => (rule.in ?? ["prose"]).includes(kind))
        .map((rule) => ({
          ...rule,
          specs: (rule.allowed ?? []).map((sentence) => ({ from: sentence, to: sentence })),
        })),
    });
  return { skip, notYet, prose: engineOf("prose"), names: engineOf("names") };
}

/** Whether a file is one of these, or in one of these folders. */
export function isIn(path, entries) {
  return entries.some((entry) => path === entry || path.startsWith(`${entry}/`));
}

/**
 * @param {ReturnType<typeof parseRules>} rules
 * @param {string} path @param {string} source
 * @returns {Finding[]} in the order of the file
 */
export function findRetired(rules, path, source) {
  const { prose, names } = read(path, source);
  return [
    // A file's name has no line of its own.
    ...search(rules.names, path, path).map((found) => ({ ...found, line: 1, column: 1 })),
    ...[...search(rules.prose, path, prose), ...search(rules.names, path, names)].sort(
      (one, other) => one.line - other.line || one.column - other.column,
    ),
  ];
}

function search(engine, path, text) {
  return engine
    .makeChangeSet(path, text)
    .diffs.filter(({ rule }) => !isIn(path, rule.raw.except ?? []))
    .map(({ index, matches, expected }) => {
      const before = text.slice(0, index).split("\n");
      return {
        path,
        line: before.length,
        column: before.at(-1).length + 1,
        word: matches[0].replace(/\s+/g, " "),
        instead: expected,
      };
    });
}

/**
 * What fails the check, a line each.
 *
 * @param {readonly Finding[]} findings
 * @param {readonly string[]} notYet
 */
export function judge(findings, notYet) {
  const clean = notYet.filter((entry) => !findings.some(({ path }) => isIn(path, [entry])));
  return [
    ...findings
      .filter(({ path }) => !isIn(path, notYet))
      .map(
        ({ path, line, column, word, instead }) =>
          `${path}:${line}:${column} "${word}": write ${instead}`,
      ),
    ...clean.map(
      (entry) => `${entry} is clean: remove it from notYet in scripts/words/retired.yml`,
    ),
  ];
}
