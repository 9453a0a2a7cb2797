/** The checks themselves, on runs made up: each must see what it is there for. */
import { describe, expect, it } from "vitest";
import { checkTokens, countStaleTaken, findOverlaps } from "./checks.js";
import { Journal } from "./journal.js";
import { Registers } from "./registers.js";

/** Grants with these tokens, one second apart, followed by these writes of their holders. */
function run(tokens: readonly number[], writes: readonly { of: number; atMs: number }[]) {
  const journal = new Journal();
  const registers = new Registers();
  for (const [at, token] of tokens.entries()) {
    const receivedMs = 1_000 * at + 5;
    const grant = `grant-${at}`;
    journal.granted({ resource: "r", grant, token, by: `h${at}`, sentMs: 1_000 * at, receivedMs });
  }
  const taken = writes.map(({ of, atMs }) => {
    const write = { resource: "r", token: tokens[of]!, grant: `grant-${of}`, by: `h${of}` };
    return registers.write({ ...write, checkedMs: 0 }, atMs);
  });
  return { journal, registers, taken };
}

describe("late writes", () => {
  const late = [
    { of: 0, atMs: 100 },
    { of: 1, atMs: 1_100 },
    { of: 0, atMs: 1_200 },
  ];

  it("are refused by the fence, and taken without one", () => {
    const { taken, registers, ...ran } = run([1, 2], late);
    expect(taken).toEqual([true, true, false]);
    expect(registers).toMatchObject({ refused: 1, unfencedViolations: 1 });
    expect(countStaleTaken({ registers, ...ran })).toBe(0);
    expect(checkTokens(ran.journal)).toEqual([]);
  });

  it("that pass, because tokens went back, are counted", () => {
    const { taken, ...ran } = run([5, 5], late);
    expect(taken).toEqual([true, true, true]);
    expect(countStaleTaken(ran)).toBe(1);
    expect(checkTokens(ran.journal)).toHaveLength(2);
  });

  it("are none if each holder stops writing before the next grant", () => {
    const { taken, ...ran } = run([1, 2], late.slice(0, 2));
    expect(taken).toEqual([true, true]);
    expect(countStaleTaken(ran)).toBe(0);
    expect(findOverlaps(ran.journal)).toEqual([]);
  });
});
