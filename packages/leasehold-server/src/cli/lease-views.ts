/** ls and show: print leases for people. */
import { type Command, Option } from "commander";
import type { LeaseState, LeaseStore, LeaseView, Page } from "leasehold";
import type { ListQuery, Pause } from "leasehold/internal";
import { formatDuration, notesOn } from "leasehold/internal";
import { UsageError } from "./failures.js";
import { type KnownLease, knownOf, tokenText } from "./known-lease.js";
import { duration, integer, tenantOf, whereOf, withStore, withStores } from "./options.js";
import { colors, print } from "./output.js";
import { type EnforcedBy, enforcedBy, pausesFor } from "./pauses.js";
import { resourceName, resourcePrefix } from "./resource.js";
import { quoted } from "./shell.js";
import { openLeases, openLeasesAndControl } from "./stores.js";
import { plainTable } from "./table.js";
import { shown } from "./terminal.js";

const STATES = ["live", "expired", "released", "revoked"] as const satisfies LeaseState[];

interface ListOptions {
  readonly owner?: string;
  readonly state: LeaseState | "held" | "any";
  readonly expiringWithin?: number;
  readonly longHeld?: number;
  readonly limit: number;
  readonly cursor?: string;
  readonly namespace: string;
  readonly json?: boolean;
}

export function addLs(command: Command): void {
  withStore(command)
    .argument("[prefix]", "list only resources that begin with this text", resourcePrefix, "")
    .option("--owner <name>", "list only leases of this holder")
    .addOption(
      new Option(
        "--state <state>",
        "list only leases in this state; held means live, or revoked and not free yet",
      )
        .choices(["held", ...STATES, "any"])
        .default("held"),
    )
    .option(
      "--expiring-within <duration>",
      "list only live leases that expire within this time unless renewed",
      duration,
    )
    .option(
      "--long-held <duration>",
      "list only live leases that have been held for at least this time",
      duration,
    )
    .option("--limit <n>", "maximum number of results", integer(1, 10_000), 100)
    .option("--cursor <text>", "continue after the page that printed this cursor")
    .option("--json", "print JSON")
    .addHelpText("after", LS_HELP)
    .action(async (prefix: string, options: ListOptions, command: Command) => {
      refuseFiltersOfLive(options);
      const stores = await openLeases(whereOf(command));
      const { leases } = stores;
      try {
        const page = await listLeases(leases, prefix, {
          ...options,
          namespace: tenantOf(command, stores),
        });
        const known = { ...page, items: page.items.map((view) => knownOf(view, leases)) };
        await print(options.json, known, () => tableOf(shown(known)));
      } finally {
        await stores.close();
      }
    });
}

function refuseFiltersOfLive({ state, expiringWithin, longHeld }: ListOptions): void {
  if (["held", "live", "any"].includes(state)) return;
  for (const [name, value] of Object.entries({
    "--expiring-within": expiringWithin,
    "--long-held": longHeld,
  })) {
    if (value === undefined) continue;
    throw new UsageError(`${name} lists live leases only: leave out --state ${state}`);
  }
}

/** Stores filter by prefix and state. Some ignore the other filters, so those are applied to each page here. */
export async function listLeases(
  leases: Pick<LeaseStore, "list">,
  prefix: string,
  { state, limit, cursor, namespace, ...filters }: Omit<ListOptions, "json">,
): Promise<Page<LeaseView>> {
  const query: ListQuery = {
    namespace,
    limit: Math.min(limit, 200),
    ...(prefix !== "" && { prefix }),
    ...(state !== "any" && { states: state === "held" ? ["live", "revoked"] : [state] }),
    ...(filters.owner !== undefined && { holder: filters.owner }),
    ...(filters.expiringWithin !== undefined && { expiringWithinMs: filters.expiringWithin }),
    ...(filters.longHeld !== undefined && { heldForMs: filters.longHeld }),
  };
  const items: LeaseView[] = [];
  let from = cursor;
  for (;;) {
    const page = await leases.list({ ...query, ...(from !== undefined && { cursor: from }) });
    for (const [index, view] of page.items.entries()) {
      if (!matches(view, filters) || (state === "held" && !excludesOthers(view))) continue;
      items.push(view);
      if (items.length < limit) continue;
      const isLast = index + 1 === page.items.length;
      if (isLast) return { items, nextCursor: page.nextCursor };
      // A cursor names the end of a page, so ask for a page that ends here.
      const until = { ...query, limit: index + 1, ...(from !== undefined && { cursor: from }) };
      return { items, nextCursor: (await leases.list(until)).nextCursor };
    }
    if (page.nextCursor === null) return { items, nextCursor: null };
    from = page.nextCursor;
  }
}

