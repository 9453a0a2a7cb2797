/** `npm create leasehold`, as its users get it: what it refuses, and the project that it makes, which is run. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { checkBuild, checkFresh, endAll, ownEnvironment } from "../support/processes/cli.js";
import { Child } from "../support/processes/processes.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}
const manifestAt = async (path: string) =>
  JSON.parse(await readFile(join(path, "package.json"), "utf8")) as Manifest;

const SENT = "sent an email to ada@example.com";

let folder: string;
let main: string;
beforeAll(async () => {
  checkBuild();
  checkFresh("packages/create-leasehold/src", join(root, "packages/create-leasehold/dist/main.js"));
  folder = await mkdtemp(join(tmpdir(), "leasehold-create-"));
  for (const name of ["leasehold", "create-leasehold"]) await unpack(name);
  main = join(folder, "node_modules/create-leasehold/dist/main.js");
  // What `npm install` would bring, from what is installed here.
  const { dependencies } = await manifestAt(join(root, "packages/leasehold"));
  const others = ["@electric-sql/pglite", "pg", "@types/node", "typescript"];
  for (const name of [...Object.keys(dependencies), ...others, ".bin/tsc"]) {
    const link = join(folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", name), link);
  }
});
afterEach(() => endAll());
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Packs a package, and installs what is in the tarball. */
async function unpack(name: string): Promise<void> {
  const pack = ["pack", "--ignore-scripts", "--json", "--pack-destination", folder];
  const { stdout } = await run("npm", pack, { cwd: join(root, "packages", name) });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  const home = join(folder, "node_modules", name);
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", join(folder, filename), "--strip-components=1", "-C", home]);
}

const create = (...args: string[]) =>
  new Child(process.execPath, [main, ...args], { cwd: folder, input: "" }).ended;

/** A script of a project, without a database. */
function npm(project: string, script: string): Child {
  const { DATABASE_URL: _, ...env } = ownEnvironment();
  return new Child("npm", ["run", "--silent", script], { cwd: join(folder, project), env });
}

/** Resolves when the program waits: with the line about its report. */
async function waiting(program: Child): Promise<string> {
  await program.until(({ out }) => out.some((line) => line.startsWith("running until")));
  expect(program.out).toContain("the worker returned { sent: 'ada@example.com' }");
  return program.out.find((line) => line.includes("the report for ")) ?? "";
}

/** Ctrl-C in its terminal. */
async function interrupt(program: Child): Promise<void> {
  process.kill(-program.pid, "SIGINT");
  await program.ended;
}

describe("refuses, and writes nothing", () => {
  it.each([
    ["no directory", [], "name one directory"],
    ["two directories", ["a", "b"], "name one directory"],
    ["another store", ["a", "--store", "redis"], '--store takes pglite or postgres, not "redis"'],
    ["an option that it lacks", ["a", "--color"], "--color"],
    ["a file", ["file"], "is a file"],
    ["a directory that is not empty", ["full"], "is not empty: it has kept.txt"],
  ])("%s", async (_what, args, message) => {
    await writeFile(join(folder, "file"), "");
    await mkdir(join(folder, "full"), { recursive: true });
    await writeFile(join(folder, "full/kept.txt"), "kept");
    const { code, stdout, stderr } = await create(...args);
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toContain(message);
    expect(await readdir(folder)).not.toContain("a");
    expect(await readdir(join(folder, "full"))).toEqual(["kept.txt"]);
  });
});

it("prints its help and its version", async () => {
  const help = await create("--help");
  expect(help).toMatchObject({ code: 0, stderr: "" });
  expect(help.stdout).toContain("npm create leasehold DIRECTORY -- --store postgres");
  const { version } = await manifestAt(join(root, "packages/create-leasehold"));
  expect(await create("--version")).toMatchObject({ code: 0, stdout: version });
});

it("takes an empty directory with a repository in it, and a name that npm accepts from it", async () => {
  await mkdir(join(folder, "My App!/.git"), { recursive: true });
  const { code, stdout } = await create("My App!");
  expect({ code, stdout }).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("Created my-app"),
  });
  expect((await manifestAt(join(folder, "My App!"))).name).toBe("my-app");
});

