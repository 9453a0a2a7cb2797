/** The judge of the matrix, fed by hand: a takeover that is wrong in one way, and one that is right. */
import { expect, it } from "vitest";
import { withoutExample } from "../support/complaints.js";
import type { Feature } from "./features.js";
import type { Said } from "./node.js";
import { judge } from "./strike.js";

interface Seen {
  readonly trusted?: boolean;
  readonly late?: string;
  readonly alive?: boolean;
  readonly fenced?: boolean;
  readonly unfenced?: boolean;
  /** Waiters that were served. */
  readonly done?: readonly string[];
}

function judged(seen: Seen, feature: Feature = "lease", rights = 1): Promise<string | null> {
  const { trusted = true, late = "STALE_TOKEN", alive = false, done = [] } = seen;
  const { fenced = false, unfenced = true } = seen;
  const right = { said: "has", node: "a", resource: "r", token: 1, feature } as Said;
  const nodes = {
    successorOf: async () => ({ ...right, node: "b", token: 2, alive: trusted }),
    corrupted: async () => ({ fenced, unfenced }),
    said: done.map((node) => ({ ...right, said: "done", node })) as Said[],
    async until<T>(what: string | (() => string), find: () => T | undefined | null | false) {
      const found = find();
      if (!found) throw new Error(`waited in vain: ${String(what)}`);
      return found;
    },
  };
  const lateOf = async () => ({ wrote: late, alive });
  return judge(nodes, feature, Array(rights).fill(right), lateOf);
}

const WRONG: readonly [Seen, string][] = [
  [{ trusted: false }, "the successor did not trust its lease"],
  [{ late: "written" }, "the late write was not refused: written"],
  [{ alive: true }, "a lease was trusted past its end"],
  [{ fenced: true }, "the guarded register was overwritten by an older holder"],
  [{ unfenced: false }, "the unguarded register shows nothing: the late write was none"],
];

it("passes a takeover after which the late write was refused", async () => {
  expect(await judged({})).toBe(null);
  expect(await judged({}, "acquireAll", 2)).toBe(null);
});

it.each(WRONG)("of %j says that %s", async (seen, wrong) => {
  expect(await judged(seen)).toBe(wrong);
});

it("wants both of the waiters to be served", async () => {
  expect(await judged({ done: ["b", "c"] }, "waiting")).toBe(null);
  for (const done of [["b"], ["c"], ["c", "c"]]) {
    await expect(judged({ done }, "waiting")).rejects.toThrow("both of those who waited get it");
  }
});

it("has an example of each complaint", () => {
  const source = new URL("strike.ts", import.meta.url);
  const others = ["work goes on: "];
  expect(withoutExample(source, [...WRONG.map(([, wrong]) => wrong), ...others])).toEqual([]);
});
