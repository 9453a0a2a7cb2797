/**
 * What an acquire logs while it waits: who holds the lease, why the store gives no answer, and that it answers again.
 *
 *   waiting ── held ──▶ debug, at the first answer; a warning after LONG_WAIT_MS
 *      │
 *      └── failed ──▶ a warning each time ── the next answer ──▶ info
 */
import type { Timer } from "../env/index.js";
import type { LeaseContext } from "./context.js";
import { type LeaseholdError, StoreUnavailableError } from "./errors.js";
import type { Held } from "./waiter.js";

/** A wait of this length is logged, once, with the holder that is waited for. */
const LONG_WAIT_MS = 10_000;
const MAYBE_NESTED = "waiting for a lease of this very client: a run within a run waits for ever";

/** Logs that an attempt failed, and that the caller waits until the store answers again. */
export function logUnanswered(
  { env }: Pick<LeaseContext, "env">,
  resource: string,
  err: LeaseholdError,
): void {
  if (err instanceof StoreUnavailableError && err.refusedBy !== undefined) {
    env.logger.warn({ err, resource }, "waiting for a server that refuses by a limit");
  } else {
    env.logger.warn({ err, resource }, "waiting for a store that does not answer");
  }
}

export class WaitLog {
  readonly #context: LeaseContext;
  readonly #resource: string;
  readonly #isStandby: boolean;
  #last: Held | LeaseholdError;
  #isHeldLogged = false;
  #longWait: Timer | undefined;

  /**
   * @param last the store's latest answer
   * @param isStandby whether a held lease is no news
   */
  constructor(
    context: LeaseContext,
    resource: string,
    last: Held | LeaseholdError,
    isStandby: boolean,
  ) {
    this.#context = context;
    this.#resource = resource;
    this.#isStandby = isStandby;
    this.#last = last;
  }

  /** The wait goes on for a while. */
  waiting(): void {
    if (this.#isStandby) return;
    this.#noteHeld();
    const { clock } = this.#context.env;
    this.#longWait ??= clock.timer(LONG_WAIT_MS, this.#logLongWait, { background: true });
  }

  /** The latest answer; null: the lease is granted. */
  answered(answer: Held | LeaseholdError | null): void {
    const wasUnanswered = this.#last instanceof Error;
    if (answer) this.#last = answer;
    if (answer instanceof Error || !wasUnanswered) return;
    this.#context.env.logger.info({ resource: this.#resource }, "the store answers again");
  }

  end(): void {
    this.#longWait?.cancel();
  }

  #noteHeld(): void {
    if (this.#isHeldLogged || this.#last instanceof Error) return;
    this.#isHeldLogged = true;
    const { holder, remainingMs } = this.#last;
    const fields = { resource: this.#resource, holder, remainingMs };
    this.#context.env.logger.debug(fields, "the lease is held; waiting for it");
  }

  readonly #logLongWait = (): void => {
    const { env, held } = this.#context;
    const { holder, remainingMs } =
      this.#last instanceof Error ? { holder: null, remainingMs: null } : this.#last;
    // Without a scope, a nested run looks like a concurrent one.
    const isMaybeNested = held.has(this.#resource) && !env.scope;
    const message = isMaybeNested ? MAYBE_NESTED : "waiting for a lease";
    const fields = { resource: this.#resource, holder, remainingMs, waitedMs: LONG_WAIT_MS };
    env.logger.warn(fields, message);
  };
}
