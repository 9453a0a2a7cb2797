/** Which reports of a night count, and which part is repeated. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../tests/support/processes/processes.js";

const { isDone, finish } = (await import(new URL("report.js", import.meta.url).href)) as {
  isDone(file: string, now: { sources: string; scale: number }): boolean;
  finish(
    file: string,
    end: { printed?: string; origin?: object; how: { scale: number; ended: number | string } },
  ): boolean;
};
const now = { sources: "abc", scale: 1 };

it("keeps the report of a part that has ended well, for as long as the code is the same", async () => {
  const file = join(await temporaryFolder(), "soak.json");
  expect(isDone(file, now)).toBe(false);
  writeFileSync(file, JSON.stringify({ kind: "soak", sources: "abc" }));
  // Ended by a signal, or while it was written.
  expect(isDone(file, now)).toBe(false);
  expect(finish(file, { how: { scale: 1, ended: 0 } })).toBe(true);
  expect(isDone(file, now)).toBe(true);
  expect(isDone(file, { ...now, sources: "abd" })).toBe(false);
  expect(isDone(file, { ...now, scale: 0.5 })).toBe(false);
});

it.each([1, "SIGINT"])("repeats a part that ended with %s", async (ended) => {
  const file = join(await temporaryFolder(), "soak.json");
  writeFileSync(file, JSON.stringify({ sources: "abc" }));
  finish(file, { how: { scale: 1, ended } });
  expect(isDone(file, now)).toBe(false);
});

it("says of printed figures where they come from", async () => {
  const file = join(await temporaryFolder(), "simulation-1.json");
  const origin = { kind: "simulation", sources: "abc" };
  expect(finish(file, { printed: '{"seeds":7}', origin, how: { scale: 1, ended: 0 } })).toBe(true);
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
    ...origin,
    seeds: 7,
    scale: 1,
    ended: 0,
  });
});

it("has no report of a part that printed none", async () => {
  const file = join(await temporaryFolder(), "simulation-1.json");
  expect(finish(file, { printed: "", origin: {}, how: { scale: 1, ended: 0 } })).toBe(false);
  expect(isDone(file, now)).toBe(false);
});