describe("the project", () => {
  beforeAll(async () => {
    const { code, stdout } = await create("my-app");
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n {2}cd my-app\n {2}npm install\n {2}npm start$/);
  });

  it("has these files", async () => {
    const entries = await readdir(join(folder, "my-app"), { recursive: true });
    expect(entries.filter((path) => !/^(node_modules|dist|data)/.test(path)).sort()).toEqual([
      ".gitignore",
      "README.md",
      "compose.yaml",
      "package.json",
      "src",
      "src/jobs.test.ts",
      "src/jobs.ts",
      "src/main.ts",
      "src/store.ts",
      "tsconfig.json",
    ]);
  });

  it("depends on this release, and on the versions that this repository is tested with", async () => {
    const { name, dependencies, devDependencies } = await manifestAt(join(folder, "my-app"));
    const { version } = await manifestAt(join(root, "packages/leasehold"));
    const ours = (await manifestAt(root)).devDependencies;
    const { leasehold, ...others } = { ...dependencies, ...devDependencies };
    expect({ name, leasehold }).toEqual({ name: "my-app", leasehold: `^${version}` });
    for (const [other, range] of Object.entries(others))
      expect({ other, range }).toEqual({ other, range: ours[other] });
  });

  it("passes its own tests, which compile it strictly first", async () => {
    const { code, stdout, stderr } = await npm("my-app", "test").ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^(#|ℹ) pass 2$/mu);
  });

  it("runs without a server, and generates the report of a day once over two starts", async () => {
    const first = npm("my-app", "start");
    const day = /^generated the report for (\S+)$/.exec(await waiting(first))?.[1];
    expect(first.out).toContain(SENT);
    await interrupt(first);
    const second = npm("my-app", "start");
    // Around midnight the second start generates that of another day.
    expect(await waiting(second)).toMatch(
      new Date().toISOString().startsWith(`${day}T`)
        ? new RegExp(`^the report for ${day} was generated by `)
        : /^generated/,
    );
    await interrupt(second);
  });

  it("has a compose.yaml that runs what `npm start` runs, on its own database", async () => {
    const compose = parse(await readFile(join(folder, "my-app/compose.yaml"), "utf8"));
    const { database, app } = compose.services;
    const {
      POSTGRES_USER: user,
      POSTGRES_PASSWORD: password,
      POSTGRES_DB: name,
    } = database.environment;
    expect(app.environment.DATABASE_URL).toBe(
      `postgres://${user}:${password}@database:5432/${name}`,
    );
    const { scripts } = JSON.parse(await readFile(join(folder, "my-app/package.json"), "utf8"));
    const [, command = ""] = /^CMD (.+)$/m.exec(app.build.dockerfile_inline) ?? [];
    expect(scripts.start).toBe(
      `${scripts.build} && ${(JSON.parse(command) as string[]).join(" ")}`,
    );
  });
});

describePostgres("the project on PostgreSQL", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
    await create("my-fleet", "--store", "postgres");
  });
  afterAll(() => database.drop());

  it("has no embedded database, and by default the one of its compose.yaml", async () => {
    const { dependencies } = await manifestAt(join(folder, "my-fleet"));
    expect(Object.keys(dependencies)).toEqual(["leasehold", "pg"]);
    const store = await readFile(join(folder, "my-fleet/src/store.ts"), "utf8");
    const { services } = parse(await readFile(join(folder, "my-fleet/compose.yaml"), "utf8"));
    const { DATABASE_URL: url } = services.app.environment as { DATABASE_URL: string };
    expect(services.database.ports).toEqual(["127.0.0.1:5432:5432"]);
    expect(store).toContain(`"${url.replace("@database:", "@127.0.0.1:")}"`);
  });

  it("generates the report of a day once in two processes that start together", async () => {
    expect(await npm("my-fleet", "build").ended).toMatchObject({ code: 0 });
    const options = {
      cwd: join(folder, "my-fleet"),
      env: { ...ownEnvironment(), DATABASE_URL: database.url },
    };
    const programs = [1, 2].map(() => new Child(process.execPath, ["dist/main.js"], options));
    const reports = await Promise.all(programs.map(waiting));
    const days = new Set(reports.map((report) => /\d{4}-\d\d-\d\d/.exec(report)?.[0]));
    expect(reports.filter((report) => report.startsWith("generated"))).toHaveLength(days.size);
    await Promise.all(programs.map(interrupt));
    // Either may work on the task of the other.
    const lines = programs.flatMap(({ out }) => out);
    expect(lines.filter((line) => line === SENT)).toHaveLength(2);
  });
});
