import type { Command } from "commander";
import { LeaseUnavailableError, OnceFailedError, type OnceResult } from "leasehold";
import { patienceMs } from "./connecting.js";
import { EXIT } from "./exit-codes.js";
import { describeFailure, Exit } from "./failures.js";
import {
  graceAndMargin,
  graceOption,
  Interrupted,
  rightOf,
  runUnder,
  Signals,
  ttlOption,
} from "./held-command.js";
import { duration, integer, notBlank, type Where, whereOf, withStore } from "./options.js";
import { Outage } from "./outage.js";
import { resourceName } from "./resource.js";
import { connectTo } from "./stores.js";
import { safeJson, say } from "./terminal.js";

interface Options {
  readonly ttl: number;
  readonly wait?: number;
  readonly grace?: number;
  readonly keep?: number;
  readonly maxAttempts?: number;
  readonly retryDelay?: number;
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
  withStore(command)
    .argument(
      "<key>",
      "name of the work, with what makes it another one, such as the date",
      resourceName,
    )
    .argument("<command...>", "command and its arguments, after --")
    .usage("[options] <key> -- <command> [arguments...]")
    .addOption(ttlOption())
    .option(
      "--wait <duration>",
      "how long to wait while another process works on the key (default: no limit)",
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
    .addOption(graceOption())
    .option("--holder <name>", "name of this holder (default: HOST-PID-RANDOM)", notBlank)
    .option("--json", "print the messages of once itself as JSON lines, on stderr")
    .addHelpText("after", HELP)
    .action(async (key: string, words: string[], options: Options, command: Command) => {
      throw new Exit(await once(whereOf(command, { creates: true }), key, words, options));
    });
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
  const { graceMs, marginMs } = graceAndMargin(ttl, grace);
  const outage = new Outage(notify, wait === undefined ? patienceMs(where.store) : undefined);
  const client = { holder, logger: outage.logger, defaults: { marginMs } };
  const leasehold = await connectTo(where, client, { waitMs: wait, isPatient: true });
  // Signals are handled from here on. Before this point no lease is held.
  const signals = new Signals();
  const options = {
    ttlMs: ttl,
    signal: signals.waiting,
    ...(wait !== undefined && { waitMs: wait }),
    ...(keep !== undefined && { keepMs: keep }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(retryDelay !== undefined && { retryDelayMs: retryDelay }),
  };
  const output = new Tail();
  try {
    const result = await leasehold.once<Kept>(key, options, async (lease) => {
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
    if (error instanceof CommandFailed) return error.code;
    if (error instanceof Exit || error instanceof Interrupted) return error.code;
    const isExpected = error instanceof LeaseUnavailableError || error instanceof OnceFailedError;
    if (!isExpected) throw error;
    say(describeFailure(error, { json, verbose }).text);
    return error instanceof OnceFailedError ? EXIT.failed : EXIT.leaseUnavailable;
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
The key is done when the command ends with exit code 0. Then no process runs it again, on whatever machine: "once" says when
and by whom it was done, and ends with 0. After another exit code, or when this process dies, the next caller tries again.
So the command can begin more than once; it succeeds at most once. Its environment is that of "run": pass LEASE_TOKEN or
the key to what it writes to.

Exit codes: that of the command; 1 if the key has failed --max-attempts times; 75 if another process works on it for the
whole of --wait.

Examples:
  leasehold once "report:$(date +%F)" -- ./nightly-report.sh
  leasehold once migrate:2026-11 --max-attempts 3 --retry-delay 1m -- npm run migrate
`;
