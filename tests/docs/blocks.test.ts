/**
 * Each code block of each page is run, compiled or read by its tool. Most pages have a test of their own; this one compiles
 * and reads the rest, and lists what no test reads, with the reason.
 */
import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { connect } from "../../packages/leasehold/src/index.js";
import { pglite } from "../../packages/leasehold/src/stores/postgres/index.js";
import {
  type CommandEntry,
  commandTree,
} from "../../packages/leasehold-server/src/cli/command-tree.js";
import { loadProgram } from "../../packages/leasehold-server/src/cli/program.js";
import {
  blocksOf,
  type CodeBlock,
  inlineCommands,
  wrongCommands,
} from "../support/documents/blocks.js";
import { GRANTED_TO_PAGES, MY_STORE } from "../support/documents/guides/granted.js";
import { compileSnippets } from "../support/documents/guides/snippets.js";
import { openPglite } from "../support/engines/pglite.js";
import { checkBuild } from "../support/processes/cli.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);

const tracked = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "*.md"], {
  cwd: root,
  encoding: "utf8",
});
const pages = tracked
  .trim()
  .split("\n")
  // History, and what is made of the declarations.
  .filter((path) => !/CHANGELOG\.md$|^packages\/leasehold\/api\/|^\.changeset/.test(path))
  .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
const blocks = pages.flatMap(({ path, text }) => blocksOf(path, text));

const GUIDES = /^docs\/(start|learn|choose|guides|articles)\//;
const SCRIPT = /^(js|ts)$/;

/** Read by another test, which names the page. */
const BY_OTHERS: readonly (readonly [test: string, pages: RegExp, langs: RegExp])[] = [
  ["tests/docs/guides.test.ts", GUIDES, /^(js|ts|python|txt)$/],
  ["tests/docs/http-examples.test.ts", /^docs\/http\.md$/, /^(http|json)$/],
  ["tests/docs/readme.test.ts", /^README\.md$/, SCRIPT],
  ["tests/docs/adding-a-store.test.ts", /^docs\/adding-a-store\.md$/, /^(ts|json)$/],
  ["tests/docs/embedding.test.ts", /^docs\/embedding\.md$/, /^js$/],
  ["tests/docs/transactions.test.ts", /^docs\/transactions\.md$/, /^ts$/],
  ["tests/operations/cron.test.ts", /^docs\/cron\.md$/, /^ini$/],
];

/** Read by no test. */
const BY_NONE: readonly (readonly [reason: string, block: (block: CodeBlock) => boolean])[] = [
  ["two lines before and after", ({ lang }) => lang === "diff"],
  [
    "a part of a file of another program, which is not among the packages",
    ({ lang }) => /^(nginx|dockerfile|hcl|md)$/.test(lang),
  ],
  [
    "a query for Prometheus; the alerts and the dashboard have the like",
    ({ lang }) => lang === "promql",
  ],
  [
    "configuration of Jest; tests/runtimes packs projects with the like",
    ({ path, code }) => path === "packages/leasehold/README.md" && code.includes("module.exports"),
  ],
  [
    "a server's administrator creates roles and databases",
    ({ code }) => code.startsWith("CREATE ROLE"),
  ],
];

const isOutput = ({ lang }: CodeBlock) => /^(|txt|text)$/.test(lang);
const otherOf = ({ path, lang }: CodeBlock) =>
  BY_OTHERS.find(([, ofPages, langs]) => ofPages.test(path) && langs.test(lang));
const reasonOf = (block: CodeBlock) => BY_NONE.find(([, isOne]) => isOne(block));
const left = blocks.filter((block) => !isOutput(block) && !otherOf(block) && !reasonOf(block));
const of = (langs: RegExp) => left.filter(({ lang }) => langs.test(lang));
const placeOf = ({ path, line }: CodeBlock) => `${path}:${line}`;

describe("every code block", () => {
  it("is read by a test, or has a reason", () => {
    expect(blocks.length).toBeGreaterThan(300);
    const read = /^(js|ts|sh|json|yaml|sql)$/;
    expect(left.filter(({ lang }) => !read.test(lang)).map(placeOf)).toEqual([]);
  });

  it.each(BY_OTHERS)("of another test is one: %s", (test, ofPages, langs) => {
    expect(readFileSync(join(root, test), "utf8")).not.toBe("");
    expect(blocks.some(({ path, lang }) => ofPages.test(path) && langs.test(lang))).toBe(true);
  });

  it.each(BY_NONE)("without a test is one: %s", (_, isOne) => {
    expect(blocks.some(isOne)).toBe(true);
  });
});

