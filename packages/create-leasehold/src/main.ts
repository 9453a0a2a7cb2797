#!/usr/bin/env node
/** `npm create leasehold my-app`: writes a project, and prints the commands to type next. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createProject, STORES, UsageError } from "./create.js";

const HELP = `Creates a TypeScript project with Leasehold.

  npm create leasehold DIRECTORY
  npm create leasehold DIRECTORY -- --store postgres

The directory must be empty or not yet exist. The project has a nightly job that runs once,
a worker, a test with a manual clock, and a compose.yaml with PostgreSQL.

Options:
  --store STORE  pglite: an embedded database, or PostgreSQL if DATABASE_URL is set (the default);
                 postgres: PostgreSQL only
  --version      prints the version
  -h, --help     prints this help

Exit codes: 0 created, 64 an invalid argument or a directory that is not empty.
`;
/** EX_USAGE, as the `leasehold` command has it. */
const USAGE = 64;

const { version } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8"),
) as { version: string };

try {
  process.stdout.write(run(process.argv.slice(2)));
} catch (error) {
  if (!isUsage(error)) throw error;
  process.stderr.write(`create-leasehold: ${error.message}\n  what to do: see --help\n`);
  process.exitCode = USAGE;
}

/** @returns what to print */
function run(args: string[]): string {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      store: { type: "string", default: "pglite" },
      version: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return HELP;
  if (values.version) return `${version}\n`;
  const [directory, ...rest] = positionals;
  if (directory === undefined || rest.length > 0) {
    throw new UsageError("name one directory: npm create leasehold my-app");
  }
  const store = STORES.find((name) => name === values.store);
  if (!store) throw new UsageError(`--store takes ${STORES.join(" or ")}, not "${values.store}"`);
  const name = createProject({ directory, store, version });
  const steps = [
    ...(directory === "." ? [] : [`cd ${directory}`]),
    ...(store === "postgres" ? ["docker compose up -d database   # or set DATABASE_URL"] : []),
    "npm install",
    "npm start",
  ];
  return `Created ${name}. Next:\n\n${steps.map((step) => `  ${step}\n`).join("")}`;
}

function isUsage(error: unknown): error is Error {
  const { code } = error as { code?: unknown };
  return error instanceof UsageError || String(code).startsWith("ERR_PARSE_ARGS_");
}