/** Whether an acquire of the resource is refused: a revoked lease may exclude others until its expiry. */
export function excludesOthers({
  state,
  freeInMs,
}: Pick<LeaseView, "state" | "freeInMs">): boolean {
  return state === "live" || freeInMs !== undefined;
}

function matches(
  view: LeaseView,
  { owner, expiringWithin, longHeld }: Pick<ListOptions, "owner" | "expiringWithin" | "longHeld">,
): boolean {
  if (owner !== undefined && view.holder !== owner) return false;
  if (expiringWithin !== undefined) {
    if (view.state !== "live" || view.remainingMs > expiringWithin) return false;
  }
  return longHeld === undefined || (heldMs(view) ?? -1) >= longHeld;
}

/** How long the lease has been held, by the store's clock; null if that is unknown. */
export function heldMs({
  state,
  grantedAt,
  expiresAt,
  remainingMs,
}: Omit<KnownLease, "token" | "ttlMs">): number | null {
  if (state !== "live" || grantedAt === null || expiresAt === null) return null;
  const nowMs = Date.parse(expiresAt) - remainingMs;
  return Math.max(0, nowMs - Date.parse(grantedAt));
}

function tableOf({ items, nextCursor }: Page<KnownLease>): string {
  if (items.length === 0) return "no leases";
  const table = plainTable(["resource", "state", "holder", "token", "held", "left"]);
  for (const view of items) {
    const { resource, state, holder, token } = view;
    const held = heldMs(view);
    const during = held === null ? "" : formatDuration(held);
    table.push([resource, shownState(state), holder, token ?? "", during, leftOf(view)]);
  }
  const more = nextCursor === null ? [] : [`more: --cursor ${quoted(nextCursor)}`];
  const notes = notesOn(items.flatMap(({ resource, holder }) => [resource, holder]));
  return [table.toString(), ...more, ...notes].join("\n");
}

/** The remaining time of a live lease, or when the resource of a revoked one is free; otherwise empty. */
function leftOf({ state, remainingMs, freeInMs }: KnownLease): string {
  if (freeInMs !== undefined) return `free in ${formatDuration(freeInMs)}`;
  return state === "live" ? formatDuration(remainingMs) : "";
}

/**
 * What `expiresAt` is the time of. A store does not keep when a lease was revoked, but from when on the resource
 * is free: its expiry, or the time of a revocation that freed it at once.
 */
export function endWord({ state, freeInMs }: Pick<LeaseView, "state" | "freeInMs">): string {
  if (state === "revoked") return freeInMs === undefined ? "free since" : "free at";
  return state === "live" ? "expires" : state;
}

export function shownState(state: LeaseState): string {
  return state === "live"
    ? colors.green(state)
    : state === "released"
      ? colors.dim(state)
      : colors.yellow(state);
}

export function addShow(command: Command): void {
  withStores(command)
    .argument("<resource>", "resource to show", resourceName)
    .option("--json", "print JSON")
    .addHelpText("after", SHOW_HELP)
    .action(async (resource: string, { json }: { json?: boolean }, command: Command) => {
      const where = whereOf(command);
      const stores = await openLeasesAndControl(where);
      const namespace = tenantOf(command, stores);
      try {
        const [[lease], before, paused = []] = await Promise.all([
          stores.leases.get([{ namespace, resource }]),
          stores.history?.list({ namespace, resource, limit: 10 }),
          pausesFor({ namespace, resource }, stores),
        ]);
        if (!lease && paused.length === 0) {
          throw new UsageError(`the store has no lease of "${resource}", now or in the past`);
        }
        const found = {
          lease: lease ? knownOf(lease, stores.leases) : null,
          before: before?.items ?? [],
          paused: paused.map((pause) => ({ ...pause, enforcedBy: enforcedBy(pause, stores) })),
        };
        const note = noteOnHistory(where.store, stores.history !== undefined);
        await print(json, found, () => detailsOf(shown(resource), shown(found), note));
      } finally {
        await stores.close();
      }
    });
}

