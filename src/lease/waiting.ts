/**
 * Waiting for a held lease: attempt after attempt, by turns among the callers of this client, and in
 * line among those of all clients where the store keeps one (place.ts, queue.ts).
 */
import type { Abort } from "./aborting.js";
import { attempt, giveUp, type Held, type LeaseContext } from "./acquisition.js";
import { type LeaseholdError, LeaseUnavailableError } from "./errors.js";
import { HeldLease } from "./held-lease.js";
import type { ResolvedOptions } from "./options.js";
import { Place } from "./place.js";

/** Tells the end of `waitMs` from the caller's own abort. */
const OVERDUE = new Error("waitMs is over");

/**
 * Waits for the lease, at most `options.waitMs`. A store that does not answer meanwhile is waited
 * for too: that is what the time is for. Even a caller in a hurry gets an answer: the first look is
 * not cut short.
 * @param abort ends the wait; done here when the time is over
 * @param patient whether a store that does not answer is waited for
 * @throws LeaseUnavailableError when the time is over; the reason when aborted
 */
export async function waitFor(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  abort: Abort,
  patient: boolean,
): Promise<HeldLease> {
  const { env } = context;
  const deadlineMs = env.clock.monotonic() + options.waitMs;
  const leftMs = () => deadlineMs - env.clock.monotonic();
  // The latest answer of the store, for the error that says why the wait was in vain.
  let last: Held | LeaseholdError = { holder: "another caller of this client", remainingMs: null };
  let waiting = true;
  const deadline = Number.isFinite(options.waitMs)
    ? env.clock.timer(options.waitMs, () => waiting && abort.abort(OVERDUE))
    : undefined;
  const place = new Place(env, context.capabilities.watch);
  const { ticket } = place;
  let unlisten: (() => void) | undefined;
  let entered = false;
  // Whether the store may know us as waiting.
  let queued = false;
  env.telemetry?.change("leasehold.lease.waiters", {}, 1);
  try {
    await context.turns.enter(resource, abort, patient);
    entered = true;
    for (let looks = 0; ; looks += 1) {
      const own = context.held.get(resource);
      if (own) {
        // This very client has it: there is nothing to ask the store before that ends.
        last = { holder: own.holder, remainingMs: own.remainingMs() || null };
      } else {
        waiting = looks > 0;
        const queueMs = Math.max(1, Math.min(leftMs(), place.keep()));
        const look = attempt(context, resource, options, abort, { queueMs, ticket });
        const result = await look.catch((error: LeaseholdError) => {
          if (abort.aborted || !error.retryable) throw error;
          // Those in line who do not wait for the store need not find out one after the other.
          context.turns.fail(resource, error);
          if (!patient) throw error;
          env.logger.warn({ err: error, resource }, "waiting for a store that does not answer");
          return error;
        });
        if (result instanceof HeldLease) {
          queued = false;
          return result;
        }
        queued ||= !(result instanceof Error);
        last = result;
        waiting = true;
      }
      if (leftMs() <= 0) throw OVERDUE;
      unlisten ??= context.hints.listen(resource, place.hear);
      // The first `held` left word that we wait; what happened before that is seen by looking again,
      // and what was under way meanwhile by the short pauses after that.
      if (own || looks > 0) {
        await place.pause(last instanceof Error ? null : last, looks, leftMs(), abort.signal);
      }
    }
  } catch (error) {
    if (error !== OVERDUE) throw error;
    if (last instanceof Error) throw last;
    throw new LeaseUnavailableError(resource, options.waitMs, last.holder);
  } finally {
    env.telemetry?.change("leasehold.lease.waiters", {}, -1);
    deadline?.cancel();
    unlisten?.();
    // Nobody need wait for us any more.
    const { capabilities, namespace } = context;
    if (queued && capabilities.queue) giveUp(context, { namespace, resource, ...ticket });
    if (entered) context.turns.leave(resource);
  }
}
