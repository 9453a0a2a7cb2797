/** docs/performance.md is what `node bench/page/write.js` writes from the kept reports, and shows what they miss. */
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { Child, type Ended, endAll } from "../support/processes/processes.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const NEEDED = ["bench/page", "bench/rows.js", "bench/measure.js", "verification/support"];

interface Row {
  readonly id: string;
  readonly what: string;
  ratio: number;
  readonly better: "higher" | "lower";
  reach: number | null;
  gate: boolean;
}
interface Report {
  readonly kind: string;
  rows: Row[];
}

const folders: string[] = [];
afterAll(async () => {
  await endAll();
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true })));
});

/** A copy of the command and its files. */
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-performance-"));
  folders.push(folder);
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  for (const path of [...NEEDED, "docs/performance"])
    await cp(join(root, path), join(folder, path), { recursive: true });
});

const performance = (...args: string[]): Promise<Ended> =>
  new Child(process.execPath, ["bench/page/write.js", ...args], { cwd: folder }).ended;
const pageIn = (base: string) => readFile(join(base, "docs/performance.md"), "utf8");
const kept = async (): Promise<Report> =>
  JSON.parse(await readFile(join(root, "docs/performance/run-1.json"), "utf8")) as Report;
/** Both runs have a bound of 1 for their first row. */
async function runs(
  first: Partial<Row>,
  second: Partial<Row> | null,
): Promise<{ page: string; ended: Ended; line: string }> {
  const files = [];
  for (const [at, change] of [first, second].entries()) {
    const report = await kept();
    const [row] = report.rows;
    if (change === null) report.rows = report.rows.slice(1);
    else Object.assign(row!, { reach: 1, gate: true, what: "spoiled" }, change);
    files.push(`report-${at}.json`);
    await writeFile(join(folder, `report-${at}.json`), JSON.stringify(report));
  }
  const ended = await performance("--from", ...files);
  const page = await pageIn(folder);
  const line = page.split("\n").find((one) => /^\|.* spoiled \|/.test(one)) ?? "";
  return { page, ended, line };
}

it("is what the command writes from the kept reports, with a text for all that is missed", async () => {
  const { stderr } = await performance();
  expect(stderr).toBe("");
  expect(await pageIn(folder)).toBe(await pageIn(root));
});

describe("a gate", () => {
  it("is reached if both runs reach it", async () => {
    const { line } = await runs({ ratio: 1.5 }, { ratio: 1.2 });
    expect(line).toMatch(/\| >= 1x \| 1\.50x \(.*\) \| 1\.20x \(.*\) \| reached \|$/);
  });

  it("is missed if one run misses it, and the command says so", async () => {
    const { line, ended } = await runs({ ratio: 0.8 }, { ratio: 1.2 });
    expect(line).toMatch(/\| 0\.80x \(.*\) \| 1\.20x \(.*\) \| \*\*missed\*\* \|$/);
    expect(ended).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^missed .*0\.80x; 1\.20x/m),
    });
  });

  it("is not reached if one run has not measured it", async () => {
    const { line, ended } = await runs({ ratio: 1.5 }, null);
    expect(line).toMatch(/\| 1\.50x \(.*\) \| not measured \| \*\*not measured\*\* \|$/);
    expect(ended.code).toBe(1);
  });

  it("does not read as reached when it is nearly reached", async () => {
    const { line } = await runs({ ratio: 0.9996 }, { ratio: 1 });
    expect(line).toMatch(/\| 0\.99x \(.*\) \| 1\.00x \(.*\) \| \*\*missed\*\* \|$/);
    const lower = await runs({ ratio: 1.0004, better: "lower" }, { ratio: 1, better: "lower" });
    expect(lower.line).toMatch(/\| 1\.01x \(.*\) \| 1\.00x \(.*\) \| \*\*missed\*\* \|$/);
  });
});

it("writes the page and names the row if a missed aim has no text", async () => {
  const { page, ended } = await runs({ id: "new", ratio: 0.5, gate: false }, null);
  expect(ended).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^new is missed and has no text/),
  });
  expect(page).toMatch(/^No cause is known yet:\n- spoiled, beside .*: 0\.50x; not measured/m);
});

it("leaves out the text of an aim that is reached", async () => {
  const template = join(folder, "bench/page/template.txt");
  const text = await readFile(template, "utf8");
  await writeFile(template, `${text}\n### Spoiled {{rows new}}\n\nBecause.\n`);
  const missed = await runs({ id: "new", ratio: 0.5 }, { id: "new", ratio: 1 });
  expect(missed.page).toMatch(/### Spoiled\n\n- spoiled, .*0\.50x; 1\.00x .*\n\nBecause\.\n/);
  expect((await runs({ id: "new", ratio: 1 }, { id: "new", ratio: 1 })).page).not.toContain(
    "Because.",
  );
});

it("takes reports of the bench only, and keeps those that it has", async () => {
  await writeFile(join(folder, "other.json"), '{ "kind": "chaos" }');
  const ended = await performance("--from", "other.json");
  expect(ended).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("other.json is no report"),
  });
  expect((await performance()).stdout).not.toBe("");
  expect(await pageIn(folder)).toBe(await pageIn(root));
});
