/** acquire, renew and release, for scripts: the lease outlives the command that acquires it. */
import { text as readAll } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { LeaseLostError, LeaseUnavailableError } from "leasehold";
import {
  defaultTtlMs,
  type Grant,
  instant,
  keepUntilExpiry,
  leaseIdOf,
  systemEnv,
  tokenOf,
  trustFrom,
  trustLeftMs,
} from "leasehold/internal";
import { fromWireLeaseId, toWireLeaseId } from "leasehold/internal/wire";
import { describeFailure, Exit, UsageError } from "./failures.js";
import { type Granted, shellLines } from "./lease-output.js";
import {
  conflictOption,
  duration,
  notBlank,
  TTL_DEFAULT,
  tenantOf,
  type Where,
  whereOf,
  withStore,
} from "./options.js";
import { leftOf, Outage } from "./outage.js";
import { print, saying, write } from "./output.js";
import { withPauses } from "./pauses.js";
import { resourceName } from "./resource.js";
import { connectTo, openLeases } from "./stores.js";
import { say, shown } from "./terminal.js";

/** The library's defaults: see AcquireOptions. */
const TERMS = { driftRatio: 0.01, marginMs: 10 } as const;

interface Common {
  readonly json?: boolean;
}

function ttlOption(): Option {
  const about = `how long the lease lasts unless it is renewed ${TTL_DEFAULT}`;
  return new Option("--ttl <duration>", about).argParser(duration);
}

export function addAcquire(command: Command): void {
  withStore(command)
    .argument("<resource>", "resource to acquire", resourceName)
    .addOption(ttlOption())
    .option(
      "--wait <duration>",
      "how long to wait for a held resource or an unavailable store; 0 means do not wait, beyond one attempt to connect of up to 5s (default: 0, for the store 30s)",
      duration,
    )
    .option("--holder <name>", "name of the holder (default: HOST-PID-RANDOM)", notBlank)
    .addOption(conflictOption())
    .option("--json", "print JSON")
    .addHelpText("after", ACQUIRE_HELP)
    .action(async (resource: string, options: AcquireOptions, command: Command) => {
      const where = whereOf(command, { creates: true });
      await acquire(where, resource, options).catch((error) => {
        if (!(error instanceof LeaseUnavailableError)) throw error;
        const { json = false, verbose = false } = options;
        say(describeFailure(error, { json, verbose }).text);
        throw new Exit(options.conflictExitCode);
      });
      // The timer of the lease would keep the process alive until the lease expires.
      throw new Exit(0);
    });
}

interface AcquireOptions extends Common {
  readonly ttl?: number;
  readonly wait?: number;
  readonly holder?: string;
  readonly conflictExitCode: number;
  readonly verbose?: boolean;
}

/** Prints the lease, or releases it: without its lease id, no caller could. */
async function acquire(
  where: Where,
  resource: string,
  { ttl, wait, holder, json }: AcquireOptions,
): Promise<void> {
  const { clock } = systemEnv;
  const beganMs = clock.monotonic();
  const outage = new Outage(where.notify);
  const client = { graceMs: 0, holder, logger: outage.logger };
  const leases = await connectTo(where, client, { waitMs: wait, isPatient: wait !== undefined });
  const waitMs = leftOf(wait ?? 0, clock.monotonic() - beganMs);
  outage.watch(leases, resource, waitMs);
  try {
    if (leases.capabilities.grants === "bound") throw new UsageError(BOUND);
    const lease = await leases.acquire(resource, {
      ...(ttl !== undefined && { ttlMs: ttl }),
      waitMs,
      autoRenew: false,
    });
    outage.end();
    const leaseId = toWireLeaseId(resource, leaseIdOf(lease));
    const remainingMs = Math.floor(lease.remainingMs());
    const granted = { resource, leaseId, token: tokenOf(lease), remainingMs };
    await printGrant(json, granted).catch(
      saying(() =>
        lease.release().then(
          () => `"${resource}" was released`,
          () => `"${resource}" is held until its lease expires`,
        ),
      ),
    );
    // Otherwise closing the client would release the lease.
    keepUntilExpiry(lease);
  } catch (error) {
    if (!(error instanceof LeaseUnavailableError)) throw error;
    // What was left of the wait after connecting says nothing to the user.
    const asked = new LeaseUnavailableError(resource, wait ?? 0, error.holder);
    throw await withPauses(asked, where, leases.namespace);
  } finally {
    outage.end();
    await leases.close();
  }
}

/** A shell needs the name exactly as the caller has typed it. */
function printGrant(json: boolean | undefined, granted: Granted): Promise<void> {
  return json ? print(json, granted, () => "") : write(`${shellLines(granted)}\n`);
}

const BOUND =
  'a lease of this store ends with the session that acquires it, and so with this command: use "leasehold run RESOURCE -- COMMAND"';

