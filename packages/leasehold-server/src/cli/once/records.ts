/** The keys of `once`: what their records say, and the operator actions on them. */
import { type Command, Option } from "commander";
import type { LeaseStores } from "leasehold";
import {
  formatDuration,
  type OnceState,
  type OnceStore,
  type OnceView,
  resourceOf,
} from "leasehold/internal";
import { EXIT } from "../exit-codes.js";
import { Exit, UsageError } from "../failures.js";
import { type ActionOptions, actOf, operatorOf, withReason } from "../operator-actions.js";
import { integer, tenantOf, type Where, whereOf, withStore } from "../options.js";
import { colors, print } from "../output.js";
import { keyName, keyPrefix } from "../resource.js";
import { quoted } from "../shell.js";
import { openLeases } from "../stores.js";
import { plainTable } from "../table.js";
import { safeJson, shown } from "../terminal.js";

type Verb = "retry" | "delete";

export function addOnceKeys(keys: Command): void {
  addList(keys);
  addShow(keys);
  addAction(keys, "retry", "forget the failures of a key, so that the next caller tries again");
  addAction(keys, "delete", "delete the record of a key, whatever it says: its work may run again");
}

interface ListOptions {
  readonly prefix?: string;
  readonly state?: OnceState;
  readonly limit: number;
  readonly cursor?: string;
  readonly json?: boolean;
}

function addList(keys: Command): void {
  withStore(keys.command("list"))
    .description("list the keys whose work has succeeded or failed")
    .addHelpText("after", HELP)
    .option("--prefix <text>", "list only keys that begin with this text", keyPrefix)
    .addOption(
      new Option("--state <state>", "list only keys in this state").choices(Object.keys(COLORS)),
    )
    .option("--limit <n>", "maximum number of results", integer(1, 200), 100)
    .option("--cursor <text>", "continue after the page that printed this cursor")
    .option("--json", "print JSON")
    .action(async ({ json, state, ...query }: ListOptions, command: Command) => {
      await withRecords(command, async (records, namespace) => {
        const filter = { ...query, ...(state && { states: [state] }) };
        const { items, nextCursor } = await records.list({ namespace, ...filter });
        await print(json, { items, nextCursor }, () => {
          const more = nextCursor === null ? "" : `\nmore: --cursor ${quoted(nextCursor)}`;
          return `${items.length === 0 ? "no keys match" : tableOf(items)}${more}`;
        });
      });
    });
}

function addShow(keys: Command): void {
  withStore(keys.command("show"))
    .description("show the record of a key")
    .argument("<key>", "key", keyName)
    .option("--json", "print JSON")
    .action(async (key: string, { json }: Pick<ListOptions, "json">, command: Command) => {
      await withRecords(command, async (records, namespace) => {
        const record = await records.get({ namespace, key });
        if (!record) throw new UsageError(await missing(records, namespace, key));
        await print(json, record, () => detailsOf(record));
      });
    });
}

function addAction(keys: Command, verb: Verb, description: string): void {
  withReason(withStore(keys.command(verb)))
    .description(description)
    .argument("<key>", "key", keyName)
    .option("--json", "print JSON")
    .addHelpText("after", ACTION_HELP[verb])
    .action(async (key: string, options: ActionOptions, command: Command) => {
      const changed = await actOn(verb, key, options, command, whereOf(command));
      const [done, nothing] = ANSWERS[verb];
      await print(
        options.json,
        { key, changed },
        () => `"${shown(key)}" ${changed ? done : nothing}`,
      );
      if (!changed) throw new Exit(EXIT.failed);
    });
}

const ANSWERS: Readonly<Record<Verb, readonly [done: string, nothing: string]>> = {
  retry: ["is retried: the next caller tries again", "has not failed: nothing was changed"],
  delete: ["was deleted: its work may run again", "has no record: nothing was changed"],
};

