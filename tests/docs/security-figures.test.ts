/** docs/security.md states each figure once, and those of overload as docs/reliability/security-floods.json has them. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Report {
  readonly holders: number;
  readonly ttlMs: number;
  readonly runs: readonly {
    readonly store: string;
    readonly capacityPerSecond: number;
    readonly offeredPerSecond: number;
    readonly refused: number;
    readonly renewals: number;
    readonly lost: number;
    readonly leastLeftMs: number;
  }[];
}

const read = (path: string) => readFileSync(new URL(`../../docs/${path}`, import.meta.url), "utf8");
const page = read("security.md");

it("states each figure once", () => {
  const [, figures = "", ...others] = page.split("### Figures");
  expect(others).toEqual([]);
  expect(page.split("**Fuzz.**")).toHaveLength(2);
  const rows = figures.split("\n").filter((line) => line.startsWith("| "));
  expect(rows.length).toBeGreaterThan(5);
  expect(new Set(rows).size).toBe(rows.length);
});

it("states of overload what the report has, run by run", () => {
  const { holders, ttlMs, runs } = JSON.parse(read("reliability/security-floods.json")) as Report;
  const count = (number: number) => number.toLocaleString("en-US");
  const expected = runs.map(
    (run) =>
      `| overload on ${run.store} | ${count(run.capacityPerSecond)} requests per second measured, ` +
      `${count(run.offeredPerSecond)} sent, ${count(run.refused)} refused in all; ${holders} leases of ` +
      `${ttlMs / 1_000} s renewed ${count(run.renewals)} times, **${run.lost} lost**, ` +
      `least time left ${run.leastLeftMs / 1_000} s |`,
  );
  expect(page.split("\n").filter((line) => line.startsWith("| overload on "))).toEqual(expected);
});
