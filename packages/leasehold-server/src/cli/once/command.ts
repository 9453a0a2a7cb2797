import type { Command } from "commander";
import { LeaseUnavailableError, OnceFailedError, type OnceResult } from "leasehold";
import { resourceOf, systemEnv } from "leasehold/internal";
import { patienceMs } from "../connecting.js";
import { EXIT } from "../exit-codes.js";
import { describeFailure, Exit, UsageError } from "../failures.js";
import {
  graceOption,
  Interrupted,
  rightOf,
  runUnder,
  Signals,
  termsOf,
  ttlOption,
} from "../held-command.js";
import { type ActionOptions, withReason } from "../operator-actions.js";
import { duration, integer, notBlank, type Where, whereOf, withStore } from "../options.js";
import { leftOf, Outage } from "../outage.js";
import { withPauses } from "../pauses.js";
import { keyName } from "../resource.js";
import { connectTo } from "../stores.js";
import { safeJson, say } from "../terminal.js";
import { actOn, addOnceKeys } from "./records.js";

interface Options extends Partial<Pick<ActionOptions, "actor" | "reason">> {
  readonly ttl?: number;
  readonly wait?: number;
  readonly grace?: number;
  readonly keep?: number;
  readonly maxAttempts?: number;
  readonly retryDelay?: number;
  readonly force?: boolean;
  readonly holder?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** What a record keeps of the command. */
interface Kept {
  readonly exitCode: number;
  readonly output: string;
}

/** Of the output, which is kept beside the exit code: a record has at most 64 KB of JSON. */
const OUTPUT_BYTES = 65_000;

export function addOnce(command: Command): void {
  withReason(withStore(command), { needsReason: false })
    .enablePositionalOptions()
    .argument(
      "<key>",
      "name of the work, with what makes it another one, such as the date",
      keyName,
    )
    .argument("<command...>", "command and its arguments, after --")
    .usage("[options] <key> -- <command> [arguments...] | [command]")
    .addOption(ttlOption())
    .option(
      "--wait <duration>",
      "how long to wait while another process works on the key, or for an unavailable store (default: no limit, for the store 30s)",
      duration,
    )
    .option("--keep <duration>", "how long the success counts (default: for ever)", duration)
    .option(
      "--max-attempts <number>",
      "after so many failures no process tries again (default: no limit)",
      integer(1, 2 ** 31 - 1),
    )
    .option(
      "--retry-delay <duration>",
      "how long the next attempt waits after a failure (default: 0s)",
      duration,
    )
    .option(
      "--force",
      "delete the record of the key first, with --reason, so that the command runs",
    )
    .addOption(graceOption())
    .option("--holder <name>", "name of this holder (default: HOST-PID-RANDOM)", notBlank)
    .option("--json", "print the messages of once itself as JSON lines, on stderr")
    .addHelpText("after", HELP)
    .action(async (key: string, words: string[], options: Options, command: Command) => {
      const where = whereOf(command, { creates: true });
      await forceIfAsked(where, key, options, command);
      throw new Exit(await once(where, key, words, options));
    });
  addOnceKeys(command);
}

/** @throws UsageError for --force without --reason, and for the options of its audit entry without it */
async function forceIfAsked(
  where: Where,
  key: string,
  { force = false, actor = "", reason }: Options,
  command: Command,
): Promise<void> {
  for (const name of ["reason", "actor"]) {
    if (force || command.getOptionValueSource(name) !== "cli") continue;
    throw new UsageError(`--${name} has no meaning without --force`);
  }
  if (!force) return;
  if (reason === undefined) throw new UsageError("--force needs --reason, for the audit log");
  await actOn("delete", key, { actor, reason }, command, where);
}

/** The command has ended with another exit code than 0. */
class CommandFailed extends Error {
  constructor(readonly code: number) {
    super(`the command ended with exit code ${code}`);
  }
}

/** Resolves with the exit code. */
async function once(
  where: Where,
  key: string,
  words: readonly string[],
  {
    ttl,
    wait,
    grace,
    keep,
    maxAttempts,
    retryDelay,
    holder,
    json = false,
    verbose = false,
  }: Options,
): Promise<number> {
  const { notify } = where;
  const outage = new Outage(notify, wait === undefined ? patienceMs(where.store) : undefined);
  const client = { holder, logger: outage.logger };
  const { clock } = systemEnv;
  const beganMs = clock.monotonic();
  const leasehold = await connectTo(where, client, { waitMs: wait, isPatient: true });
  const waitMs = wait === undefined ? undefined : leftOf(wait, clock.monotonic() - beganMs);
  outage.watch(leasehold, resourceOf(key), waitMs);
  // Signals are handled from here on. Before this point no lease is held.
  const signals = new Signals();
  const signal = AbortSignal.any([signals.waiting, outage.hopeless]);
  const output = new Tail();
  try {
    const { ttlMs, graceMs, marginMs } = termsOf({ ttl, grace }, leasehold);
    const options = {
      ttlMs,
      marginMs,
      signal,
      ...(waitMs !== undefined && { waitMs }),
      ...(keep !== undefined && { keepMs: keep }),
      ...(maxAttempts !== undefined && { maxAttempts }),
      ...(retryDelay !== undefined && { retryDelayMs: retryDelay }),
    };
    const result = await leasehold.once<Kept>(key, options, async (lease) => {
      outage.end();
      const right = rightOf(lease, leasehold);
      const onOutput = (chunk: Buffer) => output.add(chunk);
      const held = { graceMs, marginMs, signals, notify, onOutput };
      const exitCode = await runUnder(right, key, words, held);
      if (exitCode !== 0) throw new CommandFailed(exitCode);
      return { exitCode, output: output.text };
    });
    if (!result.ran) tellDone(key, result, json);
    return 0;
  } catch (error) {
    if (error instanceof CommandFailed) {
      tellFailed(key, error, json);
      return error.code;
    }
    if (error instanceof Exit || error instanceof Interrupted) return error.code;
    if (error instanceof OnceFailedError) {
      say(describeFailure(error, { json, verbose }).text);
      return EXIT.failed;
    }
    if (!(error instanceof LeaseUnavailableError)) throw error;
    // What was left of the wait after connecting says nothing to the user.
    const { resource, waitedMs, holder: by } = error;
    const asked = new LeaseUnavailableError(resource, wait ?? waitedMs, by);
    const refused = await withPauses(asked, where, leasehold.namespace);
    say(describeFailure(refused, { json, verbose }).text);
    return EXIT.leaseUnavailable;
  } finally {
    outage.end();
    await leasehold.close();
  }
}

function tellDone(
  key: string,
  done: Extract<OnceResult<Kept>, { ran: false }>,
  json: boolean,
): void {
  const { at, by, value } = done;
  const message = `"${key}" was done by ${by} at ${at}`;
  say(
    json
      ? safeJson({ event: "done", key, at, by, output: value?.output ?? null, message })
      : `leasehold: ${message}; the command is not run`,
  );
}

function tellFailed(key: string, { code, message }: CommandFailed, json: boolean): void {
  const text = `"${key}" is not done: ${message}`;
  say(
    json ? safeJson({ event: "failed", key, exitCode: code, message: text }) : `leasehold: ${text}`,
  );
}

/** The end of an output. */
class Tail {
  #bytes = Buffer.alloc(0);

