/**
 * Sends what a worker reports about the tasks that it holds, in batches: heartbeats, requeues, and
 * the one outcome of each grant, repeated until the store has acknowledged it or the lease is lost.
 * An output that the store will never accept is a final failure of the task: if the task were requeued,
 * it would produce that output again forever. Of an error that it will never accept, only a text that any store keeps is recorded.
 */

import { Backoff, type Env, reasonOf, sleep, storable } from "../env/index.js";
import {
  Batcher,
  type Failed,
  type HeldLease,
  isRefusedRequest,
  type LostReason,
  type ReleaseOutcome,
  type RenewOutcome,
  type Submission,
} from "../lease/index.js";
import type {
  CompleteOutcome,
  CompleteRequest,
  FailOutcome,
  FailRequest,
  HeartbeatRequest,
  RefusalReason,
  RequeueOutcome,
  RequeueRequest,
  TaskGrant,
  TaskStore,
} from "./port.js";

const REPORT_TIMEOUT_MS = 5_000;
/**
 * Reports are not shared out among calls. The next claim is on its way while the store takes them, so neither side is
 * idle, and a commit costs the store as much as dozens of them.
 */
const REPORTS_AT_ONCE = 500;
const RETRY = { firstMs: 50, longestMs: 1_000 };

type Reported = CompleteOutcome | FailOutcome | RequeueOutcome;

/** A refusal, as the holder of a lease sees it. */
const LOST: Record<RefusalReason, Exclude<LostReason, "inconsistent">> = {
  expired: "expired",
  taken: "taken",
  cancelled: "revoked",
  finished: "gone",
  unknown: "gone",
};

/** How long a report may be repeated, and who learns that it was refused: the lease of the task. */
export type Trusted = Pick<HeldLease, "remainingMs" | "checkAlive" | "lose">;

/** At most half of the remaining trust, so that a timeout leaves time for another try. */
export function reportTimeoutMs(trustedMs: number): number {
  return Math.min(REPORT_TIMEOUT_MS, trustedMs / 2);
}

export class Completer {
  /** How many tasks the store has recorded as dead. */
  dead = 0;
  readonly #env: Env;
  readonly #heartbeats;
  readonly #completions;
  readonly #failures;
  readonly #requeues;

  constructor(store: TaskStore, env: Env) {
    this.#env = env;
    this.#heartbeats = new Batcher(store.heartbeat.bind(store), env.clock, env.telemetry);
    const [complete, fail] = [store.complete.bind(store), store.fail.bind(store)];
    this.#completions = new Batcher(complete, env.clock, env.telemetry, REPORTS_AT_ONCE);
    this.#failures = new Batcher(fail, env.clock, env.telemetry, REPORTS_AT_ONCE);
    this.#requeues = new Batcher(store.requeue.bind(store), env.clock, env.telemetry);
  }

  async heartbeat(request: HeartbeatRequest, timeoutMs: number): Promise<RenewOutcome> {
    const outcome = await this.#heartbeats.submit(request, timeoutMs);
    if (outcome.status === "refused") return { status: "lost", reason: LOST[outcome.reason] };
    return outcome.status === "renewed" ? { ...outcome, token: request.token } : outcome;
  }

  /** Whether the store has put the task off; false when the task is no longer ours. */
  postpone(lease: Trusted, request: RequeueRequest): Promise<boolean> {
    return this.#report(lease, request, this.#requeues, (fault) => {
      if (!isRefusedRequest(fault)) return false;
      const reason = plain(`the reason cannot be stored: ${reasonOf(fault.error)}`);
      return this.#report(lease, { ...request, reason }, this.#requeues, () => false);
    });
  }

  async requeue(grant: TaskGrant, timeoutMs: number): Promise<ReleaseOutcome> {
    const outcome = await this.#requeues.submit(grant, timeoutMs);
    if (outcome.status === "returned") return { status: "released" };
    return outcome.status === "refused" ? { status: "notHeld" } : outcome;
  }

  /** Sends a completion once, and costs no promise. `complete` continues, if its outcome is anything but `completed`. */
  add(completion: Submission<CompleteRequest, CompleteOutcome>): void {
    this.#completions.add(completion);
  }

  /**
   * Whether the store took the output, or note that it cannot; false when the task is not ours.
   * @param first the outcome, if the request has been sent once
   */
  complete(lease: Trusted, request: CompleteRequest, first?: CompleteOutcome): Promise<boolean> {
    const onFault = (fault: Failed) => {
      // Any other fault is of the store or of the way to it, not of the output.
      if (!isRefusedRequest(fault)) return false;
      const { output: _output, ...grant } = request;
      const error = storable(`the output cannot be stored: ${reasonOf(fault.error)}`);
      return this.fail(lease, { ...grant, error, retryInMs: null, final: true });
    };
    return this.#report(lease, request, this.#completions, onFault, first);
  }

  /** Whether the store took note of the failure; false when the task is no longer ours. */
  fail(lease: Trusted, request: FailRequest): Promise<boolean> {
    return this.#report(lease, request, this.#failures, (fault) => {
      if (!isRefusedRequest(fault)) return false;
      const error = plain(`the error cannot be stored: ${reasonOf(fault.error)}`);
      return this.#report(lease, { ...request, error }, this.#failures, () => false);
    });
  }

  /**
   * Repeats the report until it is acknowledged, or the lease is lost.
   * @param onFault decides about a failure that a repetition would only meet again
   */
  async #report<Request extends TaskGrant, Outcome extends Reported>(
    lease: Trusted,
    request: Request,
    lane: Batcher<Request, Outcome>,
    onFault: (fault: Failed) => boolean | Promise<boolean>,
    first?: Outcome | Failed,
  ): Promise<boolean> {
    const { clock, logger, random } = this.#env;
    const { id } = request;
    let backoff: Backoff | undefined;
    for (let tries = 1; first || lease.checkAlive(); tries += 1) {
      const outcome: Reported =
        first ?? (await lane.submit(request, reportTimeoutMs(lease.remainingMs())));
      first = undefined;
      switch (outcome.status) {
        case "completed":
        case "returned":
          return true;
        case "recorded":
          if (outcome.state === "dead") this.dead += 1;
          return true;
        case "refused":
          logger.warn({ id, reason: outcome.reason }, "the store refused a late report");
          lease.lose(LOST[outcome.reason]);
          return false;
        case "failed":
          logger.warn({ err: outcome.error, id, tries }, "a report is not acknowledged yet");
          if (!outcome.retryable) return onFault(outcome);
          backoff ??= new Backoff(random, RETRY);
          await sleep(clock, backoff.nextMs());
      }
    }
    return false;
  }
}

const LONGEST_PLAIN = 1_000;

/** Short, and in characters that every encoding has. */
function plain(text: string): string {
  return text.slice(0, LONGEST_PLAIN).replaceAll(/[^\x20-\x7e]/g, "?");
}
