import { constants } from "node:os";
import { type Command, Option } from "commander";
import { systemEnv } from "../env/index.js";
import { connect, type HeldLease, LeaseLostError } from "../index.js";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { duration, whereOf, withStore } from "./options.js";
import { ProcessGroup } from "./process-group.js";
import { CONNECT_TIMEOUT_MS } from "./stores.js";

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;
/** Beside the grace: timers and the death of processes take their time, at most a tenth of the ttl. */
const MARGIN_MS = 50;

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
    .addOption(
      new Option("--ttl <duration>", "renewed at a third of it")
        .argParser(duration)
        .default(30_000, "30s"),
    )
    .option(
      "--wait <duration>",
      "for a resource that somebody else holds; 0: not at all (default: for ever)",
      duration,
    )
    .option(
      "--grace <duration>",
      "between SIGTERM and SIGKILL when the lease is lost (default: a fifth of the ttl)",
      duration,
    )
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
  [command = "", ...args]: readonly string[],
  { ttl, wait, grace = Math.floor(ttl / 5), holder }: Options,
): Promise<number> {
  if (grace > ttl / 2) throw new UsageError("--grace must be at most half of --ttl");
  const { clock } = systemEnv;
  const leases = await connect(url, {
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    ...(holder === undefined ? {} : { holder }),
  });
  // From here on, signals are ours: nothing is held before.
  const signals = new Signals();
  const options = {
    ttlMs: ttl,
    marginMs: grace + Math.min(MARGIN_MS, ttl / 10),
    signal: signals.waiting,
    ...(wait === undefined ? {} : { waitMs: wait }),
  };
  try {
    return await leases.run(resource, options, async (lease) => {
      const env = {
        ...process.env,
        LEASEHOLD_RESOURCE: lease.resource,
        // Locks in the format of others have none: a command that reads it then stops at once.
        LEASEHOLD_TOKEN: String(lease.tokenIfAny ?? ""),
        LEASEHOLD_HOLDER: lease.holder,
      };
      const group = new ProcessGroup(command, args, { env, graceMs: grace, clock });
      signals.forwardTo(group, lease);
      return whileHeld(lease, group);
    });
  } catch (error) {
    if (error instanceof Exit) return error.code;
    if (error instanceof Interrupted) return error.code;
    throw error;
  } finally {
    await leases.close();
  }
}

/** Waits for the command to end, which a lost lease brings about. */
async function whileHeld(lease: HeldLease, group: ProcessGroup): Promise<number> {
  let stopping: Promise<void> | undefined;
  const stop = () => {
    const { reason } = lease.signal as { reason: unknown };
    const why =
      reason instanceof LeaseLostError
        ? `the lease on "${reason.resource}" is lost: ${reason.reason}`
        : String(reason);
    process.stderr.write(`leasehold: ${why}; stopping the command\n`);
    stopping = group.stop();
  };
  if (lease.signal.aborted) stop();
  else lease.signal.addEventListener("abort", stop, { once: true });
  const code = await group.exited.catch(asExit);
  lease.signal.removeEventListener("abort", stop);
  await stopping;
  return code;
}

/** A signal came while we waited for the lease. */
class Interrupted extends Error {
  readonly code: number;
  constructor(name: NodeJS.Signals) {
    super(name);
    this.code = 128 + constants.signals[name];
  }
}

/**
 * What is sent to us is meant for the command: once it runs, we only pass it on. Also from the
 * terminal's Ctrl-Z to `fg`: the command must not go on while we cannot renew, and goes on again
 * only if the lease has lived through it.
 */
class Signals {
  readonly #waiting = new AbortController();
  #group: ProcessGroup | undefined;
  #lease: HeldLease | undefined;

  constructor() {
    for (const name of FORWARDED) {
      process.on(name, () => {
        if (this.#group) this.#group.signal(name);
        else this.#waiting.abort(new Interrupted(name));
      });
    }
    process.on("SIGTSTP", () => {
      this.#group?.signal("SIGSTOP");
      process.kill(process.pid, "SIGSTOP");
    });
    process.on("SIGCONT", () => {
      if (this.#lease?.checkAlive()) this.#group?.signal("SIGCONT");
    });
  }

  /** Aborts with Interrupted when a signal comes and nothing runs yet. */
  get waiting(): AbortSignal {
    return this.#waiting.signal;
  }

  forwardTo(group: ProcessGroup, lease: HeldLease): void {
    this.#group = group;
    this.#lease = lease;
    const { reason } = this.#waiting.signal as { reason: unknown };
    if (reason instanceof Interrupted) group.signal(reason.message as NodeJS.Signals);
  }
}

function asExit(error: NodeJS.ErrnoException): never {
  const missing = error.code === "ENOENT";
  process.stderr.write(
    `leasehold: cannot start the command: ${missing ? "it was not found" : error.message}\n`,
  );
  throw new Exit(missing ? EXIT.notFound : EXIT.notExecutable);
}

const HELP = `
The command finds the fencing token in LEASEHOLD_TOKEN, beside LEASEHOLD_RESOURCE and
LEASEHOLD_HOLDER; give it to what the command writes to, which refuses a smaller one than it has
seen. Signals are passed on to the command and all that it has started.

When the lease is lost, the command and all that it has started get SIGTERM, and after --grace
SIGKILL. Where it was lost by time, both happen before anybody else can be granted the resource: the
lease is given up that much earlier. Where an operator revoked it, only the token protects meanwhile.
If this process itself is killed with -9, the command is stopped in the same way.

Exit codes: the command's own, 128 + n if signal n ended it; 75 somebody else held the resource for
as long as --wait; 76 the lease was lost; 69 the store does not answer; 78 the store is not set up;
2 wrong usage; 126 the command cannot be executed; 127 it was not found.

Examples:
  leasehold run nightly-report --ttl 30s --wait 0 -- ./report.sh
  leasehold run deploy/web --store postgres://localhost/app -- make deploy`;
