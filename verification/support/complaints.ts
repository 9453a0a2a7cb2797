/** What a checker can complain of, read from its source, so that a test can ask for an example of each. */
import { readFileSync } from "node:fs";

/** Texts that are passed to these, or returned as a complaint. */
const COMPLAINT =
  /(?:\bcomplain\(|\.push\(|\breturn |what = |\[|faults, |=>\s*)("(?:[^"\\\n]|\\.)+"|`(?:[^`\\]|\\.)+`)/g;
/** A text for people has words; others are names and keys. */
const WORDS = /[a-z]{2,}[ :]/i;

function complaintsIn(source: URL): RegExp[] {
  const text = readFileSync(source, "utf8").replaceAll(/^\s*(\/\/|\/?\*).*$/gm, "");
  return [...text.matchAll(COMPLAINT)]
    .map(([, literal = ""]) => literal.slice(1, -1))
    .filter((literal) => WORDS.test(literal.replaceAll(/\$\{[^}]*\}/g, "")))
    .map((literal) => {
      const parts = literal
        .split(/\$\{[^}]*\}/)
        .map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
      // Some have the name of what is wrong before them.
      return new RegExp(`(?:^|: )${parts.join(".*")}$`, "s");
    });
}

/** Complaints that no example has led to. */
export function withoutExample(source: URL, complaints: readonly string[]): string[] {
  return complaintsIn(source)
    .filter((pattern) => !complaints.some((complaint) => pattern.test(complaint)))
    .map(({ source: pattern }) => pattern);
}
