/**
 * The leases that the renewal thread renews. Each is a HeldLease of its own, on a grant that the main thread holds, so
 * that schedule, timeouts and retries are those of the main thread.
 */
import { type Env, zip } from "../env/index.js";
import {
  Batcher,
  type Failed,
  HeldLease,
  instant,
  type LeaseStore,
  RenewalScheduler,
  type RenewOutcome,
  type RenewRequest,
  StoreUnavailableError,
} from "../lease/index.js";
import { Answers } from "./answers.js";
import type { FromThread, Start } from "./messages.js";

export interface RenewalsOptions {
  readonly store: LeaseStore;
  readonly env: Env;
  readonly maxBlockedMs: number;
  /** When the main thread last ran, by the clock of `env`. */
  readonly lastRunMs: () => number;
  /** Sends to the main thread. */
  readonly post: (message: FromThread) => void;
}

const BLOCKED: Failed = {
  status: "failed",
  applied: "no",
  retryable: true,
  error: new StoreUnavailableError("not sent: the event loop is blocked", { outcome: "none" }),
};

export class Renewals {
  readonly #options: RenewalsOptions;
  readonly #leaseEnv: Env;
  readonly #leases = new Map<number, HeldLease>();
  readonly #scheduler: RenewalScheduler;
  readonly #batcher: Batcher<RenewRequest, RenewOutcome>;
  #wasBlocked = false;

  constructor(options: RenewalsOptions) {
    const { store, env, post } = options;
    this.#options = options;
    this.#leaseEnv = withoutLosses(env);
    this.#scheduler = new RenewalScheduler(env.clock);
    this.#batcher = new Batcher(async (requests, call) => {
      const outcomes = await store.renew(requests, call);
      post(countOf(requests, outcomes));
      return outcomes;
    }, env.clock);
  }

  start({ id, namespace, granted, options, answers }: Start): void {
    this.stop(id);
    const { post, env } = this.#options;
    const shared = new Answers(answers);
    const { resource, leaseId } = granted;
    const request = { namespace, resource, leaseId, ttlMs: options.ttlMs };
    const renew = async (timeoutMs: number) => {
      if (this.#isBlocked()) return BLOCKED;
      const sent = instant(env.clock);
      const outcome = await this.#batcher.submit(request, timeoutMs);
      if (outcome.status === "renewed") {
        shared.write({ sent, answer: outcome });
      } else if (outcome.status === "lost" || options.stopOnRenewError) {
        const reason = outcome.status === "lost" ? outcome.reason : "expired";
        shared.write({ sent, answer: { status: "lost", reason } });
        post({ type: "wake", id });
      }
      return outcome;
    };
    const actions = {
      renew,
      // The main thread releases.
      release: async () => ({ status: "released" }) as const,
      ended: (ended: HeldLease) => {
        if (this.#leases.get(id) === ended) this.#leases.delete(id);
      },
    };
    const lease = new HeldLease(granted, options, actions, this.#scheduler, this.#leaseEnv);
    this.#leases.set(id, lease);
  }

  stop(id: number): void {
    this.#leases.get(id)?.lose("gone");
  }

  close(): void {
    for (const id of this.#leases.keys()) this.stop(id);
  }

  #isBlocked(): boolean {
    const { env, lastRunMs, maxBlockedMs } = this.#options;
    const isBlocked = env.clock.monotonic() - lastRunMs() > maxBlockedMs;
    if (isBlocked && !this.#wasBlocked) {
      env.logger.error(
        { maxBlockedMs },
        "the event loop is blocked: its leases are no longer renewed",
      );
    }
    this.#wasBlocked = isBlocked;
    return isBlocked;
  }
}

/** The main thread logs what it loses, and a blocked event loop is logged once. */
function withoutLosses(env: Env): Env {
  const { logger } = env;
  return {
    ...env,
    logger: {
      ...logger,
      warn(fields, message) {
        if ("err" in fields && fields.err !== BLOCKED.error) logger.warn(fields, message);
      },
    },
  };
}

function countOf(requests: readonly RenewRequest[], outcomes: readonly RenewOutcome[]): FromThread {
  const others: { status: RenewOutcome["status"]; resource: string }[] = [];
  for (const [{ resource }, { status }] of zip(requests, outcomes)) {
    if (status !== "renewed") others.push({ status, resource });
  }
  return { type: "renewals", renewed: requests.length - others.length, others };
}
