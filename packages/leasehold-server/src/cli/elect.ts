import { once } from "node:events";
import type { Command } from "commander";
import type { AnyLease, LeaderChange, Leasehold } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { Exit, UsageError } from "./failures.js";
import {
  graceAndMargin,
  graceOption,
  Interrupted,
  rightOf,
  runUnder,
  Signals,
  ttlOption,
} from "./held-command.js";
import { whereOf, withStore } from "./options.js";
import { listenForShutdown } from "./shutdown.js";
import { connectWithin } from "./stores.js";

/** Above the grace of the command: what stops it is already under way. */
const DRAIN_MS = 5_000;

interface Options {
  readonly ttl: number;
  readonly grace?: number;
  readonly holder?: string;
  readonly observe?: boolean;
  readonly json?: boolean;
}

export function addElect(program: Command): void {
  withStore(program.command("elect"))
    .description("stand for election, and run a command while leading; or see who leads")
    .argument("<name>", "of the election: a resource")
    .argument("[command...]", "after --, with its arguments")
    .usage("[options] <name> [-- <command> [arguments...]]")
    .option("--observe", "do not stand: print who leads, now and at each change")
    .addOption(ttlOption())
    .addOption(graceOption())
    .option("--holder <name>", "identity of this candidate (default: pid and randomness)")
    .option("--json", "JSON lines")
    .addHelpText("after", HELP)
    .action(async (name: string, words: string[], options: Options, command: Command) => {
      if (options.observe && words.length > 0) {
        throw new UsageError("--observe stands for no election, so it runs no command");
      }
      const leasehold = await connectWithin(whereOf(command).store, options.holder);
      try {
        if (options.observe) await observe(leasehold, name, options);
        else throw new Exit(await lead(leasehold, name, words, options));
      } finally {
        await leasehold.close();
      }
    });
}

async function observe(
  leasehold: Leasehold<AnyLease>,
  name: string,
  { json }: Options,
): Promise<void> {
  const { signal } = listenForShutdown(systemEnv.clock);
  for await (const change of leasehold.elector(name).observe({ signal })) {
    tell(json, { leader: change.leader, token: change.token });
  }
}

/** Resolves with the code to exit with. */
async function lead(
  leasehold: Leasehold<AnyLease>,
  name: string,
  words: readonly string[],
  { ttl, grace, json }: Options,
): Promise<number> {
  const { graceMs, marginMs } = graceAndMargin(ttl, grace);
  const signals = new Signals();
  const over = new AbortController();
  const elector = leasehold.elector(name, { ttlMs: ttl, marginMs, graceMs: graceMs + DRAIN_MS });
  let code: number | undefined;
  const signal = AbortSignal.any([signals.waiting, over.signal]);
  try {
    await elector.lead(
      async (term) => {
        const right = rightOf(term, leasehold);
        if (words.length === 0) {
          tell(json, { leader: right.holder, token: right.token });
          if (!right.signal.aborted) await once(right.signal, "abort");
          return;
        }
        const ended = await runUnder(right, name, words, { graceMs, signals });
        // Stopped because the term was lost: another one may come, and with it the command.
        if (right.signal.aborted) return;
        code = ended;
        over.abort();
      },
      { signal },
    );
  } catch (error) {
    if (error instanceof Exit) return error.code;
    throw error;
  }
  if (code !== undefined) return code;
  const { reason } = signals.waiting as { reason: unknown };
  return words.length > 0 && reason instanceof Interrupted ? reason.code : 0;
}

function tell(json: boolean | undefined, change: Pick<LeaderChange, "leader" | "token">): void {
  const { leader, token } = change;
  const text = leader === null ? "nobody leads" : `${leader} leads, token ${token}`;
  process.stdout.write(`${json ? JSON.stringify(change) : text}\n`);
}

const HELP = `
The command runs while this candidate leads, in the environment that "leasehold run" gives it (LEASE_TOKEN
and so on), and is stopped as there when the term is lost; then this candidate stands again. When the
command ends by itself, so does the candidacy, with its code. Without a command it leads, prints a line
for each term, and ends at SIGINT or SIGTERM with 0.

Exit codes: the command's own, 128 + n if signal n ended it or came before it began; else as run.

Examples:
  leasehold elect scheduler --store postgres://localhost/app -- ./scheduler.sh
  leasehold elect scheduler --observe --json | jq -r .leader`;
