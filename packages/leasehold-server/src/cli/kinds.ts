/** The published kinds of tasks: their JSON Schemas by version, and how they are published and withdrawn. */
import { buffer } from "node:stream/consumers";
import type { Command } from "commander";
import type { LeaseStores } from "leasehold";
import {
  checkNewName,
  type KindStore,
  LARGEST_VERSION,
  loadJsonSchemas,
  newHolder,
  systemRandom,
} from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { readBytes } from "./files.js";
import { jsonOf, jsonTextOf } from "./json-input.js";
import { type ActionOptions, actOf, operatorOf, withOperatorAction } from "./operator-actions.js";
import { controlWhereOf, integer, notBlank, tenantOf, withStores } from "./options.js";
import { print } from "./output.js";
import { quoted } from "./shell.js";
import { openLeases } from "./stores.js";
import { plainTable } from "./table.js";
import { shown } from "./terminal.js";

const version = integer(1, LARGEST_VERSION);

export function addKinds(kinds: Command): void {
  kinds.addHelpText("after", HELP);
  addList(kinds);
  addShow(kinds);
  addPublish(kinds);
  addWithdraw(kinds);
}

interface ListOptions {
  readonly kind?: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly json?: boolean;
}

function addList(kinds: Command): void {
  withStores(kinds.command("list"))
    .description("list the published versions, by kind")
    .option("--kind <kind>", "list only the versions of this kind", notBlank)
    .option("--limit <n>", "maximum number of results", integer(1, 200), 20)
    .option("--cursor <text>", "continue after the page that printed this cursor")
    .option("--json", "print JSON")
    .action(async ({ json, ...query }: ListOptions, command: Command) => {
      await withKinds(command, {}, async (store, namespace) => {
        const { items, nextCursor } = await store.list({ namespace, ...query });
        await print(json, { items, nextCursor }, () => {
          const table = plainTable(["kind", "version", "published", "changed", "by"]);
          for (const item of items) {
            const { publishedAt, changedAt } = item;
            table.push([shown(item.kind), item.version, publishedAt, changedAt, shown(item.by)]);
          }
          const more = nextCursor === null ? "" : `\nmore: --cursor ${quoted(nextCursor)}`;
          return `${items.length === 0 ? "no published kinds" : table.toString()}${more}`;
        });
      });
    });
}

function addShow(kinds: Command): void {
  withStores(kinds.command("show"))
    .description("print the JSON Schema of a version")
    .argument("<kind>", "the kind")
    .argument("<version>", "its version", version)
    .action(async (kind: string, of: number, _options: object, command: Command) => {
      await withKinds(command, {}, async (store, namespace) => {
        const [schema] = await store.schemas([{ namespace, kind, version: of }]);
        if (!schema) throw unpublished(kind, of);
        await print(true, JSON.parse(schema), () => "");
      });
    });
}

function addPublish(kinds: Command): void {
  withStores(kinds.command("publish"))
    .description("publish the JSON Schema of a version, or change it")
    .argument("<kind>", "the kind")
    .argument("<version>", "its version", version)
    .argument("<file>", "a file with the JSON Schema; - for the standard input")
    .option("--json", "print JSON")
    .addHelpText("after", PUBLISH_HELP)
    .action(
      async (
        kind: string,
        of: number,
        file: string,
        { json }: Pick<ListOptions, "json">,
        command: Command,
      ) => {
        checkNewName("kind", kind);
        const schema = (await loadJsonSchemas()).schemaText(await schemaIn(file));
        await withKinds(command, { creates: true }, async (store, namespace) => {
          const by = newHolder(systemRandom);
          const outcome = await store.publish({ namespace, kind, version: of, schema, by });
          if (outcome.status === "failed") throw outcome.error;
          if (outcome.status === "full") {
            throw new UsageError(
              "the tenant publishes as many versions as it may: withdraw some first",
            );
          }
          const { change } = outcome;
          const done = { kind, version: of, change };
          await print(json, done, () => `"${shown(kind)}" version ${of} ${PUBLISHED[change]}`);
        });
      },
    );
}

const PUBLISHED = {
  added: "is published",
  changed: "is changed",
  none: "is as it was",
} as const;

async function schemaIn(file: string): Promise<unknown> {
  const [bytes, what] =
    file === "-"
      ? [await buffer(process.stdin), "the standard input"]
      : [await readBytes(file), file];
  return jsonOf(jsonTextOf(bytes, what), what);
}

function addWithdraw(kinds: Command): void {
  withOperatorAction(kinds.command("withdraw"))
    .description("withdraw a version: new tasks are no longer checked against it")
    .argument("<kind>", "the kind")
    .argument("<version>", "its version", version)
    .addHelpText("after", WITHDRAW_HELP)
    .action(async (kind: string, of: number, options: ActionOptions, command: Command) => {
      const stores = await openLeases(controlWhereOf(command));
      try {
        kindsOf(stores);
        const namespace = tenantOf(command, stores);
        const act = actOf({ ...options, namespace }, "kind.withdraw", kind);
        const wasPublished = await operatorOf(stores).perform(act, async (actors) => {
          const value = await actors.kinds.withdraw({ namespace, kind, version: of });
          return { value, details: { version: of, wasPublished: value } };
        });
        const done = { kind, version: of, wasPublished };
        const said = wasPublished ? "is withdrawn" : "was not published: nothing was changed";
        await print(options.json, done, () => `"${shown(kind)}" version ${of} ${said}`);
        if (!wasPublished) throw new Exit(EXIT.failed);
      } finally {
        await stores.close();
      }
    });
}

async function withKinds(
  command: Command,
  using: { readonly creates?: boolean },
  work: (store: KindStore, namespace: string) => Promise<void>,
): Promise<void> {
  const stores = await openLeases(controlWhereOf(command, using));
  try {
    await work(kindsOf(stores), tenantOf(command, stores));
  } finally {
    await stores.close();
  }
}

function kindsOf({ kinds }: LeaseStores): KindStore {
  if (kinds) return kinds;
  throw new UsageError("this store keeps no published kinds: name PostgreSQL, PGlite or a server");
}

function unpublished(kind: string, of: number): UsageError {
  return new UsageError(`version ${of} of the kind "${kind}" is not published`);
}

const HELP = `
Programs publish kinds with defineTask(kind, { schema, publish: true }) or PUT /v1/kinds/KIND/VERSION. Servers refuse
new tasks whose data does not match.

Examples:
  leasehold kinds list
  leasehold kinds show invoice 2 > invoice.schema.json`;

const PUBLISH_HELP = `
Within a second, every server checks new tasks against it. Programs that define the kind with another schema and
publish: true replace it when they start.

Examples:
  leasehold kinds publish invoice 2 invoice.schema.json`;

const WITHDRAW_HELP = `
A program that publishes it adds it again.

Exit codes: 0 withdrawn; 1 it was not published.

Examples:
  leasehold kinds withdraw invoice 1 --reason "all tasks of it are done"`;
