/**
 * Which tier a test belongs to, by its folder and by what it starts. `npm test` runs those that cost little:
 *
 *   unit        starts no process, no server and no database of another process
 *   contract    the public suites on memory and PGlite
 *   engines     stores on real servers, and what happens when these fail
 *   processes   commands, servers and campaigns as processes
 *   browser     pages in Chromium
 *   docs        examples and commands of the documents
 *   repository  files of the repository: layers, packing lists, reports, figures of pages
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const TIERS = [
  "unit",
  "contract",
  "engines",
  "processes",
  "browser",
  "docs",
  "repository",
] as const;
export type Tier = (typeof TIERS)[number];

/** A part of these files is in the tier contract: see suite-tier.ts. */
const SUITES = /^tests\/conformance\/(memory|postgres|(tasks|once|schedules)-conformance)\./;
/** Imports of what starts a process, a server or a database. */
const STARTS =
  /"node:child_process"|\/support\/[a-z]+\/(certificates|cli|full-disk|pglite|postgres|processes|prometheus|[a-z]+-engine|[a-z]+-process|postgres-[a-z-]+)\.js"/;
/** Imports of what opens pages. */
const OPENS_PAGES = /\/support\/browser\/(chromium|console|browser-page)\.js"/;
/** Those that read the reports of longer runs. */
const REPORTS = /^verification\/(mutants|planted-bugs|reliability)\//;

/**
 * @param path from the root of the repository
 * @param text of the test
 */
function tierOf(path: string, text: string): Tier {
  const starts = STARTS.test(text);
  if (path.startsWith("tests/packaging/") || REPORTS.test(path)) return "repository";
  if (path.startsWith("tests/docs/")) return starts ? "docs" : "repository";
  if (path.startsWith("packages/") || path.startsWith("apps/")) return starts ? "engines" : "unit";
  if (path.startsWith("verification/")) return starts ? "processes" : "unit";
  if (OPENS_PAGES.test(text)) return "browser";
  return /^tests\/(conformance|engines|faults|interop)\//.test(path) ? "engines" : "processes";
}

const SKIPPED = new Set(["node_modules", "dist", "templates"]);

function testsBelow(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : testsBelow(root, path);
    return path.endsWith(".test.ts") ? [path] : [];
  });
}

/** All files of tests, by their tier. Those of suites are in two. */
export function testsByTier(root: string): Readonly<Record<Tier, readonly string[]>> {
  const found = Object.fromEntries(TIERS.map((tier) => [tier, []])) as unknown as Record<
    Tier,
    string[]
  >;
  for (const path of ["packages", "apps", "verification", "tests"].flatMap((folder) =>
    testsBelow(root, folder),
  )) {
    found[tierOf(path, readFileSync(join(root, path), "utf8"))].push(path);
    if (SUITES.test(path)) found.contract.push(path);
  }
  return found;
}
