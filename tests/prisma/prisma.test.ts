/** The code of docs/transactions.md for Prisma, where it is installed: `npm ci --prefix tests/prisma`. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, it } from "vitest";
import { exerciseAdapter, type Library } from "../support/documents/transactions/adapter-suite.js";
import { compileBlocks, type Page } from "../support/documents/transactions/page.js";
import { describeUnless, type FreshDatabase, freshDatabase } from "../support/engines/postgres.js";
import { checkBuild } from "../support/processes/cli.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const installed = join(here, "node_modules");
const missing = existsSync(installed) ? null : "no Prisma: npm ci --prefix tests/prisma";

describeUnless(missing, "docs/transactions.md: prisma", () => {
  let database: FreshDatabase;
  let page: Page;
  let folder: string;
  beforeAll(async () => {
    checkBuild();
    database = await freshDatabase();
    page = await compileBlocks(database.url, ["tasks", "prisma"], async (made) => {
      folder = made;
      await generate(made);
    });
  });
  afterAll(async () => {
    await page?.close();
    await database?.drop();
  });

  exerciseAdapter(it, async () => ({
    url: database.url,
    opened: await open(folder, database.url),
    page,
    adapter: await page.adapter("prisma"),
  }));
});

/** Writes the client into `generated` of the folder. */
async function generate(folder: string): Promise<void> {
  await symlink(installed, join(folder, "node_modules"));
  await cp(join(here, "schema.prisma"), join(folder, "schema.prisma"));
  const command = join(installed, "prisma", "build", "index.js");
  await promisify(execFile)(process.execPath, [command, "generate"], {
    cwd: folder,
    env: {
      ...process.env,
      // The client runs on WebAssembly. Only Prisma's migrations need an engine, which the command would download.
      PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
      PRISMA_HIDE_UPDATE_MESSAGE: "1",
      CHECKPOINT_DISABLE: "1",
    },
  });
}

interface Client {
  $transaction(work: (tx: unknown) => Promise<void>): Promise<unknown>;
  $disconnect(): Promise<void>;
}

async function open(folder: string, url: string): Promise<Library> {
  const { PrismaPg } = createRequire(join(installed, "x"))("@prisma/adapter-pg") as {
    PrismaPg: new (options: { connectionString: string }) => unknown;
  };
  const { PrismaClient } = (await import(
    pathToFileURL(join(folder, "generated", "index.js")).href
  )) as { PrismaClient: new (options: { adapter: unknown }) => Client };
  const db = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
  return { db, transaction: (work) => db.$transaction(work), close: () => db.$disconnect() };
}
