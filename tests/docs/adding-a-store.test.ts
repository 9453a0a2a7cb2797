/** docs/adding-a-store.md, followed word by word: its code is assembled, compiled as strict TypeScript, and run. */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, expect, it } from "vitest";
import { Cli, checkBuild, endAll } from "../support/processes/cli.js";
import { typescript } from "../support/processes/compile.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const page = await readFile(join(root, "docs/adding-a-store.md"), "utf8");

/** Blocks that name a file, joined where several name the same. */
const files = new Map<string, string>();
for (const [, name = "", code = ""] of page.matchAll(/^```\w+ ([\w.]+)\n([^]*?)^```$/gm)) {
  files.set(name, `${files.get(name) ?? ""}${code}\n`);
}
const commands = [...page.matchAll(/^```sh\n([^]*?)\n```$/gm)].map(([, line = ""]) => line);

/** Bugs that the page says are found: each makes a copy of the store wrong, and breaks this promise. */
const PLANTED = [
  {
    bug: "a release deletes the record",
    file: "engine.ts",
    right: "if (record) this",
    wrong: 'if (record && record.ended !== "released") this',
    caught: "answers `ended` to a repeated request after a release",
  },
  {
    bug: "the time left is always the ttl",
    file: "engine.ts",
    right: "return { ...outcome, expiresAt:",
    wrong: 'return { ...outcome, remainingMs: Reflect.get(outcome, "ttlMs"), expiresAt:',
    caught: "does not extend a grant by a repeated request, not even by one for longer",
  },
] as const;

checkBuild();
const folder = await assemble();
afterAll(async () => {
  await endAll();
  await rm(folder, { recursive: true });
});

it("has the files and the commands that it speaks of", () => {
  expect([...files.keys()].sort()).toEqual([
    "billing.ts",
    "engine.ts",
    "history.test.ts",
    "lines.ts",
    "store.test.ts",
    "store.ts",
    "tsconfig.json",
  ]);
  expect(commands).toEqual([
    "npm install leasehold\nnpm install --save-dev typescript vitest fast-check @types/node",
    "npx vitest run",
  ]);
});

it.each(PLANTED)("finds out when $bug", async ({ bug, caught }) => {
  const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url));
  const args = ["run", "--root", join(folder, folderOf(bug)), "--testNamePattern", "acquire"];
  const { code, stdout, stderr } = await new Cli(args, { script: vitest, cwd: folder }).ended;
  expect(stderr, stdout).toContain(caught);
  expect(code).toBe(1);
});

it("works under a lease", async () => {
  const cli = new Cli([], { script: join(folder, "billing.js"), cwd: folder });
  expect(await cli.ended).toEqual({
    code: 0,
    stderr: "",
    stdout: expect.stringMatching(/^alone, with token \d+$/),
  });
});

// Its own tests, as they stand there: they define themselves here.
await import(pathToFileURL(join(folder, "store.test.js")).href);
await import(pathToFileURL(join(folder, "history.test.js")).href);

/** A project that has installed what the page says, compiled. */
async function assemble(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-own-store-"));
  for (const used of ["leasehold", "vitest", "@types"]) {
    const link = join(folder, "node_modules", used);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", used), link);
  }
  for (const [name, code] of files) await writeFile(join(folder, name), code);
  for (const { bug, file, right, wrong } of PLANTED) {
    const broken = join(folder, folderOf(bug));
    await mkdir(broken);
    for (const name of ["lines.ts", "engine.ts", "store.ts", "store.test.ts"]) {
      const code = files.get(name) ?? "";
      if (name === file) expect(code).toContain(right);
      await writeFile(join(broken, name), name === file ? code.replace(right, wrong) : code);
    }
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await typescript(folder);
  return folder;
}

function folderOf(bug: string): string {
  return bug.replaceAll(" ", "-");
}
