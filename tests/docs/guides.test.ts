/**
 * The pages that begin with code to paste are followed as a reader follows them: files are saved, commands are run, and
 * print what the page shows. Code that is not run is compiled. tests/support/documents/guides has how.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readBlocks, type Snippet, snippetsOf, walksOf } from "../support/documents/guides/page.js";
import { compare, misordered } from "../support/documents/guides/printed.js";
import { follow, isOptional, missingFor } from "../support/documents/guides/reader.js";
import { compileSnippets, lackedBy, ofDocs } from "../support/documents/guides/snippets.js";
import { describeUnless, describeWherePossible } from "../support/engines/postgres.js";
import { checkBuild, endAll } from "../support/processes/cli.js";

const docs = fileURLToPath(new URL("../../docs", import.meta.url));
const FOLDERS = ["start", "learn", "choose", "guides", "articles"];

const pages = await Promise.all(
  (
    await Promise.all(
      FOLDERS.map(async (folder) =>
        (await readdir(join(docs, folder))).map((name) => join(folder, name)),
      ),
    )
  )
    .flat()
    .filter((path) => path.endsWith(".md"))
    .sort()
    .map(async (path) => ({ path, blocks: readBlocks(await readFile(join(docs, path), "utf8")) })),
);

beforeAll(checkBuild);
afterAll(() => endAll());

// Most of a walk is waiting: for leases to expire, and for processes to end.
describe.concurrent("a walk", () => {
  for (const { path, blocks } of pages) {
    for (const walk of walksOf(blocks)) {
      const missing = walk.leftOut ?? missingFor(walk);
      const where = walk.leftOut || isOptional(missing) ? describeWherePossible : describeUnless;
      where(missing, `docs/${path}${walk.alternative && `, ${walk.alternative}`}`, () => {
        it("does what it says", { timeout: 300_000 }, () => follow(walk));
      });
    }
  }
});

const snippets = pages.map(({ path, blocks }) => ({ path, found: snippetsOf(blocks) }));

it("compiles code that is not run", { timeout: 240_000 }, async () => {
  expect(snippets.flatMap(({ found }) => found).length).toBeGreaterThan(10);
  const here = snippets.map(({ path, found }): [string, Snippet[]] => [
    path,
    found.filter((snippet) => ofDocs(snippet) === null),
  ]);
  await compileSnippets(new Map(here));
});

for (const { path, found } of snippets) {
  for (const snippet of found.filter((each) => ofDocs(each) !== null)) {
    const name = `docs/${path}, line ${snippet.line}, with ${ofDocs(snippet)}`;
    describeWherePossible(lackedBy(snippet), name, () => {
      it("is compiled", { timeout: 240_000 }, () => compileSnippets(new Map([[path, [snippet]]])));
    });
  }
}

describe("what a walk finds", () => {
  const walk = async (text: string) => {
    const [found] = walksOf(readBlocks(text));
    if (!found) throw new Error("nothing to run");
    await follow(found);
  };
  const page = (code: string, printed: string) =>
    `\`\`\`js [a.mjs]\n${code}\n\`\`\`\n\n\`\`\`sh\nnode a.mjs\n\`\`\`\n\n\`\`\`txt\n${printed}\n\`\`\`\n`;

  it.each([
    ["another text", page('console.log("a")', "b"), "printed:\na"],
    ["a line more", page('console.log("a\\nb")', "a"), "printed:\na\nb"],
    ["a line less", page('console.log("a")', "a\nb"), "the page shows:\na\nb"],
    ["a command that fails", page("process.exit(3)", "").replace(/```txt[^]*/, ""), "exit code 3"],
    [
      "a package that is not installed",
      `\`\`\`sh\nnpm install leasehold\n\`\`\`\n${page('import "pg";', "")}`,
      "the page does not install pg",
    ],
    [
      "a beta that npm does not install by its name",
      `\`\`\`sh\nnpm install redlock\n\`\`\`\n${page('import "redlock";', "")}`,
      "the page does not install redlock@",
    ],
    ["a warning", page('console.log("a"); console.error("b")', "a"), "stderr:\nb"],
  ])("%s", async (_, text, problem) => {
    await expect(walk(text)).rejects.toThrow(problem);
  });

  it("an output of a job in the background, later than the command", async () => {
    const code = 'setTimeout(() => console.log("late"), 200)';
    await walk(page(code, "late").replace("node a.mjs", "node a.mjs &"));
  });
});

describe("the comparison of what is printed", () => {
  it.each([
    ["a token", ["token 1795712400000000"], ["token 1805712400000123"], true],
    ["a small number", ["token 1"], ["token 2"], false],
    ["a time", ["at 2026-11-26T01:00:00.000Z"], ["at 2027-01-02T03:04:05.678Z"], true],
    ["a part of a line", ["a … c"], ["a b c"], true],
    ["another part of a line", ["a … c"], ["a b d"], false],
    ["lines that are left out", ["…", "z"], ["a", "b", "z"], true],
    ["lines in another order", ["a", "b"], ["b", "a"], false],
  ])("%s", (_, shown, printed, same) => {
    expect(compare(shown, printed, false) !== null).toBe(same);
  });

  it("takes lines in any order where the page says so", () => {
    expect(compare(["a …", "a b"], ["a b", "a c"], true)).toEqual([]);
    expect(compare(["a …", "a b"], ["a b", "b"], true)).toBeNull();
  });

  it("finds tokens that do not grow as on the page", () => {
    const shown = ["1795712400000000", "1795712400000000", "1795712400000001"];
    const grow = ["1895712400000000", "1895712400000000", "1895712400000007"];
    expect(misordered(compare(shown, grow, false) ?? [])).toEqual([]);
    expect(misordered(compare(shown, grow.toReversed(), false) ?? [])).not.toEqual([]);
  });
});
