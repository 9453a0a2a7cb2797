/** why: whether an acquire of a resource would be refused now, why, and how an operator can free it. */
import type { Command } from "commander";
import type { LeaseStores } from "leasehold";
import { formatDuration, type Pause, RESERVED_MS, resourceOf } from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit } from "./failures.js";
import { type KnownLease, knownOf, tokenText } from "./known-lease.js";
import { endWord, excludesOthers, heldMs } from "./lease-views.js";
import { tenantOf, whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { type EnforcedBy, enforcedBy, ifPermitted, pausesFor, refusesHere } from "./pauses.js";
import { resourceName } from "./resource.js";
import { quoted } from "./shell.js";
import { shownUrl } from "./shown-url.js";
import { openLeasesAndControl } from "./stores.js";
import { shown } from "./terminal.js";

interface Reason {
  /** `limit`: of the tenant; `forbidden`: by the role of the key. `revoked`: an operator ended the grant before its expiry. `reserved`: free, but reserved for the waiters. */
  readonly code: "held" | "revoked" | "reserved" | "paused" | "limit" | "forbidden";
  /** A sentence for people. */
  readonly text: string;
}

interface Remedy {
  readonly command: string;
  /** What the command does. */
  readonly text: string;
  /** The risk of the command; null if there is none. */
  readonly warning: string | null;
}

interface Found {
  /** The last grant, live or ended; null if there was none. */
  readonly lease: KnownLease | null;
  /** Who works on the key of `once` with this name, whose lease is on another resource; null: no one. */
  readonly onceHolder: string | null;
  /** How long it has been held, by the store's clock; null if that is unknown. */
  readonly heldMs: number | null;
  /** The head of the queue first; null if the store cannot list waiters. */
  readonly waiters: readonly { readonly holder: string; readonly grantId: string }[] | null;
  /** Why a server refuses this caller, whether the resource is held or not; null: it does not. */
  readonly denied: { readonly code: "FORBIDDEN" | "LIMIT_REACHED"; readonly detail: string } | null;
  /** Null if the store keeps no pauses. */
  readonly paused: readonly PauseHere[] | null;
}

interface PauseHere extends Pause {
  readonly enforcedBy: EnforcedBy;
  /** Whether it refuses an acquire by the way that was asked: on the store itself, or through its server. */
  readonly refusesHere: boolean;
}

export function addWhy(command: Command): void {
  withStores(command)
    .argument("<resource>", "the resource", resourceName)
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (resource: string, { json }: { json?: boolean }, command: Command) => {
      const stores = await openLeasesAndControl(whereOf(command));
      const namespace = tenantOf(command, stores);
      try {
        const found = await findOut(stores, namespace, resource);
        const reasons = reasonsOf(resource, found);
        const isAudited = Boolean(stores.control ?? stores.operator);
        const flags = typedFlags(command, isAudited);
        const remedies = [
          ...remediesOfLimit(found, namespace, databaseOf(command)),
          ...remediesOf(resource, found, flags),
        ];
        const refused = reasons.length > 0;
        await print(json, { resource, namespace, refused, reasons, ...found, remedies }, () =>
          textOf(shown(resource), shown(found), shown(reasons), shown(remedies)),
        );
        // No time makes the server grant it to this key.
        const isForbidden = reasons.some(({ code }) => code === "forbidden");
        if (refused) throw new Exit(isForbidden ? EXIT.misconfigured : EXIT.leaseUnavailable);
      } finally {
        await stores.close();
      }
    });
}

async function findOut(stores: LeaseStores, namespace: string, resource: string): Promise<Found> {
  const key = { namespace, resource };
  const work = { namespace, resource: resourceOf(resource) };
  const [[lease = null], once, waiters, denied, paused] = await Promise.all([
    stores.leases.get([key]),
    stores.leases.get([work]).catch(ifPermitted),
    stores.waiters?.(key).catch(ifPermitted),
    stores.denied?.(key).catch(ifPermitted),
    pausesFor(key, stores),
  ]);
  return {
    lease: lease && knownOf(lease, stores.leases),
    onceHolder: once?.[0]?.state === "live" ? once[0].holder : null,
    heldMs: lease && heldMs(lease),
    waiters: waiters ?? null,
    denied: denied ?? null,
    paused:
      paused?.map((pause) => ({
        ...pause,
        enforcedBy: enforcedBy(pause, stores),
        refusesHere: refusesHere(pause, stores),
      })) ?? null,
  };
}

