/** How much nesting a body may have, all together. */
import { endOfString } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import { invalid } from "./problems.js";

/** The depths of all arrays and objects, added up. A large body of some levels has less. */
const MAX_WORK = 4_000_000;

/** Of a field, in an object, in an array. */
const MAX_DEPTH = BOUNDS.depth + 2;

const QUOTE = code('"');
const [OPENS_ARRAY, OPENS_OBJECT] = [code("["), code("{")];
const [CLOSES_ARRAY, CLOSES_OBJECT] = [code("]"), code("}")];

function code(mark: string): number {
  return mark.charCodeAt(0);
}

/**
 * Refuses JSON that would occupy the event loop: to find cycles, JSON.stringify compares each array and object with
 * all that it is in, so 4 MiB of brackets that are 1,000 levels deep take seconds. Deeper JSON is left to the
 * validators, which name the field.
 * @throws INVALID_REQUEST
 */
export function checkNesting(text: string): void {
  let [work, depth, deepest] = [0, 0, 0];
  for (let at = 0; at < text.length; at += 1) {
    const mark = text.charCodeAt(at);
    if (mark === QUOTE) at = endOfString(text, at + 1);
    else if (mark === OPENS_ARRAY || mark === OPENS_OBJECT) {
      depth += 1;
      work += depth;
      if (depth > deepest) deepest = depth;
    } else if (mark === CLOSES_ARRAY || mark === CLOSES_OBJECT) depth -= 1;
  }
  if (work <= MAX_WORK || deepest > MAX_DEPTH) return;
  throw invalid([{ path: "", problem: "nests too many arrays and objects too deep" }]);
}
