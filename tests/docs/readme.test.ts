/**
 * The code of README.md. Its first program runs as printed, and prints what README says. The other blocks are
 * compiled as strict TypeScript, and run where the names that they use exist.
 */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { Cli, checkBuild, endAll, ownEnvironment } from "../support/processes/cli.js";
import { typescript } from "../support/processes/compile.js";
import { Child } from "../support/processes/processes.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const script = fileURLToPath(new URL("../support/documents/readme.js", import.meta.url));
const readme = await readFile(join(root, "README.md"), "utf8");
const section = (title: string) =>
  readme.split(/^## /m).find((text) => text.startsWith(title)) ?? "";
const [, program = "", printed = ""] =
  /^```js\n([^]*?)^```$\n\n^```\n([^]*?)\n^```$/m.exec(section("First lease\n")) ?? [];
const blocks = [...section("In your program\n").matchAll(/^```js\n([^]*?)^```$/gm)].map(
  ([, code = ""]) => code,
);
/** In the order of the text. */
const NAMES = ["lease", "fence", "task"] as const;
/** What the code takes for granted. */
const GRANTED = `
import type { Lease } from "leasehold";
import type { Client } from "pg";
declare global {
  var db: Client;
  var tx: Client;
  var lease: Lease;
  function resizeFile(
    file: string,
    width: number,
    options: { signal: AbortSignal; token: number },
  ): Promise<{ file: string; width: number }>;
}`;
const PRINTED_URL = /"postgres:\/\/localhost\/app"/;

it("has a block for each kind of surroundings, on a server of the reader's", () => {
  expect(blocks).toHaveLength(NAMES.length);
  expect(blocks.map((code) => PRINTED_URL.test(code))).toEqual([true, false, true]);
});

describe("the first program", () => {
  let folder: string;
  beforeAll(async () => {
    checkBuild();
    folder = await projectFolder();
    await writeFile(join(folder, "first.mjs"), program);
  });
  afterEach(() => endAll());
  afterAll(() => rm(folder, { recursive: true }));

  it("prints what README says", async () => {
    expect(printed).not.toBe("");
    const { DATABASE_URL: _, ...env } = ownEnvironment();
    const { ended } = new Child(process.execPath, ["first.mjs"], { cwd: folder, env });
    expect(await ended).toEqual({ code: 0, stdout: printed, stderr: "" });
  });
});

describePostgres("the code on a server", () => {
  let folder: string;
  let database: FreshDatabase;
  let db: pg.Client;
  beforeAll(async () => {
    checkBuild();
    database = await freshDatabase();
    db = new pg.Client({ connectionString: database.url });
    await db.connect();
    await db.query("CREATE TABLE close (month text PRIMARY KEY, token bigint, status text)");
    await db.query("INSERT INTO close VALUES ('2026-11', 0, 'OPEN')");
    folder = await compileBlocks(database.url);
  });
  afterEach(() => endAll());
  afterAll(async () => {
    await rm(folder, { recursive: true });
    await db.end();
    await database.drop();
  });

  const run = (name: (typeof NAMES)[number]) =>
    new Cli([pathToFileURL(join(folder, `${name}.js`)).href, name, database.url], { script });
  const month = async () => {
    const { rows } = await db.query("SELECT token::float8 AS token, status FROM close");
    return rows[0] as { token: number; status: string };
  };

  it("runs the first program on a server, with tokens that grow", async () => {
    await writeFile(join(folder, "first.mjs"), program);
    const env = { ...ownEnvironment(), DATABASE_URL: database.url };
    const { ended } = new Child(process.execPath, ["first.mjs"], { cwd: folder, env });
    const { code, stdout, stderr } = await ended;
    const tokens = [...stdout.matchAll(/token (\d+)/g)].map(([, token]) => Number(token));
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.replace(/token \d+/g, "token N")).toBe(printed.replace(/token \d+/g, "token N"));
    expect(tokens).toHaveLength(2);
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? Number.NaN);
  });

  it("works under a lease", async () => {
    expect(await run("lease").ended).toEqual({ code: 0, stdout: "", stderr: "" });
    await using leases = await connect(database.url);
    const view = await leases.get("billing:2026-11");
    expect(view).toMatchObject({ state: "released", token: (await month()).token });
  });

  it("passes the fence, until a newer holder has passed", async () => {
    expect(await run("fence").ended).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(await month()).toMatchObject({ status: "CLOSED" });

    await db.query("UPDATE close SET status = 'REOPENED'");
    await db.query("UPDATE leasehold.fence SET token = token + 3600000000");
    const refused = await run("fence").ended;
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("STALE_TOKEN") });
    expect(await month()).toMatchObject({ status: "REOPENED" });
  });

  it("does a task", async () => {
    run("task");
    await using tasksClient = await connect(database.url);
    const tasks = tasksClient.tasks;
    const first = async () => (await tasks.list({ limit: 1 })).items[0];
    await expect.poll(async () => (await first())?.state, { timeout: 20_000 }).toBe("done");
    const task = await tasks.get((await first())?.id ?? "");
    expect(task).toMatchObject({
      kind: "image.resize",
      maxAttempts: 5,
      attempts: [{ result: "done" }],
      output: { file: "cat.png", width: 200, stopped: false, token: expect.any(Number) },
    });
  });
});

/** A project that has installed the package. */
async function projectFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-readme-"));
  for (const used of ["leasehold", "pg", "zod", "@types"]) {
    const link = join(folder, "node_modules", used);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", used), link);
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  return folder;
}

/** In a project of its own, on a database of the test. */
async function compileBlocks(url: string): Promise<string> {
  const folder = await projectFolder();
  for (const [index, name] of NAMES.entries()) {
    const code = blocks[index]?.replace(PRINTED_URL, JSON.stringify(url)) ?? "";
    await writeFile(join(folder, `${name}.ts`), code);
  }
  await writeFile(join(folder, "granted.d.ts"), GRANTED);
  // Without the paths: what was built, as users have it.
  const compilerOptions = { noEmit: false, noEmitOnError: true, paths: {} };
  const config = { extends: join(root, "tsconfig.json"), compilerOptions, include: ["*.ts"] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  await typescript(folder);
  return folder;
}
