/** The runtimes: what each row does on them is a program of its own in a user's project. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { findEngine } from "../support/engines/postgres-engine.js";
import { missingRedis } from "../support/engines/redis-engine.js";
import { run } from "./program.js";
import type { Row } from "./row.js";
import { MODULES, type Site } from "./site.js";

interface Runtime {
  readonly name: string;
  /** The binary, below MODULES. */
  readonly file: string;
  readonly args?: readonly string[];
  readonly isNode?: boolean;
}

const RUNTIMES: readonly Runtime[] = [
  { name: "Node 20.19", file: "node-20/bin/node", isNode: true },
  { name: "Node 22", file: "node-22/bin/node", isNode: true },
  { name: "Node 24", file: "node-24/bin/node", isNode: true },
  { name: "Node 26", file: "node-26/bin/node", isNode: true },
  { name: "Bun", file: "@oven/bun-linux-x64-baseline/bin/bun" },
  {
    name: "Deno",
    file: "@deno/linux-x64-glibc/deno",
    args: ["run", "--allow-all", "--quiet", "--node-modules-dir=manual"],
  },
];

export const missingPostgres = () =>
  findEngine().then(
    () => null,
    (error: Error) => `no PostgreSQL: ${error.message.split("\n", 1)[0]}`,
  );

export const RUNTIME_ROWS: readonly Row[] = RUNTIMES.flatMap((runtime) => [
  {
    name: `${runtime.name}: import and require`,
    tries: "every public entry of both packages",
    quick: true,
    missing: () => binaryMissing(runtime.name),
    run: async (site) => {
      const project = await site.full();
      const entries = await publicEntries(project);
      for (const program of ["import.mjs", "require.cjs"]) {
        await inRuntime(runtime, site, project, program, ...entries);
      }
    },
  },
  stores(runtime, "memory", { quick: true, source: async () => "memory:runtimes" }),
  stores(runtime, "PGlite", {
    source: async (site) => `pglite:${join(site.folder, runtime.name.replace(" ", "-"))}`,
  }),
  stores(runtime, "PostgreSQL", { missing: missingPostgres, source: (site) => site.postgres() }),
  stores(runtime, "Redis", { missing: missingRedis, source: (site) => site.redis() }),
  stores(runtime, "HTTP store", { quick: true, source: (site) => site.server() }),
  {
    name: `${runtime.name}: error of a missing driver`,
    tries: "the error names the package to install",
    quick: true,
    missing: () => binaryMissing(runtime.name),
    run: async (site) => inRuntime(runtime, site, await site.bare(), "missing.mjs"),
  },
  ...(runtime.isNode === true ? [commandLine(runtime)] : []),
]);

interface StoreRow {
  readonly quick?: boolean;
  missing?(): string | null | Promise<string | null>;
  /** The URL of the store. */
  source(site: Site): Promise<string>;
}

function stores(runtime: Runtime, name: string, { quick, missing, source }: StoreRow): Row {
  return {
    name: `${runtime.name}: ${name}`,
    tries: name === "Redis" ? "a lease" : "a lease and a task",
    ...(quick !== undefined && { quick }),
    missing: () => binaryMissing(runtime.name) ?? missing?.() ?? null,
    async run(site) {
      await inRuntime(runtime, site, await site.full(), "store.mjs", await source(site));
    },
  };
}

function commandLine(runtime: Runtime): Row {
  return {
    name: `${runtime.name}: command line`,
    tries: "leasehold --version and leasehold run",
    missing: () => binaryMissing(runtime.name),
    async run(site) {
      const project = await site.full();
      const node = binary(runtime.name);
      const leasehold = join(project, "node_modules/.bin/leasehold");
      await run(node, [leasehold, "--version"]);
      const work = [node, "-e", "console.log('ran', process.version)"];
      const args = ["run", "runtimes", "--store", await site.server(), "--", ...work];
      const output = await run(node, [leasehold, ...args]);
      if (!output.startsWith("ran v")) throw new Error(`it printed ${output}`);
    },
  };
}

/** The binary of a runtime, by its name. */
export function binary(name: string): string {
  const runtime = RUNTIMES.find((each) => each.name === name);
  if (!runtime) throw new Error(`there is no runtime ${name}`);
  return join(MODULES, runtime.file);
}

/** Why it is not here, or null. */
export function binaryMissing(name: string): string | null {
  if (existsSync(binary(name))) return null;
  return `no ${name} for ${process.platform}-${process.arch} in tests/runtimes`;
}

function inRuntime(
  { name, args = [] }: Runtime,
  site: Site,
  project: string,
  program: string,
  ...rest: string[]
) {
  return run(binary(name), [...args, `programs/${program}`, ...rest], {
    cwd: project,
    env: { DENO_DIR: join(site.folder, "deno"), DENO_NO_UPDATE_CHECK: "1" },
  });
}

/** What can be imported of both packages, but for what they keep to themselves. */
export async function publicEntries(project: string, names = ["leasehold", "leasehold-server"]) {
  const entries: string[] = [];
  for (const name of names) {
    const manifest = await readFile(join(project, "node_modules", name, "package.json"), "utf8");
    const { exports } = JSON.parse(manifest) as { exports: Readonly<Record<string, unknown>> };
    for (const [path, target] of Object.entries(exports)) {
      if (typeof target === "object" && !path.startsWith("./internal")) {
        entries.push(`${name}${path.slice(1)}`);
      }
    }
  }
  return entries;
}
