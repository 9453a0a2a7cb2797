/** Follows a page: a folder with the packages that it names, its files, and its commands in terminals. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../../engines/free-port.js";
import { ownEnvironment } from "../../processes/cli.js";
import { ENGINES, type Started } from "./engines.js";
import type { Step, Walk } from "./page.js";
import { misordered, type Pair } from "./printed.js";
import { Terminal } from "./terminal.js";

const root = fileURLToPath(new URL("../../../..", import.meta.url));
/** Where packages are, and how those that not every clone has are installed. */
const INSTALLED = [
  { folder: join(root, "node_modules") },
  { folder: join(root, "tests/prisma/node_modules"), of: /prisma/ },
];
const IMPORT = /(?:\bfrom|^import) "([^".][^"]*)"/gm;
const PORT = /\blocalhost:(3000|4040)\b/;
/** Programs that commands start, but for those that every machine has. */
const PROGRAMS = ["python3", "curl", "bun", "deno"];
/** Packages of commands that npx starts. */
const COMMANDS = { leasehold: "leasehold-server", tsc: "typescript", prisma: "prisma" };
const TSCONFIG = {
  compilerOptions: {
    target: "ES2022",
    module: "NodeNext",
    types: ["node"],
    strict: true,
    skipLibCheck: true,
    experimentalDecorators: true,
  },
  include: ["*.ts"],
};

/** Why this machine can't walk it, or null. */
export function missingFor({ steps }: Walk): string | null {
  const text = steps.map(({ code }) => code).join("\n");
  const engine = ENGINES.filter(({ url }) => text.includes(url)).map((each) => each.missing());
  const commands = steps.flatMap((step) => (step.do === "run" ? [step.code] : [])).join("\n");
  const programs = PROGRAMS.filter((name) => new RegExp(`^${name} `, "m").test(commands)).map(
    (name) => (spawnSync(name, ["--version"]).error ? `no ${name}` : null),
  );
  const packages = namesIn(text, commands).map((name) =>
    folderOf(name) ? null : `no ${name} in node_modules`,
  );
  return [...engine, ...programs, ...packages].find((reason) => reason !== null) ?? null;
}

/** Whether every machine of the project can have what is missing. */
export function isOptional(missing: string | null): boolean {
  return missing !== null && /bun|deno|consul/i.test(missing);
}

/** Packages that the files import and that commands start by npx. */
function namesIn(text: string, commands: string): string[] {
  const imported = [...text.matchAll(IMPORT)]
    .map(([, specifier = ""]) => specifier)
    .filter((specifier) => !specifier.startsWith("node:") && !specifier.startsWith("./generated"))
    .map((specifier) =>
      specifier
        .split("/")
        .slice(0, specifier.startsWith("@") ? 2 : 1)
        .join("/"),
    );
  const started = [...commands.matchAll(/\bnpx (prisma)\b/g)].map(([, name = ""]) => name);
  return [...new Set([...imported, ...started])];
}

function folderOf(name: string): string | undefined {
  return INSTALLED.map(({ folder }) => join(folder, name)).find((path) => existsSync(path));
}

/** What brings the version of this clone: `npm install NAME` does not bring a beta. */
function toInstall(name: string): string {
  const folder = folderOf(name);
  if (folder === undefined) return name;
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    version: string;
  };
  return version.includes("-") ? `${name}@${version.replace(/^v/, "")}` : name;
}

/** Packages that a reader lacks who has installed what the page says. Pages that install nothing follow others that do. */
function notInstalled({ installed, steps }: Walk): string[] {
  if (installed.length === 0) return [];
  const text = steps.map(({ code }) => code).join("\n");
  const commands = steps.flatMap((step) => (step.do === "run" ? [step.code] : [])).join("\n");
  const started = Object.entries(COMMANDS).flatMap(([command, name]) =>
    new RegExp(`\\bnpx ${command}\\b`).test(commands) ? [name] : [],
  );
  const drivers = ENGINES.filter(({ url }) => text.includes(url)).flatMap(({ driver }) => driver);
  return [...namesIn(text, commands), ...started, ...drivers]
    .map(toInstall)
    .filter((name) => !installed.includes(name));
}