interface Shown {
  readonly lease: KnownLease | null;
  readonly before: readonly LeaseView[];
  readonly paused: readonly (Pause & { readonly enforcedBy: EnforcedBy })[];
}

/** Why no earlier holders are shown; null if there is nothing to say about the store. */
function noteOnHistory(store: string, hasHistory: boolean): string | null {
  // Callers may use a database without a server.
  if (hasHistory) return "earlier holders: only of leases acquired through a server";
  if (!/^https?:/i.test(store)) return null;
  return "earlier holders: not shown through a server; see its console, or pass --store of its database";
}

/** @param note for a lease without earlier holders */
function detailsOf(
  resource: string,
  { lease, before, paused }: Shown,
  note: string | null,
): string {
  const lines = [lease ? `${resource}  ${shownState(lease.state)}` : `${resource}  never held`];
  if (lease) {
    const { holder, token, grantId, ttlMs, metadata } = lease;
    const left = lease.state === "live" ? `${leftOf(lease)} left` : leftOf(lease);
    lines.push(`holder ${holder}, ${tokenText(token)}, grant ${grantId}`);
    const ttl = ttlMs === null ? "" : `ttl ${formatDuration(ttlMs)}`;
    lines.push([ttl, left].filter(Boolean).join(", "));
    const { grantedAt, renewedAt, expiresAt } = lease;
    const times = { granted: grantedAt, renewed: renewedAt, [endWord(lease)]: expiresAt };
    const known = Object.entries(times).filter(([, at]) => at !== null);
    if (known.length > 0) lines.push(known.map(([name, at]) => `${name} ${at}`).join(", "));
    if (metadata !== null) lines.push(`metadata ${metadata}`);
  }
  for (const { kind, name, actor, reason, enforcedBy: by } of paused) {
    const whom = by === "servers" ? " for callers of a server" : "";
    lines.push(`paused${whom} by ${actor} (${kind} "${name}"): ${reason}`);
  }
  if (before.length > 0) {
    const table = plainTable(["before", "holder", "token", "granted", "ended by"]);
    for (const { state, holder, token, grantedAt, expiresAt } of before) {
      table.push([shownState(state), holder, token, grantedAt ?? "", expiresAt ?? ""]);
    }
    lines.push(table.toString());
  } else if (lease && note !== null) {
    lines.push(note);
  }
  const holders = [...(lease ? [lease] : []), ...before].map(({ holder }) => holder);
  return [...lines, ...notesOn([resource, ...holders])].join("\n");
}

const LS_HELP = `
With --owner, --expiring-within or --long-held, ls reads page after page until it has found --limit leases.
A note follows names that look like others: with mixed scripts, invisible characters, or not in the form NFC.
Times are those of the store's clock. For leases whose expiry the store does not know as a time, "held" is empty and
--long-held lists none: those of kubernetes: and of compatibility formats, and locks of other clients on zookeeper: and
consul:. Compatibility formats leave "token" empty too. To list the leases of tasks, use: leasehold tasks

Examples:
  leasehold ls deploy/ --store postgres://localhost/app
  leasehold ls --owner worker-7 --expiring-within 10s
  leasehold ls --long-held 1h --json | jq -r '.items[].resource'
  leasehold ls --state any --limit 500`;

const SHOW_HELP = `
Earlier holders are shown for stores that keep past grants (SQL stores), for 7 days, and only those of leases that were
acquired through a server: the library and the command line on a database record none. Pauses are shown if there is a
control store. For a revoked lease, the store records when the resource becomes free. The audit log records who revoked
it, and when: leasehold audit list --target RESOURCE

Examples:
  leasehold show deploy/web
  leasehold show deploy/web --json | jq .lease.holder`;