function pauseText({ kind, name, actor, reason }: Pause): string {
  const what = kind === "prefix" ? `everything below "${name}"` : `"${name}"`;
  return `${actor} has paused ${what}: ${reason}`;
}

/** The most decisive reason first, and last what concerns the role of the caller alone; none if an acquire is granted. */
export function reasonsOf(resource: string, { lease, waiters, denied, paused }: Found): Reason[] {
  const reasons: Reason[] = [];
  const isForbidden = denied?.code === "FORBIDDEN";
  if (denied && !isForbidden) {
    reasons.push({ code: "limit", text: `the server refuses your acquire: ${denied.detail}` });
  }
  for (const pause of paused ?? []) {
    if (pause.refusesHere) reasons.push({ code: "paused", text: pauseText(pause) });
  }
  if (lease?.state === "live") {
    const text = `"${resource}" is held by ${lease.holder} for another ${formatDuration(lease.remainingMs)}`;
    reasons.push({ code: "held", text: `${text}, unless it renews or releases the lease` });
  } else if (lease?.freeInMs !== undefined) {
    const text = `an operator has revoked the lease of ${lease.holder}, which still excludes other holders for`;
    reasons.push({ code: "revoked", text: `${text} another ${formatDuration(lease.freeInMs)}` });
  } else if (waiters && waiters.length > 0) {
    const text = `"${resource}" is free and reserved for the waiter at the head of the queue`;
    const ms = RESERVED_MS;
    reasons.push({ code: "reserved", text: `${text}; each waiter has ${ms} ms before the next` });
  }
  if (isForbidden) {
    reasons.push({ code: "forbidden", text: `the server refuses your acquire: ${denied.detail}` });
  }
  return reasons;
}

/** @param database that of the server's limits, as a word of a shell */
function remediesOfLimit({ denied }: Found, namespace: string, database: string): Remedy[] {
  if (denied?.code !== "LIMIT_REACHED") return [];
  const tenant = `--namespace ${quoted(namespace)} --control ${database}`;
  return [
    {
      command: `leasehold limits set --leases N --reason "..." ${tenant}`,
      text: "Raise the limit of the tenant, on the server's database; an admin's key may PUT /v1/limits instead",
      warning: null,
    },
  ];
}

/** @param tail the flags of each command, with a space before each */
function remediesOf(resource: string, { lease, paused }: Found, tail: string): Remedy[] {
  const because = '--reason "..."';
  const remedies: Remedy[] = (paused ?? []).map(({ kind, name }) => ({
    command: `leasehold resume ${kind === "prefix" ? "--prefix " : ""}${quoted(name)} ${because}${tail}`,
    text: "End the pause",
    warning: null,
  }));
  if (!lease || !excludesOthers(lease)) return remedies;
  const { holder, token } = lease;
  const only = token === null ? "" : ` --expected-token ${token}`;
  if (lease.state === "live") {
    remedies.push({
      command: `leasehold revoke ${quoted(resource)}${only} ${because}${tail}`,
      text: `Refuse ${holder} its next renewal; the resource is free at the expiry of the lease`,
      warning: null,
    });
  }
  remedies.push({
    command: `leasehold revoke ${quoted(resource)} --at now${only} ${because}${tail}`,
    text: "Free it at once",
    warning:
      `${holder} may go on working until it notices. The next holder then works beside it, and only a ` +
      "system that checks the fencing token refuses the writes of the old one",
  });
  return remedies;
}

/**
 * The options that were typed, with passwords and keys masked, so that the commands reach the same stores.
 * Operator actions need an audit log: if none is kept, the user has to name a database, instead of the server that
 * --control may name.
 */
function typedFlags(command: Command, isAudited: boolean): string {
  const typed = ["store", ...(isAudited ? ["control"] : []), "namespace"]
    .filter((name) => command.getOptionValueSource(name) === "cli")
    .map((name) => ` --${name} ${quoted(shownUrl(String(command.getOptionValue(name))))}`);
  return `${typed.join("")}${isAudited ? "" : ' --control "$DATABASE"'}`;
}

