/** What survivors.md says: it is what the kept report says, each part reaches its target, and nothing in it is stale. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import {
  afterAnotherTest,
  explanations,
  figuresOf,
  nameOf,
  placesOf,
  withExplanations,
} from "./figures.js";
import { type Kept, pageOf } from "./page.js";
import { isMutated, PARTS } from "./parts.js";

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const kept = () => {
  const reports = PARTS.map(({ name }) => read(`docs/reliability/mutants-${name}.json`));
  return { parts: reports.flatMap((text) => (JSON.parse(text) as { parts: Kept[] }).parts) };
};

it("is what the kept reports say, and each part reaches its target", () => {
  const { text, judged } = pageOf(kept());
  expect(text).toBe(read("verification/mutants/survivors.md"));
  expect(judged.filter(({ holds }) => !holds)).toEqual([]);
});

it("has the explanations as they are now", () => {
  for (const part of kept().parts) expect(withExplanations(part)).toEqual(part);
});

it("explains only what survives, on lines that there are", () => {
  const survivors = kept().parts.flatMap((part) => part.survivors);
  for (const { file, line, mutants, why } of explanations()) {
    expect(existsSync(new URL(file, root)), file).toBe(true);
    expect(read(file).includes(line), `${file}: ${line}`).toBe(true);
    expect(why).toMatch(/^.{20,}\.$/s);
    const known = survivors.filter((one) => one.file === file && one.text === line).map(nameOf);
    expect(known, `${file}: ${line}`).toEqual(expect.arrayContaining([...mutants]));
  }
});

it("reaches no target without a report, or by a lower score", () => {
  expect(pageOf({ parts: [] }).judged.map(({ holds }) => holds)).toEqual(PARTS.map(() => false));
  const { parts } = kept();
  const poorer = parts.map((part) => ({ ...part, score: 79.9 }));
  expect(pageOf({ parts: poorer }).judged.some(({ holds }) => holds)).toBe(false);
});

it("mutates files that there are, each in one part, and no test", () => {
  const files = [
    ["packages/leasehold/src/lease/rules.ts", "rules"],
    ["packages/leasehold/src/lease/held-lease.ts", "lease"],
    ["packages/leasehold/src/election/elector.ts", "election"],
    ["packages/leasehold/src/election/elector.test.ts", undefined],
    ["packages/leasehold-server/src/http/auth/access.ts", "server"],
    ["packages/leasehold/src/stores/memory/store.ts", undefined],
  ] as const;
  for (const [file, name] of files) {
    const found = PARTS.filter((part) => isMutated(part, file)).map((part) => part.name);
    expect(found, file).toEqual(name ? [name] : []);
  }
});

describe("the figures", () => {
  const file = fileURLToPath(new URL("packages/leasehold/src/lease/rules.ts", root));
  const [line] = read("packages/leasehold/src/lease/rules.ts")
    .split("\n")
    .flatMap((text, at) => (text.includes("return record.ended !== ") ? [at + 1] : []));
  const at = { start: { line, column: 10 }, end: { line, column: 22 } };
  const result = (status: string) => ({
    fileName: file,
    mutatorName: "A",
    replacement: "x\n  y",
    location: at,
    status,
  });

  it("count what a test notices or that never ends, against all that is not ignored", () => {
    const statuses = ["Killed", "Timeout", "Survived", "NoCoverage", "Ignored", "RuntimeError"];
    const figures = figuresOf(statuses.map(result));
    expect(figures).toMatchObject({
      score: 50,
      killed: 1,
      timeouts: 1,
      survived: 1,
      noCoverage: 1,
      ignored: 1,
    });
    expect(figures.survivors).toHaveLength(2);
    expect(figuresOf([]).score).toBe(100);
  });

  it("show the code of a survivor, and find its explanation by the text of its line", () => {
    const figures = figuresOf([result("Survived")]);
    const [survivor] = figures.survivors;
    expect(survivor).toMatchObject({ line, original: "record.ended", replacement: "x y", why: "" });
    const { file: path, text } = survivor!;
    const explanation = { file: path, line: text, mutants: ["record.ended → x y"], why: "Why.\n" };
    const explained = (more: object) =>
      withExplanations(figures, [{ ...explanation, ...more }]).survivors[0]?.why;
    expect(explained({})).toBe("Why.");
    expect(explained({ line: `${text} ` })).toBe("");
    expect(explained({ mutants: ["record.ended → x"] })).toBe("");
    expect(explained({ file: "other.ts" })).toBe("");
  });

  it("follow what became of the survivors that were tested again, and of those that are gone", () => {
    const before = figuresOf(["Killed", "Survived", "Survived", "NoCoverage"].map(result));
    expect(before.score).toBe(25);
    expect(placesOf(before.survivors)).toEqual([
      `packages/leasehold/src/lease/rules.ts:${line}-${line}`,
    ]);
    const after = afterAnotherTest(before, ["Killed", "Timeout", "Survived"].map(result));
    expect(after).toMatchObject({ score: 75, killed: 2, timeouts: 1, survived: 1, noCoverage: 0 });
    expect(after.survivors).toEqual([before.survivors[0]]);
    expect(afterAnotherTest(before, [])).toMatchObject({ score: 100, killed: 1, survivors: [] });
  });
});

it.each([
  ["a part that there is not", ["no-such-part"], "no part is named no-such-part"],
  ["no concurrency", ["--concurrency", "0"], "--concurrency must be"],
])("refuses %s", (_, args, said) => {
  const run = fileURLToPath(new URL("run.js", import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [run, ...args], {
    encoding: "utf8",
  });
  expect({ status, stdout }).toEqual({ status: 64, stdout: "" });
  expect(stderr).toContain(said);
});
