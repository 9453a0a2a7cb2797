/** Runs a command while a lease is held, and stops it before the store may grant the resource again. */

import { constants } from "node:os";
import { Option } from "commander";
import type { Clock } from "leasehold";
import { type AnyLease, type Leasehold, LeaseLostError } from "leasehold";
import { defaultTtlMs, sleep, systemEnv } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import type { Notify } from "./notices.js";
import { duration, TTL_DEFAULT } from "./options.js";
import { ProcessGroup } from "./process-group.js";

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;
/** Added to the grace, because timers and killed processes take time; at most a tenth of the TTL. */
const MARGIN_MS = 50;
/** Of the trust that is left: how often its end is read, which renewals move. */
const POLL_RATIO = 1 / 4;
const SHORTEST_POLL_MS = 20;
/** Two readings of the same end differ by less. */
const SAME_MS = 5;

export interface HeldCommandOptions {
  readonly graceMs: number;
  /** Between the end of the trust and the expiry of the lease: the grace and a little more. */
  readonly marginMs: number;
  readonly signals: Signals;
  readonly notify: Notify;
  readonly onOutput?: (chunk: Buffer) => void;
}

/** The part of a lease or term that a command needs. */
export interface Right {
  readonly holder: string;
  /** Null if the store has no tokens. */
  readonly token: number | null;
  readonly signal: AbortSignal;
  remainingMs(): number;
  checkAlive(): boolean;
}

export function rightOf(
  lease: Omit<Right, "token"> & { readonly token?: number },
  { capabilities }: Pick<Leasehold<AnyLease>, "capabilities">,
): Right {
  const { holder, signal } = lease;
  // Reading the token of a term that has none throws.
  const token = capabilities.tokens === false ? null : (lease.token ?? null);
  return {
    holder,
    token,
    signal,
    remainingMs: () => lease.remainingMs(),
    checkAlive: () => lease.checkAlive(),
  };
}

export function ttlOption(): Option {
  return new Option(
    "--ttl <duration>",
    `TTL of the lease, which is renewed after a third of it ${TTL_DEFAULT}`,
  ).argParser(duration);
}

export function graceOption(): Option {
  return new Option(
    "--grace <duration>",
    "time between SIGTERM and SIGKILL when the lease is lost (default: a fifth of the TTL)",
  ).argParser(duration);
}

/**
 * Returns the TTL, and how long before the expiry of the lease the command must be stopped.
 * @throws UsageError if that would use up more than half of the TTL
 */
export function termsOf(
  { ttl, grace }: { readonly ttl?: number | undefined; readonly grace?: number | undefined },
  { capabilities }: Pick<Leasehold<AnyLease>, "capabilities">,
) {
  const ttlMs = ttl ?? defaultTtlMs(capabilities.ttl);
  const graceMs = grace ?? Math.floor(ttlMs / 5);
  if (graceMs > ttlMs / 2) throw new UsageError("--grace must be at most half of --ttl");
  return { ttlMs, graceMs, marginMs: graceMs + Math.min(MARGIN_MS, ttlMs / 10) };
}

/**
 * Runs the command until it ends or the right is lost. Then stops the whole process group, and resolves
 * when no process of it is left.
 * @returns the command's exit code
 * @throws Exit if the command cannot be started
 */
export async function runUnder(
  right: Right,
  resource: string,
  [command = "", ...args]: readonly string[],
  { graceMs, marginMs, signals, notify, onOutput }: HeldCommandOptions,
): Promise<number> {
  notify({ event: "acquired", resource, holder: right.holder, token: right.token });
  // The lease may have expired while a full output kept this process from writing that.
  if (!right.checkAlive()) throw right.signal.reason;
  const env = { ...process.env, ...environmentOf(right, resource, systemEnv.clock) };
  // Half of what the margin leaves beyond the grace: this process comes first, if it can.
  const laterMs = (marginMs - graceMs) / 2;
  const withinMs = right.remainingMs() + laterMs;
  const { clock } = systemEnv;
  const cannotStart = ({ message }: Error): never => {
    notify({ event: "cannotStart", message });
    throw new Exit(EXIT.notExecutable);
  };
  let group: ProcessGroup;
  try {
    group = new ProcessGroup(command, args, { env, graceMs, withinMs, clock, onOutput });
  } catch (error) {
    // Node throws some errors of the system, such as E2BIG, and emits others.
    return cannotStart(error as Error);
  }
  signals.forwardTo(group, right);
  const over = new AbortController();
  void followTrust(right, group, laterMs, over.signal);
  const stop = () => {
    // Before writing, which blocks while the output is not read.
    void group.stop();
    notify({ event: "stopping", resource, message: stopReasonOf(right.signal) });
  };
  if (right.signal.aborted) stop();
  else right.signal.addEventListener("abort", stop, { once: true });
  try {
    return await group.exited.catch(cannotStart);
  } finally {
    right.signal.removeEventListener("abort", stop);
    over.abort();
    // Stops processes that the command left running: another holder may get the resource soon.
    await group.stop();
    signals.forwardTo(undefined, undefined);
  }
}

