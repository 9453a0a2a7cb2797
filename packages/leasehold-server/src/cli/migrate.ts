import type { Command } from "commander";
import { migrate } from "leasehold";
import { whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { shownUrl } from "./stores.js";

/** In memory there are none, and a server makes its own. */
const HAS_TABLES = /^(pglite|postgres|postgresql):/i;

export function addMigrate(program: Command): void {
  withStores(program.command("migrate"))
    .description("bring the tables of the store, and of --control, up to this version")
    .option("--json", "for machines")
    .addHelpText("after", HELP)
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      const { store, control = store } = whereOf(command);
      for (const url of new Set([store, control])) await migrateStore(url, json);
    });
}

async function migrateStore(url: string, json: boolean | undefined): Promise<void> {
  const store = shownUrl(url);
  const applied = await migrate(url);
  print(json, { store, applied }, () => {
    if (!HAS_TABLES.test(url)) return `${store}: nothing to migrate`;
    return applied.length === 0
      ? `${store}: up to date`
      : `${store}: applied ${applied.join(", ")}`;
  });
}

const HELP = `
Every command that opens a database does the same first; this one is for users who may not change
tables: run it as one who may. Steps only go forward, and any number may run at once.

Example:
  leasehold migrate --store postgres://owner@localhost/app`;
