/** Creates, lists, rotates and revokes API keys, directly in the database. A server lists them too. */
import { type Command, Option } from "commander";
import {
  type ApiKey,
  ApiKeyRotatedError,
  createApiKey,
  formatDuration,
  type MadeApiKey,
  ROLES,
  type Role,
  revokeApiKey,
  rotateApiKey,
  systemRandom,
} from "leasehold/internal";
import { UsageError } from "./failures.js";
import { type ActionOptions, withOperatorAction } from "./operator-actions.js";
import {
  controlWhereOf,
  duration,
  integer,
  positiveDuration,
  refuseNamespaceWithAll,
  repeatable,
  tenantOf,
  withStores,
} from "./options.js";
import { print, saying } from "./output.js";
import { allOf, withControl, withControlOrServer } from "./stores.js";
import { plainTable } from "./table.js";
import { safeJson, say, sayMore, shown } from "./terminal.js";

export function addKeys(keys: Command): void {
  keys.addHelpText("after", HELP);
  addCreate(keys);
  addList(keys);
  addRotate(keys);
  addRevoke(keys);
}

interface CreateOptions extends Omit<ActionOptions, "reason"> {
  readonly reason?: string;
  readonly name: string;
  readonly role: Role;
  readonly prefix: readonly string[];
  readonly queue: readonly string[];
  readonly expires?: number;
  readonly keyMaxLife?: number;
}

/** For servers and for commands that create keys on their database. */
export function keyMaxLifeOption(): Option {
  return new Option(
    "--key-max-life <duration>",
    "longest lifetime of new keys, which must then have one (default: unlimited)",
  )
    .argParser(positiveDuration)
    .env("LEASEHOLD_KEY_MAX_LIFE");
}

function addCreate(keys: Command): void {
  withOperatorAction(keys.command("create"), { needsReason: false })
    .description("create a key, and print it once, on stdout")
    .requiredOption("--name <text>", "name of the key in lists, such as its user")
    .addOption(
      new Option("--role <role>", "what the key may do").choices(ROLES).makeOptionMandatory(true),
    )
    .option(
      "--prefix <text>",
      "for --role holder: resources that it may lease begin with this text; '' means any; for --role operator: resources on which it may act; repeatable",
      repeatable(),
      [] as readonly string[],
    )
    .option(
      "--queue <name>",
      "for --role operator: queue on whose tasks it may act; without --queue and --prefix it may act on everything; repeatable",
      repeatable(),
      [] as readonly string[],
    )
    .option("--expires <duration>", "lifetime of the key (default: unlimited)", positiveDuration)
    .addOption(keyMaxLifeOption())
    .addHelpText("after", CREATE_HELP)
    .action(async (options: CreateOptions, command: Command) => {
      const { namespace, name, role, prefix: prefixes, expires: lifetimeMs = null } = options;
      const { queue: queues } = options;
      if (role !== "holder" && role !== "operator" && prefixes.length > 0) {
        const why = "other roles apply to all resources";
        throw new UsageError(`--prefix needs --role holder or operator: ${why}`);
      }
      if (role !== "operator" && queues.length > 0) {
        throw new UsageError("--queue needs --role operator");
      }
      if (role === "holder" && prefixes.length === 0) {
        throw new UsageError("--role holder needs --prefix; --prefix '' means any resource");
      }
      const { keyMaxLife: maxLifeMs } = options;
      const isLonger = maxLifeMs !== undefined && (lifetimeMs ?? Infinity) > maxLifeMs;
      if (isLonger) {
        const most = formatDuration(maxLifeMs);
        throw new UsageError(`--expires must be at most ${most}, the longest life of a key`);
      }
      const limited = { prefixes, queues };
      const order = { namespace, name, role, ...limited, lifetimeMs, maxLifeMs };
      await withControl(controlWhereOf(command, { creates: true }), async (control) =>
        show(await createApiKey(control, systemRandom, order, by(options)), options.json),
      );
    });
}

interface ListOptions {
  readonly namespace: string;
  readonly all?: boolean;
  readonly limit: number;
  readonly json?: boolean;
}

function addList(keys: Command): void {
  withStores(keys.command("list"))
    .description("list all keys, newest first, without their secrets")
    .option("--all", "list all tenants, instead of one")
    .option("--limit <n>", "maximum number of results", integer(1, 10_000), 100)
    .option("--json", "print JSON")
    .action(async ({ all, limit, json }: ListOptions, command: Command) => {
      refuseNamespaceWithAll(command);
      // One more than is shown, to know whether there are more.
      const found = await withControlOrServer(controlWhereOf(command), ({ keys: kept }, served) => {
        const owner = all ? null : tenantOf(command, served);
        return allOf((part) => kept.list({ namespace: owner, ...part }), limit + 1);
      });
      const items = found.slice(0, limit);
      await print(json, items, () => tableOf(items));
      if (found.length > limit) sayMore(limit, "key", "keys");
    });
}

interface EndOptions extends Omit<ActionOptions, "reason"> {
  readonly reason?: string;
  readonly overlap: number;
  readonly keyMaxLife?: number;
}

