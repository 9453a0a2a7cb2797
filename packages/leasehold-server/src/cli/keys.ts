/** API keys: made, listed, exchanged and ended, directly in the database. */
import { type Command, InvalidArgumentError, Option } from "commander";
import {
  type ApiKey,
  createKey,
  type MadeKey,
  ROLES,
  type Role,
  revokeKey,
  rotateKey,
  systemRandom,
} from "leasehold/internal";
import { type ActOptions, withAct } from "./acts.js";
import { UsageError } from "./failures.js";
import { duration, integer, namespaceOption, whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { withControl } from "./stores.js";
import { plainTable } from "./table.js";

export function addKeys(program: Command): void {
  const keys = program
    .command("keys")
    .description("who may ask a server, and for what")
    .addHelpText("after", HELP);
  addCreate(keys);
  addList(keys);
  addRotate(keys);
  addRevoke(keys);
}

interface CreateOptions extends Omit<ActOptions, "reason"> {
  readonly reason?: string;
  readonly name: string;
  readonly role: Role;
  readonly prefix: readonly string[];
  readonly expires?: number;
}

function addCreate(keys: Command): void {
  withAct(keys.command("create"), { needsReason: false })
    .description("make a key; it is shown once, on stdout")
    .requiredOption("--name <text>", "whose it is, for lists")
    .addOption(
      new Option("--role <role>", "what it may do").choices(ROLES).makeOptionMandatory(true),
    )
    .option(
      "--prefix <text>",
      "of a holder: leases resources that begin with it; '': any; repeatable",
      (text: string, before: readonly string[]) => [...before, text],
      [] as readonly string[],
    )
    .option("--expires <duration>", "ends by itself after this long (default: never)", lifetime)
    .addHelpText("after", CREATE_HELP)
    .action(async (options: CreateOptions, command: Command) => {
      const { namespace, name, role, prefix: prefixes, expires: lifetimeMs = null } = options;
      if (role !== "holder" && prefixes.length > 0) {
        throw new UsageError("--prefix is for --role holder: other roles are for all resources");
      }
      const order = { namespace, name, role, prefixes, lifetimeMs };
      await withControl(whereOf(command), async (control) =>
        show(await createKey(control, systemRandom, order, by(options)), options.json),
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
    .description("list keys, the newest first, ended ones too; never their secrets")
    .addOption(namespaceOption())
    .option("--all", "of all tenants")
    .option("--limit <n>", "at most this many", integer(1, 10_000), 100)
    .option("--json", "for machines")
    .action(async ({ namespace, all, limit, json }: ListOptions, command: Command) => {
      const { items, nextCursor } = await withControl(whereOf(command), ({ keys: kept }) =>
        kept.list({ namespace: all ? null : namespace, limit }),
      );
      print(json, items, () => tableOf(items));
      if (nextCursor !== null) process.stderr.write(`there are more than ${limit}: see --limit\n`);
    });
}

interface EndOptions extends Omit<ActOptions, "reason"> {
  readonly reason?: string;
  readonly overlap: number;
}

function addRotate(keys: Command): void {
  withAct(keys.command("rotate"), { needsReason: false })
    .description("make a key with the rights of another, which ends after the overlap")
    .argument("<id>", "of the old one, as `keys list` shows it")
    .option(
      "--overlap <duration>",
      "both are good for this long; 0: the old one ends now",
      duration,
      0,
    )
    .addHelpText("after", ROTATE_HELP)
    .action(async (id: string, options: EndOptions, command: Command) => {
      const { namespace, overlap: overlapMs, json } = options;
      await withControl(whereOf(command), async (control) => {
        const old = { namespace, id, overlapMs };
        const made = await rotateKey(control, systemRandom, old, by(options));
        if (!made) throw new UsageError(`namespace "${namespace}" has no key ${id} that is good`);
        show(made, json);
        if (!json) process.stderr.write(`the old key, ${id}, ends at ${made.old.expiresAt}\n`);
      });
    });
}

function addRevoke(keys: Command): void {
  withAct(keys.command("revoke"))
    .description("end a key now; servers know it within 5 s")
    .argument("<id>", "as `keys list` shows it")
    .addHelpText("after", REVOKE_HELP)
    .action(async (id: string, options: ActOptions, command: Command) => {
      const { namespace, json } = options;
      const key = await withControl(whereOf(command), (control) =>
        revokeKey(control, { namespace, id }, by(options)),
      );
      if (!key) throw new UsageError(`namespace "${namespace}" has no key ${id}`);
      print(json, key, () => `${stateOf(key)}: ${id}, ${key.name}`);
    });
}

function by({ actor, reason }: { actor: string; reason?: string }) {
  return { actor, reason: reason ?? null };
}

function show(made: MadeKey, json: boolean | undefined): void {
  const { id, name, namespace, role } = made.key;
  print(json, made, () => made.text);
  if (json) return;
  const whose = `${role} of "${namespace}", ${name}, id ${id}`;
  process.stderr.write(`keep it: nobody can show it again (${whose})\n`);
}

function lifetime(text: string): number {
  const ms = duration(text);
  if (ms === 0) throw new InvalidArgumentError("It must be greater than 0.");
  return ms;
}

function tableOf(keys: readonly ApiKey[]): string {
  if (keys.length === 0) return "there are no keys";
  const table = plainTable(["id", "namespace", "role", "prefixes", "name", "state", "expires"]);
  for (const key of keys) {
    const { id, namespace, role, prefixes, name, expiresAt } = key;
    const shown = prefixes.map((prefix) => JSON.stringify(prefix)).join(" ");
    table.push([id, namespace, role, shown, name, stateOf(key), expiresAt ?? "never"]);
  }
  return table.toString();
}

function stateOf({ revoked, remainingMs }: ApiKey): string {
  if (revoked) return "revoked";
  return remainingMs === 0 ? "expired" : "good";
}

const HELP = `
Works on the database itself (--store or --control), so that the first key needs no server. Every change is
entered in the audit. What a key may do:
  viewer    reads
  holder    takes, renews and releases leases below its prefixes; works on tasks with --prefix '' or 'task:'
  operator  reads, revokes, pauses, and cancels, retries and deletes tasks
  admin     all of that, keys and limits

Examples:
  leasehold keys create --name "CI" --role holder --prefix deploy/ --expires 90d
  leasehold keys list --all
  leasehold keys rotate 0123456789ab --overlap 1h
  leasehold keys revoke 0123456789ab --reason "was in a log"`;

const CREATE_HELP = `
Examples:
  leasehold keys create --name "backup jobs" --role holder --prefix backup/ --prefix restore/
  leasehold keys create --name "dashboard" --role viewer --namespace shop --expires 365d
  LEASEHOLD_KEY=$(leasehold keys create --name me --role admin) leasehold ls --store http://localhost:8080`;

const ROTATE_HELP = `
The new key lives as long as the old one was to live. Both are good during the overlap: give the new one to
everybody who uses the old.

Examples:
  leasehold keys rotate 0123456789ab --overlap 1h
  leasehold keys rotate 0123456789ab --json | jq -r .text`;

const REVOKE_HELP = `
Example:
  leasehold keys revoke 0123456789ab --reason "left the company"`;