it("compiles JavaScript and TypeScript", { timeout: 240_000 }, async () => {
  checkBuild();
  const snippets = new Map<string, { lang: "js" | "ts"; code: string; line: number }[]>();
  for (const { path, lang, code, line } of of(SCRIPT)) {
    const ofPage = snippets.get(path) ?? [];
    ofPage.push({ lang: lang as "js" | "ts", code, line });
    snippets.set(path, ofPage);
  }
  expect([...snippets.values()].flat().length).toBeGreaterThan(25);
  await compileSnippets(snippets, GRANTED_TO_PAGES, { "my-store.d.ts": MY_STORE });
});

describe("commands", () => {
  let tree: CommandEntry[];
  beforeAll(async () => {
    tree = commandTree((await loadProgram()).program);
  });

  it("are scripts that a shell reads", async () => {
    const scripts = of(/^sh$/).filter(({ code }) => !/^\d+ \d+ \* \* \*/.test(code));
    expect(scripts.length).toBeGreaterThan(60);
    for (const block of scripts) {
      const { stderr } = await run("bash", ["-n", "-c", block.code]).catch((error) => error);
      expect(stderr, placeOf(block)).toBe("");
    }
  });

  it("have names and options that the program knows, in blocks and in sentences", () => {
    const inBlocks = blocks
      .filter(({ lang }) => lang === "sh")
      .map((block) => ({ place: placeOf(block), script: block.code }));
    const inText = pages.flatMap(({ path, text }) =>
      inlineCommands(text).map((script) => ({ place: path, script })),
    );
    const scripts = [...inBlocks, ...inText];
    const wrong = scripts.flatMap(({ place, script }) =>
      wrongCommands(script, tree).map((problem) => `${place} ${problem}`),
    );
    expect(inText.length).toBeGreaterThan(100);
    expect(wrong).toEqual([]);
  });

  it.each([
    ["leasehold run a -- ./b --c", null],
    ["npx leasehold tasks --state dead --store postgres://a/b && leasehold ls", null],
    ['eval "$(leasehold acquire a --ttl 10m)"', null],
    ["leasehold COMMAND --help", null],
    ["leasehold --version", null],
    ["leasehold tasks --state STATE", null],
    ["echo a && leasehold walk", "leasehold walk: there is no command walk"],
    ["STORE=a leasehold ls --sort age", "leasehold ls --sort age: ls has no --sort"],
    [
      "leasehold tasks \\\n  --state ended",
      "leasehold tasks --state ended: --state cannot be ended",
    ],
    ["leasehold tasks retry --rate 5", "leasehold tasks retry --rate 5: tasks retry has no --rate"],
  ])("of %s are judged", (script, problem) => {
    expect(wrongCommands(script, tree)).toEqual(problem === null ? [] : [problem]);
  });
});

it("reads JSON and YAML", () => {
  for (const block of of(/^json$/)) {
    expect(() => void JSON.parse(block.code), placeOf(block)).not.toThrow();
  }
  for (const block of of(/^yaml$/)) {
    const errors = parseAllDocuments(block.code).flatMap((document) => document.errors);
    expect(errors, placeOf(block)).toEqual([]);
  }
  expect(of(/^(json|yaml)$/).length).toBeGreaterThan(3);
});

/** What the statements take for granted. */
const TABLES = `
  CREATE TABLE close (month text, status text, token bigint);
  CREATE TABLE payment (invoice_id int UNIQUE, amount int);
  CREATE TABLE guarded (id int);
  CREATE ROLE leasehold_app;
  -- What the statement of docs/security.md repairs.
  ALTER TABLE leasehold.audit_head DISABLE TRIGGER USER;
  DELETE FROM leasehold.audit_head;`;

it("runs SQL", { timeout: 120_000 }, async () => {
  const db = await openPglite();
  await (await connect(pglite({ db }))).close();
  await db.exec(TABLES);
  const statements = of(/^sql$/);
  expect(statements.length).toBeGreaterThan(4);
  for (const block of statements) {
    await db.exec("BEGIN");
    const begin = block.code.includes("$1") ? "PREPARE statement AS " : "";
    const done = db.exec(begin + block.code);
    await expect(done, placeOf(block)).resolves.toBeDefined();
    await db.exec("ROLLBACK; DEALLOCATE ALL");
  }
  await db.close();
});
