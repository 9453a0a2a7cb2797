import { type Command, Option } from "commander";
import type { StoreSource } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { ENGINES, migrateBy, planBy } from "leasehold/internal/open";
import { CREATE_TABLE } from "../generator/state.js";
import { checkDirectories } from "./directories.js";
import { UsageError } from "./failures.js";
import { type Notify, warningsTo } from "./notices.js";
import { ownWhereOf, withDatabase } from "./options.js";
import { print } from "./output.js";
import { shownUrl } from "./shown-url.js";
import { openLeases } from "./stores.js";
import { plainTable } from "./table.js";

const HAS_TABLES = /^(pglite|postgres|postgresql):/i;

interface Options {
  readonly dryRun?: boolean;
  readonly sql?: boolean;
  readonly status?: boolean;
  readonly json?: boolean;
}

export function addMigrate(command: Command): void {
  withDatabase(command)
    .addOption(
      new Option("--dry-run", "print the steps that migrate would take, and take none").conflicts([
        "sql",
        "status",
      ]),
    )
    .addOption(
      new Option("--sql", "print the SQL of these steps, and take none").conflicts("status"),
    )
    .option("--status", "print all steps and when they were taken, and take none")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (options: Options, command: Command) => {
      const { store, control = store, notify } = ownWhereOf(command);
      const looks = options.dryRun || options.sql || options.status;
      for (const url of [store, control]) refuseServer(url);
      if (!looks) checkDirectories({ store, control }, notify);
      for (const url of new Set([store, control])) {
        await (looks ? printPlan(url, options, notify) : migrateStore(url, options, notify));
      }
    });
}

/** @throws UsageError if a server is behind the URL: the tables are those of its database */
function refuseServer(url: string): void {
  if (!/^https?:/i.test(url)) return;
  throw new UsageError(
    `${shownUrl(url)} is a server: migrate the database behind it, as in --store postgres://localhost/app`,
  );
}

async function migrateStore(url: string, { json }: Options, notify: Notify): Promise<void> {
  const store = shownUrl(url);
  if (!HAS_TABLES.test(url)) {
    const none = await withoutTables(url, notify);
    return print(json, { store, applied: [] }, () => `${store}: ${none}`);
  }
  const env = { ...systemEnv, logger: warningsTo(notify) };
  const applied = await migrateBy(ENGINES, url, env, [CREATE_TABLE]);
  await print(json, { store, applied }, () =>
    applied.length === 0 ? `${store}: up to date` : `${store}: applied ${applied.join(", ")}`,
  );
}

/** Reaches the store, because a mistyped URL has no tables either. */
async function withoutTables(url: string, notify: Notify): Promise<string> {
  const stores = await openLeases({ store: url, notify });
  await stores.close();
  return `${url.replace(/:.*/s, "")} has no tables: nothing to migrate`;
}

type Steps = Awaited<ReturnType<NonNullable<StoreSource["plan"]>>>;

async function printPlan(
  url: string,
  { sql, status, json }: Options,
  notify: Notify,
): Promise<void> {
  const store = shownUrl(url);
  const steps = await planBy(ENGINES, url, systemEnv);
  const none = steps ? "" : await withoutTables(url, notify);
  // Comments, so that the output of --sql is SQL whatever it says.
  const say = (text: string) => `${sql ? "-- " : ""}${store}: ${text}`;
  if (steps === null) {
    return print(json, { store, steps: [] }, () => say(none));
  }
  if (status) {
    const shown = steps.map(({ name, appliedAt }) => ({ name, appliedAt }));
    return print(json, { store, steps: shown }, () => tableOf(store, steps));
  }
  const remaining = steps.filter(({ appliedAt }) => appliedAt === null);
  const names = remaining.map(({ name }) => name);
  const text = remaining.map((step) => `-- ${step.name}\n${step.sql}`).join("\n");
  await print(json, { store, remaining: names, ...(sql && { sql: text }) }, () => {
    if (remaining.length === 0) return say("up to date");
    const would = say(`would apply ${names.join(", ")}`);
    return sql ? `${would}\n\n${text.trimEnd()}` : would;
  });
}

function tableOf(store: string, steps: Steps): string {
  const table = plainTable(["step", "applied at"]);
  for (const { name, appliedAt } of steps) table.push([name, appliedAt ?? "not yet"]);
  return `${store}\n${table.toString()}`;
}

const HELP = `
Other commands migrate the tables that they open, too. Commands that only read or change what is there, and doctor,
refuse a PostgreSQL database without Leasehold tables; others create them. Run migrate with a privileged database
user if your other users may not change tables. Migrations only go forward, and may run concurrently.
For a store without tables, it says that there is nothing to migrate, once the store answers. It refuses a server:
migrate the server's database.

--sql prints one transaction for each step that remains, for a review or for a tool of your own: run them in
order, as the owner of the schema, and stop at the first that fails. Each step records that it was taken, so that it
is not taken twice. The table of the sample generator is no step: only migrate creates it, or the first "generate start"
of a user that may. You may migrate while processes of the release before run, because its code works on the new schema.

Examples:
  leasehold migrate --store postgres://owner@localhost/app
  leasehold migrate --dry-run --store postgres://localhost/app?schema=app_leases
  leasehold migrate --sql --store postgres://localhost/app > leasehold.sql
  psql app -v ON_ERROR_STOP=1 -f leasehold.sql`;
