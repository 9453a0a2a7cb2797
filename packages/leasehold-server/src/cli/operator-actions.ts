/** Operator actions: pause and resume, and what all of them need: an actor and a reason. */
import { userInfo } from "node:os";
import { type Command, Option } from "commander";
import type { LeaseStores } from "leasehold";
import {
  type Act,
  type AuditAction,
  clearPause,
  type Operator,
  type Pause,
  type PauseKey,
  retryingControl,
  setPause,
  systemEnv,
} from "leasehold/internal";
import { UsageError } from "./failures.js";
import { notBlank, tenantOf, whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { type EnforcedBy, enforcedBy, ifPermitted } from "./pauses.js";
import { queueName, resourceName, resourcePrefix } from "./resource.js";
import { shownUrl } from "./shown-url.js";
import { openLeasesAndControl } from "./stores.js";
import { plainTable } from "./table.js";
import { safeJson, say, shown } from "./terminal.js";

export interface ActionOptions {
  readonly actor: string;
  readonly reason: string;
  readonly namespace: string;
  readonly json?: boolean;
}

/** Adds --reason and --actor, which every operator action needs. */
export function withReason(command: Command, { needsReason = true } = {}): Command {
  const reason = new Option("--reason <text>", "why you do this, for the audit log")
    .argParser(notBlank)
    .makeOptionMandatory(needsReason);
  const actor = new Option(
    "--actor <name>",
    "who does this, for the audit log, which records cli:NAME; a server records the API key, and this name as a claim",
  ).argParser(cliActor);
  return command
    .addOption(reason)
    .addOption(actor.default(cliActor(userInfo().username), "cli:USER"));
}

/** Nothing proves this name. The prefix keeps it apart from `key:ID`, which a server records. */
function cliActor(text: string): string {
  const name = notBlank(text);
  return name.startsWith("cli:") ? name : `cli:${name}`;
}

/** Adds --reason and --actor, the stores, the tenant and --json. */
export function withOperatorAction(command: Command, options?: { needsReason?: boolean }): Command {
  return withReason(withStores(command), options).option("--json", "print JSON");
}

/**
 * @param url of the control store, where it is another one
 * @throws UsageError if neither keeps an audit log
 */
export function operatorOf({ control, operator }: LeaseStores, url?: string): Operator {
  if (control) return retryingControl(control, systemEnv);
  if (operator) return operator;
  throw new UsageError(
    url === undefined
      ? "this store keeps no audit log, which operator actions need: name a database that keeps one with --control"
      : `${shownUrl(url)} is a server, which keeps the audit log of its own leases alone: name its database with --control, or pass --store ${shownUrl(url)} for a lease of that server`,
  );
}

export function actOf(
  { actor, reason, namespace }: ActionOptions,
  action: AuditAction,
  target: string,
): Act {
  return { namespace, actor, action, target, reason };
}

interface PauseOptions extends ActionOptions {
  readonly prefix?: string;
  readonly queue?: string;
  readonly list?: boolean;
}

export function addPause(command: Command): void {
  withWhat(withOperatorAction(command, { needsReason: false }))
    .option("--list", "list the pauses and change nothing")
    .addHelpText("after", PAUSE_HELP)
    .action(async (resource: string | undefined, options: PauseOptions, command: Command) => {
      if (options.list) await listPauses(resource, options, command);
      else await pauseWhat(whatOf(resource, options), options, command);
    });
}

async function listPauses(
  resource: string | undefined,
  { json, prefix, queue }: PauseOptions,
  command: Command,
): Promise<void> {
  if ([resource, prefix, queue].some((one) => one !== undefined)) {
    throw new UsageError("--list lists all pauses: leave out the resource, --prefix and --queue");
  }
  for (const name of ["reason", "actor"]) {
    if (command.getOptionValueSource(name) !== "cli") continue;
    throw new UsageError(`--${name} has no meaning with --list, which changes nothing`);
  }
  const where = whereOf(command);
  const stores = await openLeasesAndControl(where);
  try {
    const operator = operatorOf(stores, where.control);
    const listed = await operator.pauses.list(tenantOf(command, stores));
    const pauses = listed.map((pause) => ({ ...pause, enforcedBy: enforcedBy(pause, stores) }));
    await print(json, pauses, () => tableOf(pauses));
  } finally {
    await stores.close();
  }
}

export async function pauseWhat(
  what: What,
  options: ActionOptions,
  command: Command,
): Promise<void> {
  const { actor, reason, json } = options;
  // Commander does not require it, because --list needs no reason.
  if (!reason) throw new UsageError("required option '--reason <text>' not specified");
  const where = whereOf(command, { creates: true });
  const stores = await openLeasesAndControl(where);
  try {
    const key = { namespace: tenantOf(command, stores), ...what };
    const pause = await setPause(operatorOf(stores, where.control), key, { actor, reason });
    await warnOfUnknownQueue(key, stores);
    const answer = { ...pause, enforcedBy: enforcedBy(pause, stores) };
    const whom = whoIsRefused(pause, stores);
    await print(json, answer, () => `paused ${key.kind} "${shown(key.name)}": ${whom}`);
  } finally {
    await stores.close();
  }
}

/** A queue may be paused before its first task, but more often its name is misspelt. */
async function warnOfUnknownQueue(
  { namespace, kind, name }: PauseKey,
  { tasks }: LeaseStores,
): Promise<void> {
  if (kind !== "queue" || !tasks) return;
  const found = await tasks.list({ namespace, queue: name, limit: 1 }).catch(ifPermitted);
  // A page without tasks may have a next one.
  if (!found || found.items.length > 0 || found.nextCursor !== null) return;
  say(
    `leasehold: no task is in queue "${shown(name)}" yet: check its name, and if it is wrong, resume it`,
  );
}

function whoIsRefused({ kind }: Pause, stores: LeaseStores): string {
  const what = kind === "queue" ? "claims of its tasks" : "acquires";
  if (stores.operator && !stores.control) {
    return `this server refuses ${what} at once, others within seconds`;
  }
  if (enforcedBy({ kind }, stores) === "store") {
    return "the store itself refuses acquires at once, those of all callers";
  }
  return `servers refuse ${what} within seconds; on the database itself they are granted`;
}

export function addResume(command: Command): void {
  withWhat(withOperatorAction(command))
    .addHelpText("after", RESUME_HELP)
    .action(async (resource: string | undefined, options: PauseOptions, command: Command) =>
      resumeWhat(whatOf(resource, options), options, command),
    );
}

export async function resumeWhat(
  what: What,
  options: ActionOptions,
  command: Command,
): Promise<void> {
  const where = whereOf(command);
  const stores = await openLeasesAndControl(where);
  try {
    const { actor, reason } = options;
    const key = { namespace: tenantOf(command, stores), ...what };
    const operator = operatorOf(stores, where.control);
    const wasPaused = await clearPause(operator, key, { actor, reason });
    const name = `${key.kind} "${shown(key.name)}"`;
    const said = wasPaused ? `resumed ${name}` : `${name} was not paused`;
    await print(options.json, { ...key, wasPaused }, () => said);
  } finally {
    await stores.close();
  }
}

function withWhat(command: Command): Command {
  return command
    .argument("[resource]", "resource", resourceName)
    .option(
      "--prefix <text>",
      "all resources that begin with this text; '' means all resources, and no tasks",
      resourcePrefix,
    )
    .option("--queue <name>", "task queue", queueName);
}

type What = Omit<PauseKey, "namespace">;

function whatOf(resource: string | undefined, { prefix, queue }: PauseOptions): What {
  const named: What[] = [];
  if (resource !== undefined) named.push({ kind: "resource", name: resource });
  if (prefix !== undefined) named.push({ kind: "prefix", name: prefix });
  if (queue !== undefined) named.push({ kind: "queue", name: queue });
  const [one, ...others] = named;
  if (one && others.length === 0) return one;
  throw new UsageError("name exactly one: a resource, --prefix TEXT or --queue NAME");
}

function tableOf(pauses: readonly (Pause & { readonly enforcedBy: EnforcedBy })[]): string {
  if (pauses.length === 0) return "nothing is paused";
  const table = plainTable(["kind", "name", "since", "by", "reason", "enforced by"]);
  for (const { kind, name, since, actor, reason, enforcedBy: by } of pauses) {
    table.push([kind, safeJson(name), since, shown(actor), shown(reason), by]);
  }
  return table.toString();
}

const PAUSE_HELP = `
Holders keep and renew the leases they have. Waiters keep waiting. If one database keeps leases and pauses, it
refuses a paused resource itself, to all callers at once. Servers alone enforce the pause of a prefix or a queue,
and with --control that of a resource too: they refuse within seconds, and an acquire or a claim on the store itself
is granted. The command prints which of the two applies; with --json, "enforcedBy" is "store" or "servers".

Examples:
  leasehold pause deploy/web --reason "migration at 12:00"
  leasehold pause --prefix deploy/ --reason "code freeze"
  leasehold pause --queue mails --reason "provider is down"
  leasehold pause --list --json`;

const RESUME_HELP = `
Examples:
  leasehold resume deploy/web --reason "migration is over"
  leasehold resume --queue mails --reason "provider is back"`;
