/** The public face, against its reports in packages/leasehold/api. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import {
  type ApiReport,
  makeReports,
  problemsOf,
  writeReports,
} from "../../scripts/support/api.js";
import { checkBuild } from "../support/processes/cli.js";

/** Reading the declarations takes seconds on a busy machine. */
const TIMEOUT_MS = 120_000;
const MOST_NAMES = 25;

let reports: ApiReport[];
beforeAll(() => {
  checkBuild();
  reports = makeReports();
}, TIMEOUT_MS);

let copy: string;
beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), "leasehold-api-test-"));
  writeReports(reports, copy);
});
afterEach(() => rmSync(copy, { recursive: true }));

it("agrees with its reports", () => {
  expect(problemsOf(reports)).toEqual([]);
});

it("has a report for each public entry and none for internal ones", () => {
  const entries = reports.map(({ entry }) => entry);
  expect(entries).toContain("leasehold");
  expect(entries).toContain("leasehold/stores/postgres");
  expect(entries.filter((entry) => entry.includes("internal"))).toEqual([]);
});

it("fails the check when a signature changes, and names the entry and the remedy", () => {
  const path = join(copy, "leasehold-fence.api.md");
  const report = readFileSync(path, "utf8");
  const changed = report.replace("token: number", "token: string");
  expect(changed).not.toBe(report);
  writeFileSync(path, changed);
  expect(problemsOf(reports, copy)).toEqual([
    expect.stringMatching(/"leasehold\/fence".*npm run api -- --update/),
  ]);
});

it("fails the check for a missing report and for one without an entry", () => {
  rmSync(join(copy, "leasehold-port.api.md"));
  writeFileSync(join(copy, "leasehold-old.api.md"), "");
  expect(problemsOf(reports, copy)).toEqual([
    expect.stringMatching(/"leasehold\/port" has no report/),
    expect.stringMatching(/leasehold-old\.api\.md belongs to no entry/),
  ]);
});

it("fails the check when the main entry names a type that it does not export", () => {
  const forgetful = reports.map((report) => ({ ...report, forgotten: ["Hidden"] }));
  expect(problemsOf(forgetful, copy)).toEqual([
    expect.stringMatching(/^"leasehold" names types that it does not export: Hidden\./),
  ]);
});

it(`exports at most ${MOST_NAMES} names at run time from the main entry`, async () => {
  const built = new URL("../../packages/leasehold/dist/index.js", import.meta.url);
  const names = Object.keys((await import(built.href)) as object);
  expect(names).toContain("connect");
  expect(names.length, names.join(", ")).toBeLessThanOrEqual(MOST_NAMES);
});
