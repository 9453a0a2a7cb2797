/** The releases of Node.js that are supported: every place that names some names the same. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { PUBLISHED } from "../../scripts/support/packages.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(`${root}/${path}`, "utf8");

/** By major, until when the project of Node.js maintains them. */
const SUPPORTED = { 22: "2027-04-30", 24: "2028-04-30", 26: "2029-04-30" };
/** It has reached its end of life, and works. */
const OLDEST = "20.19";
const majors = [20, ...Object.keys(SUPPORTED).map(Number)];
const newest = majors.at(-1);

it("are those of the tests on runtimes and of CI", () => {
  const { optionalDependencies } = JSON.parse(read("tests/runtimes/package.json")) as {
    optionalDependencies: Readonly<Record<string, string>>;
  };
  const runtimes = Object.keys(optionalDependencies).filter((name) => name.startsWith("node-"));
  expect(runtimes).toEqual(majors.map((major) => `node-${major}`));
  const { jobs } = parse(read(".github/workflows/ci.yml")) as {
    jobs: { test: { strategy: { matrix: { node: number[] } } } };
  };
  expect(jobs.test.strategy.matrix.node).toEqual(majors);
});

it("are in the README and on the page of each package, with their ends", () => {
  for (const page of ["README.md", ...PUBLISHED.map((name) => `packages/${name}/README.md`)]) {
    const text = read(page).replaceAll(/\s+/g, " ");
    for (const [major, end] of Object.entries(SUPPORTED)) {
      expect(text, page).toMatch(new RegExp(`\\b${major}\\b[^.;]{0,60}${end}`));
    }
    expect(text, page).toContain("still works");
    expect(text, page).toContain(OLDEST);
  }
});

it.each([
  [".github/workflows/ci.yml", /node-version: (\d+)/g],
  [".github/workflows/release.yml", /node-version: (\d+)/g],
  [".github/ISSUE_TEMPLATE/bug.yml", /Node (\d+)\./g],
  ["deploy/image/Dockerfile", /NODE_IMAGE=node:(\d+)-/g],
  ["packages/create-leasehold/templates/base/compose.yaml", /FROM node:(\d+)-/g],
])("are led by the newest in %s", (path, pattern) => {
  const named = [...read(path).matchAll(pattern)].map(([, major]) => Number(major));
  expect(new Set(named)).toEqual(new Set([newest]));
});

it("begin with the oldest that works, in each package", () => {
  const packages = readdirSync(`${root}/packages`).map((name) => `packages/${name}/package.json`);
  for (const path of ["package.json", ...packages]) {
    const { engines } = JSON.parse(read(path)) as { engines: { node: string } };
    expect(engines.node, path).toBe(`>=${OLDEST}`);
  }
});