export function addRenew(command: Command): void {
  withLeaseId(command)
    .addOption(ttlOption())
    .addHelpText("after", RENEW_HELP)
    .action(
      async (id: string | undefined, options: Common & { ttl?: number }, command: Command) => {
        const { found, wire } = await leaseOf(id);
        const stores = await openLeases(whereOf(command));
        const { leases } = stores;
        const grant = { namespace: tenantOf(command, stores), ...found };
        try {
          const sent = instant(systemEnv.clock);
          const { ttl: ttlMs = defaultTtlMs(leases.capabilities.ttl) } = options;
          const [outcome] = await leases.renew([{ ...grant, ttlMs }]);
          if (outcome?.status !== "renewed") throw refusal(grant, outcome);
          const trust = trustFrom(sent, outcome.remainingMs, TERMS);
          const remainingMs = Math.max(0, Math.floor(trustLeftMs(trust, systemEnv.clock)));
          const token = leases.capabilities.tokens === false ? null : outcome.token;
          const granted = { resource: grant.resource, leaseId: wire, token, remainingMs };
          await printGrant(options.json, granted);
        } finally {
          await stores.close();
        }
      },
    );
}

export function addRelease(command: Command): void {
  withLeaseId(command)
    .addHelpText("after", RELEASE_HELP)
    .action(async (id: string | undefined, options: Common, command: Command) => {
      const { found } = await leaseOf(id);
      const stores = await openLeases(whereOf(command));
      const { leases } = stores;
      const grant = { namespace: tenantOf(command, stores), ...found };
      try {
        const [outcome] = await leases.release([grant]);
        if (outcome?.status !== "released") throw refusal(grant, outcome);
        const { resource } = grant;
        await print(
          options.json,
          { resource, released: true },
          () => `released ${shown(resource)}`,
        );
      } finally {
        await stores.close();
      }
    });
}

function withLeaseId(command: Command): Command {
  return withStore(command)
    .argument(
      "[lease-id]",
      "the leaseId that acquire printed, or - to read it from stdin (default: LEASE_ID)",
    )
    .option("--json", "print JSON");
}

/** @throws UsageError */
async function leaseOf(
  given: string | undefined,
): Promise<{ found: Omit<Grant, "namespace">; wire: string }> {
  const wire = given === "-" ? (await readAll(process.stdin)).trim() : given;
  const text = wire ?? process.env["LEASE_ID"];
  if (!text)
    throw new UsageError("which lease? pass its leaseId as an argument, on stdin, or in LEASE_ID");
  const found = fromWireLeaseId(text);
  if (!found) throw new UsageError("not a leaseId: pass the leaseId that acquire printed");
  return { found, wire: text };
}

type Refused =
  | { readonly status: "lost"; readonly reason: LeaseLostError["reason"] }
  | { readonly status: "notHeld" | "renewed" | "released" }
  | { readonly status: "failed"; readonly error: Error }
  | undefined;

function refusal({ resource }: Grant, outcome: Refused): Error {
  if (outcome?.status === "failed") return outcome.error;
  // The outcome of a release has no reason.
  return new LeaseLostError(resource, outcome?.status === "lost" ? outcome.reason : "gone");
}

const ACQUIRE_HELP = `
Prints export lines for a shell: LEASE_ID, LEASE_TOKEN, LEASE_RESOURCE and LEASE_REMAINING_MS. With --json it
prints one object. The lease expires unless your script renews it with "leasehold renew". If one command does
all the work, prefer "leasehold run": it renews the lease, and stops the command if the lease is lost.
LEASE_ID is a secret: it allows any caller to renew and release the lease. Pass LEASE_TOKEN to the systems you
write to.

While "acquire" waits, it reports on stderr who holds the resource, that the store does not answer or a server
refuses by a limit, and that it answers again, as "leasehold run" does. Stores that bind leases to a session
(zookeeper:, consul:) are not supported: use "leasehold run".

Exit codes: 0 acquired; 75, or the code of -E, another holder had the resource for as long as --wait; 69 the store is
unavailable, or a server refuses by a limit; 64 usage error.

Examples:
  eval "$(leasehold acquire nightly-report --ttl 10m --store http://127.0.0.1:4040)" || exit
  leasehold acquire nightly-report --wait 1m --json | jq -r .token`;

const RENEW_HELP = `
The lease lasts --ttl from now. A renewal never shortens it.

Exit codes: 0 renewed; 76 the lease is lost: stop at once, because another holder may be working.

Examples:
  leasehold renew --ttl 10m
  leasehold renew "$LEASE_ID" --ttl 10m --json
  printf %s "$LEASE_ID" | leasehold renew -`;

const RELEASE_HELP = `
Exit codes: 0 released; 76 the lease was already lost.

Examples:
  leasehold release
  trap 'leasehold release "$LEASE_ID"' EXIT`;
