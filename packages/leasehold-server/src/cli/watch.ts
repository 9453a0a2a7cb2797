/** Prints changes of leases, by comparing the records of the store. */

import { type Command, Option } from "commander";
import {
  type Env,
  LeaseholdError,
  type LeaseState,
  type LeaseStore,
  type LeaseView,
} from "leasehold";
import { jittered, systemEnv, Wakeup } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import { type KnownLease, knownOf } from "./known-lease.js";
import { shownState } from "./lease-views.js";
import { positiveDuration, tenantOf, whereOf, withStore } from "./options.js";
import { Outage } from "./outage.js";
import { print } from "./output.js";
import { resourcePrefix } from "./resource.js";
import { listenForShutdown } from "./shutdown.js";
import { openLeases } from "./stores.js";
import { shown } from "./terminal.js";

interface Options {
  readonly every: number;
  readonly json?: boolean;
}

interface Change {
  /** `ended`: the next grant replaced the record before it could be read, so the cause is unknown. */
  readonly event: "acquired" | "ended" | LeaseState;
  readonly lease: LeaseView;
}

type Watched = Pick<LeaseStore, "get" | "list" | "watch">;

interface Watching {
  readonly env: Env;
  readonly namespace: string;
  readonly prefix: string;
  readonly everyMs: number;
  /** Ends the watch when it aborts. */
  readonly signal: AbortSignal;
  readonly report: (change: Change) => Promise<void>;
  readonly outage: Pick<Outage, "failed" | "answered">;
  readonly warn: (message: string) => void;
}

export function addWatch(command: Command): void {
  withStore(command)
    .argument("[prefix]", "watch only resources that begin with this text", resourcePrefix, "")
    .addOption(
      new Option("--every <duration>", "poll interval, in addition to notifications")
        .argParser(positiveDuration)
        .default(1_000, "1s"),
    )
    .option("--json", "print JSON lines")
    .addHelpText("after", HELP)
    .action(async (prefix: string, options: Options, command: Command) => {
      const shutdown = listenForShutdown(systemEnv.clock);
      const where = whereOf(command);
      const { notify } = where;
      const stores = await openLeases(where, { isPatient: true, signal: shutdown.signal });
      const { leases } = stores;
      try {
        const namespace = tenantOf(command, stores);
        const { every: everyMs, json } = options;
        const outage = new Outage(notify);
        await watchLeases(leases, {
          env: systemEnv,
          namespace,
          prefix,
          everyMs,
          signal: shutdown.signal,
          async report(change) {
            const at = new Date(systemEnv.clock.wall()).toISOString();
            const printed = { at, event: change.event, lease: printedLease(change, leases) };
            await print(json, printed, () => lineOf(shown(printed)));
          },
          outage,
          warn: (message) => notify({ event: "warning", message }),
        });
      } finally {
        await stores.close();
      }
    });
}

/** A notification says when to poll. Only the records say what happened. */
export async function watchLeases(leases: Watched, watching: Watching): Promise<void> {
  const { env, everyMs, signal, report, outage } = watching;
  const wakeup = new Wakeup();
  void follow(leases, watching, wakeup.set);
  let known: ReadonlyMap<string, LeaseView> | undefined;
  while (!signal.aborted) {
    try {
      const now = await liveOf(leases, watching);
      outage.answered();
      const changes = known
        ? await changesOf(leases, known, now)
        : [...now.values()].map((lease): Change => ({ event: "live", lease }));
      for (const change of changes) await report(change);
      known = now;
    } catch (error) {
      if (!(error instanceof LeaseholdError && error.retryable)) throw error;
      outage.failed(error);
    }
    const pauseMs = jittered(env.random, Math.max(everyMs, 20), 0.1);
    await wakeup.wait(env, pauseMs, signal).catch(() => {});
  }
}

async function follow(
  leases: Watched,
  { namespace, prefix, signal, warn }: Watching,
  wake: () => void,
): Promise<void> {
  // If the subscription fails, polling goes on.
  try {
    for await (const event of leases.watch(namespace, { signal })) {
      if (event.type === "resync" || event.resource.startsWith(prefix)) wake();
    }
  } catch (error) {
    if (!signal.aborted) warn(`notifications have stopped: ${reasonOf(error)}`);
  }
}

async function liveOf(
  leases: Watched,
  { namespace, prefix }: Watching,
): Promise<Map<string, LeaseView>> {
  const found = new Map<string, LeaseView>();
  let cursor: string | null = null;
  do {
    const page = await leases.list({
      namespace,
      states: ["live"],
      limit: 200,
      ...(prefix !== "" && { prefix }),
      ...(cursor !== null && { cursor }),
    });
    for (const view of page.items) found.set(view.resource, view);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return found;
}

/** Returns ended grants before new ones. */
async function changesOf(
  leases: Watched,
  before: ReadonlyMap<string, LeaseView>,
  now: ReadonlyMap<string, LeaseView>,
): Promise<Change[]> {
  const isSame = (a: LeaseView, b: LeaseView | undefined) => a.grantId === b?.grantId;
  const over = [...before.values()].filter((view) => !isSame(view, now.get(view.resource)));
  const last = over.length === 0 ? [] : await leases.get(over);
  const ended = over.map((view, index): Change => {
    const record = last[index];
    return record && isSame(view, record)
      ? { event: record.state, lease: record }
      : { event: "ended", lease: { ...view, remainingMs: 0 } };
  });
  const begun = [...now.values()]
    .filter((view) => !isSame(view, before.get(view.resource)))
    .map((lease): Change => ({ event: "acquired", lease }));
  return [...ended, ...begun];
}

/** The state of a lease that has ended without a trace of how is null. */
function printedLease({ event, lease }: Change, leases: Pick<LeaseStore, "capabilities">) {
  const known = knownOf(lease, leases);
  return { ...known, state: event === "ended" ? null : known.state };
}

interface Printed extends Pick<Change, "event"> {
  readonly at: string;
  readonly lease: Pick<KnownLease, "resource" | "holder" | "token">;
}

function lineOf({ at, event, lease }: Printed): string {
  const { resource, holder, token } = lease;
  const word = event === "acquired" || event === "ended" ? event : shownState(event);
  return `${at} ${word} ${resource} ${holder} ${token ?? "-"}`;
}

const HELP = `
Prints a line "live" for each current lease, then a line for each change: acquired, released, expired or
revoked. The change is "ended" if the next grant came so soon that the cause is unknown. The command polls the
store at each notification and every --every, so it misses a lease that is acquired and released between two
polls. The log of a server has every event.

While the store does not answer, the command retries, and reports on stderr since when, and that it answers again:
with --json as JSON lines, as "leasehold run" does.

Exit codes: 0 at SIGINT or SIGTERM; 69 it could not connect within 30s.

Examples:
  leasehold watch
  leasehold watch deploy/ --json | jq -c 'select(.event == "expired") | .lease'`;
