import type { Command } from "commander";
import { migrate } from "leasehold";
import { ownWhereOf, withDatabase } from "./options.js";
import { print } from "./output.js";
import { shownUrl } from "./stores.js";

/** Stores in memory have no tables, and a server migrates its own. */
const HAS_TABLES = /^(pglite|postgres|postgresql):/i;

export function addMigrate(program: Command): void {
  withDatabase(program.command("migrate"))
    .description("migrate the tables of --store and --control to this version")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      const { store, control = store } = ownWhereOf(command);
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
Every command that opens a database migrates it first. Run migrate with a privileged database user if
your other users may not change tables. Migrations only go forward, and may run concurrently.

Example:
  leasehold migrate --store postgres://owner@localhost/app`;
