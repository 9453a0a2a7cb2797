/** Prints changes of leases, by comparing the records of the store. */
import { type Command, Option } from "commander";
import { LeaseholdError, type LeaseState, type LeaseStore, type LeaseView } from "leasehold";
import { jittered, systemEnv, Wakeup } from "leasehold/internal";
import { shownState } from "./lease-views.js";
import { positiveDuration, tenantOf, whereOf, withStore } from "./options.js";
import { print } from "./output.js";
import { listenForShutdown } from "./shutdown.js";
import { openLeases } from "./stores.js";
import { say, shown } from "./terminal.js";

interface Options {
  readonly every: number;
  readonly namespace: string;
  readonly json?: boolean;
}

interface Change {
  /** `ended`: the next grant replaced the record before it could be read, so the cause is unknown. */
  readonly event: "acquired" | "ended" | LeaseState;
  readonly lease: LeaseView;
}

export function addWatch(program: Command): void {
  withStore(program.command("watch"))
    .description("print changes of leases as they happen, until stopped")
    .argument("[prefix]", "watch only resources that begin with this text", "")
    .addOption(
      new Option("--every <duration>", "poll interval, in addition to notifications")
        .argParser(positiveDuration)
        .default(1_000, "1s"),
    )
    .option("--json", "print JSON lines")
    .addHelpText("after", HELP)
    .action(async (prefix: string, options: Options, command: Command) => {
      const shutdown = listenForShutdown(systemEnv.clock);
      const stores = await openLeases(whereOf(command));
      const { leases } = stores;
      try {
        const namespace = tenantOf(command, stores);
        await watch(leases, prefix, { ...options, namespace }, shutdown.signal);
      } finally {
        await stores.close();
      }
    });
}

/** A notification says when to poll. Only the records say what happened. */
async function watch(
  leases: LeaseStore,
  prefix: string,
  { every, namespace, json }: Options,
  signal: AbortSignal,
): Promise<void> {
  const wakeup = new Wakeup();
  void follow(leases, namespace, prefix, { signal, wake: wakeup.set });
  let known: ReadonlyMap<string, LeaseView> | undefined;
  while (!signal.aborted) {
    try {
      const now = await liveOf(leases, namespace, prefix);
      const changes = known
        ? await changesOf(leases, known, now)
        : [...now.values()].map((lease): Change => ({ event: "live", lease }));
      for (const change of changes) {
        const at = new Date(systemEnv.clock.wall()).toISOString();
        await print(json, { at, ...change }, () => lineOf(at, shown(change)));
      }
      known = now;
    } catch (error) {
      if (!(error instanceof LeaseholdError && error.retryable)) throw error;
      say(`leasehold: ${shown(error.message)}`);
    }
    const pauseMs = jittered(systemEnv.random, Math.max(every, 20), 0.1);
    await wakeup.wait(systemEnv, pauseMs, signal).catch(() => {});
  }
}

async function follow(
  leases: LeaseStore,
  namespace: string,
  prefix: string,
  { signal, wake }: { signal: AbortSignal; wake: () => void },
): Promise<void> {
  // If the subscription fails, polling goes on.
  try {
    for await (const event of leases.watch(namespace, { signal })) {
      if (event.type === "resync" || event.resource.startsWith(prefix)) wake();
    }
  } catch (error) {
    if (!signal.aborted) say(`leasehold: notifications have stopped: ${shown(String(error))}`);
  }
}

async function liveOf(
  leases: LeaseStore,
  namespace: string,
  prefix: string,
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
  leases: Pick<LeaseStore, "get">,
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

function lineOf(at: string, { event, lease }: Change): string {
  const { resource, holder, token } = lease;
  const word = event === "acquired" || event === "ended" ? event : shownState(event);
  return `${at} ${word} ${resource} ${holder} ${token}`;
}

const HELP = `
Prints a line "live" for each current lease, then a line for each change: acquired, released, expired or
revoked. The change is "ended" if the next grant came so soon that the cause is unknown. The command polls the
store at each notification and every --every, so it misses a lease that is acquired and released between two
polls. The log of a server has all events (docs/logs.md). Exits with 0 at SIGINT or SIGTERM.

Examples:
  leasehold watch
  leasehold watch deploy/ --json | jq -c 'select(.event == "expired") | .lease'`;
