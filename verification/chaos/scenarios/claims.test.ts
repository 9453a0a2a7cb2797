/** What is judged of a failover, fed by hand: counts that differ from a claim in one way, or nearly do. */
import { describe, expect, it } from "vitest";
import { type Claims, differences } from "./claims.js";
import { EACH, type Seen } from "./failover.js";
import { Witness } from "./witness.js";

/** As of a run in which all that is always claimed holds, and nothing else happened. */
const seenOf = (more: Partial<Seen>) => {
  const none: Partial<Record<keyof Seen, number>> = {};
  const seen = new Proxy(none, { get: (counts, name: keyof Seen) => counts[name] ?? 0 });
  return Object.assign(seen, { keptGrants: EACH, ...more }) as Seen;
};

/** A claim of each kind, what differs from it, and what does not. */
const CLAIMS: readonly [string, Claims, wrong: Partial<Seen>, right: Partial<Seen>, string][] = [
  ["none", { lostGrants: "none" }, { lostGrants: 1 }, {}, "lostGrants: 1 instead of none"],
  ["some", { lostGrants: "some" }, {}, { lostGrants: 1 }, "lostGrants: 0 instead of some"],
  [
    "so many",
    { lostGrants: 2 },
    { lostGrants: 3 },
    { lostGrants: 2 },
    "lostGrants: 3 instead of 2",
  ],
  [
    "as many as of something else",
    { refusedWrites: "believedAtOnce" },
    { refusedWrites: 1, believedAtOnce: 2 },
    { refusedWrites: 2, believedAtOnce: 2 },
    "refusedWrites: 1 instead of believedAtOnce",
  ],
  ["always: no grant twice", {}, { doubledGrants: 1 }, {}, "doubledGrants: 1 instead of none"],
  [
    "always: each kept grant",
    {},
    { keptGrants: EACH - 1 },
    { keptGrants: EACH },
    `keptGrants: ${EACH - 1} instead of ${EACH}`,
  ],
  ["always: no stray grant", {}, { strayGrants: 1 }, {}, "strayGrants: 1 instead of none"],
  ["always: each task done", {}, { undoneTasks: 1 }, {}, "undoneTasks: 1 instead of none"],
];

describe("a claim", () => {
  it.each(CLAIMS)("of %s differs", (_, claims, wrong, right, difference) => {
    expect(differences(claims, seenOf(wrong))).toEqual([difference]);
    expect(differences(claims, seenOf(right))).toEqual([]);
  });
});

describe("the witness of a failover", () => {
  /** Grants of one resource in their order, then writes by the index of the grant. */
  function run(tokens: readonly number[], writes: readonly number[]) {
    const witness = new Witness();
    const grants = tokens.map((token) => witness.granted({ resource: "r", token }));
    for (const at of writes) witness.write(grants[at]!);
    const { smallerTokens, refused, fencedViolations, unfencedViolations } = witness;
    return { smallerTokens, refused, fencedViolations, unfencedViolations };
  }
  const none = { smallerTokens: 0, refused: 0, fencedViolations: 0, unfencedViolations: 0 };

  it.each([
    ["nothing, where each holder stops before the next", [1, 2], [0, 0, 1], none],
    ["a token that is not larger", [2, 2], [], { ...none, smallerTokens: 1 }],
    ["a token below an earlier one", [2, 3, 2], [], { ...none, smallerTokens: 1 }],
    [
      "a late write, that the fence refuses",
      [1, 2],
      [1, 0],
      { ...none, refused: 1, unfencedViolations: 1 },
    ],
    [
      "a late write that passes, because tokens went back",
      [2, 2],
      [1, 0],
      { ...none, smallerTokens: 1, fencedViolations: 1, unfencedViolations: 1 },
    ],
    [
      "a write that is refused and not late, because tokens went back",
      [2, 1],
      [0, 1],
      { ...none, smallerTokens: 1, refused: 1 },
    ],
  ])("counts %s", (_, tokens, writes, counts) => {
    expect(run(tokens, writes)).toEqual(counts);
  });

  it("keeps resources apart", () => {
    const witness = new Witness();
    const later = witness.granted({ resource: "a", token: 5 });
    witness.write(later);
    witness.write(witness.granted({ resource: "b", token: 1 }));
    expect(witness).toMatchObject({ ...none, largestToken: 5 });
  });
});
