/** acquire, renew and release: a lease that outlives the command that takes it, for scripts. */
import { text as readAll } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { connect, LeaseLostError } from "leasehold";
import {
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
import { Exit, UsageError } from "./failures.js";
import { type Granted, shellLines } from "./lease-output.js";
import { duration, namespaceOption, whereOf, withStore } from "./options.js";
import { print } from "./output.js";
import { CONNECT_TIMEOUT_MS, openLeases } from "./stores.js";

/** As the library's own: see AcquireOptions. */
const TERMS = { driftRatio: 0.01, marginMs: 10 } as const;

interface Common {
  readonly namespace: string;
  readonly json?: boolean;
}

function ttlOption(): Option {
  return new Option("--ttl <duration>", "how long from now on, unless it is renewed")
    .argParser(duration)
    .default(30_000, "30s");
}

export function addAcquire(program: Command): void {
  withStore(program.command("acquire"))
    .description("take a lease for a script, and print what renew and release need")
    .argument("<resource>", "what to hold")
    .addOption(ttlOption())
    .option(
      "--wait <duration>",
      "for a resource that somebody else holds; 0: not at all",
      duration,
      0,
    )
    .option("--holder <name>", "shown to others (default: pid and randomness)")
    .addOption(namespaceOption())
    .option("--json", "for machines")
    .addHelpText("after", ACQUIRE_HELP)
    .action(async (resource: string, options: AcquireOptions, command: Command) => {
      const { store } = whereOf(command);
      const granted = await acquire(store, resource, options);
      print(options.json, granted, () => shellLines(granted));
      // The lease's own timer would hold the process until it has run out.
      throw new Exit(0);
    });
}

interface AcquireOptions extends Common {
  readonly ttl: number;
  readonly wait: number;
  readonly holder?: string;
}

async function acquire(
  url: string,
  resource: string,
  { ttl, wait, holder, namespace }: AcquireOptions,
): Promise<Granted> {
  if (/^memory:/i.test(url)) throw new UsageError(endsWithUs("memory of this process"));
  const leases = await connect(url, {
    namespace,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    unfenced: true,
    graceMs: 0,
    ...(holder === undefined ? {} : { holder }),
  });
  try {
    if (leases.capabilities.grants === "bound") throw new UsageError(endsWithUs("session"));
    const lease = await leases.acquire(resource, { ttlMs: ttl, waitMs: wait, autoRenew: false });
    // So that the end of this process does not release it.
    keepUntilExpiry(lease);
    const leaseId = toWireLeaseId(resource, leaseIdOf(lease));
    const remainingMs = Math.floor(lease.remainingMs());
    return { resource, leaseId, token: tokenOf(lease), remainingMs };
  } finally {
    await leases.close();
  }
}

function endsWithUs(what: string): string {
  return `a lease of this store lives in the ${what} that takes it, and would end with this very command: hold it with "leasehold run RESOURCE -- COMMAND"`;
}

export function addRenew(program: Command): void {
  withLeaseId(program, "renew")
    .description("extend a lease that acquire has taken")
    .addOption(ttlOption())
    .addHelpText("after", RENEW_HELP)
    .action(async (id: string | undefined, options: Common & { ttl: number }, command: Command) => {
      const { grant, wire } = await grantOf(id, options.namespace);
      const stores = await openLeases(whereOf(command).store);
      const { leases } = stores;
      try {
        const sent = instant(systemEnv.clock);
        const [outcome] = await leases.renew([{ ...grant, ttlMs: options.ttl }]);
        if (outcome?.status !== "renewed") throw refusal(grant, outcome);
        const trust = trustFrom(sent, outcome.remainingMs, TERMS);
        const remainingMs = Math.max(0, Math.floor(trustLeftMs(trust, systemEnv.clock)));
        const token = leases.capabilities.tokens === false ? null : outcome.token;
        const granted = { resource: grant.resource, leaseId: wire, token, remainingMs };
        print(options.json, granted, () => shellLines(granted));
      } finally {
        await stores.close();
      }
    });
}

export function addRelease(program: Command): void {
  withLeaseId(program, "release")
    .description("give back a lease that acquire has taken")
    .addHelpText("after", RELEASE_HELP)
    .action(async (id: string | undefined, options: Common, command: Command) => {
      const { grant } = await grantOf(id, options.namespace);
      const stores = await openLeases(whereOf(command).store);
      const { leases } = stores;
      try {
        const [outcome] = await leases.release([grant]);
        if (outcome?.status !== "released") throw refusal(grant, outcome);
        const { resource } = grant;
        print(options.json, { resource, released: true }, () => `released ${resource}`);
      } finally {
        await stores.close();
      }
    });
}

function withLeaseId(program: Command, name: string): Command {
  return withStore(program.command(name))
    .argument("[lease-id]", "as acquire has printed it; -: from stdin (default: LEASE_ID)")
    .addOption(namespaceOption())
    .option("--json", "for machines");
}

/** @throws UsageError */
async function grantOf(
  given: string | undefined,
  namespace: string,
): Promise<{ grant: Grant; wire: string }> {
  const wire = given === "-" ? (await readAll(process.stdin)).trim() : given;
  const text = wire ?? process.env["LEASE_ID"];
  if (!text)
    throw new UsageError("which lease? its leaseId as an argument, on stdin, or in LEASE_ID");
  const found = fromWireLeaseId(text);
  if (!found) throw new UsageError("this is no leaseId: it is what acquire has printed as leaseId");
  return { grant: { namespace, ...found }, wire: text };
}

type Refused =
  | { readonly status: "lost"; readonly reason: LeaseLostError["reason"] }
  | { readonly status: "notHeld" | "renewed" | "released" }
  | { readonly status: "failed"; readonly error: Error }
  | undefined;

function refusal({ resource }: Grant, outcome: Refused): Error {
  if (outcome?.status === "failed") return outcome.error;
  // A release is not told why.
  return new LeaseLostError(resource, outcome?.status === "lost" ? outcome.reason : "gone");
}

const ACQUIRE_HELP = `
Prints lines for a shell: LEASE_ID, LEASE_TOKEN, LEASE_RESOURCE and LEASE_REMAINING_MS, or with --json one
object. Nobody renews the lease but you, by renew; without that it ends when its time has passed. Where
one command can do the work, "leasehold run" is safer: it renews, and stops the command when the lease
is lost. LEASE_ID is a secret: whoever knows it can renew and release. Give LEASE_TOKEN to what you write
to. Stores that bind leases to a session (zookeeper:) are refused.

Exit codes: 0 it is yours; 75 somebody else held it for as long as --wait; 69 the store does not answer;
64 wrong usage.

Examples:
  eval "$(leasehold acquire nightly-report --ttl 10m --store http://127.0.0.1:4040)" || exit
  leasehold acquire nightly-report --wait 1m --json | jq -r .token`;

const RENEW_HELP = `
The time counts from now on and never becomes shorter. Ends with 76 if the lease is lost: then stop at
once, another one may be at work.

Examples:
  leasehold renew --ttl 10m
  leasehold renew "$LEASE_ID" --ttl 10m --json
  printf %s "$LEASE_ID" | leasehold renew -`;

const RELEASE_HELP = `
Ends with 76 if the lease was not yours any more.

Examples:
  leasehold release
  trap 'leasehold release "$LEASE_ID"' EXIT`;
