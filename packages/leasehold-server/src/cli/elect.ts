import { once } from "node:events";
import type { Command } from "commander";
import { type AnyLease, type LeaderChange, type Leasehold, LeaseLostError } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { Exit, UsageError } from "./failures.js";
import {
  graceOption,
  Interrupted,
  rightOf,
  runUnder,
  Signals,
  stopReasonOf,
  tellOwnCode,
  termsOf,
  ttlOption,
} from "./held-command.js";
import { notifier } from "./notices.js";
import { notBlank, whereOf, withStore } from "./options.js";
import { Outage } from "./outage.js";
import { print } from "./output.js";
import { resourceName } from "./resource.js";
import { listenForShutdown } from "./shutdown.js";
import { connectTo } from "./stores.js";
import { measuring, type TelemetryOptions, withTelemetry } from "./telemetry.js";
import { shown } from "./terminal.js";

/** Added to --grace: after SIGKILL the processes of the command still need time to end. */
const DRAIN_MS = 5_000;

interface Options extends TelemetryOptions {
  readonly ttl?: number;
  readonly grace?: number;
  readonly holder?: string;
  readonly observe?: boolean;
  readonly json?: boolean;
}

export function addElect(command: Command): void {
  withTelemetry(withStore(command))
    .argument("<name>", "name of the election, which is a resource", resourceName)
    .argument("[command...]", "command and its arguments, after --")
    .usage("[options] <name> [-- <command> [arguments...]]")
    .option("--observe", "do not stand for election: print the current leader, and each change")
    .addOption(ttlOption())
    .addOption(graceOption())
    .option("--holder <name>", "name of this candidate (default: HOST-PID-RANDOM)", notBlank)
    .option("--json", "print JSON lines, on stderr too")
    .addHelpText("after", HELP)
    .action(async (name: string, commandLine: string[], options: Options, command: Command) => {
      if (options.observe && commandLine.length > 0) {
        throw new UsageError("--observe does not stand for election, so it cannot run a command");
      }
      if (options.observe) refuseOptionsOfCandidates(command);
      const where = whereOf(command, { creates: !options.observe });
      const candidacy = options.observe ? undefined : new Signals();
      const signal = candidacy?.waiting ?? listenForShutdown(systemEnv.clock).signal;
      const code = await measuring(options, where.notify, async (telemetry) => {
        const outage = new Outage(where.notify);
        const { logger } = outage;
        const client = { holder: options.holder, env: telemetry && { telemetry }, logger };
        const leasehold = await connectTo(where, client, { isPatient: true, signal }).catch(
          (error: unknown) => {
            if (error instanceof Interrupted) throw new Exit(codeOf(error, commandLine));
            throw error;
          },
        );
        outage.watch(leasehold, name);
        try {
          if (candidacy) return await lead(leasehold, name, commandLine, options, candidacy);
          await observe(leasehold, name, options, signal);
          return 0;
        } finally {
          outage.end();
          await leasehold.close();
        }
      });
      throw new Exit(code);
    });
}

function refuseOptionsOfCandidates(command: Command): void {
  for (const name of ["ttl", "grace", "holder"]) {
    if (command.getOptionValueSource(name) !== "cli") continue;
    throw new UsageError(
      `--${name} has no meaning with --observe, which does not stand for election`,
    );
  }
}

async function observe(
  leasehold: Leasehold<AnyLease>,
  name: string,
  { json }: Options,
  signal: AbortSignal,
): Promise<void> {
  for await (const change of leasehold.elector(name).observe({ signal })) {
    await printLeader(json, change);
  }
}

/** Resolves with the exit code. */
async function lead(
  leasehold: Leasehold<AnyLease>,
  name: string,
  commandLine: readonly string[],
  { ttl, grace, json }: Options,
  signals: Signals,
): Promise<number> {
  const { ttlMs, graceMs, marginMs } = termsOf({ ttl, grace }, leasehold);
  const commandEnded = new AbortController();
  const notify = notifier(json);
  const elector = leasehold.elector(name, { ttlMs, marginMs, graceMs: graceMs + DRAIN_MS });
  let code: number | undefined;
  const signal = AbortSignal.any([signals.waiting, commandEnded.signal]);
  try {
    await elector.lead(
      async (term) => {
        const right = rightOf(term, leasehold);
        if (commandLine.length === 0) {
          await printLeader(json, { leader: right.holder, token: right.token });
          if (!right.signal.aborted) await once(right.signal, "abort");
          if (!signal.aborted)
            notify({ event: "lost", resource: name, message: stopReasonOf(right.signal) });
          return;
        }
        const exitCode = await runUnder(right, name, commandLine, {
          graceMs,
          marginMs,
          signals,
          notify,
        });
        // The lease was lost, which stopped the command. It runs again when this candidate leads again. A signal to
        // this candidate ends its candidacy, and so the term too, but the command ended by itself.
        if (right.signal.reason instanceof LeaseLostError) return;
        code = exitCode;
        commandEnded.abort();
      },
      { signal },
    );
  } catch (error) {
    if (error instanceof Exit) return error.code;
    throw error;
  }
  if (code !== undefined) {
    tellOwnCode(code, notify);
    return code;
  }
  return codeOf(signals.waiting.reason, commandLine);
}

/** The exit code of a candidate that a signal has ended while its command did not run. */
function codeOf(reason: unknown, commandLine: readonly string[]): number {
  return commandLine.length > 0 && reason instanceof Interrupted ? reason.code : 0;
}

async function printLeader(
  json: boolean | undefined,
  {
    leader,
    token,
    unavailable = false,
  }: Pick<LeaderChange, "leader" | "token"> & Partial<LeaderChange>,
): Promise<void> {
  const absent = unavailable ? "leader unknown: the store does not answer" : "no leader";
  const text = leader === null ? absent : `${shown(leader)} leads, token ${token}`;
  await print(json, { leader, token, ...(unavailable && { unavailable }) }, () => text);
}

const HELP = `
The command runs while this candidate leads, with the environment of "leasehold run" (LEASE_TOKEN and so on).
When the candidate loses the leadership, it stops the command as "run" does, and stands for election again. When
the command ends by itself, the candidate withdraws and exits with the command's code. Without a command, the
candidate prints a line each time it becomes leader, and exits with 0 at SIGINT or SIGTERM.

While the store is unavailable, or a server refuses by a limit, "elect" retries, and reports on stderr since when,
and when the store answers again.

--observe prints "leader unknown" ("unavailable":true with --json) when the store does not answer and the lease of
the last known leader must have expired. It may skip short terms. If no candidate waits, it reports the end of a term
up to 30 seconds late, or when the TTL would have passed.

With --json, the reports are
  {"event":"retrying","message":...,"since":...}   the store is unavailable ("until" while it connects at the start)
  {"event":"refused","message":...,"since":...}   a server refuses by a limit
  {"event":"answering","message":...}   the store answers, or the server no longer refuses
  {"event":"warning","message":...}   something has failed that does not stop "elect", such as the export of metrics
  {"event":"metrics","url":...,"message":...}   where --metrics-port serves the metrics
  {"event":"exited","exitCode":...,"message":...}   the command itself ended with 64, 69, 74, 75, 76 or 78
  {"event":"lost","resource":...,"message":...}   without a command: this candidate no longer leads

Exit codes: the command's own; 128 + n if signal n ended the command or arrived before it began; otherwise
those of "leasehold run".

Examples:
  leasehold elect scheduler --store postgres://localhost/app -- ./scheduler.sh
  leasehold elect scheduler --observe --json | jq -r .leader`;
