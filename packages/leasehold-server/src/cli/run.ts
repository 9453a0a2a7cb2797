import type { Command } from "commander";
import { systemEnv } from "leasehold/internal";
import { Exit } from "./failures.js";
import {
  graceAndMargin,
  graceOption,
  Interrupted,
  rightOf,
  runUnder,
  Signals,
  ttlOption,
} from "./held-command.js";
import { duration, whereOf, withStore } from "./options.js";
import { connectWithin } from "./stores.js";

interface Options {
  readonly ttl: number;
  readonly wait?: number;
  readonly grace?: number;
  readonly holder?: string;
}

export function addRun(program: Command): void {
  withStore(program.command("run"))
    .description("run a command while holding a lease; stop the command when the lease is lost")
    .argument("<resource>", "what to hold")
    .argument("<command...>", "after --, with its arguments")
    .usage("[options] <resource> -- <command> [arguments...]")
    .addOption(ttlOption())
    .option(
      "--wait <duration>",
      "for a resource that somebody else holds, or a store that is away; 0: not at all (default: for ever, for a store half a minute)",
      duration,
    )
    .addOption(graceOption())
    .option("--holder <name>", "identity of this process (default: pid and randomness)")
    .addHelpText("after", HELP)
    .action(async (resource: string, words: string[], options: Options, command: Command) => {
      throw new Exit(await run(whereOf(command).store, resource, words, options));
    });
}

/** Resolves with the code to exit with. */
async function run(
  url: string,
  resource: string,
  words: readonly string[],
  { ttl, wait, grace, holder }: Options,
): Promise<number> {
  const { graceMs, marginMs } = graceAndMargin(ttl, grace);
  const { clock } = systemEnv;
  const beganMs = clock.monotonic();
  const leases = await connectWithin(url, holder, wait);
  // From here on, signals are ours: nothing is held before.
  const signals = new Signals();
  const waitMs = wait === undefined ? {} : { waitMs: leftOf(wait, clock.monotonic() - beganMs) };
  const options = { ttlMs: ttl, marginMs, signal: signals.waiting, ...waitMs };
  try {
    return await leases.run(resource, options, (lease) =>
      runUnder(rightOf(lease, leases), resource, words, { graceMs, signals }),
    );
  } catch (error) {
    if (error instanceof Exit || error instanceof Interrupted) return error.code;
    throw error;
  } finally {
    await leases.close();
  }
}

function leftOf(waitMs: number, passedMs: number): number {
  return Math.max(0, waitMs - passedMs);
}

const HELP = `
The command finds in its environment LEASE_RESOURCE, LEASE_HOLDER, and in LEASE_TOKEN the fencing token:
give it to what the command writes to, which refuses a smaller one than it has seen. LEASE_DEADLINE is
when the command would be stopped if nothing were renewed from its start on, as milliseconds since 1970:
each renewal moves that, so being told by SIGTERM is what counts. (The first three are also named
LEASEHOLD_RESOURCE, LEASEHOLD_HOLDER and LEASEHOLD_TOKEN.) Signals are passed on to the command and all
that it has started.

When the lease is lost, the command and all that it has started get SIGTERM, and after --grace
SIGKILL. Where it was lost by time, because the store is away or we were paused, both happen before
anybody else can be granted the resource: the lease is given up that much earlier. Where an operator
revoked it, only the token protects meanwhile. If this process itself is killed with -9, the command is
stopped in the same way. What the command leaves running when it ends is stopped too, before the lease
is given back; what has left its process group (setsid, daemons) cannot be.

Exit codes: the command's own, 128 + n if signal n ended it; 75 somebody else held the resource for
as long as --wait; 76 the lease was lost; 69 the store does not answer; 78 the store is not set up;
64 wrong usage; 126 the command cannot be executed; 127 it was not found.

Examples:
  leasehold run nightly-report --ttl 30s --wait 0 -- ./report.sh
  leasehold run deploy/web --store postgres://localhost/app -- make deploy`;
