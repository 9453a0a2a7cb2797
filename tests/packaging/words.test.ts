/** The check of retired words: that it finds what it must, where it is, and lets idioms pass. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findRetired, judge, parseRules } from "../../scripts/words/words.js";

const CHECK = fileURLToPath(new URL("../../scripts/words/check.js", import.meta.url));

/** Runs the check on one file in a folder of its own. */
let folder: string;
function check(path: string, text: string) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
  const { status, stderr } = spawnSync(process.execPath, [CHECK, path], {
    cwd: folder,
    encoding: "utf8",
  });
  return { status, lines: stderr.split("\n").filter((line) => line !== "") };
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "leasehold-words-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe("the check fails with file, line, column, word and replacement", () => {
  it.each([
    ["a comment", "a.ts", "const a = 1;\n// The lease of nobody.\n", 'a.ts:2:17 "nobody"'],
    ["a string", "a.ts", 'throw new Error("somebody holds it");\n', 'a.ts:1:18 "somebody"'],
    ["a template", "a.ts", "const a = `it runs\\nout`;\n", 'a.ts:1:15 "runs out"'],
    ["a docstring", "a.ts", "/**\n * Whoever holds it.\n */\nlet a;\n", 'a.ts:2:4 "Whoever"'],
    ["a wrapped phrase", "a.ts", "/**\n * Waits in\n * line.\n */\n", 'a.ts:2:10 "in line"'],
    ["lines of comments", "a.js", "// The store\n// is\n// away.\n", 'a.js:2:4 "is away"'],
    ["JSX text", "a.tsx", "const a = <p>Given back</p>;\n", 'a.tsx:1:14 "Given back"'],
    ["an identifier", "a.ts", "class RenewalKeeper {}\n", 'a.ts:1:14 "Keeper"'],
    ["a private member", "a.ts", "class A {\n  #told = 0;\n}\n", 'a.ts:2:4 "told"'],
    ["a parameter", "a.ts", "const a = (hint: string) => 1;\n", 'a.ts:1:12 "hint"'],
    ["a file's name", "lease/keeper.ts", "export {};\n", 'lease/keeper.ts:1:1 "keeper"'],
    ["Markdown", "a.md", "# A\n\nWhat is held is\nrenewed.\n", 'a.md:3:1 "What is held is"'],
  ])("in %s", (_where, path, text, finding) => {
    const { status, lines } = check(path, text);
    expect(lines).toEqual([expect.stringMatching(/: write \w/)]);
    expect(lines[0]).toContain(`${finding}: write `);
    expect(status).toBe(1);
  });
});

it.each([
  ["a.ts", "// Runs as the Unix user nobody, in line with the ZooKeeper store.\n"],
  ["a.ts", 'import { x } from "./keeper.js";\n'],
  ["a.ts", "// The process runs\nconst out = 1;\n"],
  ["a.ts", 'const a = ["the process runs", "out"];\n'],
  ["a.md", "It waits so long that the lease expires.\n"],
])("passes in %s: %s", (path, text) => {
  expect(check(path, text)).toEqual({ status: 0, lines: [] });
});

describe("rules", () => {
  const rules = (fields: string) =>
    parseRules(`skip: []\nnotYet: []\nrules:\n  - expected: b\n    pattern: /a+/\n${fields}`);

  it("spare the folders of a rule's exceptions, and no others", () => {
    const { length } = findRetired(rules("    except: [x/y]"), "x/y/z.md", "a");
    expect(length).toBe(0);
    expect(findRetired(rules("    except: [x/y]"), "x/yz.md", "a")).toHaveLength(1);
  });

  it("do not load if one finds something in a sentence that it allows", () => {
    expect(() => rules("    allowed: [xx]")).not.toThrow();
    expect(() => rules("    allowed: [xax]")).toThrow("spec failed");
  });
});

describe("folders that are not clean yet", () => {
  const finding = { path: "x/y.ts", line: 1, column: 2, word: "a", instead: "b" };

  it("do not fail the check", () => {
    expect(judge([finding], ["x"])).toEqual([]);
    expect(judge([finding], [])).toEqual(['x/y.ts:1:2 "a": write b']);
  });

  it("fail it once they are clean", () => {
    expect(judge([finding], ["x", "z"])).toEqual([
      "z is clean: remove it from notYet in scripts/words/retired.yml",
    ]);
  });
});
