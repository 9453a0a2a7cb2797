/**
 * Compares what a page says is printed with what was printed. Times, dates, UUIDs and fencing tokens of real engines differ
 * from run to run: the page shows one, and any of the same form is right. `…` is any text within a line, and on a line
 * of its own any number of lines.
 */

const FORMS: readonly [RegExp, string][] = [
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "<time>"],
  [/\b\d{4}-\d\d-\d\d\b/g, "<date>"],
  [/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "<uuid>"],
  [/\b\d{13,}\b/g, "<token>"],
];
const TOKEN = /\b\d{13,}\b/g;

/** A token that the page shows, and the one in its place. */
export type Pair = readonly [shown: number, printed: number];

/** The pairs of tokens if the lines are as shown, else null. */
export function compare(
  shown: readonly string[],
  printed: readonly string[],
  anyOrder: boolean,
): Pair[] | null {
  return anyOrder ? inAnyOrder(shown, printed) : inOrder(shown, printed);
}

function inOrder(shown: readonly string[], printed: readonly string[]): Pair[] | null {
  const [first, ...rest] = shown;
  if (first === undefined) return printed.length === 0 ? [] : null;
  if (first === "…") {
    for (let left = 0; left <= printed.length; left += 1) {
      const pairs = inOrder(rest, printed.slice(left));
      if (pairs) return pairs;
    }
    return null;
  }
  const [line] = printed;
  if (line === undefined || !isLike(first, line)) return null;
  const pairs = inOrder(rest, printed.slice(1));
  return pairs && [...pairsOf(first, line), ...pairs];
}

/** Lines with `…` take what is left by the others. */
function inAnyOrder(shown: readonly string[], printed: readonly string[]): Pair[] | null {
  if (shown.length !== printed.length) return null;
  const left = [...printed];
  const pairs: Pair[] = [];
  for (const line of [...shown].sort((a, b) => Number(a.includes("…")) - Number(b.includes("…")))) {
    const at = left.findIndex((candidate) => isLike(line, candidate));
    if (at < 0) return null;
    pairs.push(...pairsOf(line, left[at] ?? ""));
    left.splice(at, 1);
  }
  return pairs;
}

function isLike(shown: string, printed: string): boolean {
  const pattern = formOf(shown)
    .split("…")
    .map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&"))
    .join(".*");
  return new RegExp(`^${pattern}$`).test(formOf(printed));
}

function formOf(line: string): string {
  return FORMS.reduce((text, [pattern, name]) => text.replaceAll(pattern, name), line.trimEnd());
}

function pairsOf(shown: string, printed: string): Pair[] {
  if (shown.includes("…")) return [];
  const tokens = printed.match(TOKEN) ?? [];
  return (shown.match(TOKEN) ?? []).map((token, at): Pair => [Number(token), Number(tokens[at])]);
}

/** What is wrong with the order of the tokens: they are printed in the order in which the page has them. */
export function misordered(pairs: readonly Pair[]): Pair[] {
  const sorted = [...pairs].sort(([a], [b]) => a - b);
  return sorted.filter(([shown, printed], at) => {
    const [lastShown, lastPrinted] = sorted[at - 1] ?? [-1, -1];
    return shown === lastShown ? printed !== lastPrinted : printed <= lastPrinted;
  });
}
