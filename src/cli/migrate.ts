import type { Command } from "commander";
import { systemEnv } from "../env/index.js";
import { migratePostgres, type PostgresSource } from "../stores/postgres/index.js";
import { whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { shownUrl } from "./stores.js";

export function addMigrate(program: Command): void {
  withStores(program.command("migrate"))
    .description("bring the tables of the store, and of --control, up to this version")
    .option("--json", "for machines")
    .addHelpText("after", HELP)
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      const { store, control = store } = whereOf(command);
      for (const url of new Set([store, control])) await migrate(url, json);
    });
}

async function migrate(url: string, json: boolean | undefined): Promise<void> {
  const store = shownUrl(url);
  const source = sourceOf(url);
  if (!source) {
    print(json, { store, applied: [] }, () => `${store}: nothing to migrate`);
    return;
  }
  const applied = await migratePostgres(source, systemEnv);
  print(json, { store, applied }, () =>
    applied.length === 0 ? `${store}: up to date` : `${store}: applied ${applied.join(", ")}`,
  );
}

/** Null where tables are not ours to make: in memory, and behind a server, which makes its own. */
function sourceOf(url: string): PostgresSource | null {
  if (url.startsWith("pglite:")) return { directory: url.slice("pglite:".length) };
  return /^postgres(ql)?:/.test(url) ? { url } : null;
}

const HELP = `
Every command that opens a database does the same first; this one is for users who may not change
tables: run it as one who may. Steps only go forward, and any number may run at once.

Example:
  leasehold migrate --store postgres://owner@localhost/app`;
