/** The renewal thread itself: see index.ts. */
import { parentPort, workerData } from "node:worker_threads";
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
} from "../core/index.js";
import { type Env, invariant, type Logger, systemRandom, zip } from "../env/index.js";
import { processClock } from "../env/process-clock.js";
import { ENGINES, openBy } from "../stores/open.js";
import { Answers } from "./answers.js";
import type { FromThread, Start, ThreadData, ToThread } from "./messages.js";

invariant(parentPort, "this module runs in a worker thread");
const port = parentPort;
const data = workerData as ThreadData;
const lastRun = new BigInt64Array(data.lastRun);

const BLOCKED: Failed = {
  status: "failed",
  applied: "no",
  retryable: true,
  error: new StoreUnavailableError("not sent: the event loop is blocked", { outcome: "none" }),
};

const logger: Logger = {
  debug: (...entry) => log("debug", ...entry),
  info: (...entry) => log("info", ...entry),
  warn: (...entry) => log("warn", ...entry),
  error: (...entry) => log("error", ...entry),
};
const env: Env = { clock: processClock, random: systemRandom, logger };
/** The main thread reports losses, and the blocked event loop is logged once. */
const leaseEnv: Env = {
  ...env,
  logger: {
    ...logger,
    warn(fields, message) {
      if ("err" in fields && fields.err !== BLOCKED.error) logger.warn(fields, message);
    },
  },
};

class ThreadSide {
  readonly #leases = new Map<number, HeldLease>();
  readonly #scheduler = new RenewalScheduler(env.clock);
  readonly #batcher: Batcher<RenewRequest, RenewOutcome>;
  #wasBlocked = false;

  constructor(store: LeaseStore) {
    this.#batcher = new Batcher(async (requests, options) => {
      const outcomes = await store.renew(requests, options);
      post(countOf(requests, outcomes));
      return outcomes;
    }, env.clock);
  }

  start({ id, namespace, granted, options, answers }: Start): void {
    this.stop(id);
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
    const lease = new HeldLease(
      granted,
      options,
      {
        renew,
        // The main thread releases.
        release: async () => ({ status: "released" }),
        ended: (ended) => {
          if (this.#leases.get(id) === ended) this.#leases.delete(id);
        },
      },
      this.#scheduler,
      leaseEnv,
    );
    this.#leases.set(id, lease);
  }

  stop(id: number): void {
    this.#leases.get(id)?.lose("gone");
  }

  close(): void {
    for (const id of this.#leases.keys()) this.stop(id);
  }

  #isBlocked(): boolean {
    const blockedMs = env.clock.monotonic() - Number(Atomics.load(lastRun, 0));
    const isBlocked = blockedMs > data.maxBlockedMs;
    if (isBlocked && !this.#wasBlocked) {
      const { maxBlockedMs } = data;
      logger.error({ maxBlockedMs }, "the event loop is blocked: its leases are no longer renewed");
    }
    this.#wasBlocked = isBlocked;
    return isBlocked;
  }
}

async function run(): Promise<void> {
  const opened = await openBy(ENGINES, data.url, env, data.connectTimeoutMs);
  const leases = new ThreadSide(opened.leases);
  const close = async () => {
    leases.close();
    await opened.close().catch((err: unknown) => logger.warn({ err }, "not closed"));
    port.close();
  };
  port.on("message", (message: ToThread) => {
    if (message.type === "start") leases.start(message);
    else if (message.type === "stop") leases.stop(message.id);
    else void close();
  });
  post({ type: "ready" });
}

function post(message: FromThread): void {
  port.postMessage(message);
}

function log(level: keyof Logger, fields: object, message: string): void {
  // As JSON, because what errors carry cannot always be sent to another thread.
  const text = JSON.stringify(fields, (_, value: unknown) =>
    value instanceof Error ? { name: value.name, message: value.message } : value,
  );
  post({ type: "log", level, fields: JSON.parse(text) as object, message });
}

function countOf(requests: readonly RenewRequest[], outcomes: readonly RenewOutcome[]): FromThread {
  const others = [];
  for (const [{ resource }, { status }] of zip(requests, outcomes)) {
    if (status !== "renewed") others.push({ status, resource });
  }
  return { type: "renewals", renewed: requests.length - others.length, others };
}

run().catch((error: unknown) => {
  post({ type: "failed", message: error instanceof Error ? error.message : String(error) });
});
