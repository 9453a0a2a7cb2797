/**
 * Sends what a worker reports about the tasks that it holds, in batches: heartbeats, requeues, and
 * the one outcome of each grant, repeated until the store has acknowledged it or the lease is lost.
 * An output that the store will never accept is a final failure of the task: if the task were requeued,
 * it would produce that output again forever.
 */

import {
  Batcher,
  type Failed,
  type HeldLease,
  type LostReason,
  type ReleaseOutcome,
  type RenewOutcome,
} from "../core/index.js";
import { Backoff, type Env, sleep } from "../env/index.js";
import { describe } from "./describe.js";
import type {
  CompleteRequest,
  FailRequest,
  HeartbeatRequest,
  RefusalReason,
  Refused,
  TaskGrant,
  TaskStore,
} from "./port.js";

const REPORT_TIMEOUT_MS = 5_000;
const RETRY = { firstMs: 50, longestMs: 1_000 };

/** A refusal, as the holder of a lease sees it. */
const LOST: Record<RefusalReason, Exclude<LostReason, "inconsistent">> = {
  expired: "expired",
  taken: "taken",
  cancelled: "revoked",
  finished: "gone",
  unknown: "gone",
};

export class Completer {
  readonly #env: Env;
  readonly #heartbeats;
  readonly #completions;
  readonly #failures;
  readonly #requeues;

  constructor(store: TaskStore, env: Env) {
    this.#env = env;
    this.#heartbeats = new Batcher(store.heartbeat.bind(store), env.clock, env.telemetry);
    this.#completions = new Batcher(store.complete.bind(store), env.clock, env.telemetry);
    this.#failures = new Batcher(store.fail.bind(store), env.clock, env.telemetry);
    this.#requeues = new Batcher(store.requeue.bind(store), env.clock, env.telemetry);
  }

  async heartbeat(request: HeartbeatRequest, timeoutMs: number): Promise<RenewOutcome> {
    const outcome = await this.#heartbeats.submit(request, timeoutMs);
    if (outcome.status === "refused") return { status: "lost", reason: LOST[outcome.reason] };
    return outcome.status === "renewed" ? { ...outcome, token: request.token } : outcome;
  }

  async requeue(grant: TaskGrant, timeoutMs: number): Promise<ReleaseOutcome> {
    const outcome = await this.#requeues.submit(grant, timeoutMs);
    if (outcome.status === "returned") return { status: "released" };
    return outcome.status === "refused" ? { status: "notHeld" } : outcome;
  }

  /** Whether the store took the output, or note that it cannot; false when the task is not ours. */
  async complete(lease: HeldLease, request: CompleteRequest): Promise<boolean> {
    const { output, ...grant } = request;
    const end = await this.#untilAcknowledged(lease, request.id, (timeoutMs) =>
      this.#completions.submit(request, timeoutMs),
    );
    if (typeof end === "boolean") return end;
    // Any other fault is of the store or of the way to it, not of the output.
    if (end.error.code !== "INVALID_OPTION") return false;
    const error = describe(`the output cannot be stored: ${end.error.message}`);
    return this.fail(lease, { ...grant, error, retryInMs: null, final: true });
  }

  /** Whether the store took note of the failure; false when the task is no longer ours. */
  async fail(lease: HeldLease, request: FailRequest): Promise<boolean> {
    const end = await this.#untilAcknowledged(lease, request.id, (timeoutMs) =>
      this.#failures.submit(request, timeoutMs),
    );
    return end === true;
  }

  /** False when the task is not ours; a failure that a repetition would only meet again. */
  async #untilAcknowledged(
    lease: HeldLease,
    id: string,
    send: (timeoutMs: number) => Promise<{ status: "completed" | "recorded" } | Refused | Failed>,
  ): Promise<boolean | Failed> {
    const { clock, logger, random } = this.#env;
    const backoff = new Backoff(random, RETRY);
    for (let tries = 1; lease.checkAlive(); tries += 1) {
      const outcome = await send(Math.min(REPORT_TIMEOUT_MS, lease.remainingMs() / 2));
      switch (outcome.status) {
        case "completed":
        case "recorded":
          return true;
        case "refused":
          logger.warn({ id, reason: outcome.reason }, "the store refused a late report");
          lease.lose(LOST[outcome.reason]);
          return false;
        case "failed":
          logger.warn({ err: outcome.error, id, tries }, "a report is not acknowledged yet");
          if (!outcome.retryable) return outcome;
          await sleep(clock, backoff.nextMs());
      }
    }
    return false;
  }
}