/**
 * The exit codes of `run` and `elect` when the command has not run to its end. A shell uses 126 and 127 for both, and
 * 128 + n is always that of the command.
 */
const OWN_CODES: ReadonlySet<number> = new Set([
  EXIT.usage,
  EXIT.storeUnavailable,
  EXIT.outputFailed,
  EXIT.leaseUnavailable,
  EXIT.leaseLost,
  EXIT.misconfigured,
]);

/** Reports a code that a script would take for one of this program. */
export function tellOwnCode(exitCode: number, notify: Notify): void {
  if (!OWN_CODES.has(exitCode)) return;
  const message = `the command itself ended with exit code ${exitCode}`;
  notify({ event: "exited", exitCode, message });
}

/**
 * Has the guard stop the group when the trust has ended, whatever keeps this process from doing so.
 * @param laterMs by how much later than the end of the trust
 */
async function followTrust(
  right: Right,
  group: ProcessGroup,
  laterMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = systemEnv;
  // The guard had this one from its start.
  let untilMs = clock.monotonic() + right.remainingMs();
  while (!signal.aborted) {
    const leftMs = right.remainingMs();
    const readMs = clock.monotonic() + leftMs;
    if (Math.abs(readMs - untilMs) > SAME_MS) {
      untilMs = readMs;
      group.stopWithin(leftMs + laterMs);
    }
    const pollMs = Math.max(SHORTEST_POLL_MS, leftMs * POLL_RATIO);
    await sleep(clock, pollMs, { signal }).catch(() => {});
  }
}

function environmentOf({ holder, token, ...right }: Right, resource: string, clock: Clock) {
  // Leases in a compatibility format have no token. The empty text makes a command that needs one fail early.
  const text = String(token ?? "");
  const deadlineMs = Math.floor(clock.wall() + right.remainingMs());
  return {
    LEASE_RESOURCE: resource,
    LEASE_TOKEN: text,
    LEASE_HOLDER: holder,
    LEASE_DEADLINE: String(deadlineMs),
    LEASEHOLD_RESOURCE: resource,
    LEASEHOLD_TOKEN: text,
    LEASEHOLD_HOLDER: holder,
  };
}

export function stopReasonOf({ reason }: { reason: unknown }): string {
  if (reason instanceof LeaseLostError) {
    const { cause } = reason;
    const because = cause === undefined ? "" : ` (its renewals failed: ${reasonOf(cause)})`;
    return `the lease on "${reason.resource}" is lost: ${reason.reason}${because}`;
  }
  return reasonOf(reason);
}

/** A signal arrived while no command was running. */
export class Interrupted extends Error {
  readonly code: number;
  constructor(readonly signal: NodeJS.Signals) {
    super(`received ${signal}`);
    this.code = 128 + constants.signals[signal];
  }
}

/**
 * Forwards signals to the running command. Ctrl-Z stops the command too, because a stopped process
 * cannot renew. After `fg` the command continues only if the lease is still alive; otherwise the guard
 * has ended it.
 */
export class Signals {
  readonly #waiting = new AbortController();
  #group: ProcessGroup | undefined;
  #right: Right | undefined;
  /** The signal that asked the command to end; no other command may follow. */
  #ending: NodeJS.Signals | undefined;

  constructor() {
    for (const name of FORWARDED) {
      process.on(name, () => {
        if (ENDS.has(name)) this.#ending = name;
        if (this.#group) this.#group.signal(name);
        else this.#waiting.abort(new Interrupted(name));
      });
    }
    process.on("SIGTSTP", () => {
      this.#group?.signal("SIGSTOP");
      process.kill(process.pid, "SIGSTOP");
    });
    process.on("SIGCONT", () => {
      if (this.#right?.checkAlive()) this.#group?.signal("SIGCONT");
    });
  }

  /** Aborts with Interrupted when a signal arrives and no command runs, or once the command has ended. */
  get waiting(): AbortSignal {
    return this.#waiting.signal;
  }

  forwardTo(group: ProcessGroup | undefined, right: Right | undefined): void {
    [this.#group, this.#right] = [group, right];
    if (!group && this.#ending) this.#waiting.abort(new Interrupted(this.#ending));
    const { reason } = this.#waiting.signal as { reason: unknown };
    if (reason instanceof Interrupted) group?.signal(reason.signal);
  }
}

const ENDS: ReadonlySet<NodeJS.Signals> = new Set(["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]);
