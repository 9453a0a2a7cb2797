import type { Command } from "commander";
import { LeaseUnavailableError } from "leasehold";
import { systemEnv } from "leasehold/internal";
import type { Telemetry } from "leasehold/telemetry";
import { patienceMs } from "./connecting.js";
import { describeFailure, Exit } from "./failures.js";
import {
  graceOption,
  Interrupted,
  rightOf,
  runUnder,
  Signals,
  tellOwnCode,
  termsOf,
  ttlOption,
} from "./held-command.js";
import { conflictOption, duration, notBlank, type Where, whereOf, withStore } from "./options.js";
import { leftOf, Outage } from "./outage.js";
import { withPauses } from "./pauses.js";
import { resourceName } from "./resource.js";
import { connectTo } from "./stores.js";
import { measuring, type TelemetryOptions, withTelemetry } from "./telemetry.js";
import { say } from "./terminal.js";

interface Options extends TelemetryOptions {
  readonly ttl?: number;
  readonly wait?: number;
  readonly grace?: number;
  readonly holder?: string;
  readonly conflictExitCode: number;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

export function addRun(command: Command): void {
  withTelemetry(withStore(command))
    .argument("<resource>", "resource to hold", resourceName)
    .argument("<command...>", "command and its arguments, after --")
    .usage("[options] <resource> -- <command> [arguments...]")
    .addOption(ttlOption())
    .option(
      "--wait <duration>",
      "how long to wait for a held resource or an unavailable store; 0 means do not wait, beyond one attempt to connect of up to 5s (default: no limit, for the store 30s)",
      duration,
    )
    .addOption(graceOption())
    .option("--holder <name>", "name of this holder (default: HOST-PID-RANDOM)", notBlank)
    .addOption(conflictOption())
    .option("--json", "print the messages of run itself as JSON lines, on stderr")
    .addHelpText("after", HELP)
    .action(async (resource: string, words: string[], options: Options, command: Command) => {
      const where = whereOf(command, { creates: true });
      throw new Exit(
        await measuring(options, where.notify, (telemetry) =>
          run(where, resource, words, options, telemetry),
        ),
      );
    });
}

/** Resolves with the exit code. */
async function run(
  where: Where,
  resource: string,
  words: readonly string[],
  { ttl, wait, grace, holder, conflictExitCode, json = false, verbose = false }: Options,
  telemetry: Telemetry | undefined,
): Promise<number> {
  const { notify } = where;
  const { clock } = systemEnv;
  const beganMs = clock.monotonic();
  const outage = new Outage(notify, wait === undefined ? patienceMs(where.store) : undefined);
  const client = { holder, env: telemetry && { telemetry }, logger: outage.logger };
  const leases = await connectTo(where, client, { waitMs: wait, isPatient: true });
  const waitMs = wait === undefined ? undefined : leftOf(wait, clock.monotonic() - beganMs);
  outage.watch(leases, resource, waitMs);
  // Signals are handled from here on. Before this point no lease is held.
  const signals = new Signals();
  const signal = AbortSignal.any([signals.waiting, outage.hopeless]);
  try {
    const { ttlMs, graceMs, marginMs } = termsOf({ ttl, grace }, leases);
    const options = { ttlMs, marginMs, signal, ...(waitMs !== undefined && { waitMs }) };
    const exitCode = await leases.run(resource, options, (lease) => {
      outage.end();
      return runUnder(rightOf(lease, leases), resource, words, {
        graceMs,
        marginMs,
        signals,
        notify,
      });
    });
    tellOwnCode(exitCode, notify);
    return exitCode;
  } catch (error) {
    if (error instanceof Exit || error instanceof Interrupted) return error.code;
    if (!(error instanceof LeaseUnavailableError)) throw error;
    // What was left of the wait after connecting says nothing to the user.
    const asked = new LeaseUnavailableError(resource, wait ?? error.waitedMs, error.holder);
    const refused = await withPauses(asked, where, leases.namespace);
    say(describeFailure(refused, { json, verbose }).text);
    return conflictExitCode;
  } finally {
    outage.end();
    await leases.close();
  }
}

const HELP = `
The command's environment has these variables:
  LEASE_RESOURCE  the resource (also LEASEHOLD_RESOURCE)
  LEASE_HOLDER    the holder (also LEASEHOLD_HOLDER)
  LEASE_TOKEN     the fencing token (also LEASEHOLD_TOKEN): pass it to the systems that the command writes
                  to, so that they can refuse a smaller token than the largest they have seen
  LEASE_DEADLINE  when the command is stopped if no renewal succeeds, in milliseconds since 1970. Renewals
                  extend the lease but cannot change the variable, so rely on SIGTERM

"run" forwards signals to the command and to the processes that it started.

When the lease is lost, the command and the processes that it started get SIGTERM, and SIGKILL after --grace.
If the lease expires, because the store is unavailable or this process is paused, both happen before another
holder can acquire the resource: "run" gives up the lease that much earlier. If an operator revokes the lease,
only the token protects your data in the meantime. If "run" itself is killed with -9, the command is stopped in
the same way. If nothing reads the output of "run", it blocks: it cannot renew, and the lease expires.

When the command ends, "run" stops the processes that the command left running, and then releases the lease. It
cannot stop processes that have left the process group (setsid, daemons).

However short --wait is, "run" makes one attempt to connect to the store. If the store does not answer, the attempt
ends after 5s; PGlite starts in this process, and may take up to 2m.

With --json, each message of "run" itself is one JSON object on stderr, among the lines of the command:
  {"event":"waiting","resource":...,"holder":...,"remainingMs":...,"message":...}   it is held ("until" with --wait)
  {"event":"retrying","message":...,"until":...}   the store is unavailable, and "run" tries again until --wait ends
  {"event":"refused","message":...,"since":...,"until":...}   a server refuses by a limit, and "run" tries again
  {"event":"answering","message":...}   the store answers, or the server no longer refuses
  {"event":"warning","message":...}   something has failed that does not stop "run", such as the export of metrics
  {"event":"metrics","url":...,"message":...}   where --metrics-port serves the metrics
  {"event":"acquired","resource":...,"holder":...,"token":...}   the command starts
  {"event":"stopping","resource":...,"message":...}   the lease is lost, and the command is stopped
  {"event":"exited","exitCode":...,"message":...}   the command itself ended with 64, 69, 74, 75, 76 or 78
  {"event":"cannotStart","message":...}   no process could be started
  {"error":{"code":...,"message":...,"docs":...}}   "run" ends with an exit code of its own
If the command is not found or not executable, the shell reports why, as text.

Without --wait, "run" waits without a limit for a held resource, 30s for a store that does not answer, and not at all
for a server that refuses by a limit of its tenant. With --wait it waits that long for each of them.

Exit codes: the command's own; 128 + n if signal n ended it; 75, or the code of -E, another holder had the
resource for as long as --wait; 76 the lease was lost; 69 the store is unavailable, or a server refuses by a limit;
78 the store is misconfigured; 64 usage error; 126 the command cannot be executed; 127 the command was not found.

"lock" is another name of "run".

Examples:
  leasehold run deploy/web --store postgres://localhost/app -- make deploy
  leasehold lock nightly-report --wait 0 -E 0 -- ./report.sh`;