/** A server does not change limits for the command line. */
function databaseOf(command: Command): string {
  const control = command.getOptionValue("control") as string | undefined;
  const isTyped = command.getOptionValueSource("control") === "cli";
  return isTyped && control !== undefined && !/^https?:/i.test(control)
    ? quoted(shownUrl(control))
    : '"$DATABASE"';
}

function textOf(
  resource: string,
  { lease, onceHolder, heldMs: forMs, waiters, paused }: Found,
  reasons: readonly Reason[],
  remedies: readonly Remedy[],
): string {
  const lines =
    reasons.length > 0
      ? [`${resource}  an acquire is refused now:`, ...reasons.map(({ text }) => `  ${text}`)]
      : [`${resource}  free: the next acquire is granted`];
  if (lease) lines.push(...leaseLines(lease, forMs));
  if (onceHolder !== null) {
    lines.push(
      `${onceHolder} works on the key of once with this name: leasehold why ${quoted(resourceOf(resource))}`,
    );
  }
  if (waiters === null) lines.push("waiters: this store cannot list them");
  else if (waiters.length === 0) lines.push("waiters: none");
  else lines.push("waiters, the next one first:");
  for (const [index, { holder }] of (waiters ?? []).entries()) {
    lines.push(`  ${index + 1}. ${holder}`);
  }
  if (paused === null) lines.push("pauses: this store keeps none");
  const elsewhere = (paused ?? []).filter((pause) => !pause.refusesHere);
  if (elsewhere.length > 0) {
    const granted = "paused for callers of a server; an acquire on the database itself is granted";
    const refused = "paused for callers of a server, and not for an acquire on the database itself";
    lines.push(`${reasons.length > 0 ? refused : granted}:`);
    lines.push(...elsewhere.map((pause) => `  ${pauseText(pause)}`));
  }
  for (const { text, command, warning } of remedies) {
    lines.push("", `${text}:`, `  ${command}`);
    if (warning !== null) lines.push(`  Warning: ${warning}.`);
  }
  return lines.join("\n");
}

function leaseLines(lease: KnownLease, forMs: number | null): string[] {
  const { state, holder, token, grantId, ttlMs, remainingMs, grantedAt } = lease;
  const since = grantedAt === null ? "" : `, since ${grantedAt}`;
  const during = forMs === null ? "" : ` (${formatDuration(forMs)})`;
  const grant = `${tokenText(token)}, grant ${grantId}`;
  if (state !== "live") {
    return [`last holder: ${holder}, ${endOf(lease)}`, `  ${grant}`];
  }
  const of = ttlMs === null ? "" : ` of ${formatDuration(ttlMs)}`;
  const left = `${formatDuration(remainingMs)} left${of}`;
  return [
    `holder: ${holder}${since}${during}`,
    `  ${grant}`,
    `  ${left}, by the clock of the store`,
  ];
}

function endOf(lease: KnownLease): string {
  const { state, expiresAt } = lease;
  if (state !== "revoked") return `${state} at ${expiresAt ?? "an unknown time"}`;
  return expiresAt === null ? state : `${state}, ${endWord(lease)} ${expiresAt}`;
}

const HELP = `
Prints the holder of the resource with the start and the remaining time of its lease, the waiters in queue order,
the pauses, and the commands that free the resource or raise a limit. PostgreSQL, PGlite and Redis list all waiters, a
server lists those that have asked it, other stores list none. The commands repeat the options that you typed; replace
*** with your password or key, and $DATABASE with the URL of the database that keeps the audit log and the limits.

The answer is that of an acquire on the same --store. Only servers enforce the pause of a prefix and, with --control,
that of a resource: an acquire on the database itself is granted all the same.

Exit codes: 0 an acquire is granted now; 75 it is refused: the resource is held, reserved for a waiter, or paused, or
the tenant has as many leases as a server grants it; 78 a server refuses it to the role of your API key.

Examples:
  leasehold why deploy/web --store postgres://localhost/app
  leasehold why deploy/web --json | jq -r '.reasons[].text'
  leasehold why deploy/web > /dev/null && echo free`;