/** An operator action on a key, with its entry in the audit. @returns whether there was something to change */
export async function actOn(
  verb: Verb,
  key: string,
  options: Pick<ActionOptions, "actor" | "reason">,
  command: Command,
  where: Where,
): Promise<boolean> {
  const stores = await openLeases(where);
  try {
    recordsOf(stores);
    const namespace = tenantOf(command, stores);
    const act = actOf({ ...options, namespace }, `once.${verb}`, key);
    return await operatorOf(stores).perform(act, async ({ once }) => {
      const value = await once[verb]({ namespace, key });
      return { value, details: { changed: value } };
    });
  } finally {
    await stores.close();
  }
}

/** Why a key has no record. */
async function missing(records: OnceStore, namespace: string, key: string): Promise<string> {
  const nothing = `no work has succeeded or failed under "${key}"`;
  const resource = resourceOf(key);
  const [lease] = await records.leases.get([{ namespace, resource }]);
  if (lease?.state !== "live") return nothing;
  return `${nothing} yet: ${lease.holder} works on it (leasehold why ${quoted(resource)})`;
}

async function withRecords(
  command: Command,
  work: (records: OnceStore, namespace: string) => Promise<void>,
): Promise<void> {
  const stores = await openLeases(whereOf(command));
  try {
    await work(recordsOf(stores), tenantOf(command, stores));
  } finally {
    await stores.close();
  }
}

/** @throws UsageError */
function recordsOf({ once }: LeaseStores): OnceStore {
  if (once) return once;
  throw new UsageError(
    "this store keeps no records of once: name PostgreSQL, PGlite, or a server that has its leases and its records in one database",
  );
}

function tableOf(items: readonly OnceView[]): string {
  const table = plainTable(["key", "state", "by", "at", "failures", "next", "value or error"]);
  for (const record of items) {
    const { key, state, by, at, failures, nextInMs } = record;
    const next = nextInMs > 0 ? formatDuration(nextInMs) : "";
    const what = cut(state === "done" ? safeJson(record.value) : shown(record.error ?? ""));
    table.push([shown(key), COLORS[state](state), shown(by), at, failures, next, what]);
  }
  return table.toString();
}

/** As much as a line of a table has room for. */
function cut(text: string): string {
  const [first = ""] = text.split("\n", 1);
  return first.length > 60 || first !== text ? `${first.slice(0, 60)}…` : text;
}

function detailsOf({ value, ...record }: OnceView): string {
  const { key, state, by, at, token, failures, error, nextInMs, keepUntil } = shown(record);
  const lines = [`${key}  ${COLORS[state](state)}`, `by ${by} at ${at}, token ${token}`];
  if (state === "done")
    lines.push(`kept ${keepUntil === null ? "for ever" : `until ${keepUntil}`}`);
  else lines.push(`failures ${failures}`);
  if (nextInMs > 0) lines.push(`next attempt in ${formatDuration(nextInMs)}`);
  if (state === "done") lines.push(`value ${safeJson(value)}`);
  if (error !== null) lines.push(`error ${error}`);
  return lines.join("\n");
}

const COLORS: Readonly<Record<OnceState, (text: string) => string>> = {
  done: colors.green,
  failing: colors.yellow,
  failed: colors.red,
};

const HELP = `
A key is "done" when its work has succeeded, "failing" when the next caller tries again, and "failed" when it has
failed as often as its callers allow: then no caller tries again until you retry it. A key that is being worked on for
the first time has no record: "leasehold ls once:" lists the leases of such work.

Examples:
  leasehold once list --state failed
  leasehold once retry "report:2026-11-25" --reason "the disk has room again"`;

const ACTION_HELP: Readonly<Record<Verb, string>> = {
  retry: `
The failures are forgotten, so --max-attempts counts anew, and no caller waits for the next attempt.

Exit codes: 0 retried; 1 the key has not failed.

Examples:
  leasehold once retry "report:2026-11-25" --reason "the disk has room again"`,
  delete: `
Work that has succeeded runs again at the next call. "leasehold once --force" deletes the record and runs at once.

Exit codes: 0 deleted; 1 the key has no record.

Examples:
  leasehold once delete "report:2026-11-25" --reason "the report was wrong"`,
};