/** From the first step of the page to the last one. @throws if anything is not as the page says */
export async function follow(walk: Walk): Promise<void> {
  const lacking = notInstalled(walk);
  if (lacking.length > 0) throw new Error(`the page does not install ${lacking.join(", ")}`);
  const text = walk.steps.map(({ code }) => code).join("\n");
  const outer = await mkdtemp(join(tmpdir(), "leasehold-guide-"));
  const engines: { readonly of: string; readonly started: Started }[] = [];
  const terminals: Terminal[] = [];
  try {
    for (const { url, start } of ENGINES) {
      if (text.includes(url)) engines.push({ of: url, started: await start() });
    }
    const port = await freePort();
    const [, shownPort = "0"] = PORT.exec(text) ?? [];
    const names = engines.map(({ of, started }): [string, string] => [of, started.url]);
    const replaced: [string, string][] = [
      ...names,
      [`localhost:${shownPort}`, `localhost:${port}`],
    ];
    const here = (code: string) => replaced.reduce((all, [a, b]) => all.replaceAll(a, b), code);
    const toPage = (line: string) => replaced.reduce((all, [a, b]) => all.replaceAll(b, a), line);
    const folder = await install(outer, walk.steps);
    const env = environment(port);
    const terminal = new Terminal(folder, env);
    terminals.push(terminal);
    const pairs: Pair[] = [];
    const saved = new Map<string, string>();
    for (const step of walk.steps) {
      if (step.do === "save") {
        saved.set(step.name, `${saved.get(step.name) ?? ""}${here(step.code)}`);
        await mkdir(dirname(join(folder, step.name)), { recursive: true });
        await writeFile(join(folder, step.name), saved.get(step.name) ?? "");
      } else if (step.stays) {
        const other = new Terminal(folder, env);
        terminals.push(other);
        await other.stay(here(step.code), port);
      } else {
        pairs.push(...(await terminal.run(here(step.code), step.printed, step.anyOrder, toPage)));
      }
    }
    const warnings = walk.steps.flatMap((step) => (step.do === "run" && step.warns) || []);
    const complaints = terminal.complaints(warnings);
    if (complaints !== "") throw new Error(`stderr:\n${complaints}`);
    const wrong = misordered(pairs);
    if (wrong.length > 0) throw new Error(`tokens out of order: ${JSON.stringify(wrong)}`);
  } finally {
    for (const terminal of terminals) await terminal.close();
    for (const { started } of engines) await started.remove();
    await rm(outer, { recursive: true });
  }
}

function environment(port: number): NodeJS.ProcessEnv {
  const {
    DATABASE_URL: _database,
    STORE_URL: _store,
    REDIS_URL: _redis,
    ...env
  } = ownEnvironment();
  return {
    ...env,
    PORT: `${port}`,
    NO_COLOR: "1",
    // What Prisma would fetch or send.
    PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
    PRISMA_HIDE_UPDATE_MESSAGE: "1",
    CHECKPOINT_DISABLE: "1",
  };
}

/**
 * As `npm install` would: links to what this clone has, and a list of it. Node looks for packages in the folder, then in
 * the one above.
 * @returns the folder of the reader
 */
async function install(outer: string, steps: readonly Step[]): Promise<string> {
  const folder = join(outer, "app");
  await mkdir(folder);
  const own = join(root, "node_modules");
  const extra = INSTALLED.find(({ of }) => of && steps.some(({ code }) => importsOne(code, of)));
  await symlink(extra?.folder ?? own, join(folder, "node_modules"));
  if (extra) await symlink(own, join(outer, "node_modules"));
  const names = steps.flatMap(({ code }) => namesIn(code, ""));
  const isTypeScript = steps.some((step) => step.do === "save" && step.name.endsWith(".ts"));
  const manifest = {
    dependencies: Object.fromEntries(names.map((name) => [name, "*"])),
    ...(isTypeScript && { type: "module" }),
  };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  if (isTypeScript) await writeFile(join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG));
  return folder;
}

function importsOne(code: string, of: RegExp): boolean {
  return namesIn(code, code).some((name) => of.test(name));
}
