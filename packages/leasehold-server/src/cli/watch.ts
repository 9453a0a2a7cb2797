/** What happens to leases, as it can be seen from outside. */
import { type Command, Option } from "commander";
import { LeaseholdError, type LeaseState, type LeaseStore, type LeaseView } from "leasehold";
import { jittered, systemEnv, Wakeup } from "leasehold/internal";
import { shownState } from "./lease-views.js";
import { duration, namespaceOption, whereOf, withStore } from "./options.js";
import { listenForShutdown } from "./shutdown.js";
import { openLeases } from "./stores.js";

interface Options {
  readonly every: number;
  readonly namespace: string;
  readonly json?: boolean;
}

interface Change {
  /** `ended`: a successor came at once, and took the record that would say how. */
  readonly event: "acquired" | "ended" | LeaseState;
  readonly lease: LeaseView;
}

export function addWatch(program: Command): void {
  withStore(program.command("watch"))
    .description("print who takes and loses leases, until told to stop")
    .argument("[prefix]", "only resources that begin with it; literal", "")
    .addOption(
      new Option("--every <duration>", "also look without a hint")
        .argParser(duration)
        .default(1_000, "1s"),
    )
    .addOption(namespaceOption())
    .option("--json", "JSON lines")
    .addHelpText("after", HELP)
    .action(async (prefix: string, options: Options, command: Command) => {
      const shutdown = listenForShutdown(systemEnv.clock);
      const stores = await openLeases(whereOf(command).store);
      const { leases } = stores;
      try {
        await watch(leases, prefix, options, shutdown.signal);
      } finally {
        await stores.close();
      }
    });
}

/** Hints say when to look, and never what happened: that is in the records alone. */
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
      for (const change of changes) process.stdout.write(`${lineOf(change, json)}\n`);
      known = now;
    } catch (error) {
      if (!(error instanceof LeaseholdError && error.retryable)) throw error;
      process.stderr.write(`leasehold: ${error.message}\n`);
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
  // A subscription that breaks leaves looking every now and then.
  try {
    for await (const event of leases.watch(namespace, { signal })) {
      if (event.type === "resync" || event.resource.startsWith(prefix)) wake();
    }
  } catch (error) {
    if (!signal.aborted) process.stderr.write(`leasehold: no more hints: ${String(error)}\n`);
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

/** Ends before beginnings. */
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

function lineOf({ event, lease }: Change, json: boolean | undefined): string {
  const at = new Date(systemEnv.clock.wall()).toISOString();
  if (json) return JSON.stringify({ at, event, lease });
  const { resource, holder, token } = lease;
  const word = event === "acquired" || event === "ended" ? event : shownState(event);
  return `${at} ${word} ${resource} ${holder} ${token}`;
}

const HELP = `
First a line "live" for each lease there is, then one for each change: acquired, released, expired,
revoked, or ended where a successor came so soon that nobody can tell how. Hints of the store say when to
look; a lease that came and went in between is not seen. For a record without gaps there are the events
in the log of a server (docs/logs.md). Ends at SIGINT or SIGTERM with 0.

Examples:
  leasehold watch
  leasehold watch deploy/ --json | jq -c 'select(.event == "expired") | .lease'`;