  add(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]).subarray(-OUTPUT_BYTES);
  }

  /** As much of it as its JSON has room for. */
  get text(): string {
    let text = this.#bytes.toString();
    while (Buffer.byteLength(JSON.stringify(text)) > OUTPUT_BYTES) {
      text = text.slice(Math.ceil(text.length / 10));
    }
    return text;
  }
}

const HELP = `
The key is done when the command ends with exit code 0. From then on, no process on any machine runs it again: "once"
prints when and by whom it was done, and ends with 0. After another exit code, or when this process dies, the next
caller tries again. So the command succeeds at most once, but it can begin more than once, and its effect can happen
twice if this process dies between the effect and the end of the command. Make a repeated effect harmless: in SQL by a
unique key on what the command writes (INSERT ... ON CONFLICT DO NOTHING), elsewhere by the key as an idempotency key.

The command has the same environment as under "leasehold run".

Exit codes: that of the command; 1 if the key has failed --max-attempts times; 75 if another process works on it for the
whole of --wait; 69 the store is unavailable, or a server refuses by a limit.

--force is an operator action: the audit log records it with --actor and --reason. "leasehold once list" lists the keys,
and "leasehold once retry" retries one that has failed for good. A key of the name of such a command needs a prefix.

Examples:
  leasehold once "report:$(date -u +%F)" -- ./nightly-report.sh
  leasehold once migrate:2026-11 --max-attempts 3 --retry-delay 1m -- npm run migrate`;