function addRotate(keys: Command): void {
  withOperatorAction(keys.command("rotate"), { needsReason: false })
    .description("replace a key by a new one with the same rights")
    .argument("<id>", "id of the old key, from `keys list`")
    .option(
      "--overlap <duration>",
      "how long the old key stays valid; 0 revokes it now",
      duration,
      0,
    )
    .addOption(keyMaxLifeOption())
    .addHelpText("after", ROTATE_HELP)
    .action(async (id: string, options: EndOptions, command: Command) => {
      const { namespace, overlap: overlapMs, keyMaxLife: maxLifeMs, json } = options;
      await withControl(controlWhereOf(command), async (control) => {
        const old = { namespace, id, overlapMs, maxLifeMs };
        const made = await rotateApiKey(control, systemRandom, old, by(options)).catch((error) => {
          throw error instanceof ApiKeyRotatedError ? new UsageError(error.message) : error;
        });
        if (!made) throw new UsageError(`namespace "${namespace}" has no valid key ${id}`);
        await show(made, json);
        if (!json) say(`the old key, ${id}, expires at ${made.old.expiresAt}`);
      });
    });
}

function addRevoke(keys: Command): void {
  withOperatorAction(keys.command("revoke"))
    .description("revoke a key; servers refuse it within 5 s")
    .argument("<id>", "id of the key, from `keys list`")
    .addHelpText("after", REVOKE_HELP)
    .action(async (id: string, options: ActionOptions, command: Command) => {
      const { namespace, json } = options;
      const key = await withControl(controlWhereOf(command), (control) =>
        revokeApiKey(control, { namespace, id }, by(options)),
      );
      if (!key) throw new UsageError(`namespace "${namespace}" has no key ${id}`);
      await print(json, key, () => `${stateOf(key)}: ${id}, ${shown(key.name)}`);
    });
}

function by({ actor, reason }: { actor: string; reason?: string }) {
  return { actor, reason: reason ?? null };
}

async function show(made: MadeApiKey, json: boolean | undefined): Promise<void> {
  const { id, name, namespace, role, expiresAt } = shown(made.key);
  const lost = `key ${id} was created, and its text is lost: revoke the key, or rotate it`;
  await print(json, made, () => made.text).catch(saying(() => lost));
  if (json) return;
  const end = expiresAt === null ? "never expires" : `expires at ${expiresAt}`;
  const whose = `${role} of "${namespace}", ${name}, id ${id}, ${end}`;
  say(`store it now: it cannot be shown again (${whose})`);
}

function tableOf(keys: readonly ApiKey[]): string {
  if (keys.length === 0) return "no keys";
  const columns = ["id", "namespace", "role", "prefixes", "queues", "name"];
  const table = plainTable([...columns, "state", "expires", "last used"]);
  for (const key of keys) {
    const { id, namespace, role, name, expiresAt, lastUsedAt } = key;
    const listed = (names: readonly string[]) => names.map((each) => safeJson(each)).join(" ");
    const limits = [listed(key.prefixes), listed(key.queues)];
    const ends = [expiresAt ?? "never", lastUsedAt ?? "never"];
    table.push([id, shown(namespace), role, ...limits, shown(name), stateOf(key), ...ends]);
  }
  return table.toString();
}

function stateOf({ revoked, remainingMs }: ApiKey): string {
  if (revoked) return "revoked";
  return remainingMs === 0 ? "expired" : "good";
}

const HELP = `
These commands change the database directly (--store or --control), so you can create the first key without
a server, or a new one after all keys were lost. Once a first key was created, the servers on that database require
a key for good. On an http:// store, "keys list" asks the server; the other commands need the database. The audit log
records every change.

The role decides what a key may do:
  scraper   read the metrics, and nothing else
  viewer    read
  holder    acquire, renew and release leases with its prefixes; run tasks with --prefix '' or 'task:'
  operator  read, revoke, pause, and cancel, retry and delete tasks; with --prefix and --queue, of these alone
  admin     all of these, and manage keys and limits

Examples:
  leasehold keys create --name "CI" --role holder --prefix deploy/ --expires 90d
  leasehold keys list --all
  leasehold keys rotate 0123456789ab --overlap 1h
  leasehold keys revoke 0123456789ab --reason "was in a log"`;

const CREATE_HELP = `
Examples:
  leasehold keys create --name "backup jobs" --role holder --prefix backup/ --prefix restore/
  leasehold keys create --name "shop on call" --role operator --prefix shop/ --queue shop-mails
  leasehold keys create --name "dashboard" --role viewer --namespace shop --expires 365d
  LEASEHOLD_KEY=$(leasehold keys create --name me --role admin) leasehold ls --store http://localhost:8080`;

const ROTATE_HELP = `
The new key has the same lifetime as the old one. Both are valid during the overlap: replace the old key in
all clients within that time. A key is rotated once: afterwards, rotate its successor, also during the overlap.

Examples:
  leasehold keys rotate 0123456789ab --overlap 1h
  leasehold keys rotate 0123456789ab --json | jq -r .text`;

const REVOKE_HELP = `
Example:
  leasehold keys revoke 0123456789ab --reason "left the company"`;
