/**
 * What a worker says to the store about tasks that it holds, gathered into batches: heartbeats, and
 * the one report that ends a grant, repeated until the store has acknowledged it or the lease is lost.
 */
import { type Env, jittered, sleep } from "../env/index.js";
import {
  Batcher,
  type Failed,
  type HeldLease,
  type LostReason,
  type ReleaseOutcome,
  type RenewOutcome,
} from "../lease/index.js";
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
const RETRY_MS = 50;

/** A refusal, as the holder of a lease sees it. */
const LOST: Record<RefusalReason, Exclude<LostReason, "inconsistent">> = {
  expired: "expired",
  taken: "taken",
  cancelled: "revoked",
  finished: "gone",
  unknown: "gone",
};

export class Reports {
  readonly #env: Env;
  readonly #heartbeats;
  readonly #completions;
  readonly #failures;
  readonly #returns;

  constructor(store: TaskStore, env: Env) {
    this.#env = env;
    this.#heartbeats = new Batcher(store.heartbeat.bind(store), env.clock);
    this.#completions = new Batcher(store.complete.bind(store), env.clock);
    this.#failures = new Batcher(store.fail.bind(store), env.clock);
    this.#returns = new Batcher(store.giveBack.bind(store), env.clock);
  }

  async heartbeat(request: HeartbeatRequest, timeoutMs: number): Promise<RenewOutcome> {
    const outcome = await this.#heartbeats.submit(request, timeoutMs);
    return outcome.status === "refused"
      ? { status: "lost", reason: LOST[outcome.reason] }
      : outcome;
  }

  async giveBack(grant: TaskGrant, timeoutMs: number): Promise<ReleaseOutcome> {
    const outcome = await this.#returns.submit(grant, timeoutMs);
    if (outcome.status === "returned") return { status: "released" };
    return outcome.status === "refused" ? { status: "notHeld" } : outcome;
  }

  /** Whether the store took the output; false when the task is no longer ours. */
  complete(lease: HeldLease, request: CompleteRequest): Promise<boolean> {
    return this.#untilAcknowledged(lease, request.id, (timeoutMs) =>
      this.#completions.submit(request, timeoutMs),
    );
  }

  /** Whether the store took note of the failure; false when the task is no longer ours. */
  fail(lease: HeldLease, request: FailRequest): Promise<boolean> {
    return this.#untilAcknowledged(lease, request.id, (timeoutMs) =>
      this.#failures.submit(request, timeoutMs),
    );
  }

  async #untilAcknowledged(
    lease: HeldLease,
    id: string,
    send: (timeoutMs: number) => Promise<{ status: "completed" | "recorded" } | Refused | Failed>,
  ): Promise<boolean> {
    const { clock, logger, random } = this.#env;
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
          if (!outcome.retryable) return false;
          await sleep(clock, jittered(random, RETRY_MS * Math.min(tries, 20), 0.5));
      }
    }
    return false;
  }
}
